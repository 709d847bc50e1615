package near

import (
	"fmt"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
)

// TestClockSkewsAreBounded: a peer has one entry, its last, and the newest maxClockSkews entries stay.
func TestClockSkewsAreBounded(t *testing.T) {
	n := new(PeerManager)
	for i := range 3 * maxClockSkews {
		n.noteSkew(start, "again", time.Duration(i))
		n.noteSkew(start, wire.PeerID(fmt.Sprint(i)), time.Hour)
	}
	if len(n.skews) != maxClockSkews {
		t.Fatalf("%d entries, want %d", len(n.skews), maxClockSkews)
	}
	found := 0
	for _, s := range n.skews {
		if s.Peer == "again" {
			if found++; s.Ahead != 3*maxClockSkews-1 {
				t.Errorf("the entry of a peer has %d, want the last difference", s.Ahead)
			}
		}
	}
	if found != 1 {
		t.Errorf("%d entries of one peer, want 1", found)
	}
}

// TestNonceShowsClock: a nonce shows the peer's clock, unless it is no time of a running network.
func TestNonceShowsClock(t *testing.T) {
	if d, ok := nonceSkew(uint64(start.Add(25*time.Minute).Unix()), start); !ok || d.Round(time.Minute) != 25*time.Minute {
		t.Errorf("a nonce of 25 minutes ahead shows %v, %v", d, ok)
	}
	for _, nonce := range []uint64{0, 1, 1_500_000_000, maxNonce + 1, 1<<64 - 1} {
		if _, ok := nonceSkew(nonce, start); ok {
			t.Errorf("nonce %d counts as a time", nonce)
		}
	}
}
