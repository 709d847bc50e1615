package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain/partialwitness"
	"github.com/troupe-chain/troupe/net/near"
	peerwire "github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// lies are messages that a validator may send to another validator for a height, in any number.
// Each salt gives a different message.
var lies = []struct {
	name string
	make func(c *cluster, by primitives.AccountID, head *primitives.Block, salt int) peerwire.Body
}{
	{"votes for blocks that nobody has", func(_ *cluster, by primitives.AccountID, head *primitives.Block,
		salt int) peerwire.Body {
		a := primitives.Approval{Inner: primitives.ApprovalInner{Endorsement: primitives.HashBytes(fmt.Append(nil,
			salt))}, Target: head.Header.Height + 1 + primitives.Height(salt%100), AccountID: by}
		a.Signature = keyOf(by).Sign(a.Inner.SignedBytes(a.Target))
		return &peerwire.BlockApproval{Approval: a}
	}},
	{"votes of nobody", func(_ *cluster, _ primitives.AccountID, head *primitives.Block, salt int) peerwire.Body {
		a := primitives.Approval{Inner: primitives.ApprovalInner{Endorsement: head.Hash()},
			Target: head.Header.Height + 1, AccountID: voter(1)}
		a.Signature = keyOf("nobody").Sign(fmt.Append(nil, salt))
		return &peerwire.BlockApproval{Approval: a}
	}},
	{"endorsements of nobody", func(c *cluster, _ primitives.AccountID, head *primitives.Block, salt int) peerwire.Body {
		key := primitives.ChunkKey{ShardID: c.shard(salt), EpochID: head.Header.EpochID,
			HeightCreated: head.Header.Height + 1}
		return &peerwire.ChunkEndorsement{ChunkEndorsement: *partialwitness.Endorse(key,
			primitives.HashBytes(fmt.Append(nil, salt)), voter(1), keyOf("nobody"))}
	}},
	{"endorsements of its own", func(c *cluster, by primitives.AccountID, head *primitives.Block, salt int) peerwire.Body {
		key := primitives.ChunkKey{ShardID: c.shard(salt), EpochID: head.Header.EpochID,
			HeightCreated: head.Header.Height + 1 + primitives.Height(salt%5)}
		return &peerwire.ChunkEndorsement{ChunkEndorsement: *partialwitness.Endorse(key,
			primitives.HashBytes(fmt.Append(nil, salt)), by, keyOf(by))}
	}},
	{"parts of witnesses", func(c *cluster, by primitives.AccountID, head *primitives.Block, salt int) peerwire.Body {
		p := primitives.PartialWitness{EpochID: head.Header.EpochID, ShardID: c.shard(salt),
			HeightCreated: head.Header.Height + 1 + primitives.Height(salt%5), Ord: uint64(salt % 4), EncodedLength: 4000}
		p.Part = make([]byte, 2000)
		p.Signed(func(b []byte) { p.Signature = keyOf(by).Sign(b) })
		return &peerwire.PartialWitness{PartialWitness: p}
	}},
	{"parts of chunks", func(c *cluster, by primitives.AccountID, head *primitives.Block, salt int) peerwire.Body {
		h := *head.Body.Chunks[salt%len(head.Body.Chunks)]
		h.PrevBlockHash, h.HeightCreated, h.HeightIncluded, h.GasLimit = head.Hash(), head.Header.Height+1, 0, primitives.Gas(salt)
		parts := [][]byte{make([]byte, 2000), {1}, {2}, {3}}
		root, paths := primitives.MerklizeParts(parts)
		h.EncodedMerkleRoot = root
		hash := h.ChunkHash()
		h.Signature = keyOf(by).Sign(hash[:])
		return &peerwire.PartialChunk{PartialChunk: primitives.PartialChunk{Header: h,
			Parts: []primitives.ChunkPart{{Ord: 0, Part: parts[0], Proof: paths[0]}}}}
	}},
}

func (c *cluster) shard(salt int) primitives.ShardID {
	ids := c.members[0].e.Head().Layout.ShardIDs()
	return ids[salt%len(ids)]
}

