package node

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// TestValidatorsHaltBeforeUnknownVersion: validators vote the chain to a version that their program
// does not support. The chain ends with the last block of the epoch before that version. A node
// that was to continue it halts and says why, no node bans a peer, and after a restart all is the
// same. Each node warns two epochs before the version begins, at the votes, and again one epoch
// before. The cluster checks that no validator signs twice.
func TestValidatorsHaltBeforeUnknownVersion(t *testing.T) {
	const epoch, nodes = 20, 3
	newest := parameters.Newest(primitives.NumberingRelease)
	c := newCluster(t, nodes, 1, epoch, func(_ int, o *Options) { o.Vote = newest + 1 }, nil)
	var warnings sync.Mutex
	voted, needed := map[int]primitives.Height{}, map[int]primitives.Height{} // height of a node's first warning
	c.open = func(i int, o *engine.Options) {
		o.Warn = func(err error) {
			c.mu.Lock()
			head := c.members[i].e.Head().Height()
			c.mu.Unlock()
			warnings.Lock()
			defer warnings.Unlock()
			first := voted
			if errors.Is(err, engine.ErrUpgradeNeeded) {
				first = needed
			} else if !errors.Is(err, engine.ErrUpgradeVoted) {
				return
			}
			if _, is := first[i]; !is {
				first[i] = head
			}
		}
	}
	var end primitives.Hash
	for range 2 {
		for i := range nodes {
			c.start(i)
		}
		halted := func() (n int) {
			for _, m := range c.members {
				if why, is := m.Halted(); is {
					if n++; !strings.Contains(why.Reason, "has version 89, this program runs versions up to 88: install a newer release") {
						t.Errorf("halted: %s", why.Reason)
					}
				}
			}
			return n
		}
		for limit := time.Now().Add(2 * time.Minute); halted() == 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("no node halts: %s", c.where())
			}
		}
		for _, m := range c.members {
			until(t, func() bool {
				h := m.e.Head()
				return h.Height() >= 2*epoch-1 && h.Hash == c.members[0].e.Head().Hash && (end.IsZero() || h.Hash == end)
			})
			if head := m.e.Head(); head.Config.Version != parameters.Release(newest) {
				t.Errorf("the head is block %d of %v", head.Height(), head.Config.Version)
			}
			if text := string(m.front.Metrics(nil)); !strings.Contains(text, "\ntroupe_network_bans_total 0\n") {
				t.Errorf("a peer was banned:\n%s", text)
			}
			s, err := m.e.Upgrade()
			if err != nil || !s.IsNeeded() || s.Next != newest+1 {
				t.Errorf("state %+v, error %v", s, err)
			}
		}
		warnings.Lock()
		for i := range nodes {
			v, isVoted := voted[i]
			if n, isNeeded := needed[i]; !isVoted || !isNeeded || v >= epoch || n < epoch || n >= epoch+epoch/2 {
				t.Errorf("node %d warned at heights %d (%v) and %d (%v)", i, v, isVoted, n, isNeeded)
			}
		}
		warnings.Unlock()
		end = c.members[0].e.Head().Hash
		for _, m := range c.members {
			c.stop(m)
		}
	}
}
