package chunkparts

import (
	"errors"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// wanted notes chunks that a block needs. Who gets forwards waits for them first, unless the block is an old one (nearcore shards_manager_actor.rs:724).
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

// wantOne notes one of them. What can't be settled of it now, but for its header, may be when its parts have come.
func (p *Pool) wantOne(out *Out, now int64, id primitives.EpochID, w *Wanted, h *primitives.ChunkHeader) error {
	own, ancestor := *h, w.Ancestor
	own.HeightIncluded = 0
	e := p.know(h.ChunkHash(), &own)
	e.offer(&own, true)
	e.complete = e.complete && p.enough(e)
	err := p.settle(out, e)
	if e.complete || e.failed || p.entries[e.hash] != e || e.want != nil && e.want.asked {
		return err
	}
	if e.want == nil { // else its own parts came before its block, and nothing was asked for
		p.want(e, ancestor, now)
	}
	waits, werr := p.getsForwards(id, ancestor, h)
	if err = errors.Join(err, werr); waits && !p.old(h) {
		facts, ferr := p.factsOf(id)
		if e.want.by = w.By; ferr == nil && !e.want.spared && p.isSpared(facts, p.me) {
			e.want.spared, e.want.last = true, now
			p.soonest(e)
		}
		return errors.Join(err, ferr)
	}
	e.want.last = now
	return errors.Join(err, p.ask(out, e, id, false, p.old(h)))
}

// old tells whether a chunk is on neither of the last two headers.
func (p *Pool) old(h *primitives.ChunkHeader) bool {
	return h.PrevBlockHash != p.head.Header && h.PrevBlockHash != p.head.HeaderPrev
}

// getsForwards tells whether others pass parts of a chunk on to this node. A neard that makes blocks waits for them in any case; of a shard that is held and
// in which a validator makes no chunks, in this epoch or the next, nobody passes any on to it, and a block would wait Retry for what was not asked for. Nor does anybody
// send it what chunks of other shards bring to one that it has given over to another validator and still holds.
func (p *Pool) getsForwards(id primitives.EpochID, ancestor primitives.Hash, h *primitives.ChunkHeader) (bool, error) {
	if p.me == "" {
		return false, nil
	}
	next, err := p.chain.Producer(id, h.ShardID, h.HeightCreated+1)
	if err == nil && next.AccountID == p.me {
		return true, nil
	}
	list, lerr := p.chain.BlockProducers(id)
	if lerr != nil || !slices.Contains(list, p.me) {
		return false, errors.Join(err, lerr)
	}
	if holds, herr := p.chain.Holds(ancestor, h.ShardID); herr != nil || holds {
		return p.chain.Cares(p.me, ancestor, h.ShardID), errors.Join(err, herr)
	}
	facts, ferr := p.factsOf(id)
	if ferr != nil {
		return true, errors.Join(err, ferr)
	}
	held, herr := p.held(facts.layout, ancestor)
	return !slices.ContainsFunc(held, func(s primitives.ShardID) bool { return !p.chain.Cares(p.me, ancestor, s) }), errors.Join(err, herr)
}

// isSpared tells whether an account's own parts are as many as make the body, and are therefore all that it is given where parts are spared.
func (p *Pool) isSpared(f *epochFacts, a primitives.AccountID) bool {
	return p.Sparing && f.parts[a] >= p.rs.DataParts()
}

// patience is how long it is waited, ms, before something is asked for again. What nobody passes on is on its way from its maker, or never comes.
func (e *entry) patience() int64 {
	if e.want.spared && !e.want.asked {
		return min(soon+int64(min(e.header.EncodedLength, MaxCoded)/soonBytes), Retry)
	}
	return Retry
}

// soonest notes when a chunk is to be asked for that nobody passes on.
func (p *Pool) soonest(e *entry) {
	if at := e.want.last + e.patience(); e.want.spared && (p.due == 0 || at < p.due) {
		p.due = at
	}
}

// Due is the time, ms, at which a Tick is to come besides; 0: at none.
func (p *Pool) Due() int64 { return p.due }

// tick asks again for what has not come, and gives up what never does.
func (p *Pool) tick(out *Out, now int64) error {
	var due []*entry
	p.due = 0
	for hash, e := range p.wants {
		switch {
		case e.want == nil:
			delete(p.wants, hash)
		case now-e.want.added >= GiveUp:
			e.want = nil
		case now-e.want.last >= e.patience():
			due = append(due, e)
		default:
			p.soonest(e)
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
		first := e.want.spared && !e.want.asked
		e.want.asked = true
		p.soonest(e)
		if first {
			if asked, err := p.askOne(out, e, id); asked || err != nil {
				errs = append(errs, err)
				continue
			}
		}
		since := now - e.want.added
		errs = append(errs, p.ask(out, e, id, since >= FullFetch, p.old(e.header) || since >= ToOthers))
	}
	return errors.Join(errs...)
}

// askOne asks one who has as many parts of a chunk as make its body for these: who has made a block with it, which he does with his own parts alone, or anybody
// else but its maker, who has left this node out. false: there is nobody.
func (p *Pool) askOne(out *Out, e *entry, id primitives.EpochID) (bool, error) {
	h := e.header
	facts, err := p.factsOf(id)
	if err != nil {
		return false, err
	}
	maker, err := p.chain.Producer(id, h.ShardID, h.HeightCreated)
	if err != nil {
		return false, err
	}
	list := slices.DeleteFunc(slices.Clone(facts.producers), func(a primitives.AccountID) bool {
		return a == p.me || a == maker.AccountID || facts.parts[a] < p.rs.DataParts()
	})
	if len(list) == 0 {
		return false, nil
	}
	who := e.want.by
	if !slices.Contains(list, who) {
		who = list[p.random(len(list))]
	}
	q := &primitives.ChunkRequest{ChunkHash: e.hash}
	for ord, owner := range facts.owners {
		if owner == who && e.parts[ord] == nil && e.have+len(q.Ords) < p.rs.DataParts() {
			q.Ords = append(q.Ords, uint64(ord))
		}
	}
	out.Ask = append(out.Ask, Ask{Account: who, Shard: h.ShardID, MinHeight: leastOf(h), Request: q})
	return true, nil
}

// leastOf is how far a peer must be that may be asked for a chunk.
func leastOf(h *primitives.ChunkHeader) primitives.Height {
	return max(h.HeightCreated, peerHorizon) - peerHorizon
}

// ask asks for what is missing of a chunk: each part of its owner, own ones and receipts of the producer, or, if others is set, of anybody who holds the
// shard. All parts are needed by who holds the shard, and if full is set.
func (p *Pool) ask(out *Out, e *entry, id primitives.EpochID, full, others bool) error {
	h, ancestor := e.header, e.want.ancestor
	e.want.asked = true
	holds, err := p.chain.Holds(ancestor, h.ShardID)
	if err != nil {
		return err
	}
	full = full || holds
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
		list, err := p.chain.BlockProducers(id)
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(slices.Clone(list), func(a primitives.AccountID) bool { return a == p.me || !p.chain.Cares(a, ancestor, h.ShardID) })
		if others := slices.DeleteFunc(slices.Clone(list), func(a primitives.AccountID) bool { return a == e.want.whom }); len(others) > 0 {
			list = others // who was asked just now has it not, or not yet: of those who make the next epoch's chunks that may be so for long
		}
		if len(list) > 0 {
			main = list[p.random(len(list))]
		}
	}
	e.want.whom = main
	facts, err := p.factsOf(id)
	if err != nil {
		return err
	}
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
		held, err := p.held(facts.layout, ancestor)
		if err != nil {
			return err
		}
		if len(held) > 0 {
			slices.Sort(held)
			of(main).Shards = held
		}
	}
	for _, a := range order {
		out.Ask = append(out.Ask, Ask{Account: a, PreferPeer: p.random(2) == 0, Shard: h.ShardID, MinHeight: leastOf(h), Request: requests[a]})
	}
	return nil
}
