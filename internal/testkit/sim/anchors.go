package sim

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/chain/anchor"
	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/partialwitness"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// Anchored counts chunk messages that contain an anchor, over all nodes. The first five counters
// are of messages that arrived before their anchor block. The last two are of messages that were
// dropped.
type Anchored struct {
	Queued, Taken, Expired, Refused, Unsigned int
	WrongForm, WrongPlace                     int
}

// anchors sends false chunk messages of the byzantine validator in scenarios with Scenario.Anchors.
// These messages have the form of another protocol version, a wrong anchor, or an anchor block that
// never arrives. Some are chunks for which the byzantine validator is not the producer. anchors
// also resends altered messages of honest nodes.
type anchors struct {
	x          *network
	taken      primitives.Hash          // the last head on which produceUnentitled ran
	unentitled map[primitives.Hash]bool // hashes of the chunks that produceUnentitled produced
	// displaced are the chunks of honest nodes whose producer is not the canonical one of the height.
	displaced map[anchoredChunk]bool
}

// slip delivers a message after a random delay. Unlike carry, it never loses the message.
func (x *network) slip(from, to *node, m consensus.Message) {
	x.w.after(x.w.between(x.w.s.Latency[0], x.w.s.Latency[1]), func() { x.deliver(from, to, m) })
}

// others sends a message to all nodes except from.
func (a *anchors) others(from *node, m consensus.Message) {
	for _, n := range a.x.w.nodes {
		if n != from {
			a.x.slip(from, n, m)
		}
	}
}

// sendFalse sends false messages in addition to the byzantine validator's message m. The caller
// sends m itself.
func (a *anchors) sendFalse(from *node, m consensus.Message) {
	if v, ok := m.(*primitives.Approval); ok && !v.Inner.Skip {
		a.produceUnentitled(from)
	}
	a.alter(from, m, true)
}

// heard resends altered copies of 30 % of the messages that the byzantine validator receives. In
// another producer's partial chunk it alters only the anchor, which is not signed. It signs altered
// messages of all other kinds with the byzantine validator's key.
func (a *anchors) heard(m consensus.Message) {
	if a.x.w.chance(300) {
		a.alter(a.x.w.nodes[0], m, false)
	}
}

// alter sends three altered copies of a chunk message to all other nodes. It ignores messages of
// other kinds. first means that m is the byzantine validator's own message.
func (a *anchors) alter(from *node, m consensus.Message, first bool) {
	key := secretOf(from.name)
	for range 3 {
		switch m := m.(type) {
		case *primitives.PartialChunk:
			c := *m
			at := a.place(from, &primitives.ChunkAnchor{PrevBlock: c.Header.PrevBlockHash})
			c.Anchor = nil
			if at != nil {
				c.Anchor = &primitives.PartialChunkAnchor{PrevPrevBlock: at.PrevPrevBlock, EpochID: from.engine.Head().Header().EpochID}
				if first && at.PrevBlock != c.Header.PrevBlockHash {
					c.Header.PrevBlockHash = at.PrevBlock
					hash := c.Header.ChunkHash()
					c.Header.Signature = key.Sign(hash[:])
				}
			}
			a.others(from, &c)
		case *primitives.PartialWitness:
			p := *m
			p.Anchor = a.place(from, m.Anchor)
			p.Signature = key.Sign(p.SignedBytes())
			a.others(from, &p)
		case consensus.Forwarded:
			p := *m.PartialWitness
			p.Anchor = a.place(from, m.Anchor)
			p.Signature = key.Sign(p.SignedBytes())
			a.others(from, consensus.Forwarded{PartialWitness: &p})
		case *primitives.ContractAccesses:
			c := *m
			c.Anchor = a.place(from, m.Anchor)
			c.Signature = key.Sign(c.SignedBytes())
			a.others(from, &c)
		case *primitives.PartialContractDeploys:
			p := *m
			p.Anchor = a.place(from, m.Anchor)
			p.Signature = key.Sign(p.SignedBytes())
			a.others(from, &p)
		default:
			return
		}
		a.x.w.result.FalseMessages++
	}
}

