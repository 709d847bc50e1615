package link

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Meter holds the counters of all actors, by name. Actors of one kind with many instances share a name.
type Meter struct {
	mu   sync.Mutex
	all  map[string]*Counter
	list atomic.Pointer[[]*Counter]
}

// NewMeter returns an empty meter.
func NewMeter() *Meter { return &Meter{all: map[string]*Counter{}} }

// Counter counts what an actor does. It is a mailbox middleware (posted, received) and a receiver middleware (time).
type Counter struct {
	Name     string
	posted   atomic.Int64
	received atomic.Int64
	nanos    atomic.Int64
	slowest  atomic.Int64
	restarts atomic.Int64
	alive    atomic.Int64
}

// Sample is a Counter's state at a moment.
type Sample struct {
	Name     string
	Alive    int64         // instances
	Mailbox  int64         // messages posted and not yet received
	Messages int64         // received since the process began
	Busy     time.Duration // spent in Receive
	Slowest  time.Duration // longest Receive
	Restarts int64
}

func (m *Meter) counter(name string) *Counter {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.all[name]
	if c == nil {
		c = &Counter{Name: name}
		m.all[name] = c
		list := make([]*Counter, 0, len(m.all))
		for _, x := range m.all {
			list = append(list, x)
		}
		slices.SortFunc(list, func(a, b *Counter) int { return strings.Compare(a.Name, b.Name) })
		m.list.Store(&list)
	}
	return c
}

// Samples returns all counters, by name.
func (m *Meter) Samples() []Sample {
	list := m.list.Load()
	if list == nil {
		return nil
	}
	out := make([]Sample, len(*list))
	for i, c := range *list {
		received := c.received.Load()
		out[i] = Sample{
			Name: c.Name, Alive: c.alive.Load(), Messages: received, Mailbox: max(c.posted.Load()-received, 0),
			Busy: time.Duration(c.nanos.Load()), Slowest: time.Duration(c.slowest.Load()), Restarts: c.restarts.Load(),
		}
	}
	return out
}

// MailboxStarted is part of actor.MailboxMiddleware.
func (c *Counter) MailboxStarted() {}

// MailboxEmpty is part of actor.MailboxMiddleware.
func (c *Counter) MailboxEmpty() {}

// MessagePosted counts a user message on its way in. System messages are not counted.
func (c *Counter) MessagePosted(m any) {
	if _, system := m.(actor.SystemMessage); !system {
		c.posted.Add(1)
	}
}

// MessageReceived counts a user message that was handled.
func (c *Counter) MessageReceived(m any) {
	if _, system := m.(actor.SystemMessage); !system {
		c.received.Add(1)
	}
}

func (c *Counter) middleware(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, envelope *actor.MessageEnvelope) {
		switch envelope.Message.(type) {
		case *actor.Started:
			c.alive.Add(1)
		case *actor.Stopped:
			c.alive.Add(-1)
		case *actor.Restarting:
			c.restarts.Add(1)
			c.alive.Add(-1)
		}
		begin := time.Now()
		next(ctx, envelope)
		took := int64(time.Since(begin))
		c.nanos.Add(took)
		for {
			old := c.slowest.Load()
			if took <= old || c.slowest.CompareAndSwap(old, took) {
				return
			}
		}
	}
}
