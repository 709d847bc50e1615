package system

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Meter measures all actors of a node, grouped by kind and shard. Actors that belong to clients are
// grouped by kind only. Safe for concurrent use, except where noted.
type Meter struct {
	// The meter calls Crashed with the panic of an actor that was ending. Crashed may be nil. Set
	// Crashed before the first actor is spawned.
	Crashed func(id string, c *Crash)

	mu        sync.Mutex
	counters  map[name]*Counter
	mailboxes map[*mailbox]struct{} // mailboxes of live actors
}

type name struct{ kind, shard string }

// NewMeter returns an empty meter.
func NewMeter() *Meter {
	return &Meter{counters: map[name]*Counter{}, mailboxes: map[*mailbox]struct{}{}}
}

// Counter counts the messages, and adds up the waiting and handling times, of the actors of one
// kind and shard.
type Counter struct {
	name            name
	waited, handled histogram
	restarts, dead  atomic.Int64
	stalls          atomic.Int64
}

// Sample is a snapshot of a Counter, with the current state of the actors that it counts.
type Sample struct {
	Name     string        // kind of the actors
	Shard    string        // shard of the actors; empty: none
	Alive    int64         // number of live actors
	Mailbox  int64         // number of waiting messages
	Messages int64         // number of messages handled since the process began
	Busy     time.Duration // total time spent in handlers, including handlers that are still running
	Oldest   time.Duration // age of the oldest waiting message
	Since    time.Duration // longest time that a running handler has taken so far
	Waited   Histogram     // times for which messages waited in mailboxes
	Handled  Histogram     // durations of handlers
	Restarts int64
	Dead     int64 // number of messages that were dropped because the receiver had ended
	Stalls   int64 // number of stalls that Stalls returned
}

// Title returns the kind, followed by "/" and the shard if there is one.
func (s *Sample) Title() string {
	if s.Shard == "" {
		return s.Name
	}
	return s.Name + "/" + s.Shard
}

// counter returns the counter of a name, and creates the counter if there is none. The caller holds
// mu.
func (m *Meter) counter(n name) *Counter {
	c := m.counters[n]
	if c == nil {
		c = &Counter{name: n}
		m.counters[n] = c
	}
	return c
}

// register adds an actor's mailbox. An id "shards/<shard>/..." determines its shard.
func (m *Meter) register(b *mailbox, id string) {
	n := name{kind: b.kind}
	if rest, ok := strings.CutPrefix(id, "shards/"); ok {
		n.shard, _, _ = strings.Cut(rest, "/")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	b.count, b.id = m.counter(n), id
	m.mailboxes[b] = struct{}{}
}

func (m *Meter) unregister(b *mailbox) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mailboxes, b)
}

// Dropped counts a message that no actor will handle, and calls Failed if the message is
// Answerable. If c is nil, the message is counted for its kind without a shard.
func (m *Meter) Dropped(kind string, c *Counter, msg any) {
	if c == nil {
		m.mu.Lock()
		c = m.counter(name{kind: kind})
		m.mu.Unlock()
	}
	c.dead.Add(1)
	if q, ok := msg.(Answerable); ok {
		q.Failed(ErrUnhandled)
	}
}

// Samples returns a Sample for each kind of actor and shard, sorted by kind, then by shard.
func (m *Meter) Samples() []Sample {
	now := clock()
	m.mu.Lock()
	defer m.mu.Unlock()
	of := make(map[*Counter]*Sample, len(m.counters))
	out := make([]Sample, 0, len(m.counters))
	for n, c := range m.counters {
		s := Sample{Name: n.kind, Shard: n.shard, Waited: c.waited.sample(), Handled: c.handled.sample(),
			Restarts: c.restarts.Load(),
			Dead:     c.dead.Load(), Stalls: c.stalls.Load()}
		s.Messages, s.Busy = int64(s.Handled.Count()), s.Handled.Sum
		out = append(out, s)
		of[c] = &out[len(out)-1]
	}
	for b := range m.mailboxes {
		s := of[b.count]
		s.Alive++
		s.Mailbox += max(b.waiting.Load(), 0)
		if from := b.busy.Load(); from != 0 {
			took := time.Duration(max(now-from, 0))
			s.Since, s.Busy = max(s.Since, took), s.Busy+took
		}
		if at := b.oldest.Load(); at != 0 {
			s.Oldest = max(s.Oldest, time.Duration(max(now-at, 0)))
		}
	}
	slices.SortFunc(out, func(a, b Sample) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(len(a.Shard), len(b.Shard)),
			strings.Compare(a.Shard, b.Shard))
	})
	return out
}

