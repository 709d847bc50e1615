package subscriptions

import (
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// singlePermitChain is a Chain that gives one reader at a time permission to read old blocks.
type singlePermitChain struct {
	*tree
	mu    sync.Mutex
	taken bool
	queue []*permitReader
	asked int
	order []int // number of the reader, for each permission
	again int   // how often a reader got permission twice in a row while another one waited
}

// permitReader is singlePermitChain as one reader sees it.
type permitReader struct {
	*singlePermitChain
	number int
	wake   func()
	next   bool
}

func (p *permitReader) Past(_ primitives.Height, wake func()) (func(), bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if p.taken && !p.next {
		if p.wake = wake; !slices.Contains(p.queue, p) {
			p.queue = append(p.queue, p)
		}
		return p.leave, false
	}
	p.taken, p.next = true, false
	if n := len(p.order); n > 0 && p.order[n-1] == p.number && len(p.queue) > 0 {
		p.again++
	}
	p.order = append(p.order, p.number)
	return p.pass, true
}

func (p *permitReader) pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken = len(p.queue) > 0; p.taken {
		next := p.queue[0]
		p.queue, next.next = p.queue[1:], true
		next.wake()
	}
}

func (p *permitReader) leave() {
	p.mu.Lock()
	called := p.next
	p.next = false
	p.queue = slices.DeleteFunc(p.queue, func(x *permitReader) bool { return x == p })
	p.mu.Unlock()
	if called {
		p.pass()
	}
}

// TestReadersOfOldBlocksTakeTurns: readers of old blocks take turns: each waits for permission,
// reads some blocks, and returns the permission. A reader that ends while it waits does not block
// the others.
func TestReadersOfOldBlocksTakeTurns(t *testing.T) {
	const blocks, readers = 20 * blocksPerRun, 3
	tr := newTree()
	begin := view.Cursor{At: tr.head, Index: view.WholeBlock}
	for range blocks {
		tr.head = tr.add(tr.head, tr.head.Height+1, nil, nil)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	system := actor.NewActorSystem()
	defer system.Shutdown()
	chain := &singlePermitChain{tree: tr, taken: true}
	var sinks []*lockedSink
	var pids []*actor.PID
	for i := range readers + 1 {
		g := &lockedSink{s: sink{room: 1 << 30}}
		sinks = append(sinks, g)
		r := &Request{Query: &view.Subscription{Topic: view.TopicBlocks, Lag: 1 << 40}, Begin: begin,
			Chain: &permitReader{singlePermitChain: chain, number: i}, Ledger: tr, Sink: g}
		pids = append(pids, system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return NewSubscriber(r, log) })))
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !ok(); time.Sleep(100 * time.Microsecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	waiting := func() int {
		chain.mu.Lock()
		defer chain.mu.Unlock()
		return len(chain.queue)
	}
	until("not all wait", func() bool { return waiting() == readers+1 })
	system.Root.Stop(pids[0])
	until("one that has ended waits", func() bool { return waiting() == readers })
	(&permitReader{singlePermitChain: chain}).pass()
	until("they do not come to the end", func() bool {
		n := 0
		for _, g := range sinks {
			g.inspect(func(s *sink) bool { n += len(s.got); return true })
		}
		return n == readers*blocks
	})
	until("the place is not given back", func() bool { chain.mu.Lock(); defer chain.mu.Unlock(); return !chain.taken })
	turns := len(chain.order)
	if chain.again > 0 || slices.Contains(chain.order, 0) || turns < readers*blocks/blocksPerRun ||
		chain.asked > 2*turns+1 {
		t.Errorf("%d turns, %d permissions requested, %d of them twice in a row while another reader waited: %v", turns, chain.asked,
			chain.again, chain.order)
	}
	if sinks[0].inspect(func(s *sink) bool { return len(s.got) > 0 }) {
		t.Error("an ended reader got notices")
	}
}
