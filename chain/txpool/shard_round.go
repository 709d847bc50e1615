package txpool

import "github.com/troupe-chain/troupe/primitives"

// Round is one iteration over the pool, for one chunk. Next moves to a group. The caller then calls
// Peek and Keep or Drop, until it has kept one transaction or wants no more of the group. If the
// caller calls neither Keep nor Drop, the group has a nonce gap and is not visited again in this
// round. The pool may change while a round is open; see the package comment.
type Round struct {
	p       *Pool
	visit   uint64
	begun   bool
	start   primitives.Hash // the cursor when the round began
	wrapped bool
	walked  bool              // every group was visited once
	queue   []primitives.Hash // groups to visit again, from index head on
	head    int
	current primitives.Hash
	at      int32 // index of the current group; none: before the first Next or after the last
	kept    []kept
}

type kept struct {
	entry int32
	// transaction of the entry when the round kept it; the entry has another one if the pool has
	// reused the entry since
	tx *primitives.SignedTransaction
}

// Round starts a round after the group that the previous round used last. If a round is still open,
// Round ends it.
func (p *Pool) Round() *Round {
	if p.round != nil {
		p.round.End()
	}
	p.lastVisit++
	p.round = &Round{p: p, visit: p.lastVisit, start: p.cursor, at: none}
	return p.round
}

// Next moves to the next group that has transactions that the round has not kept. It returns false
// at the end of the round.
func (r *Round) Next() bool {
	p := r.p
	if p.round != r {
		return false
	}
	if r.begun && r.at != none {
		p.cursor = r.current
		r.leave()
	}
	from := p.cursor
	for !r.walked {
		g := r.walk(&from)
		if g == none {
			r.walked = true
			break
		}
		from = p.order.nodes[g].key
		if at := &p.groups[g]; at.visit != r.visit && len(at.waiting) > 0 {
			return r.enter(g)
		}
	}
	for r.head < len(r.queue) {
		key := r.queue[r.head]
		r.head++
		if r.head >= 1024 && r.head*2 > len(r.queue) {
			r.queue = r.queue[:copy(r.queue, r.queue[r.head:])]
			r.head = 0
		}
		if g := p.order.find(&key); g != none && len(p.groups[g].waiting) > 0 {
			return r.enter(g)
		}
	}
	r.at = none
	return false
}

// walk returns the index of the group after from, or none when the iteration is back at its start.
func (r *Round) walk(from *primitives.Hash) int32 {
	p := r.p
	g := none
	if !r.wrapped {
		if g = p.order.after(from); g != none {
			return g
		}
		r.wrapped = true
		g = p.order.first()
	} else {
		g = p.order.after(from)
	}
	if g == none || less(&r.start, &p.order.nodes[g].key) {
		return none
	}
	return g
}

func (r *Round) enter(g int32) bool {
	r.begun, r.at, r.current = true, g, r.p.order.nodes[g].key
	at := &r.p.groups[g]
	at.visit, at.progressed = r.visit, false
	return true
}

// leave queues the current group for another visit if the group has more transactions and the
// caller kept or dropped one in this visit.
func (r *Round) leave() {
	if g := r.group(); g != nil && g.progressed && len(g.waiting) > 0 {
		r.queue = append(r.queue, r.current)
	}
}

// group returns the current group, or nil if it was removed.
func (r *Round) group() *group {
	if r.at == none || r.p.round != r {
		return nil
	}
	if r.p.order.nodes[r.at].key != r.current || r.p.groups[r.at].count == 0 {
		return nil
	}
	return &r.p.groups[r.at]
}

// Group returns a number that identifies the current group within this round.
func (r *Round) Group() int32 { return r.at }

// Peek returns the transaction with the lowest nonce in the current group. Peek ignores kept
// transactions. Peek returns nil if no transaction remains.
func (r *Round) Peek() *primitives.SignedTransaction {
	g := r.group()
	if g == nil || len(g.waiting) == 0 {
		return nil
	}
	return r.p.entries[g.waiting[0]].tx
}

// Keep marks tx, which Peek returned, as contained in the chunk. tx stays in the pool until a block
// includes it.
func (r *Round) Keep(tx *primitives.SignedTransaction) {
	g, e := r.find(tx)
	if g == nil {
		return // tx was removed from the pool meanwhile
	}
	if at := r.p.entries[e].place[byNonce]; at != none {
		g.waiting = r.p.heapRemove(g.waiting, byNonce, int(at))
		r.kept = append(r.kept, kept{entry: e, tx: tx})
	}
	g.progressed = true
}

// Drop removes tx, which Peek returned, from the pool.
func (r *Round) Drop(tx *primitives.SignedTransaction) {
	g, e := r.find(tx)
	if g == nil {
		return
	}
	g.progressed = true
	r.p.remove(e)
}

func (r *Round) find(tx *primitives.SignedTransaction) (*group, int32) {
	if r.p.round != r {
		return nil, none
	}
	e, ok := r.p.byHash[tx.Hash()]
	if !ok || r.p.entries[e].tx != tx {
		return nil, none
	}
	return &r.p.groups[r.p.entries[e].group], e
}

// End closes the round. The next round offers the kept transactions again. Further calls do
// nothing.
func (r *Round) End() {
	p := r.p
	if p.round != r {
		return
	}
	for _, k := range r.kept {
		e := &p.entries[k.entry]
		if e.tx == k.tx && e.place[byNonce] == none {
			g := &p.groups[e.group]
			g.waiting = p.heapPush(g.waiting, byNonce, k.entry)
		}
	}
	p.round, r.kept, r.queue = nil, nil, nil
}
