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

// work is the block whose chunks are being applied.
type work struct {
	pending *engine.BlockImport
	from    Peer
	left    int // jobs
}

// block takes a block: judged as far as that goes at once, it waits for its turn.
func (n *Node) block(from Peer, b *primitives.Block) {
	n.take(from, b)
	n.next()
}

func (n *Node) take(from Peer, b *primitives.Block) {
	hash := b.Hash()
	delete(n.missing, hash)
	if err := n.pool.Refusal(hash); err != nil {
		n.note(err, "block %d %v refused again", b.Header.Height, short(hash))
		return
	}
	x := blockpool.Block{Block: b, From: string(from), Standing: blockpool.Orphan}
	if !n.pool.Has(hash) { // else this copy says nothing new
		as, err := n.e.Precheck(b)
		if err != nil {
			n.unadmitted(from, b, err)
			return
		}
		x.Standing, x.Producer, x.Needs = as.Standing, as.Producer, as.Needs
		if as.Standing != blockpool.Stranger {
			n.see(b.Header)
		}
	}
	if x.Standing == blockpool.Orphan && n.o.planted(PlantedOrphans) {
		return
	}
	out, err := n.pool.Add(x, uint64(n.now))
	if x.Standing == blockpool.Stranger || errors.Is(err, blockpool.ErrFar) {
		n.askHeaders(from)
	}
	if err != nil {
		n.note(err, "block %d %v not kept", b.Header.Height, short(hash))
	}
	n.want(b, from, &out)
}

// see notes that others are ahead, where the votes that a block carries say so: its producer alone says nothing.
func (n *Node) see(h *primitives.BlockHeader) {
	if h.Height <= n.tip+1 || n.seen != nil && h.Height <= n.seen.Height {
		return // who gets that far sees it by himself
	}
	switch voted, err := n.e.Voted(h); {
	case err != nil:
		n.note(err, "votes of block %d %v", h.Height, short(h.Hash()))
	case voted:
		n.seen = h
	}
}

// ahead is the highest block or header that others are known to be at, nil: none.
func (n *Node) ahead() *primitives.BlockHeader {
	if h := n.e.LeadingHeader(); h != nil && (n.seen == nil || h.Height > n.seen.Height) {
		return h
	}
	return n.seen
}

// unadmitted judges why a copy of a block was not taken. Nothing of it is remembered: another copy may be right.
func (n *Node) unadmitted(from Peer, b *primitives.Block, err error) {
	switch engine.VerdictOf(err) {
	case engine.Own:
		n.fail(err)
	case engine.Bad:
		n.refuseBlock(from, b, err)
	case engine.Early, engine.Waits:
		n.note(err, "block %d %v not taken", b.Header.Height, short(b.Hash()))
	case engine.Overtaken:
	}
}

// want asks for what a block lacks. Bodies are asked for behind blocks that are known; those of orphans come later, or by themselves.
func (n *Node) want(b *primitives.Block, from Peer, out *blockpool.Out) {
	if !out.Parent.IsZero() {
		n.miss(out.Parent, from)
	}
	if len(out.Chunks) == 0 || n.e.Adopted(b.Header.PrevHash) == nil {
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
		if c := n.whole[hash]; c != nil {
			if n.body(c); !n.pool.Wants(hash) {
				continue
			}
		}
		w.Headers = append(w.Headers, h)
	}
	if len(w.Headers) > 0 {
		n.spread(w)
	}
}

// body gives the intake a chunk of which all is here that this node needs.
func (n *Node) body(c *primitives.Chunk) {
	signed, need := false, blockpool.Need{}
	if !n.pool.Wants(c.Hash) {
		var err error
		if signed, need, err = n.e.PrecheckBody(c); err != nil {
			n.fail(err)
			return
		}
	}
	switch err := n.pool.AddBody(c, signed, need); {
	case err == nil, errors.Is(err, blockpool.ErrUnwanted), errors.Is(err, blockpool.ErrStale):
	default:
		n.note(err, "body of shard %d at %d not kept", c.Header.ShardID, c.Header.HeightCreated)
	}
}

// next begins with blocks until one has jobs under way, or too many are on their way to the disk.
func (n *Node) next() {
	for n.work == nil && n.fatal == nil && n.onTheWay() < engine.MaxAhead {
		b := n.pool.Next()
		if b == nil {
			return
		}
		n.begin(b)
	}
}

// onTheWay counts the adopted blocks that are not on disk.
func (n *Node) onTheWay() (count int) {
	for at := n.e.Tip(); at != nil && at.Hash != n.e.Head().Hash && count < engine.MaxAhead; at = n.e.Adopted(at.Header().PrevHash) {
		count++
	}
	return count
}

