package sim

import (
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/partialwitness"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/consensus"
	"github.com/troupe-chain/troupe/primitives"
)

// strange is a chunk of the byzantine node with another height than the one after its block, and
// its endorsers.
type strange struct {
	chunk  *primitives.Chunk
	key    primitives.ChunkKey
	on     primitives.Height
	signed map[primitives.AccountID]primitives.Signature
}

// chosen are the transactions of the liar's last chunks, by shard.
type chosen map[primitives.ShardID][]*primitives.SignedTransaction

// NewCodedChunk notes what the liar puts into a chunk.
func (p prompt) NewCodedChunk(parent primitives.Hash, shard primitives.ShardIndex, txs []*primitives.SignedTransaction, key primitives.SecretKey) (*primitives.Chunk, *chain.EncodedBody, error) {
	c, coded, err := p.Engine.NewCodedChunk(parent, shard, txs, key)
	if err == nil && p.n.lies() {
		p.n.w.net.chosen[c.Header.ShardID] = txs
	}
	return c, coded, err
}

// create makes, beside a chunk of the byzantine node, a second one of the same place with another
// height of its own. It is distributed like any other, and its witness goes to the validators of
// that height.
func (x *network) create(from *node, h *primitives.ChunkHeader) {
	w := x.w
	if x.createdFor == h.ChunkHash() {
		return
	}
	x.createdFor = h.ChunkHash()
	at := from.engine.BlockNode(h.PrevBlockHash)
	if at == nil || !w.chance(500) {
		return
	}
	key, ok := x.otherHeight(from, at, h.ShardID)
	if !ok {
		return
	}
	layout, err := from.layoutBehind(at.Hash)
	if err != nil {
		return
	}
	index, err := layout.Index(h.ShardID)
	if err != nil {
		return
	}
	own, coded, err := from.engine.NewCodedChunk(at.Hash, index, x.chosen[h.ShardID], secretOf(from.name))
	if err != nil {
		return
	}
	c := *own
	c.Header.HeightCreated = key.HeightCreated
	c.Hash = c.Header.ChunkHash()
	c.Header.Signature = secretOf(from.name).Sign(c.Hash[:])
	if c.Whole == own.Hash {
		c.Whole = c.Hash
	}
	wit, err := from.engine.Witness(&c)
	if err != nil {
		return
	}
	w.unread(wit.ChunkStateWitness)
	p := chunkparts.New(from.name, from.engine.ChunkPartsView(func(primitives.Hash) *primitives.Chunk { return nil }), from.engine.Coding(), verify, w.rng.IntN)
	out, err := p.Step(0, chunkparts.Made{Chunk: &c, Body: coded})
	if err != nil {
		return
	}
	s := &strange{&c, key, at.Height(), map[primitives.AccountID]primitives.Signature{
		from.name: partialwitness.Endorse(key, c.Hash, from.name, secretOf(from.name)).Signature}}
	x.stranges = append(x.stranges, s)
	w.result.Lies++
	w.check.verdicts.created(s)
	w.say(from.name, "makes a chunk of shard %d on %d that says %d: %s", h.ShardID, at.Height(), key.HeightCreated, c.Hash.String()[:8])
	// to all, to some, to none: they validate by the witness in any case
	given := []int{1000, 1000, 1000, 600, 0}[w.rng.IntN(5)]
	for _, s := range out.Send {
		if n := w.byName[s.To]; n != nil && n != from && w.chance(given) {
			x.carry(from, n, s.Body)
		}
	}
	t := partialwitness.NewTracker(partialwitness.Validator{Account: from.name, Key: secretOf(from.name)}, from.engine.Validation(), verify)
	shown, err := t.Step(partialwitness.Made{Witness: wit.ChunkStateWitness, Transition: wit.Transition, Accesses: wit.Accesses, Deploys: wit.Deploys})
	if err != nil {
		return
	}
	for _, s := range shown.Send {
		if _, own := s.Body.(*primitives.ChunkEndorsement); own {
			continue
		}
		for _, to := range s.To {
			if n := w.byName[to]; n != nil && n != from {
				x.carry(from, n, s.Body)
			}
		}
	}
}

// unread changes the parts of a witness that no node reads: header fields outside its hash, and the
// blocks of transitions.
func (w *World) unread(x *primitives.ChunkStateWitness) {
	if w.chance(300) {
		x.Header.HeightIncluded = x.Header.HeightCreated
	}
	if w.chance(300) {
		x.Header.Signature = primitives.ZeroED25519Signature
	}
	if w.chance(300) {
		x.Main.Block[0] ^= 1
		for i := range x.Implicit {
			x.Implicit[i].Block[0] ^= 1
		}
	}
}

