package mempool

import (
	"time"

	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
)

// Sizes of pages. Most chunks are small; the next page of a large one is fetched while the
// previous one is examined.
const (
	firstPageSize = 64
	pageSize      = 512
)

// walk is one choice of transactions for a chunk: a round over the pool, handed out in pages as
// if the chunk took all of it. What is not taken is as before once the round has ended.
type walk struct {
	id    uint64
	round *txpool.Round
}

// Page is a request for more candidates. The actor replies on its channel.
type Page struct {
	Walk   uint64
	answer chan messages.Candidates
}

// Answer returns the channel of the reply, which is empty if the walk is over.
func (p Page) Answer() <-chan messages.Candidates { return p.answer }

// startWalk answers ProduceChunk with the first page.
func (a *Actor) startWalk(m messages.ProduceChunk) {
	a.walk = walk{id: a.o.Status.walks.Add(1)}
	out := messages.Candidates{For: m, Walk: a.walk.id}
	a.o.Status.offers.Store(false) // before the walk, so that later transactions count
	if a.pool.Len() > 0 {
		a.walk.round = a.pool.Round()
		out.Page, out.More = a.page(firstPageSize)
	}
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

// nextPage answers a request for a page.
func (a *Actor) nextPage(p Page) {
	out := messages.Candidates{Walk: p.Walk}
	if p.Walk == a.walk.id && a.walk.round != nil {
		out.Page, out.More = a.page(pageSize)
	}
	p.answer <- out
}

// finishWalk ends a walk: dropped transactions leave the pool, the rest stays until a block
// includes it.
func (a *Actor) finishWalk(m *messages.ChunkChosen) {
	if m.Walk < a.minWalk { // chosen on a state before a rollback
		return
	}
	if m.Walk == a.walk.id {
		if a.walk.round != nil {
			a.walk.round.End()
		}
		a.walk = walk{}
		a.chose = a.chose[:0]
		for _, tx := range m.Chosen {
			a.chose = append(a.chose, tx.Hash())
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

// Choice is the chunk-producer's side of a walk; it implements apply.Candidates. Its methods
// wait for the mempool if a chunk takes more than a page, in total at most the limit of
// NewChoice. The mempool never waits for the chunk-producer.
type Choice struct {
	ask       messages.Sender[Page]
	walk      uint64
	page      []messages.Candidate // candidates of the page not visited yet
	next      Page                 // requested, if there is more
	end       *time.Timer
	exhausted map[int32]bool // groups that were left without a taken transaction
	now       messages.Candidate
	taken     bool
}

// NewChoice starts with the first page. limit bounds all waiting for further pages.
func NewChoice(m *messages.Candidates, ask messages.Sender[Page], limit time.Duration) *Choice {
	c := &Choice{ask: ask, walk: m.Walk, page: m.Page, taken: true}
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
	if !c.taken { // left without it: the later ones of the group would run before it
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

// Done returns the report to the mempool. out is nil if there is no chunk.
func (c *Choice) Done(out *apply.Prepared) messages.ChunkChosen {
	if c.end != nil {
		c.end.Stop()
	}
	m := messages.ChunkChosen{Walk: c.walk, Failed: out == nil}
	if out == nil {
		return m
	}
	m.Chosen, m.Left = out.Transactions, out.Limit != apply.LimitNone
	for i := range out.Dropped {
		m.Dropped = append(m.Dropped, dropped(&out.Dropped[i]))
	}
	return m
}
