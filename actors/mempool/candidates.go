package mempool

import (
	"time"

	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
)

// Page sizes, in transactions. Most chunks take few transactions. The chunk producer requests the
// next page while it examines the current page.
const (
	firstPageSize = 64
	pageSize      = 512
)

// walk is the choice of transactions for one chunk. A walk visits the pool once (round) and returns
// the transactions in pages, as if the chunk took every candidate. The pool is unchanged when the
// round ends.
type walk struct {
	id    uint64
	round *txpool.Round
}

// Page is the chunk producer's request for the next page of a walk.
type Page struct {
	Walk   uint64
	answer chan messages.Candidates
}

// Answer returns the channel on which the reply arrives. The reply has no candidates if the walk is
// over.
func (p Page) Answer() <-chan messages.Candidates { return p.answer }

// startWalk begins a walk and answers ProduceChunk with its first page.
func (a *Actor) startWalk(m messages.ProduceChunk) {
	a.walk = walk{id: a.o.Status.lastWalk.Add(1)}
	out := messages.Candidates{For: m, Walk: a.walk.id}
	// Clear offers before the walk, so that a transaction that arrives during the walk sets offers
	// again.
	a.o.Status.offers.Store(false)
	a.chose = a.chose[:0]
	if a.pool.Len() > 0 {
		a.walk.round = a.pool.Round()
		if out.Page, out.More = a.page(firstPageSize); !out.More {
			a.walk.round.End()
			a.walk.round = nil
			for i := range out.Page { // until ChunkChosen says otherwise
				a.chose = append(a.chose, out.Page[i].Tx.Hash())
			}
		}
	}
	a.publishCounts()
	a.o.Out.Candidates(out)
}

func (a *Actor) page(n int) (list []messages.Candidate, more bool) {
	r := a.walk.round
	for len(list) < n {
		if !r.Next() {
			return list, false
		}
		tx := r.Peek()
		if tx == nil || a.isHeld(tx) {
			continue
		}
		list = append(list, messages.Candidate{Tx: tx, Group: r.Group()})
		r.Keep(tx)
	}
	return list, true
}

// nextPage replies to a Page.
func (a *Actor) nextPage(p Page) {
	out := messages.Candidates{Walk: p.Walk}
	if p.Walk == a.walk.id && a.walk.round != nil {
		out.Page, out.More = a.page(pageSize)
	}
	p.answer <- out
}

// finishWalk handles the result of a walk. Transactions that the chunk producer dropped leave the
// pool. All other visited transactions stay until a block includes them. If the chunk takes all
// candidates and these candidates fit in one page, the chunk producer sends no result, because
// startWalk has assumed that result.
func (a *Actor) finishWalk(m *messages.ChunkChosen) {
	if m.Walk < a.minWalk { // the producer chose the transactions before a rollback
		return
	}
	if m.Walk == a.walk.id {
		if a.walk.round != nil {
			a.walk.round.End()
		}
		a.walk = walk{}
		a.chose = a.chose[:0]
		for _, tx := range m.Chosen {
			// a block of another node may have included tx since the walk
			if hash := tx.Hash(); a.pool.Find(hash) != nil {
				a.chose = append(a.chose, hash)
			}
		}
	}
	var gone []messages.DroppedTransaction
	for _, x := range m.Dropped {
		if a.pool.Remove(x.Hash) {
			gone = append(gone, x)
		}
	}
	a.publishCounts()
	a.drop(gone)
	if m.Left || m.Failed && a.pool.Len() > 0 {
		a.o.Status.offer()
	}
}

// Choice is the chunk producer's view of a walk. It implements apply.Candidates. NextGroup waits
// for the mempool if the chunk takes more than a page. All waits together last at most the limit
// given to NewChoice. The mempool never waits for the chunk producer.
type Choice struct {
	ask       messages.Sender[Page]
	walk      uint64
	page      []messages.Candidate // candidates of the current page that NextGroup has not returned yet
	offered   int                  // number of candidates in the first page
	more      bool                 // the mempool has offered more than the first page
	next      Page                 // the request for the next page; zero: no page is requested
	end       *time.Timer
	exhausted map[int32]bool // groups of which the chunk did not take a candidate
	now       messages.Candidate
	taken     bool
}

// NewChoice returns a Choice that begins with the page in m. limit bounds the total wait for
// further pages.
func NewChoice(m *messages.Candidates, ask messages.Sender[Page], limit time.Duration) *Choice {
	c := &Choice{ask: ask, walk: m.Walk, page: m.Page, offered: len(m.Page), more: m.More, taken: true}
	if m.More {
		c.end = time.NewTimer(limit)
		c.fetch()
	}
	return c
}

func (c *Choice) fetch() {
	c.next = Page{Walk: c.walk, answer: make(chan messages.Candidates, 1)}
	c.ask(c.next)
}

// NextGroup is part of apply.Candidates.
func (c *Choice) NextGroup() apply.Group {
	if !c.taken { // skip the group, because the rest of its transactions would run out of order
		if c.exhausted == nil {
			c.exhausted = map[int32]bool{}
		}
		c.exhausted[c.now.Group] = true
	}
	c.taken = true
	for {
		for len(c.page) > 0 {
			c.now, c.page = c.page[0], c.page[1:]
			if !c.exhausted[c.now.Group] {
				c.taken = false
				return c
			}
		}
		if c.next.answer == nil {
			return nil
		}
		select {
		case m := <-c.next.answer:
			c.page, c.next = m.Page, Page{}
			if m.More {
				c.fetch()
			}
		case <-c.end.C:
			c.next = Page{}
		}
	}
}

// Peek is part of apply.Group.
func (c *Choice) Peek() *primitives.SignedTransaction {
	if c.taken {
		return nil
	}
	return c.now.Tx
}

// Pop is part of apply.Group.
func (c *Choice) Pop() { c.taken = true }

// Done ends the choice and returns the report to the mempool. A nil out means that no chunk was
// made. news is false if the chunk takes every transaction of the pool, which the mempool assumes
// without a report.
func (c *Choice) Done(out *apply.Prepared) (m messages.ChunkChosen, news bool) {
	if c.end != nil {
		c.end.Stop()
	}
	m = messages.ChunkChosen{Walk: c.walk, Failed: out == nil}
	if out == nil {
		return m, true
	}
	m.Chosen, m.Left = out.Transactions, out.Limit != apply.LimitNone
	for i := range out.Dropped {
		m.Dropped = append(m.Dropped, dropped(&out.Dropped[i]))
	}
	return m, c.more || m.Left || len(m.Chosen) != c.offered
}
