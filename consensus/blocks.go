package consensus

import (
	"errors"
	"slices"

	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/chain/partialwitness"
	"github.com/troupe-chain/troupe/consensus/importer"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// block handles a received or own block: it adds the block to the pool and starts the next import.
// For an own block, from is empty.
func (n *Node) block(from Peer, b *primitives.Block) {
	delete(n.missing, b.Hash())
	// The importer's effects (emit) report the result.
	if checked, _ := n.blocks.Take(blockpool.Block{Block: b, From: string(from)}, uint64(n.now)); checked {
		n.timeBlock(b.Header.Height)
		n.noteHigherBlock(b.Header)
	}
	n.importNext()
}

// emit carries out an effect of the importer.
func (n *Node) emit(e importer.Effect) {
	switch e := e.(type) {
	case importer.Missing:
		n.requestMissing(&e)
	case importer.Rejected:
		n.refuseBlock(Peer(e.From), e.Block, e.Err)
	case importer.BadBody:
		n.note(e.Err, "chunk body %v not kept", short(e.Chunk))
	case importer.Dropped:
		n.noteFutureBlock(e.Block.Header, e.Err)
		if engine.VerdictOf(e.Err) != engine.VerdictStale { // a stale copy is normal, because every peer relays a block
			n.note(e.Err, "block %d %v not kept", e.Block.Header.Height, short(e.Block.Hash()))
		}
	case importer.Ahead:
		n.requestHeaders(Peer(e.From))
	case importer.Imported:
		n.imported(e.Imported)
	case importer.OwnFailed: // does not happen here: own blocks are imported like peers' blocks
	case importer.Failed:
		if e.Run != nil {
			e.Run.Import.Drop()
		}
		n.fail(e.Err)
	}
}

// noteHigherBlock sets highestVoted to h if h is higher than highestVoted and contains approvals by
// two thirds of the stake. These approvals prove that the network has reached h's height; the
// producer's signature alone does not.
func (n *Node) noteHigherBlock(h *primitives.BlockHeader) {
	if h.Height <= n.blocks.Tip()+1 || n.highestVoted != nil && h.Height <= n.highestVoted.Height {
		return // the block follows the tip, or is not higher than highestVoted
	}
	switch voted, err := n.e.Voted(h); {
	case err != nil:
		n.note(err, "votes of block %d %v", h.Height, short(h.Hash()))
	case voted:
		n.highestVoted = h
	}
}

// highestKnown returns the highest header that is known to contain approvals by two thirds of the
// stake. It returns nil if there is none.
func (n *Node) highestKnown() *primitives.BlockHeader {
	if h := n.o.HeaderChain.Highest(); h != nil && (n.highestVoted == nil || h.Height > n.highestVoted.Height) {
		return h
	}
	return n.highestVoted
}

// requestMissing requests what the pool needs to import a block. It requests chunk bodies only if
// the block's parent is imported. For an orphan, requestMissing requests the bodies after the
// parent is imported, unless the bodies arrive without a request.
func (n *Node) requestMissing(e *importer.Missing) {
	h := e.Block.Header
	if !e.Parent.IsZero() {
		n.requestBlock(e.Parent, Peer(e.From))
	}
	if len(e.Chunks) == 0 || n.e.Imported(h.PrevHash) == nil {
		return
	}
	w := chunkparts.Wanted{Ancestor: h.PrevHash}
	if by, err := n.e.BlockProducer(h.PrevHash, h.Height); err == nil {
		w.By = by.AccountID
	}
	for _, c := range e.Block.Body.Chunks {
		hash := c.ChunkHash()
		if !slices.Contains(e.Chunks, hash) {
			continue
		}
		if c := n.complete[hash]; c != nil {
			if n.addBody(c); !n.blocks.Pool().Wants(hash) {
				continue
			}
		}
		w.Headers = append(w.Headers, c)
	}
	if len(w.Headers) > 0 {
		n.stepParts(w)
	}
}

// addBody adds a chunk with its body to the block pool. The body must be complete for the shards
// that this node holds.
func (n *Node) addBody(c *primitives.Chunk) {
	switch err := n.blocks.TakeBody(c, ""); {
	case err == nil, errors.Is(err, blockpool.ErrUnwanted), errors.Is(err, blockpool.ErrStale), n.fatal != nil:
	default:
		n.note(err, "chunk body of shard %d at %d not kept", c.Header.ShardID, c.Header.HeightCreated)
	}
}

// importNext begins imports. importNext stops when an import has running jobs, no block is ready,
// or MaxAhead imported blocks are not on disk yet.
func (n *Node) importNext() {
	for n.fatal == nil && n.inFlight() < engine.MaxAhead {
		r := n.blocks.Next(uint64(n.now))
		if r == nil {
			return
		}
		n.startJobs(r)
	}
}

// inFlight returns the number of imported blocks that are not on disk yet, at most engine.MaxAhead.
func (n *Node) inFlight() (count int) {
	at := n.e.Tip()
	for at != nil && at.Hash != n.e.Head().Hash && count < engine.MaxAhead {
		count++
		at = n.e.Imported(at.Header().PrevHash)
	}
	return count
}

// startJobs starts the jobs of an import. When all have run, it finishes the import.
func (n *Node) startJobs(r *importer.Run) {
	if r.Start(func(j *engine.Job) {
		n.run(j.Run, func() {
			if r.Done() {
				n.blocks.Finish(n.o.OnPersisted, uint64(n.now))
				n.importNext()
			}
		})
	}) {
		n.blocks.Finish(n.o.OnPersisted, uint64(n.now))
	}
}

// imported handles a block that was added to the chain.
func (n *Node) imported(acc *engine.Imported) {
	n.out.Imported = append(n.out.Imported, acc)
	b, hash := acc.Entry.Block, acc.Entry.Hash
	if _, own := n.produced[hash]; !own && acc.IsHead {
		n.sendPeer("", b) // peers that have the block ignore it
	}
	n.stepParts(chunkparts.BlockArrived{Hash: hash})
	if n.witnesses != nil {
		n.applyWitnessOut(n.witnesses.Step(partialwitness.BlockRecorded{Hash: hash}))
	}
	if acc.IsHead {
		n.stepParts(n.partsHead(hash, b.Header))
	}
	if n.o.Hooks.planted(PlantedEarly) && acc.IsHead {
		n.setHead(acc.Entry)
	}
	if n.optimistic != nil {
		n.optimistic.Final(acc.Final.Height)
		for _, o := range n.optimistic.TakeOrphans(hash) {
			n.optimisticBlock(o)
		}
	}
	n.requestRoute()
}

// persisted handles the blocks that have reached the disk since the last call.
func (n *Node) persisted() {
	list, err := n.e.Stored()
	for _, acc := range list {
		n.out.Persisted = append(n.out.Persisted, acc)
		n.updatePools(acc)
		if n.witnesses != nil {
			out, err := n.witnesses.Step(partialwitness.BlockArrived{Hash: acc.Entry.Hash, Final: acc.Final.Height})
			n.measureOrphans()
			n.applyWitnessOut(out, err)
			waited := n.waitingChunks[acc.Entry.Hash]
			delete(n.waitingChunks, acc.Entry.Hash)
			for _, c := range waited {
				n.endorseHeld(c)
			}
		}
		if acc.IsHead && acc.Entry.Hash == n.e.Head().Hash {
			n.setHead(acc.Entry)
		}
	}
	if err != nil {
		n.fail(err)
		return
	}
	n.importNext()
}

// partsHead returns the event with which package chunkparts learns the new head. If the node is far
// behind, the event includes the highest known header. chunkparts then requests the parts of old
// chunks at once, because peers no longer forward parts of old chunks.
func (n *Node) partsHead(hash primitives.Hash, h *primitives.BlockHeader) chunkparts.Head {
	out := chunkparts.Head{Hash: hash, Prev: h.PrevHash, Height: h.Height}
	if at := n.highestKnown(); at != nil && at.Height > h.Height+1 {
		out.Header, out.HeaderPrev = at.Hash(), at.PrevHash
	}
	return out
}
