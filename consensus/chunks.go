package consensus

import (
	"errors"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// makeChunks produces the chunks on the head of which this validator is the producer. makeChunks
// sends the parts and witnesses of these chunks.
func (n *Node) makeChunks() {
	h := n.head
	if n.me == "" || n.isBehind() {
		return
	}
	for i, id := range h.layout.ShardIDs() {
		p, err := n.e.ChunkProducer(h.hash, id)
		if err != nil {
			n.fail(err)
			return
		}
		if !n.isMe(p.AccountID, p.PublicKey) {
			continue
		}
		if err := n.makeChunk(primitives.ShardIndex(i), id); errors.Is(err, engine.ErrUntracked) ||
			errors.Is(err, engine.ErrOrphan) {
			n.note(err, "makes no chunk of shard %d on %d", id, h.height)
		} else if err != nil {
			n.fail(err)
			return
		}
	}
}

// makeChunk produces the chunk of one shard.
func (n *Node) makeChunk(i primitives.ShardIndex, id primitives.ShardID) error {
	h, began := n.head, n.elapsed()
	txs, err := n.choose(i, id)
	if err != nil || !n.signed.chunk(id, h.height+1) {
		return err
	}
	n.save()
	c, coded, err := n.e.NewCodedChunk(h.hash, i, txs, n.o.Key)
	if err != nil {
		return err
	}
	n.measured.Add(engine.ProduceChunkTime, n.elapsed()-began, label(id))
	defer func() { n.measured.Add(engine.ProduceAndDistributeChunkTime, n.elapsed()-began, label(id)) }()
	if n.o.Hooks.planted(PlantedEndorse) {
		c = n.forgeChunk(c)
	}
	n.note(nil, "makes chunk %v of shard %d on %d, %d transactions", short(c.Hash), id, h.height, len(txs))
	n.counters.Chunks.Add(1)
	n.stepParts(chunkparts.Made{Chunk: c, Body: coded})
	err = n.showWitness(c)
	// The state for the witness is missing after a restart, or if the shard was caught up after
	// that state.
	if errors.Is(err, storage.ErrGone) || errors.Is(err, engine.ErrMissing) {
		n.note(err, "sends no witness of shard %d on %d", id, h.height)
		return nil
	}
	return err
}

// forgeChunk returns the chunk with a wrong gas value, for PlantedEndorse.
func (n *Node) forgeChunk(c *primitives.Chunk) *primitives.Chunk {
	x := *c
	x.Header.PrevGasUsed++
	x.Hash = x.Header.ChunkHash()
	x.Header.Signature = n.o.Key.Sign(x.Hash[:])
	return &x
}

// stepParts steps the state machine of chunk parts (package chunkparts) and carries out its
// effects.
func (n *Node) stepParts(ev chunkparts.Event) {
	if n.o.Hooks.planted(PlantedNoForward) {
		switch ev.(type) {
		case chunkparts.Forward, chunkparts.Tick, chunkparts.Request:
			return
		}
	}
	out, err := n.parts.Step(n.now/ms, ev)
	if err != nil {
		n.note(err, "%T dropped", ev)
	}
	for _, s := range out.Send {
		n.sendTo(s.To, s.Body)
	}
	for _, x := range out.Timed {
		n.measured.Add(partTimes[x.Timing], x.Ms, label(x.Shard))
	}
	for i := range out.Ask {
		a := &out.Ask[i]
		n.out.Send = append(n.out.Send, Send{To: a.Account, Message: a.Request, Ask: a})
	}
	for _, a := range out.Answer {
		// Do not send an empty response, because the requester treats an empty response like no
		// response.
		if to, ok := a.To.(Peer); ok && len(a.Body.Parts)+len(a.Body.Receipts) > 0 {
			n.sendPeer(to, a.Body)
		}
	}
	for _, h := range out.Ready {
		n.readyChunk(h)
	}
	for _, c := range out.Complete {
		n.complete[c.Chunk.Hash] = c.Chunk
		if n.optimistic != nil && n.fitsParent(&c.Chunk.Header) {
			n.optimistic.AddChunk(c.Chunk)
		}
		n.addBody(c.Chunk)
		n.endorseHeld(c.Chunk)
	}
	for _, h := range out.Bad {
		n.refuseChunk(h, chain.InvalidChunk)
	}
	if len(out.Complete) > 0 {
		n.importNext()
		n.beginOptimistic()
	}
}

// fitsParent returns whether a block can include a chunk: the chunk was created one height above its
// parent. It returns true if the parent is unknown.
func (n *Node) fitsParent(h *primitives.ChunkHeader) bool {
	at := n.e.Imported(h.PrevBlockHash)
	return at == nil || h.HeightCreated == at.Height()+1
}

// readyChunk records a chunk of which this node has received its own parts. If this node produces
// the next block, that block includes, for each shard, the first chunk that readyChunk recorded for
// that block's parent.
func (n *Node) readyChunk(h *primitives.ChunkHeader) {
	if n.o.Hooks.planted(PlantedDropReady) && (n.head == nil || h.PrevBlockHash != n.head.hash) {
		return
	}
	if !n.fitsParent(h) {
		return // it must not replace a valid chunk
	}
	if !h.TxRoot.IsZero() || h.PrevGasUsed > 0 {
		n.noteActivity(h.HeightCreated)
	}
	of := n.ready[h.PrevBlockHash]
	if of == nil {
		of = map[primitives.ShardID]*primitives.ChunkHeader{}
		n.ready[h.PrevBlockHash] = of
	}
	if of[h.ShardID] == nil {
		of[h.ShardID] = h
	}
}

// storedChunk returns a known chunk, complete or in the stored form, or nil if the chunk is
// unknown.
func (n *Node) storedChunk(hash primitives.Hash) *primitives.Chunk {
	if c := n.complete[hash]; c != nil {
		return c
	}
	places, err := n.e.Store().Find().Chunk(hash)
	if err != nil {
		return nil
	}
	for _, p := range places {
		at, err := n.e.Block(p.Block.Ref().Hash)
		if err != nil {
			continue
		}
		if i, err := at.Layout.Index(p.Shard); err == nil && at.Shards[i].Chunk != nil && at.Shards[i].Chunk.Hash == hash {
			return at.Shards[i].Chunk
		}
	}
	return nil
}