// place draws a wrong anchor for a chunk message. right is the correct anchor. nil means that the
// message contains no anchor.
func (a *anchors) place(from *node, right *primitives.ChunkAnchor) *primitives.ChunkAnchor {
	w := a.x.w
	random := func() (h primitives.Hash) {
		for i := range h {
			h[i] = byte(w.rng.Uint32())
		}
		return h
	}
	head := from.engine.Head()
	switch at := (primitives.ChunkAnchor{PrevBlock: head.Hash, PrevPrevBlock: head.Header().PrevHash}); w.rng.IntN(6) {
	case 0: // the form of other protocol versions: without an anchor from version 87 on, with one before
		if right != nil && !right.PrevPrevBlock.IsZero() {
			return nil
		}
		return &at
	case 1: // the parent block does not exist, so the anchor can never be checked
		return &primitives.ChunkAnchor{PrevBlock: random(), PrevPrevBlock: head.Hash}
	case 2: // the anchor block does not exist
		return &primitives.ChunkAnchor{PrevBlock: at.PrevBlock, PrevPrevBlock: random()}
	case 3: // the anchor is the zero hash
		return &primitives.ChunkAnchor{PrevBlock: random()}
	case 4: // the anchor is an older block
		at.PrevPrevBlock = from.engine.Final().Hash
		return &at
	default: // parent and anchor are swapped
		return &primitives.ChunkAnchor{PrevBlock: at.PrevPrevBlock, PrevPrevBlock: at.PrevBlock}
	}
}

// produceUnentitled produces chunks on the head for which the byzantine validator would be the
// producer without early kickout.
func (a *anchors) produceUnentitled(from *node) {
	head, w := from.engine.Head(), a.x.w
	if a.taken == head.Hash {
		return
	}
	a.taken = head.Hash
	h := head.Height() + 1
	var mine []primitives.ShardIndex
	err := from.engine.Epochs(func(m *epoch.Manager) error {
		id, err := m.EpochIDFromPrev(head.Hash)
		if err != nil {
			return err
		}
		layout, err := m.ShardLayoutFromPrev(head.Hash)
		if err != nil {
			return err
		}
		for i, shard := range layout.ShardIDs() {
			turn, err := m.CanonicalChunkProducer(id, shard, h)
			if err != nil {
				return err
			}
			is, err := m.ChunkProducerFromPrev(head.Hash, shard)
			if err != nil {
				return err
			}
			if turn.AccountID == from.name && is.AccountID != from.name {
				mine = append(mine, primitives.ShardIndex(i))
			}
		}
		return nil
	})
	if err != nil {
		return
	}
	for _, i := range mine {
		c, coded, err := from.engine.NewCodedChunk(head.Hash, i, nil, secretOf(from.name))
		if err != nil {
			continue
		}
		p := chunkparts.New(from.name, from.engine.ChunkPartsView(func(primitives.Hash) *primitives.Chunk { return nil }),
			from.engine.Coding(), verify, w.rng.IntN)
		out, err := p.Step(0, chunkparts.Made{Chunk: c, Body: coded})
		if err != nil {
			continue
		}
		a.unentitled[c.Hash] = true
		w.result.FalseMessages++
		w.say(from.name, "makes a chunk of shard %d at %d, which is another's turn: %s", c.Header.ShardID, h, c.Hash.String()[:8])
		for _, s := range out.Send {
			if n := w.byName[s.To]; n != nil && n != from {
				a.x.slip(from, n, s.Body)
			}
		}
		wit, err := from.engine.Witness(c)
		if err != nil {
			continue
		}
		t := partialwitness.NewTracker(partialwitness.Validator{Account: from.name, Key: secretOf(from.name)}, from.engine.Validation(), verify)
		shown, err := t.Step(partialwitness.Made{Witness: wit.ChunkStateWitness, Transition: wit.Transition,
			Accesses: wit.Accesses, Deploys: wit.Deploys})
		if err != nil {
			continue
		}
		for _, s := range shown.Send {
			for _, to := range s.To {
				if n := w.byName[to]; n != nil && n != from {
					a.x.slip(from, n, s.Body)
				}
			}
		}
	}
}

