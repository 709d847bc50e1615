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

// work is the block with running jobs.
type work struct {
	pending *engine.BlockImport
	from    Peer
	left    int // unfinished jobs
}

// block handles a received block: it prechecks it, adds it to the pool and starts the next import.
func (n *Node) block(from Peer, b *primitives.Block) {
	n.takeBlock(from, b)
	n.importNext()
}

// takeBlock prechecks a block and adds it to the pool of received blocks.
func (n *Node) takeBlock(from Peer, b *primitives.Block) {
	hash := b.Hash()
	delete(n.missing, hash)
	if err := n.blocks.Refusal(hash); err != nil {
		n.note(err, "block %d %v refused again", b.Header.Height, short(hash))
		return
	}
	x := blockpool.Block{Block: b, From: string(from), Standing: blockpool.Orphan}
	if !n.blocks.Has(hash) { // else this copy has nothing new
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

// noteHigherBlock remembers that the network is ahead if the block's approvals prove it. The
// producer's word alone proves nothing.
func (n *Node) noteHigherBlock(h *primitives.BlockHeader) {
	if h.Height <= n.tip+1 || n.highestVoted != nil && h.Height <= n.highestVoted.Height {
		return // this node gets there by itself
	}
	switch voted, err := n.e.Voted(h); {
	case err != nil:
		n.note(err, "votes of block %d %v", h.Height, short(h.Hash()))
	case voted:
		n.highestVoted = h
	}
}

// highestKnown returns the highest header known to have approvals of two thirds, or nil.
func (n *Node) highestKnown() *primitives.BlockHeader {
	if h := n.e.HighestHeader(); h != nil && (n.highestVoted == nil || h.Height > n.highestVoted.Height) {
		return h
	}
	return n.highestVoted
}

// precheckFailed handles an error of Precheck. It remembers nothing, because another copy may be
// valid.
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

// requestMissing requests what a block lacks. Bodies are requested only if the parent is known.
// Those of orphans are requested later, or arrive unasked.
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

// addBody adds a chunk, complete as far as this node needs it, to the block pool.
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

// importNext begins imports until one has running jobs or too many blocks are in flight.
func (n *Node) importNext() {
	for n.work == nil && n.fatal == nil && n.inFlight() < engine.MaxAhead {
		b := n.blocks.Next()
		if b == nil {
			return
		}
		n.beginImport(b)
	}
}

// inFlight counts the imported blocks that are not on disk.
func (n *Node) inFlight() (count int) {
	at := n.e.Tip()
	for at != nil && at.Hash != n.e.Head().Hash && count < engine.MaxAhead {
		count++
		at = n.e.Imported(at.Header().PrevHash)
	}
	return count
}

// beginImport validates a block with an imported parent. A valid block that lacks bodies waits for
// them.
func (n *Node) beginImport(b *blockpool.Block) {
	hash := b.Hash()
	p, err := n.e.BeginImport(b.Block, b.Chunks, false)
	if err == nil {
		n.startJobs(Peer(b.From), p)
		return
	}
	if errors.Is(err, engine.ErrMissing) {
		out, ok := n.blocks.WaitForChunks(hash, uint64(n.now))
		if !ok { // it had what was needed when it arrived; the needs have changed
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

// renewNeeds recomputes what waiting blocks need after the held shards have changed.
func (n *Node) renewNeeds() {
	for _, b := range n.blocks.Blocks() {
		as, err := n.e.Precheck(b.Block)
		if err != nil {
			continue // it passed when it arrived; the import reports what is wrong now
		}
		out := n.blocks.Refresh(b.Hash(), as.Needs, uint64(n.now))
		n.requestMissing(b.Block, Peer(b.From), &out)
	}
	n.importNext()
}

// startJobs starts the jobs of a block. Trivial ones run at once.
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

// finishImport adds an applied block to the chain.
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
		n.sendPeer("", b) // peers that have it drop it
	}
	changed := false
	if acc.IsHead {
		n.tip = acc.Entry.Height()
		changed = acc.Entry.Header().EpochID != acc.OldHead.Header().EpochID
	}
	again := n.blocks.Imported(b, n.tip, acc.Final.Height, changed)
	n.stepParts(chunkparts.BlockCame{Hash: hash})
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

// persisted handles the blocks that have reached the disk.
func (n *Node) persisted() {
	list, err := n.e.Stored()
	for _, acc := range list {
		n.out.Persisted = append(n.out.Persisted, acc)
		n.updatePools(acc)
		if n.witnesses != nil {
			out, err := n.witnesses.Step(partialwitness.BlockCame{Hash: acc.Entry.Hash, Final: acc.Final.Height})
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

// importFailed handles a block that was not imported.
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

// partsHead returns the head for package chunkparts. Parts of chunks on a block far below the
// highest known one are no longer forwarded by peers, so they are requested at once.
func (n *Node) partsHead(hash primitives.Hash, h *primitives.BlockHeader) chunkparts.Head {
	out := chunkparts.Head{Hash: hash, Prev: h.PrevHash, Height: h.Height}
	if at := n.highestKnown(); at != nil && at.Height > h.Height+1 {
		out.Header, out.HeaderPrev = at.Hash(), at.PrevHash
	}
	return out
}
