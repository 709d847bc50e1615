package network

import (
	"testing"
	"time"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// TestStateRequestRateIsBounded: at most 30 state requests of all peers are answered in 30 s.
// Requests for a snapshot that is not served are not answered.
func TestStateRequestRateIsBounded(t *testing.T) {
	p := newStateServer(nil, nil, new(Status))
	now := time.Unix(1_700_000_000, 0)
	for i := range stateRequests {
		if !p.admit(now.Add(time.Duration(i) * time.Second / 2)) {
			t.Fatalf("request %d is too much", i)
		}
	}
	if p.admit(now.Add(statePeriod - 1)) {
		t.Error("one more is answered")
	}
	if !p.admit(now.Add(statePeriod)) || p.admit(now.Add(statePeriod)) {
		t.Error("30 s later not one more is answered, or two are")
	}
	if out, err := p.answer(primitives.Hash{1}, 0, true, 0); err != errNoSnapshot || out != nil {
		t.Errorf("another's sync block: %v, %v", out, err)
	}
}

// TestUnservableStateRequestGetsEmptyAnswer: a connected peer gets an empty answer at once if its
// request cannot be served, or not now. Requests for snapshots that are not served do not count
// toward the limit.
func TestUnservableStateRequestGetsEmptyAnswer(t *testing.T) {
	p := newStateServer(nil, nil, new(Status))
	x := &engine.ServedSnapshot{Sync: primitives.Hash{1}}
	p.snapshots = []*engine.ServedSnapshot{x}
	p.headers[stateKey{x.Sync, 3}] = new(primitives.StateHeader)
	now := time.Unix(1_700_000_000, 0)
	ask := func(sync primitives.Hash) bool {
		out := p.directAnswer(now, sync, 3, true, 0)
		if out.SyncHash != sync || out.ShardID != 3 {
			t.Fatalf("%+v", out)
		}
		return out.Header != nil
	}
	for range 2 * stateRequests {
		if ask(primitives.Hash{2}) {
			t.Fatal("a header of another sync block")
		}
	}
	for i := range stateRequests {
		if !ask(x.Sync) {
			t.Fatalf("header %d is not given", i)
		}
	}
	if ask(x.Sync) {
		t.Error("one more is given")
	}
}

// TestUnservableRoutedRequestGetsEmptyAnswer does the same as
// TestUnservableStateRequestGetsEmptyAnswer for a routed request of a distant node.
func TestUnservableRoutedRequestGetsEmptyAnswer(t *testing.T) {
	p := newStateServer(nil, nil, new(Status))
	x := &engine.ServedSnapshot{Sync: primitives.Hash{1}}
	p.snapshots = []*engine.ServedSnapshot{x}
	p.headers[stateKey{x.Sync, 3}] = new(primitives.StateHeader)
	now := time.Unix(1_700_000_000, 0)
	for i := range 3*stateRequests + 1 {
		ack, want := primitives.StateRequestAck{SyncHash: primitives.Hash{2}, ShardID: 3, Header: true}, primitives.StateError
		switch {
		case i == 3*stateRequests:
			ack.SyncHash, want = x.Sync, primitives.StateBusy
		case i >= 2*stateRequests:
			ack.SyncHash, want = x.Sync, primitives.StateWillRespond
		}
		if out := p.acknowledge(now, &ack); ack.Body != want || (out != nil) != (want == primitives.StateWillRespond) {
			t.Fatalf("request %d: %v, answered %v, want %v", i, ack.Body, out != nil, want)
		}
	}
}

// TestStateHeaderIsMadeOncePerSnapshot: a state header is made once, and dropped with its snapshot.
func TestStateHeaderIsMadeOncePerSnapshot(t *testing.T) {
	p := newStateServer(nil, nil, new(Status))
	x := &engine.ServedSnapshot{Sync: primitives.Hash{1}}
	p.snapshots = []*engine.ServedSnapshot{x}
	h := new(primitives.StateHeader)
	p.headers[stateKey{x.Sync, 3}] = h
	out, err := p.answer(x.Sync, 3, true, 0)
	if err != nil || out.Header != h {
		t.Fatalf("%v, %v", out, err)
	}
	if out, err := p.answer(x.Sync, 3, false, 0); err != nil || out.Header != nil || out.Part != nil {
		t.Errorf("a part of an empty state: %+v, %v", out, err)
	}
	p.setSnapshots(nil)
	if _, err := p.answer(x.Sync, 3, true, 0); err != errNoSnapshot {
		t.Errorf("it is given for ever: %v", err)
	}
}