// begin judges a block whose parent is there. One that is good and lacks bodies waits for them.
func (n *Node) begin(b *blockpool.Block) {
	hash := b.Hash()
	p, err := n.e.BeginImport(b.Block, b.Chunks, false)
	if err == nil {
		n.start(Peer(b.From), p)
		return
	}
	if errors.Is(err, engine.ErrMissing) {
		out, ok := n.pool.Lacking(hash, uint64(n.now))
		if !ok { // it has what was needed when it came
			if as, err := n.e.Precheck(b.Block); err == nil {
				n.pool.Renew(hash, as.Needs, uint64(n.now))
				out, ok = n.pool.Lacking(hash, uint64(n.now))
			}
		}
		if ok {
			n.want(b.Block, Peer(b.From), &out)
			return
		}
	}
	n.unfit(Peer(b.From), b.Block, err)
}

// renew has what waits need what it does now that other shards are held.
func (n *Node) renew() {
	for _, b := range n.pool.Blocks() {
		as, err := n.e.Precheck(b.Block)
		if err != nil {
			continue // it was admitted when it came; what is so now is seen when it is judged
		}
		out := n.pool.Renew(b.Hash(), as.Needs, uint64(n.now))
		n.want(b.Block, Peer(b.From), &out)
	}
	n.next()
}

// start hands out the jobs of a block.
func (n *Node) start(from Peer, p *engine.BlockImport) {
	jobs := p.Jobs()
	w := &work{pending: p, from: from, left: len(jobs)}
	n.work = w
	for i := range jobs {
		if jobs[i].Light() {
			jobs[i].Run()
			w.left--
			continue
		}
		n.run(jobs[i].Run, func() {
			if w.left--; w.left == 0 {
				n.adopt(w)
			}
		})
	}
	if w.left == 0 {
		n.adopt(w)
	}
}

// adopt makes an applied block part of the chain.
func (n *Node) adopt(w *work) {
	n.work = nil
	acc, err := n.e.FinishImport(w.pending, n.o.Written)
	if err != nil {
		b := w.pending.Block()
		w.pending.Drop()
		n.unfit(w.from, b, err)
		n.next()
		return
	}
	n.out.Adopted = append(n.out.Adopted, acc)
	b, hash := acc.Entry.Block, acc.Entry.Hash
	if _, own := n.produced[hash]; !own && acc.IsHead {
		n.tell("", b) // those who have it drop it
	}
	changed := false
	if acc.IsHead {
		n.tip = acc.Entry.Height()
		changed = acc.Entry.Header().EpochID != acc.OldHead.Header().EpochID
	}
	again := n.pool.Imported(b, n.tip, acc.Final.Height, changed)
	n.spread(chunkparts.BlockCame{Hash: hash})
	if acc.IsHead {
		n.spread(n.partsHead(hash, b.Header))
	}
	for i := range again {
		n.take(Peer(again[i].From), again[i].Block)
	}
	if n.o.planted(PlantedEarly) && acc.IsHead {
		n.setHead(acc.Entry)
	}
	n.walk()
	n.next()
}

// written goes on behind the blocks that have come to the disk.
func (n *Node) written() {
	list, err := n.e.Stored()
	for _, acc := range list {
		n.out.Stored = append(n.out.Stored, acc)
		n.pooled(acc)
		if n.judges != nil {
			out, err := n.judges.Step(partialwitness.BlockCame{Hash: acc.Entry.Hash, Final: acc.Final.Height})
			n.judging(out, err)
			waited := n.unjudged[acc.Entry.Hash]
			delete(n.unjudged, acc.Entry.Hash)
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
	n.next()
}

// unfit judges why a block was not adopted.
func (n *Node) unfit(from Peer, b *primitives.Block, err error) {
	hash := b.Hash()
	switch engine.VerdictOf(err) {
	case engine.Bad:
		n.refuseBlock(from, b, err)
		n.pool.Refused(hash, err)
	case engine.Early:
		n.note(err, "block %d %v is early", b.Header.Height, short(hash))
		n.pool.Dropped(hash, true)
	case engine.Overtaken, engine.Waits:
		n.note(err, "block %d %v dropped", b.Header.Height, short(hash))
		n.pool.Dropped(hash, false)
	default:
		n.fail(err)
	}
}

// partsHead is the head for the parts of chunks. Those that are on a block far below the highest one nobody passes on any more: they are asked for
// at once.
func (n *Node) partsHead(hash primitives.Hash, h *primitives.BlockHeader) chunkparts.Head {
	out := chunkparts.Head{Hash: hash, Prev: h.PrevHash, Height: h.Height}
	if at := n.ahead(); at != nil && at.Height > h.Height+1 {
		out.Header, out.HeaderPrev = at.Hash(), at.PrevHash
	}
	return out
}
