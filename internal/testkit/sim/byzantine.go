package sim

import (
	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/partialwitness"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/primitives"
)

// misbehaves returns whether the node is the byzantine validator and the time of faults is not
// over.
func (n *node) misbehaves() bool { return n.w.s.Byzantine && n.index == 0 && n.w.faulty() }

// sendFalse replaces a message of the byzantine validator by false messages, or sends false
// messages in addition to it. It may also withhold the message. An attacker with the validator's
// key could do the same. The false messages may contradict messages that the validator has already
// sent.
func (x *network) sendFalse(from *node, s *consensus.Send) {
	w, key := x.w, secretOf(from.name)
	if w.s.Anchors {
		x.anchors.sendFalse(from, s.Message)
		x.pass(from, s)
		return
	}
	other := *s
	switch m := s.Message.(type) {
	case *primitives.Block:
		hash := m.Hash()
		if own := verify(m.Header.Signature, hash[:], key.PublicKey()); !own || s.Peer != "" || m.Header.Height <= from.engine.Head().Height() {
			break
		}
		if w.s.Forms && x.reform(from, m) {
			return
		}
		if !w.chance(700) {
			break
		}
		twin := *m
		header := *m.Header
		twin.Header = &header
		header.Timestamp++
		header.Init()
		hash = header.Hash()
		header.Signature = key.Sign(hash[:])
		other.Message = &twin
		w.result.FalseMessages++
		w.say(from.name, "makes another block of height %d: %s", header.Height, hash.String()[:8])
		x.sendFarBlocks(from, m)
		for _, n := range w.nodes { // some nodes get both blocks
			if n == from {
				continue
			}
			if either := w.rng.IntN(3); either != 0 {
				x.carry(from, n, m)
				if either == 2 {
					continue
				}
			}
			x.carry(from, n, &twin)
		}
		return
	case *primitives.OptimisticBlock:
		x.sendFalseOptimistic(from, s, m)
		return
	case *primitives.PartialChunk, *primitives.ChunkResponse:
		if c, ok := m.(*primitives.PartialChunk); ok && w.s.Forms {
			x.create(from, &c.Header)
		}
		if c, ok := m.(*primitives.PartialChunk); ok && w.s.Eager && x.equivocate(from, c, s.To) {
			return
		}
		if w.chance(500) { // withhold the parts from this node
			return
		}
	case *primitives.ChunkForward, *primitives.PartialWitness:
		if w.chance(200) {
			return
		}
	case *primitives.ChunkEndorsement:
		if !w.chance(500) {
			break
		}
		k := primitives.ChunkKey{ShardID: m.Metadata.ShardID, EpochID: m.Metadata.EpochID, HeightCreated: m.Metadata.HeightCreated}
		w.result.FalseMessages++
		hash := m.ChunkHash
		hash[0] ^= 1
		other.Message = partialwitness.Endorse(k, hash, from.name, key)
	}
	x.pass(from, &other)
}

// equivocate sends to a validator the parts of a second chunk of the same shard and height. It
// sends these parts after the parts m of the first chunk, or instead of m. If equivocate sent
// nothing, it returns false, and the caller must send m.
func (x *network) equivocate(from *node, m *primitives.PartialChunk, to primitives.AccountID) bool {
	w, h := x.w, &m.Header
	if x.equivocated != h.ChunkHash() {
		x.equivocated, x.secondChunk = h.ChunkHash(), nil
		at := from.engine.BlockNode(h.PrevBlockHash)
		if at == nil || !w.chance(500) {
			return false
		}
		index, err := at.Layout.Index(h.ShardID)
		if err != nil {
			return false
		}
		// The second chunk is empty, so that it differs from the first chunk.
		c, coded, err := from.engine.NewCodedChunk(h.PrevBlockHash, index, nil, secretOf(from.name))
		if err != nil || c.Hash == h.ChunkHash() {
			return false
		}
		p := chunkparts.New(from.name, from.engine.ChunkPartsView(func(primitives.Hash) *primitives.Chunk { return nil }),
			from.engine.Coding(), verify, w.rng.IntN)
		out, err := p.Step(0, chunkparts.Made{Chunk: c, Body: coded})
		if err != nil {
			return false
		}
		x.secondChunk = out.Send
		w.result.FalseMessages++
		w.say(from.name, "makes another chunk of shard %d at %d: %s", h.ShardID, h.HeightCreated, c.Hash.String()[:8])
	}
	for _, s := range x.secondChunk {
		if n := w.byName[to]; s.To == to && n != nil && n != from {
			switch w.rng.IntN(4) {
			case 0: // this validator gets only the first chunk
				return false
			case 1: // this validator gets only the second chunk
				x.carry(from, n, s.Body)
			default: // this validator gets both, and crashes in between: it must remember its first endorsement
				x.carry(from, n, m)
				t := w.between(10*ms, 50*ms)
				if w.chance(200) {
					w.after(t, func() { w.crashFor(n, ms) })
				}
				w.after(t+ms, func() { x.carry(from, n, s.Body) })
			}
			return true
		}
	}
	return false
}

// sendFarBlocks sends two blocks at least a million heights ahead, for which the byzantine
// validator is the block producer. One has the parent of m. The other has an unknown parent.
func (x *network) sendFarBlocks(from *node, m *primitives.Block) {
	w, key := x.w, secretOf(from.name)
	height := m.Header.Height + 1_000_000
	err := from.engine.Epochs(func(e *epoch.Manager) error {
		for ; ; height++ {
			if p, err := e.BlockProducer(m.Header.EpochID, height); err != nil || p.AccountID == from.name {
				return err
			}
		}
	})
	if err != nil {
		return // m's epoch has ended
	}
	for _, orphan := range []bool{false, true} {
		far := *m
		header := *m.Header
		far.Header, header.Height = &header, height
		if orphan {
			header.PrevHash[0] ^= 1
		}
		header.Init()
		hash := header.Hash()
		header.Signature = key.Sign(hash[:])
		w.result.FalseMessages++
		w.say(from.name, "makes a block of height %d: %s", height, hash.String()[:8])
		for _, n := range w.nodes {
			if n != from {
				x.carry(from, n, &far)
			}
		}
	}
}

// sendFalseOptimistic sends, to each receiver, an optimistic block of the byzantine validator, or
// one that differs from its later block in one field, or both in either order, or many, or none.
func (x *network) sendFalseOptimistic(from *node, s *consensus.Send, m *primitives.OptimisticBlock) {
	w, key := x.w, secretOf(from.name)
	for _, to := range s.Receivers {
		n := w.byName[to]
		if n == nil || n == from {
			continue
		}
		copies := []int{0, 1, 1, 2, 30}[w.rng.IntN(5)]
		if w.chance(500) {
			x.carry(from, n, m)
		}
		for range copies {
			other := *m
			signed := true
			switch w.rng.IntN(9) {
			case 0:
				other.Timestamp += uint64(w.rng.IntN(2000))
			case 1:
				other.Timestamp = uint64(w.rng.Int64())
			case 2:
				other.Height += primitives.Height(w.rng.IntN(4))
			case 3:
				other.Height += 1_000_000
			case 4:
				other.PrevBlockHash[0] ^= 1
			case 5:
				other.RandomValue[0] ^= 1
			case 6:
				other.VRFValue[0] ^= 1
			case 7:
				other.VRFProof[0] ^= 1
			case 8:
				other.Timestamp, signed = other.Timestamp+1, false
			}
			if signed {
				hash := other.Hash()
				other.Signature = key.Sign(hash[:])
			}
			w.result.FalseMessages++
			x.carry(from, n, &other)
		}
	}
}
