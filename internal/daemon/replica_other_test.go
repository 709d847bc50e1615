package daemon

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/actors/node"
	"github.com/troupe-chain/troupe/net/jetstream"
)

// TestReplicaRefusesRecordOfAnotherLog: a record of another log than the stored one is refused,
// whatever its position. A replica that waits for a snapshot reports that it is behind.
func TestReplicaRefusesRecordOfAnotherLog(t *testing.T) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	r := &replica{h: &Daemon{Instance: Instance{log: log, Node: new(node.Node)}}, cursor: cursor{Log: "one", At: "0.8", Seq: 3}, caught: true, maxLag: time.Millisecond}
	for at, want := range map[string]bool{"0.8": false, "0.1": true} {
		if known, err := r.isKnown(&jetstream.Record{Log: "one", From: at, At: at, Next: "0.90"}); err != nil || known != want {
			t.Errorf("%s: %v, known %v", at, err, known)
		}
		if _, err := r.isKnown(&jetstream.Record{Log: "two", From: at, At: at, Next: "0.90"}); !errors.Is(err, jetstream.ErrLog) {
			t.Errorf("%s of another log: %v", at, err)
		}
	}
	tries := 0
	if syncing, _ := r.Syncing(); syncing {
		t.Fatal("it reports that it is behind too early")
	}
	if r.handleEnd(t.Context(), jetstream.ErrGap, &tries) {
		t.Fatal("the replica gave up")
	}
	time.Sleep(10 * time.Millisecond)
	if syncing, _ := r.Syncing(); !syncing {
		t.Error("healthy without the next record")
	}
	r.onConnection(nil) // the next attempt reaches the server, which has a gap after its first record
	if syncing, _ := r.Syncing(); !syncing {
		t.Error("healthy with a server but without the next record")
	}
	r.mu.Lock()
	r.inFlight = []*inFlightRecord{{r: jetstream.Record{Log: "one", Next: "0.9", Published: time.Now().UnixNano()}}}
	x := r.inFlight[0]
	r.mu.Unlock()
	room := make(chan struct{}, 1)
	room <- struct{}{}
	r.onImported(x, nil, room)
	if syncing, _ := r.Syncing(); syncing {
		t.Error("not healthy with the next record")
	}
}
