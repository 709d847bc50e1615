package node

import (
	"testing"
	"time"

	"github.com/troupe-chain/troupe/net/near"
	peerwire "github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// far returns a block of an unknown epoch whose height is a billion above a node's head.
func far(on *sandbox) *primitives.Block {
	b := on.e.Head().Block
	h := *b.Header
	h.EpochID, h.PrevHash, h.PrevHeight = primitives.HashBytes([]byte("epoch")), primitives.HashBytes([]byte("parent")), h.Height+1_000_000_000-1
	h.Height += 1_000_000_000
	h.Init()
	return &primitives.Block{Header: &h, Body: b.Body}
}

// TestFalseClaimedHeightKeepsAnnouncements: a node still announces its blocks if a peer claims to
// be far ahead, whether it is a sole producer or a validator among others.
func TestFalseClaimedHeightKeepsAnnouncements(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T) (*member, func()){
		"alone": func(t *testing.T) (*member, func()) {
			m := join(t, "a", nil)
			return m, func() { mineBlocks(t, m.sandbox, 1) }
		},
		"validator": func(t *testing.T) (*member, func()) {
			c := validators(t, 1, 1, 1000, nil)
			return c.members[0], func() { c.reach(c.members[0].e.Head().Height()+1, 60*time.Second) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, more := begin(t)
			more()
			liar, other := attack(t, "liar", m, "test"), attack(t, "other", m, "test")
			until(t, func() bool { return liar.connected() && other.connected() })
			lie := far(m.sandbox)
			liar.Post(near.ToPeer{Peer: m.info.ID, Msg: &peerwire.Block{Block: lie}})
			until(t, func() bool {
				syncing, best := m.front.Syncing()
				return syncing && best == lie.Header.Height
			})
			before := m.e.Head().Height()
			for range 3 {
				more()
			}
			for limit := time.After(time.Minute); ; {
				select {
				case d := <-other.got:
					if b, ok := d.Msg.(*peerwire.Block); ok && b.Block.Header.Height > before {
						return
					}
				case <-limit:
					t.Fatalf("no announcement of blocks above %d; the head is at %d", before, m.e.Head().Height())
				}
			}
		})
	}
}