// anchored checks a chunk message from an honest node. The message must contain an anchor if and
// only if the protocol version of its epoch requires one. The anchor must be correct.
func (c *checks) anchored(n *node, m consensus.Message) {
	var key primitives.ChunkKey
	var at *primitives.ChunkAnchor
	switch m := m.(type) {
	case *primitives.PartialChunk:
		h := &m.Header
		id, known := n.engine.ChunkPartsView(nil).Epoch(h.PrevBlockHash)
		if !known {
			c.fail("%s sent a partial chunk whose parent block %v it does not know", n.name, h.PrevBlockHash)
			return
		}
		key = primitives.ChunkKey{ShardID: h.ShardID, EpochID: id, HeightCreated: h.HeightCreated}
		if m.Anchor != nil {
			at = &primitives.ChunkAnchor{PrevBlock: h.PrevBlockHash, PrevPrevBlock: m.Anchor.PrevPrevBlock}
			if m.Anchor.EpochID != id {
				c.fail("%s sent a partial chunk of epoch %v whose anchor names epoch %v", n.name, id, m.Anchor.EpochID)
			}
		}
	case *primitives.ChunkEndorsement:
		if c.w.net.anchors.unentitled[m.ChunkHash] {
			c.fail("%s endorsed a chunk that its producer did not sign", n.name)
		}
		return
	default:
		var ok bool
		if key, at, ok = anchorOf(m); !ok {
			return
		}
	}
	what := fmt.Sprintf("%T of shard %d at %d", m, key.ShardID, key.HeightCreated)
	anchored, known := n.engine.Validation().Anchored(key.EpochID)
	if !known || anchored != (at != nil) {
		c.fail("%s sent %s with anchor %v, but its epoch is known: %t, needs anchors: %t", n.name, what, at, known, anchored)
		return
	}
	if at == nil {
		return
	}
	parent, err := n.engine.Validation().Parent(at.PrevBlock)
	if errors.Is(err, epoch.ErrMissingBlock) {
		switch m.(type) {
		case *primitives.PartialContractDeploys, consensus.Forwarded:
			return // the node forwards another producer's part, whose parent block has not arrived
		}
	}
	if err != nil || parent != at.PrevPrevBlock {
		c.fail("%s sent %s whose anchor is not %v: %v", n.name, what, parent, err)
		return
	}
	real, err := n.engine.Validation().ProducerAt(key, *at)
	if err != nil {
		c.fail("%s sent %s, whose producer it cannot look up: %v", n.name, what, err)
		return
	}
	if canonical, err := n.engine.Validation().Producer(key); err != nil || real.PublicKey != canonical.PublicKey {
		c.w.net.anchors.displaced[anchoredChunk{key, *at}] = true
	}
}

// anchorOf returns the key and the anchor of a message about a witness. at is nil if the message has
// no anchor. ok is false for other messages.
func anchorOf(m consensus.Message) (key primitives.ChunkKey, at *primitives.ChunkAnchor, ok bool) {
	switch m := m.(type) {
	case *primitives.PartialWitness:
		return m.Key(), m.Anchor, true
	case consensus.Forwarded:
		return m.Key(), m.Anchor, true
	case *primitives.ContractAccesses:
		return m.Key, m.Anchor, true
	case *primitives.PartialContractDeploys:
		return m.Key, m.Anchor, true
	}
	return key, nil, false
}

// anchoredChunk identifies a chunk in messages with an anchor.
type anchoredChunk struct {
	key primitives.ChunkKey
	at  primitives.ChunkAnchor
}