// madeUntil returns how many blocks the member made of those that become final at it, until as many
// heights as given have become final. what is called again and again meanwhile. On a slow machine it
// takes longer, so it fails only if the chain hardly moves.
func (c *cluster) madeUntil(m *member, heights primitives.Height, what func(head *primitives.Block)) (own int) {
	c.t.Helper()
	from, end := m.e.Final().Height, time.Now().Add(4*time.Minute)
	for m.e.Final().Height < from+heights {
		if time.Now().After(end) {
			c.t.Fatalf("%d heights became final in 4 minutes, want %d: %s", m.e.Final().Height-from, heights, c.where())
		}
		what(m.e.Head().Block)
	}
	to := m.e.Final().Height
	for h := from + 1; h <= to; h++ {
		ref, err := m.store.HashAt(h)
		if err != nil {
			continue
		}
		at, err := m.e.Header(ref)
		if err != nil {
			c.t.Fatal(err)
		}
		if by, err := m.e.BlockProducer(at.PrevHash, h); err == nil && by.AccountID == voter(0) {
			own++
		}
	}
	return own
}

// TestValidatorFloodDelaysNoBlocks: a validator sends messages to another validator as fast as
// possible, from its own node. They are neither relayed nor answered, and the flooded validator's
// blocks and approvals arrive as before: blocks become final, also its own.
func TestValidatorFloodDelaysNoBlocks(t *testing.T) {
	c := validators(t, 4, 4, 1000, nil)
	c.reach(10, 120*time.Second)
	m, by := c.members[0], voter(3)
	for i, lie := range lies {
		x := attack(t, fmt.Sprint("liar", i), m, "test")
		until(t, x.connected)
		sent := 0
		c.requireOwnBlocks(m, lie.name, func(head *primitives.Block) {
			for range 10 {
				x.Post(near.RouteTo{Target: peerwire.ToPeer(m.info.ID), Body: lie.make(c, by, head, sent)})
				sent++
			}
			time.Sleep(5 * time.Millisecond)
		})
		t.Logf("%s: %d sent", lie.name, sent)
	}
	var x *attacker
	sent, enemies := 0, 0
	wrong := func(head *primitives.Block) { // sends wrong blocks of a height at which the sender may produce
		if maker, err := m.e.BlockProducer(head.Header.PrevHash, head.Header.Height); err == nil && maker.AccountID == by {
			for range 10 {
				x.Post(near.ToPeer{Peer: m.info.ID, Msg: &peerwire.Block{Block: signedWrong(head, keyOf(by), head.Header.Height,
					sent)}})
				sent++
			}
		}
	}
	c.requireOwnBlocks(m, "wrong blocks of its heights", func(head *primitives.Block) {
		if x == nil || !x.connected() {
			enemies++
			x = attack(t, fmt.Sprint("enemy", enemies), m, "test")
			for limit := time.Now().Add(time.Second); !x.connected() && time.Now().Before(limit); {
				time.Sleep(time.Millisecond)
			}
		}
		wrong(head)
		time.Sleep(5 * time.Millisecond)
	})
	t.Logf("wrong blocks: %d sent by %d identities", sent, enemies)
	until(t, func() bool { // until the sender is banned; a block that arrives late does not ban it
		if enemies > 1 || !x.connected() {
			return true
		}
		wrong(m.e.Head().Block)
		return false
	})
	if sent == 0 {
		t.Error("no wrong block was sent")
	}
}

// requireOwnBlocks requires that a member makes some of the blocks that become final under a flood,
// within four tries: it makes a quarter of them, in random order, and a busy machine may be slow.
func (c *cluster) requireOwnBlocks(m *member, what string, flood func(head *primitives.Block)) {
	c.t.Helper()
	const heights = 8
	for tries := 3; ; tries-- {
		own := c.madeUntil(m, heights, flood)
		c.t.Logf("%s: %d of %d heights are its own", what, own, heights)
		if own > 0 {
			return
		}
		if tries == 0 {
			c.t.Fatalf("%s: none of %d heights is its own", what, heights)
		}
	}
}
