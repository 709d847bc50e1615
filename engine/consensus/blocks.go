package consensus

import (
	"errors"
	"slices"

	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/chain/partialwitness"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// work is the import whose jobs are running.
type work struct {
	pending *engine.BlockImport
	from    Peer
	left    int // jobs that have not ended
}

// block handles a block from a peer, or an own one: it adds the block to the pool and starts the
// next import.
func (n *Node) block(from Peer, b *primitives.Block) {
	n.takeBlock(from, b)
	n.importNext()
}

// takeBlock prechecks a received block, adds it to the pool of received blocks, and requests what
// is missing.
func (n *Node) takeBlock(from Peer, b *primitives.Block) {
	hash := b.Hash()
	delete(n.missing, hash)
	if err := n.blocks.Refusal(hash); err != nil {
		n.note(err, "block %d %v refused again", b.Header.Height, short(hash))
		return
	}
	x := blockpool.Block{Block: b, From: string(from), Standing: blockpool.Orphan}
	if !n.blocks.Has(hash) { // else this copy brings nothing new
		as, err := n.e.Precheck(b)
		if err != nil {
			n.precheckFailed(from, b, err)
			return
		}
		x.Standing, x.Producer, x.Needs = as.Standing, as.Producer, as.Needs
		if as.Standing != blockpool.UnknownEpoch {
			n.noteHigherBlock(b.Header)
		}
	}
	if x.Standing == blockpool.Orphan && n.o.planted(PlantedOrphans) {
		return
	}
	out, err := n.blocks.Add(x, uint64(n.now))
	if x.Standing == blockpool.UnknownEpoch || errors.Is(err, blockpool.ErrFar) {
		n.requestHeaders(from)
	}
	if err != nil {
		n.note(err, "block %d %v not kept", b.Header.Height, short(hash))
	}
	n.requestMissing(b, from, &out)
}

// noteHigherBlock sets highestVoted to h if it is higher and contains approvals of two thirds of
// the stake. Only these prove that the network has reached its height; the producer's signature
// does not.
func (n *Node) noteHigherBlock(h *primitives.BlockHeader) {
	if h.Height <= n.tip+1 || n.highestVoted != nil && h.Height <= n.highestVoted.Height {
		return // a regular next block, or not higher than the highest one
	}
	switch voted, err := n.e.Voted(h); {
	case err != nil:
		n.note(err, "votes of block %d %v", h.Height, short(h.Hash()))
	case voted:
		n.highestVoted = h
	}
}

// highestKnown returns the highest header that is known to have approvals of two thirds of the
// stake; nil: none is.
func (n *Node) highestKnown() *primitives.BlockHeader {
	if h := n.e.HighestHeader(); h != nil && (n.highestVoted == nil || h.Height > n.highestVoted.Height) {
		return h
	}
	return n.highestVoted
}

// precheckFailed handles an error of Precheck. It does not record the block's hash as invalid,
// because another copy of the block may be valid.
func (n *Node) precheckFailed(from Peer, b *primitives.Block, err error) {
	switch engine.VerdictOf(err) {
	case engine.VerdictLocalFault:
		n.fail(err)
	case engine.VerdictInvalid:
		n.refuseBlock(from, b, err)
	case engine.VerdictEarly, engine.VerdictWaiting:
		n.note(err, "block %d %v not taken", b.Header.Height, short(b.Hash()))
	case engine.VerdictStale:
	}
}

// requestMissing requests what the pool needs to import the block b. Chunk bodies are requested
// only if the parent is imported. Those of orphans are requested later; they may also arrive
// without a request.
func (n *Node) requestMissing(b *primitives.Block, from Peer, out *blockpool.Out) {
	if !out.Parent.IsZero() {
		n.requestBlock(out.Parent, from)
	}
	if len(out.Chunks) == 0 || n.e.Imported(b.Header.PrevHash) == nil {
		return
	}
	w := chunkparts.Wanted{Ancestor: b.Header.PrevHash}
	if by, err := n.e.BlockProducer(b.Header.PrevHash, b.Header.Height); err == nil {
		w.By = by.AccountID
	}
	for _, h := range b.Body.Chunks {
		hash := h.ChunkHash()
		if !slices.Contains(out.Chunks, hash) {
			continue
		}
		if c := n.complete[hash]; c != nil {
			if n.addBody(c); !n.blocks.Wants(hash) {
				continue
			}
		}
		w.Headers = append(w.Headers, h)
	}
	if len(w.Headers) > 0 {
		n.stepParts(w)
	}
}

// addBody adds a chunk with its body to the block pool. The body is complete for the shards that
// this node holds.
func (n *Node) addBody(c *primitives.Chunk) {
	signed, need := false, blockpool.Need{}
	if !n.blocks.Wants(c.Hash) {
		var err error
		if signed, need, err = n.e.PrecheckBody(c); err != nil {
			n.fail(err)
			return
		}
	}
	switch err := n.blocks.AddBody(c, signed, need); {
	case err == nil, errors.Is(err, blockpool.ErrUnwanted), errors.Is(err, blockpool.ErrStale):
	default:
		n.note(err, "chunk body of shard %d at %d not kept", c.Header.ShardID, c.Header.HeightCreated)
	}
}

// importNext begins imports until one has running jobs, no block is ready, or MaxAhead blocks are
// in flight to the disk.
func (n *Node) importNext() {
	for n.work == nil && n.fatal == nil && n.inFlight() < engine.MaxAhead {
		b := n.blocks.Next()
		if b == nil {
			return
		}
		n.beginImport(b)
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

// beginImport begins the import of a block whose parent is imported. If chunk bodies are missing,
// the block goes back to the pool and waits for them.
func (n *Node) beginImport(b *blockpool.Block) {
	hash := b.Hash()
	p, err := n.e.BeginImport(b.Block, b.Chunks, false)
	if err == nil {
		n.startJobs(Peer(b.From), p)
		return
	}
	if errors.Is(err, engine.ErrMissing) {
		out, ok := n.blocks.WaitForChunks(hash, uint64(n.now))
		if !ok { // the block was complete on arrival, but the held shards have changed
			if as, err := n.e.Precheck(b.Block); err == nil {
				n.blocks.Refresh(hash, as.Needs, uint64(n.now))
				out, ok = n.blocks.WaitForChunks(hash, uint64(n.now))
			}
		}
		if ok {
			n.requestMissing(b.Block, Peer(b.From), &out)
			return
		}
	}
	n.importFailed(Peer(b.From), b.Block, err)
}

// renewNeeds computes anew which chunk bodies the received blocks need, because the held shards
// have changed.
func (n *Node) renewNeeds() {
	for _, b := range n.blocks.Blocks() {
		as, err := n.e.Precheck(b.Block)
		if err != nil {
			continue // the import will report the error
		}
		out := n.blocks.Refresh(b.Hash(), as.Needs, uint64(n.now))
		n.requestMissing(b.Block, Peer(b.From), &out)
	}
	n.importNext()
}

// startJobs hands out the jobs of an import. It runs trivial jobs itself.
func (n *Node) startJobs(from Peer, p *engine.BlockImport) {
	jobs := p.Jobs()
	w := &work{pending: p, from: from, left: len(jobs)}
	n.work = w
	for i := range jobs {
		if jobs[i].Trivial() {
			jobs[i].Run()
			w.left--
			continue
		}
		n.run(jobs[i].Run, func() {
			if w.left--; w.left == 0 {
				n.finishImport(w)
			}
		})
	}
	if w.left == 0 {
		n.finishImport(w)
	}
}

// finishImport adds a block to the chain after its jobs have run.
func (n *Node) finishImport(w *work) {
	n.work = nil
	acc, err := n.e.FinishImport(w.pending, n.o.OnPersisted)
	if err != nil {
		b := w.pending.Block()
		w.pending.Drop()
		n.importFailed(w.from, b, err)
		n.importNext()
		return
	}
	n.out.Imported = append(n.out.Imported, acc)
	b, hash := acc.Entry.Block, acc.Entry.Hash
	if _, own := n.produced[hash]; !own && acc.IsHead {
		n.sendPeer("", b) // peers that have the block ignore it
	}
	changed := false
	if acc.IsHead {
		n.tip = acc.Entry.Height()
		changed = acc.Entry.Header().EpochID != acc.OldHead.Header().EpochID
	}
	again := n.blocks.Imported(b, n.tip, acc.Final.Height, changed)
	n.stepParts(chunkparts.BlockArrived{Hash: hash})
	if n.witnesses != nil {
		n.applyWitnessOut(n.witnesses.Step(partialwitness.BlockRecorded{Hash: hash}))
	}
	if acc.IsHead {
		n.stepParts(n.partsHead(hash, b.Header))
	}
	for i := range again {
		n.takeBlock(Peer(again[i].From), again[i].Block)
	}
	if n.o.planted(PlantedEarly) && acc.IsHead {
		n.setHead(acc.Entry)
	}
	n.requestRoute()
	n.importNext()
}

// persisted handles the blocks that have reached the disk since the last call.
func (n *Node) persisted() {
	list, err := n.e.Stored()
	for _, acc := range list {
		n.out.Persisted = append(n.out.Persisted, acc)
		n.updatePools(acc)
		if n.witnesses != nil {
			out, err := n.witnesses.Step(partialwitness.BlockArrived{Hash: acc.Entry.Hash, Final: acc.Final.Height})
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

// importFailed handles an import that ended with an error.
func (n *Node) importFailed(from Peer, b *primitives.Block, err error) {
	hash := b.Hash()
	switch engine.VerdictOf(err) {
	case engine.VerdictInvalid:
		n.refuseBlock(from, b, err)
		n.blocks.Refused(hash, err)
	case engine.VerdictEarly:
		n.note(err, "block %d %v is early", b.Header.Height, short(hash))
		n.blocks.Dropped(hash, true)
	case engine.VerdictStale, engine.VerdictWaiting:
		n.note(err, "block %d %v dropped", b.Header.Height, short(hash))
		n.blocks.Dropped(hash, false)
	default:
		n.fail(err)
	}
}

// partsHead returns the event with the new head for package chunkparts. If the node is far behind,
// it includes the highest known header: peers no longer forward the parts of old chunks, so these
// have to be requested at once.
func (n *Node) partsHead(hash primitives.Hash, h *primitives.BlockHeader) chunkparts.Head {
	out := chunkparts.Head{Hash: hash, Prev: h.PrevHash, Height: h.Height}
	if at := n.highestKnown(); at != nil && at.Height > h.Height+1 {
		out.Header, out.HeaderPrev = at.Hash(), at.PrevHash
	}
	return out
}