// Stall is an actor that has made no progress for some time.
type Stall struct {
	Kind, Shard string
	Busy        time.Duration // time that the running handler has taken so far; 0: none runs
	Oldest      time.Duration // age of the oldest waiting message; 0: none waits
	Mailbox     int64
}

// Stalls returns the actors whose handler has run for more than limit, or whose oldest message has
// waited for more than limit. Stalls returns each stall once. Only one goroutine may call it.
func (m *Meter) Stalls(limit time.Duration) (out []Stall) {
	now := clock()
	m.mu.Lock()
	defer m.mu.Unlock()
	for b := range m.mailboxes {
		busy, oldest := b.busy.Load(), b.oldest.Load()
		since := busy
		if since == 0 || now-since < int64(limit) {
			since = oldest
		}
		if since == 0 || now-since < int64(limit) || since <= b.reported {
			continue
		}
		b.reported = since
		b.count.stalls.Add(1)
		s := Stall{Kind: b.kind, Shard: b.count.name.shard, Mailbox: b.waiting.Load()}
		if busy != 0 {
			s.Busy = time.Duration(now - busy)
		}
		if oldest != 0 {
			s.Oldest = time.Duration(now - oldest)
		}
		out = append(out, s)
	}
	return out
}

// Listen subscribes to the dead letters of an actor system and treats each as Dropped. kind returns
// the kind of the actor with an id.
func (m *Meter) Listen(sys *actor.ActorSystem, kind func(id string) string) {
	sys.EventStream.Subscribe(func(e any) {
		d, ok := e.(*actor.DeadLetterEvent)
		if !ok {
			return
		}
		switch d.Message.(type) {
		case actor.SystemMessage, actor.AutoReceiveMessage: // messages of protoactor itself are not counted
		default:
			id := ""
			if d.PID != nil {
				id = d.PID.GetId()
			}
			m.Dropped(kind(id), nil, d.Message)
		}
	})
}

// Instance is a snapshot of one actor.
type Instance struct {
	ID       string // path in the actor tree
	Name     string // kind of the actor
	Shard    string // shard of the actor; empty: none
	Mailbox  int64
	Messages int64         // number of messages handled since the actor started
	Since    time.Duration // time that the running handler has taken so far; 0: none runs
	Oldest   time.Duration // age of the oldest waiting message; 0: none waits
}

// List returns up to limit live actors, sorted by id, and the number of all live actors. If there
// are more than limit actors, List prefers actors that have waiting messages or a running handler.
func (m *Meter) List(limit int) (out []Instance, all int) {
	now := clock()
	m.mu.Lock()
	all = len(m.mailboxes)
	out = make([]Instance, 0, min(all, limit))
	for _, idle := range []bool{false, true} {
		for b := range m.mailboxes {
			if len(out) == limit {
				break
			}
			waiting, from, first := b.waiting.Load(), b.busy.Load(), b.oldest.Load()
			if (waiting <= 0 && from == 0) != idle {
				continue
			}
			i := Instance{ID: b.id, Name: b.count.name.kind, Shard: b.count.name.shard, Mailbox: max(waiting, 0),
				Messages: b.done.Load()}
			if from != 0 {
				i.Since = time.Duration(max(now-from, 0))
			}
			if first != 0 {
				i.Oldest = time.Duration(max(now-first, 0))
			}
			out = append(out, i)
		}
	}
	m.mu.Unlock()
	slices.SortFunc(out, func(a, b Instance) int { return strings.Compare(a.ID, b.ID) })
	// An actor that became idle between the two passes is listed twice, so remove duplicates.
	return slices.CompactFunc(out, func(a, b Instance) bool { return a.ID == b.ID }), all
}
