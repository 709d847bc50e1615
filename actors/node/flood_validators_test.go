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

// pace returns how many heights become final at a member during a time, and how many of these
// blocks the member made. what is called again and again meanwhile.
func (c *cluster) pace(m *member, during time.Duration, what func(head *primitives.Block)) (heights, own int) {
	c.t.Helper()
	from, end := m.e.Final().Height, time.Now().Add(during)
	for time.Now().Before(end) {
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
	return int(to - from), own
}

// TestValidatorFloodDelaysNoBlocks: a validator sends messages to another validator as fast as
// possible, from its own node. They are neither relayed nor answered, and the flooded validator's
// blocks and approvals arrive as before.
func TestValidatorFloodDelaysNoBlocks(t *testing.T) {
	const during = 2 * time.Second
	c := validators(t, 4, 4, 1000, nil)
	c.reach(10, 120*time.Second)
	m, by := c.members[0], voter(3)
	calm, own := c.pace(m, during, func(*primitives.Block) { time.Sleep(10 * time.Millisecond) })
	t.Logf("calm: %d heights in %v, %d of them its own", calm, during, own)
	for i, lie := range lies {
		x := attack(t, fmt.Sprint("liar", i), m, "test")
		until(t, x.connected)
		sent := 0
		c.requirePace(m, during, calm, lie.name, func(head *primitives.Block) {
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
	c.requirePace(m, during, calm, "wrong blocks of its heights", func(head *primitives.Block) {
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

// requirePace requires that a member keeps its pace under a flood, within three tries: a busy
// machine may be slow once.
func (c *cluster) requirePace(m *member, during time.Duration, calm int, what string, flood func(head *primitives.Block)) {
	c.t.Helper()
	for tries := 3; ; tries-- {
		heights, own := c.pace(m, during, flood)
		c.t.Logf("%s: %d heights in %v, %d of them its own", what, heights, during, own)
		if heights >= calm/2 && own > 0 {
			return
		}
		if tries == 0 {
			c.t.Fatalf("%s: %d heights in %v, calm %d", what, heights, during, calm)
		}
	}
}
