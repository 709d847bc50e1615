package chunkparts

import (
	"errors"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// wanted starts requests for the chunks that a block needs. If other validators forward parts to
// this node, the requests wait for the forwarded parts, unless the chunk is old (nearcore
// shards_manager_actor.rs:724).
func (p *Pool) wanted(out *Out, now int64, w *Wanted) error {
	id, known := p.chain.Epoch(w.Ancestor)
	if !known {
		return ErrUnknown
	}
	var errs []error
	for _, h := range w.Headers {
		errs = append(errs, p.wantOne(out, now, id, w, h))
	}
	return errors.Join(errs...)
}

// wantOne starts the request for one chunk. Only an error in the header ends the request. After any
// other error, a further attempt may succeed.
func (p *Pool) wantOne(out *Out, now int64, id primitives.EpochID, w *Wanted, h *primitives.ChunkHeader) error {
	own, ancestor := *h, w.Ancestor
	own.HeightIncluded = 0
	e := p.entryFor(h.ChunkHash(), &own, nil)
	e.plain = false
	e.offerHeader(&own, true)
	e.complete = e.complete && p.suffices(e)
	err := p.tryComplete(out, e)
	if e.complete || e.failed || p.entries[e.hash] != e {
		return err
	}
	if !e.needed {
		e.needed, e.neededAt = true, now
	}
	if e.want != nil && e.want.asked {
		return err
	}
	if e.want == nil { // not nil if the chunk is wanted, but no request was sent yet
		p.want(e, ancestor, now)
	}
	waits, werr := p.expectsForwards(id, ancestor, h)
	if err = errors.Join(err, werr); waits && !p.old(h) {
		facts, ferr := p.epochDataOf(id)
		if e.want.blockProducer = w.By; ferr == nil && !e.want.noForwards && p.hasDataParts(facts, p.me) {
			e.want.noForwards, e.want.last = true, now
			p.scheduleTick(e)
		}
		return errors.Join(err, ferr)
	}
	e.want.last = now
	return errors.Join(err, p.request(out, e, id, false, p.old(h)))
}

// old returns whether a chunk's previous block is neither the highest known header nor its parent.
func (p *Pool) old(h *primitives.ChunkHeader) bool {
	return h.PrevBlockHash != p.head.Header && h.PrevBlockHash != p.head.HeaderPrev
}

// expectsForwards returns whether other validators forward parts of a chunk to this node, so that a
// request can wait for them.
//
// A neard that is a block producer always waits. But validators forward parts only to accounts that
// produce chunks of the shard in this epoch or the next. If this node tracks the shard for another
// reason, no forwards arrive, and waiting for Retry would only delay the block. The same applies to
// receipts for shards that this node still tracks but no longer produces chunks of.
func (p *Pool) expectsForwards(id primitives.EpochID, ancestor primitives.Hash, h *primitives.ChunkHeader) (bool, error) {
	if p.me == "" {
		return false, nil
	}
	next, err := p.nextProducer(id, h)
	if err == nil && next.AccountID == p.me {
		return true, nil
	}
	facts, ferr := p.epochDataOf(id)
	if ferr != nil || !slices.Contains(facts.producers, p.me) {
		return false, errors.Join(err, ferr)
	}
	if holds, herr := p.chain.Holds(ancestor, h.ShardID); herr != nil || holds {
		return p.cares(p.me, ancestor, h.ShardID), errors.Join(err, herr)
	}
	held, herr := p.heldShards(facts.layout, ancestor)
	return !slices.ContainsFunc(held, func(s primitives.ShardID) bool { return !p.cares(p.me, ancestor, s) }), errors.Join(err, herr)
}

// hasDataParts returns whether Sparing is set and an account owns enough parts to restore the body.
// The pool forwards no parts to such an account.
func (p *Pool) hasDataParts(f *epochData, a primitives.AccountID) bool {
	return p.Sparing && f.parts[a] >= p.rs.DataParts()
}

// retryAfter returns the time in ms until the next request for the chunk. The wait for the first
// request is shorter if no peer forwards the missing parts. In that case the parts are either in
// transit from the producer, which takes little time, or will never arrive.
func (e *entry) retryAfter() int64 {
	if e.want.noForwards && !e.want.asked {
		return min(forwardWait+int64(min(e.header.EncodedLength, MaxCoded)/forwardWaitBytes), Retry)
	}
	return Retry
}

// scheduleTick makes Due return the time of the chunk's next request at the latest, if no peer
// forwards the chunk's missing parts.
func (p *Pool) scheduleTick(e *entry) {
	if at := e.want.last + e.retryAfter(); e.want.noForwards && (p.due == 0 || at < p.due) {
		p.due = at
	}
}

// Due returns the time in ms at which the caller must send an additional Tick, or 0 if none is
// needed.
func (p *Pool) Due() int64 { return p.due }

// tick repeats due requests, and ends requests older than GiveUp.
func (p *Pool) tick(out *Out, now int64) error {
	var due []*entry
	p.due = 0
	for hash, e := range p.wants {
		switch {
		case e.want == nil:
			delete(p.wants, hash)
		case now-e.want.added >= GiveUp:
			e.want = nil
		case now-e.want.last >= e.retryAfter():
			due = append(due, e)
		default:
			p.scheduleTick(e)
		}
	}
	slices.SortFunc(due, func(a, b *entry) int { return a.hash.Compare(b.hash) })
	var errs []error
	for _, e := range due {
		e.want.last = now
		id, known := p.chain.Epoch(e.want.ancestor)
		if !known {
			continue
		}
		first := e.want.noForwards && !e.want.asked
		e.want.asked = true
		p.scheduleTick(e)
		if first {
			if asked, err := p.requestFromOne(out, e, id); asked || err != nil {
				errs = append(errs, err)
				continue
			}
		}
		since := now - e.want.added
		errs = append(errs, p.request(out, e, id, since >= FullFetch, p.old(e.header) || since >= ToOthers))
	}
	return errors.Join(errs...)
}

// requestFromOne requests the missing parts from one validator that owns enough to restore the
// body. It prefers the producer of a block that includes the chunk, because that producer has its
// own parts. Otherwise requestFromOne chooses a random validator, except the chunk's producer,
// which did not send this node the parts that this node owns. requestFromOne returns false if no
// validator owns enough parts.
func (p *Pool) requestFromOne(out *Out, e *entry, id primitives.EpochID) (bool, error) {
	h := e.header
	facts, err := p.epochDataOf(id)
	if err != nil {
		return false, err
	}
	maker, err := p.chain.Producer(id, h.ShardID, h.HeightCreated)
	if _, known := p.chain.Epoch(h.PrevBlockHash); known && facts.anchored {
		maker, err = p.chain.Maker(h.PrevBlockHash, h.ShardID)
	}
	if err != nil {
		return false, err
	}
	list := slices.DeleteFunc(slices.Clone(facts.producers), func(a primitives.AccountID) bool {
		return a == p.me || a == maker.AccountID || facts.parts[a] < p.rs.DataParts()
	})
	if len(list) == 0 {
		return false, nil
	}
	who := e.want.blockProducer
	if !slices.Contains(list, who) {
		who = list[p.random(len(list))]
	}
	q := &primitives.ChunkRequest{ChunkHash: e.hash}
	for ord, owner := range facts.owners {
		if owner == who && e.parts[ord] == nil && e.have+len(q.Ords) < p.rs.DataParts() {
			q.Ords = append(q.Ords, uint64(ord))
		}
	}
	out.Ask = append(out.Ask, Ask{Account: who, Shard: h.ShardID, MinHeight: minPeerHeight(h), Request: q})
	return true, nil
}

// minPeerHeight returns the lowest head height of a peer that may be asked for a chunk.
func minPeerHeight(h *primitives.ChunkHeader) primitives.Height {
	return max(h.HeightCreated, peerHorizon) - peerHorizon
}

// request requests the missing data of a chunk. Own parts and receipts are requested from the
// producer or, if others is set, from a random validator of the shard. Parts of other owners are
// requested from these owners, but only if this node tracks the shard or full is set.
func (p *Pool) request(out *Out, e *entry, id primitives.EpochID, full, others bool) error {
	h, ancestor := e.header, e.want.ancestor
	e.want.asked = true
	holds, err := p.chain.Holds(ancestor, h.ShardID)
	if err != nil {
		return err
	}
	full = full || holds
	facts, err := p.epochDataOf(id)
	if err != nil {
		return err
	}
	var main primitives.AccountID
	if _, known := p.chain.Epoch(h.PrevBlockHash); known && !others {
		producer, err := p.chain.Maker(h.PrevBlockHash, h.ShardID)
		if err != nil {
			return err
		}
		if producer.AccountID != p.me {
			main = producer.AccountID
		}
	}
	if main == "" {
		trackers, _ := p.trackersOf(ancestor, h.ShardID)
		list := slices.DeleteFunc(slices.Clone(facts.producers),
			func(a primitives.AccountID) bool { return a == p.me || !slices.Contains(trackers, a) })
		if others := slices.DeleteFunc(slices.Clone(list), func(a primitives.AccountID) bool { return a == e.want.lastAsked }); len(others) > 0 {
			// Do not ask the validator of the last request again: it does not have the chunk yet. A
			// validator that produces chunks of the shard only in the next epoch may get the chunk
			// late.
			list = others
		}
		if len(list) > 0 {
			main = list[p.random(len(list))]
		}
	}
	e.want.lastAsked = main
	requests := map[primitives.AccountID]*primitives.ChunkRequest{}
	var order []primitives.AccountID
	of := func(a primitives.AccountID) *primitives.ChunkRequest {
		if requests[a] == nil {
			requests[a] = &primitives.ChunkRequest{ChunkHash: e.hash}
			order = append(order, a)
		}
		return requests[a]
	}
	for ord := range uint64(p.rs.TotalParts()) {
		if e.parts[ord] != nil {
			continue
		}
		owner := facts.owners[ord]
		mine := p.me != "" && owner == p.me
		if !full && !mine {
			continue
		}
		if mine {
			owner = main
		}
		of(owner).Ords = append(of(owner).Ords, ord)
	}
	if !full {
		held, err := p.heldShards(facts.layout, ancestor)
		if err != nil {
			return err
		}
		if len(held) > 0 {
			slices.Sort(held)
			of(main).Shards = held
		}
	}
	for _, a := range order {
		out.Ask = append(out.Ask, Ask{Account: a, PreferPeer: p.random(2) == 0, Shard: h.ShardID, MinHeight: minPeerHeight(h),
			Request: requests[a]})
	}
	return nil
}