// layoutBehind is that of the children of a block.
func (n *node) layoutBehind(hash primitives.Hash) (layout primitives.ShardLayout, err error) {
	err = n.engine.Epochs(func(m *epoch.Manager) (err error) {
		layout, err = m.ShardLayoutFromPrev(hash)
		return err
	})
	return layout, err
}

// otherHeight draws a height at which a node makes the chunks of a shard as well, and for which it
// hears of endorsements: rather where it also makes the block behind the chunk's own, since no
// honest node includes such a chunk. Now and then it may be another's.
func (x *network) otherHeight(from *node, at *engine.BlockNode, shard primitives.ShardID) (key primitives.ChunkKey, ok bool) {
	w, see := x.w, from.engine.Validation()
	by, err := from.engine.BlockProducer(at.Hash, at.Height()+1)
	if err != nil || by.AccountID != from.name && !w.chance(200) {
		return key, false
	}
	others := w.chance(100) // of which no witness is validated
	id, err := from.epochBehind(at.Hash)
	if err != nil {
		return key, false
	}
	var list []primitives.ChunkKey
	for height := at.Height() - min(at.Height(), 2); height <= at.Height()+4; height++ {
		k := primitives.ChunkKey{ShardID: shard, EpochID: id, HeightCreated: height}
		p, err := see.AnchoredProducer(k, at.Header().PrevHash)
		if height != at.Height()+1 && err == nil && (others || p.AccountID == from.name) && see.Relevant(k) {
			list = append(list, k)
		}
	}
	if len(list) == 0 {
		return key, false
	}
	return list[w.rng.IntN(len(list))], true
}

// epochBehind is that of the children of a block.
func (n *node) epochBehind(hash primitives.Hash) (id primitives.EpochID, err error) {
	err = n.engine.Epochs(func(m *epoch.Manager) (err error) {
		id, err = m.EpochIDFromPrev(hash)
		return err
	})
	return id, err
}

// heard notes what the liar is told of its strange chunks.
func (x *network) heard(m consensus.Message) {
	e, ok := m.(*primitives.ChunkEndorsement)
	if !ok {
		return
	}
	for _, s := range x.stranges {
		if s.chunk.Hash == e.ChunkHash {
			s.signed[e.Metadata.AccountID] = e.Signature
		}
	}
}

// include makes a block of the liar anew with strange chunks in the place of its own, where they
// are endorsed, or seldom where they are not; what says which.
func (x *network) include(from *node, m *primitives.Block) (b *primitives.Block, what string) {
	w, h := x.w, m.Header
	p := &engine.Proposal{Parent: h.PrevHash, Height: h.Height, Timestamp: h.Timestamp, Approvals: h.Approvals, Vote: h.LatestProtocolVersion}
	for i, c := range m.Body.Chunks {
		var own *primitives.Chunk
		if c.HeightIncluded == h.Height {
			own = &primitives.Chunk{Hash: c.ChunkHash(), Header: *c}
		}
		p.Chunks, p.Endorsements = append(p.Chunks, own), append(p.Endorsements, m.Body.ChunkEndorsements[i])
	}
	layout, err := from.layoutBehind(h.PrevHash)
	if err != nil || layout.NumShards() != len(p.Chunks) {
		return m, ""
	}
	for i, id := range layout.ShardIDs() {
		s := x.strangeOf(h.PrevHash, id)
		if s == nil {
			continue
		}
		list, err := from.engine.Validation().Validators(s.key)
		if err != nil {
			continue
		}
		sigs := make([]primitives.Signature, len(list))
		for k, a := range list {
			sigs[k] = s.signed[a.AccountID]
		}
		enough := chain.EndorsedEnough(list, func(k int) bool { return sigs[k] != "" })
		switch {
		case enough && !w.chance(200):
			what = created
		case what == "" && w.chance(400):
			for k := range list {
				if list[k].AccountID != from.name {
					sigs[k] = ""
				}
			}
			what = unendorsed
		default:
			continue
		}
		p.Chunks[i], p.Endorsements[i] = s.chunk, sigs
		if what == unendorsed {
			break
		}
	}
	if what == "" {
		return m, ""
	}
	if b, err = from.engine.NewBlock(p, secretOf(from.name)); err != nil {
		return m, ""
	}
	return b, what
}

// strangeOf finds the strange chunk of a place.
func (x *network) strangeOf(on primitives.Hash, shard primitives.ShardID) *strange {
	i := slices.IndexFunc(x.stranges, func(s *strange) bool {
		return s.chunk.Header.PrevBlockHash == on && s.chunk.Header.ShardID == shard
	})
	if i < 0 {
		return nil
	}
	return x.stranges[i]
}
