package network

import (
	"fmt"
	"testing"
	"time"

	"github.com/sirupsen/logrus/hooks/test"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/blocksync"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// TestPeerIsRightIfClockIsBehind: a peer whose headers are in the future according to this machine's
// clock is trusted as before if the stake proves that the clock is behind, and a warning says so.
// Without the proof it gets a strike.
func TestPeerIsRightIfClockIsBehind(t *testing.T) {
	for name, x := range map[string]struct {
		ahead   time.Duration
		trusted bool
	}{
		"proven":     {5 * time.Minute, true},
		"not proven": {0, false},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := newLoneActor(t)
			log, hook := test.NewNullLogger()
			a.o.Log = log
			peer := wire.PeerID(primitives.SecretKeyFromSeed(primitives.ED25519, "peer").PublicKey())
			a.step(blocksync.Peers{List: []blocksync.Peer{{ID: peer, Height: 100}}})
			if !a.sync.Expects(peer) || a.sync.Best() != 100 {
				t.Fatalf("no headers were requested, the best height is %d", a.sync.Best())
			}
			a.step(blocksync.Arrived{From: peer})
			a.headersDone(&headersResult{from: peer, err: fmt.Errorf("engine: %w", chain.InvalidBlockFutureTime), ahead: x.ahead})
			if trusted := a.sync.Best() == 100; trusted != x.trusted {
				t.Errorf("the best height is %d", a.sync.Best())
			}
			if warned := len(hook.AllEntries()) == 1; warned != x.trusted {
				t.Errorf("%d warnings", len(hook.AllEntries()))
			}
			c := a.o.Status.clock.Load()
			if x.trusted && (c == nil || c.state != clockIsBehind || c.offset != x.ahead) || !x.trusted && c != nil {
				t.Errorf("the state of the clock is %+v", c)
			}
		})
	}
}