// countDisplaced counts a delivered message about a chunk whose producer is not the canonical one of
// its height. That is so after an early kickout, or after a height was skipped. A node that knows
// neither the parent nor the anchor drops such a message as unsigned.
func (a *anchors) countDisplaced(to *node, m consensus.Message) {
	if len(a.displaced) == 0 {
		return
	}
	key, at, ok := anchorOf(m)
	if p, is := m.(*primitives.PartialChunk); is && p.Anchor != nil {
		h := &p.Header
		key = primitives.ChunkKey{ShardID: h.ShardID, EpochID: p.Anchor.EpochID, HeightCreated: h.HeightCreated}
		at, ok = &primitives.ChunkAnchor{PrevBlock: h.PrevBlockHash, PrevPrevBlock: p.Anchor.PrevPrevBlock}, true
	}
	if ok && at != nil && a.displaced[anchoredChunk{key, *at}] {
		to.displaced++
	}
}

// countAnchored sums the counters of messages with anchors over all nodes and all their starts. It
// fails if messages of honest nodes were dropped, except for those of countDisplaced.
func (c *checks) countAnchored() (out Anchored) {
	failed, unsigned := 0, 0
	for _, n := range c.w.nodes {
		own := 0 // unsigned messages of this node
		for _, list := range n.counters {
			for _, x := range []*anchor.Counters{&list.Chunks, &list.Witnesses} {
				out.Queued += int(x.Queued.Load())
				out.Taken += int(x.Taken.Load())
				out.Expired += int(x.Expired.Load())
				out.Refused += int(x.Refused.Load())
				own += int(x.Unsigned.Load())
				out.WrongForm += int(x.WrongForm.Load())
				out.WrongPlace += int(x.WrongPlace.Load())
				for of, count := range x.Lookups() {
					if of.Result == anchor.LookupFailed {
						failed += int(count)
					}
				}
			}
		}
		out.Unsigned += own
		unsigned += max(own-n.displaced, 0)
	}
	if failed > 0 {
		c.fail("the producers of %d chunks could not be looked up by their anchors", failed)
	}
	if !c.w.s.Byzantine && out.WrongForm+out.WrongPlace+unsigned > 0 {
		c.fail("chunk messages of honest nodes were dropped: %+v, %d of them without a reason to be unsigned", out, unsigned)
	}
	return out
}

// bounded checks that a node's queues of early messages do not exceed the limits of the queues.
func (c *checks) bounded(n *node) {
	x := n.counters[len(n.counters)-1]
	for _, x := range []*anchor.Counters{&x.Chunks, &x.Witnesses} {
		if count, bytes := x.Waiting.Load(), x.WaitingBytes.Load(); count > anchor.MaxQueued || bytes > anchor.MaxQueuedBytes {
			c.fail("%s queues %d early chunk messages of %d bytes, above the limit", n.name, count, bytes)
		}
	}
}

// gap checks a chunk that is missing in a final block, in scenarios with Scenario.Anchors. The
// chunk must be the byzantine validator's, because a false chunk may have replaced it. Or the block
// must be the byzantine validator's, because that node may have been down before.
func (c *checks) gap(n *node, at *engine.BlockNode, shard primitives.ShardID) {
	err := n.engine.Epochs(func(m *epoch.Manager) error {
		b, err := m.BlockProducer(at.Header().EpochID, at.Height())
		if err != nil {
			return err
		}
		p, err := m.ChunkProducerFromPrev(at.Header().PrevHash, shard)
		if byzantine := c.w.nodes[0].name; err == nil && p.AccountID != byzantine && b.AccountID != byzantine {
			c.fail("final block %d lacks the chunk of shard %d, whose producer %s is honest", at.Height(), shard, p.AccountID)
		}
		return err
	})
	if err != nil {
		c.fail("%s: %v", n.name, err)
	}
}
