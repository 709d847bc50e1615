package sim

import (
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/partialwitness"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// misnumbered is a chunk of the byzantine validator whose height_created is not its parent's height
// plus one. Such a chunk is valid, but nearcore never produces one.
type misnumbered struct {
	chunk  *primitives.Chunk
	key    primitives.ChunkKey
	on     primitives.Height                             // height of the chunk's parent block
	signed map[primitives.AccountID]primitives.Signature // endorsements that the chunk's producer has
}

// chosen are the transactions in the byzantine validator's last chunks, by shard.
type chosen map[primitives.ShardID][]*primitives.SignedTransaction

// NewCodedChunk records the transactions of the byzantine validator's chunk. create uses the
// recorded transactions.
func (p prompt) NewCodedChunk(parent primitives.Hash, shard primitives.ShardIndex, txs []*primitives.SignedTransaction,
	key primitives.SecretKey) (*primitives.Chunk, *chain.EncodedBody, error) {
	c, coded, err := p.Engine.NewCodedChunk(parent, shard, txs, key)
	if err == nil && p.n.misbehaves() {
		p.n.w.net.chosen[c.Header.ShardID] = txs
	}
	return c, coded, err
}

// create may produce a misnumbered chunk in addition to the byzantine validator's chunk h, with the
// same parent and shard. create sends the parts of the misnumbered chunk to some nodes, and the
// chunk's witness to the chunk validators of the chunk's height.
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
	p := chunkparts.New(from.name, from.engine.ChunkPartsView(func(primitives.Hash) *primitives.Chunk { return nil }),
		from.engine.Coding(), verify, w.rng.IntN)
	out, err := p.Step(0, chunkparts.Made{Chunk: &c, Body: coded})
	if err != nil {
		return
	}
	s := &misnumbered{&c, key, at.Height(), map[primitives.AccountID]primitives.Signature{
		from.name: partialwitness.Endorse(key, c.Hash, from.name, secretOf(from.name)).Signature}}
	x.misnumberedAll = append(x.misnumberedAll, s)
	w.result.FalseMessages++
	w.check.verdicts.created(s)
	w.say(from.name, "makes a chunk of shard %d on %d that says %d: %s", h.ShardID, at.Height(), key.HeightCreated, c.Hash.String()[:8])
	// given is the probability, in thousandths, with which each part message is sent. Chunk
	// validators need only the witness.
	given := []int{1000, 1000, 1000, 600, 0}[w.rng.IntN(5)]
	for _, s := range out.Send {
		if n := w.byName[s.To]; n != nil && n != from && w.chance(given) {
			x.carry(from, n, s.Body)
		}
	}
	t := partialwitness.NewTracker(partialwitness.Validator{Account: from.name, Key: secretOf(from.name)}, from.engine.Validation(), verify)
	shown, err := t.Step(partialwitness.Made{Witness: wit.ChunkStateWitness, Transition: wit.Transition,
		Accesses: wit.Accesses, Deploys: wit.Deploys})
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

// unread changes fields of a witness on which no check may depend: chunk header fields that the
// chunk hash does not cover, and the block hashes of the transitions.
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

// layoutBehind returns the shard layout of a block's children.
func (n *node) layoutBehind(hash primitives.Hash) (layout primitives.ShardLayout, err error) {
	err = n.engine.Epochs(func(m *epoch.Manager) (err error) {
		layout, err = m.ShardLayoutFromPrev(hash)
		return err
	})
	return layout, err
}

// otherHeight draws the height_created of a misnumbered chunk on the block at. The byzantine
// validator is the chunk producer of that height; 10 % of the time any height is allowed. ok is
// false if there is no such height. If another validator produces the next block, ok is usually
// false, because honest block producers do not include such a chunk.
func (x *network) otherHeight(from *node, at *engine.BlockNode, shard primitives.ShardID) (key primitives.ChunkKey, ok bool) {
	w, see := x.w, from.engine.Validation()
	by, err := from.engine.BlockProducer(at.Hash, at.Height()+1)
	if err != nil || by.AccountID != from.name && !w.chance(200) {
		return key, false
	}
	others := w.chance(100) // also use heights of other producers; no node accepts witnesses for them
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

// epochBehind returns the epoch of a block's children.
func (n *node) epochBehind(hash primitives.Hash) (id primitives.EpochID, err error) {
	err = n.engine.Epochs(func(m *epoch.Manager) (err error) {
		id, err = m.EpochIDFromPrev(hash)
		return err
	})
	return id, err
}

// heard records an endorsement of a misnumbered chunk that the byzantine validator receives.
func (x *network) heard(m consensus.Message) {
	e, ok := m.(*primitives.ChunkEndorsement)
	if !ok {
		return
	}
	for _, s := range x.misnumberedAll {
		if s.chunk.Hash == e.ChunkHash {
			s.signed[e.Metadata.AccountID] = e.Signature
		}
	}
}

// include returns the byzantine validator's block m with misnumbered chunks instead of its own
// chunks. what is created if the misnumbered chunks have enough endorsements. what is unendorsed if
// one of these chunks has too few, so that the block is invalid. what is empty if include returns m
// unchanged.
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
		s := x.misnumberedOf(h.PrevHash, id)
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

// misnumberedOf returns the misnumbered chunk of a shard on a parent block, or nil.
func (x *network) misnumberedOf(on primitives.Hash, shard primitives.ShardID) *misnumbered {
	i := slices.IndexFunc(x.misnumberedAll, func(s *misnumbered) bool {
		return s.chunk.Header.PrevBlockHash == on && s.chunk.Header.ShardID == shard
	})
	if i < 0 {
		return nil
	}
	return x.misnumberedAll[i]
}
