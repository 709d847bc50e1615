package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/actors/node"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/backend"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc"
)

// worlds are the chains of a process that go on from others of it (engine.Engine.Child), each with
// a node of its own. They share the parent's state, the engine of contracts, the views and the
// door. Nothing of them outlasts the process.
type worlds struct {
	h *Daemon

	mu     sync.Mutex
	list   []*world // in the order in which they were made
	making int
	last   uint64 // number that was given
	closed bool
	sum    uint64    // of bytes
	summed time.Time // when; zero: one has ended since
	of     int       // how many they were
	tended sync.Once
	stop   chan struct{} // closed with all of them
	ends   sync.WaitGroup

	made    atomic.Uint64
	refused atomic.Uint64
	dropped [whyCount]atomic.Uint64
}

// why a world ends.
type why int

const (
	whyAsked  why = iota // somebody said so, or the world that it went on from was dropped
	whyIdle              // nobody asked for it
	whyMemory            // all together took too much
	whyBehind            // its parent has too many blocks since, or went back behind where it began
	whyFailed            // one of its actors
	whyCount
)

var whyNames = [whyCount]string{"asked", "idle", "memory", "behind", "failed"}

// world is one of them.
type world struct {
	Instance
	parent *Instance
	begin  view.At
	at     *node.RevertPoint      // of the parent, its own
	addr   atomic.Pointer[string] // of its own port; nil: it has none
	kept   bool                   // it does not end because nobody asks: who made it asks in this process
	busy   atomic.Int64           // requests
	asked  atomic.Int64           // when the last one ended, by clock
	gone   atomic.Bool
	ended  chan struct{} // closed when nothing is left
	err    error         // set before that
}

// worldBytes is about what a world takes in memory that has done nothing.
const worldBytes = 448 << 10

// Of what worlds may take together, one's pools may have a part, each; a pool of a world at least
// takes a few of the longest transactions.
const (
	poolShare = 16
	leastPool = 4 << 20
)

// Of the upkeep: how often it looks, and how long a world may take to end.
const (
	worldsPeriod = time.Second
	worldEnd     = 10 * time.Second
	worldsSum    = 100 * time.Millisecond // how old a sum of what they take may be
)

var worldClock = time.Now()

func newWorlds(h *Daemon) *worlds { return &worlds{h: h, stop: make(chan struct{})} }

// reserve takes a place and a number for one more.
func (g *worlds) reserve() (id string, err error) {
	c := &g.h.home.Config.Worlds
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.list) + g.making
	switch bytes := g.bytes(); {
	case g.closed:
		return "", &view.SandboxError{Reason: "the node is stopping"}
	case uint64(n) >= c.Max:
		err = &view.SandboxError{Reason: fmt.Sprintf("there are %d worlds already (troupe.worlds.max); sandbox_drop_world ends one", n)}
	case bytes >= c.Bytes:
		err = &view.SandboxError{Reason: fmt.Sprintf("the worlds take %d MiB of memory, and may take %d (troupe.worlds.memory_bytes); sandbox_drop_world ends one", bytes>>20, c.Bytes>>20)}
	}
	if err != nil {
		g.refused.Add(1)
		return "", err
	}
	g.making++
	g.last++
	return strconv.FormatUint(g.last, 10), nil
}

// bytes is about what all take. Under mu.
func (g *worlds) bytes() uint64 {
	if time.Since(g.summed) > worldsSum {
		g.sum, g.of, g.summed = 0, len(g.list), time.Now()
		for _, w := range g.list {
			g.sum += w.bytes()
		}
	}
	return g.sum + worldBytes*uint64(len(g.list)-g.of)
}

func (w *world) bytes() uint64 { return worldBytes + w.Engine.Size() + w.Node.PoolBytes() }

// open makes a world.
func (g *worlds) open(ctx context.Context, of *Instance, q *view.NewWorld, kept bool) (w *world, err error) {
	id, err := g.reserve()
	if err != nil {
		return nil, err
	}
	w, err = g.begin(ctx, of, q, id)
	g.mu.Lock()
	g.making--
	over := err == nil && (g.closed || of.id != "" && !slices.ContainsFunc(g.list, func(x *world) bool { return &x.Instance == of }))
	if err == nil && !over {
		w.kept = kept
		g.list = append(g.list, w)
	}
	g.mu.Unlock()
	switch {
	case err != nil:
		return nil, steerError(ctx, err)
	case over: // its parent has ended meanwhile
		g.drop(w, whyAsked)
		return nil, &view.SandboxError{Reason: errEnded.Error()}
	}
	g.made.Add(1)
	g.tended.Do(func() { g.ends.Go(g.tend) })
	if err := g.show(w, q.Port); err != nil {
		g.drop(w, whyAsked)
		return nil, &view.SandboxError{Reason: err.Error()}
	}
	return w, nil
}

var errEnded = errors.New("the chain that it was to go on from has ended")

// show opens the way to a world that others know already, and may have dropped: whoever comes
// second closes it.
func (g *worlds) show(w *world, port bool) error {
	if err := g.serve(w, port); err != nil {
		return err
	}
	if !w.gone.Load() { // what ends it looks for the way behind that
		return nil
	}
	if s := g.h.server; s != nil {
		s.RemoveWorld(w.id)
	}
	return errEnded
}

// begin makes a world that nobody knows yet.
func (g *worlds) begin(ctx context.Context, of *Instance, q *view.NewWorld, id string) (_ *world, err error) {
	at, err := of.beginning(ctx, q.Snapshot)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			of.Node.EndSnapshot(at)
		}
	}()
	how, err := of.Node.Production(ctx, messages.SetProduction{})
	if err != nil {
		return nil, err
	}
	w := &world{Instance: Instance{id: id, home: of.home, log: of.log, worlds: g, checker: of.checker.Child(), fork: of.fork, replays: make(chan struct{}, 1)}, parent: of, at: at,
		begin: view.At{Height: at.Height, Hash: at.Hash}, ended: make(chan struct{})}
	w.asked.Store(int64(time.Since(worldClock)))
	w.Engine, err = of.Engine.Child(at.Engine(), func(o *engine.Options) { o.Signature = w.checker.Check })
	if err != nil && at.Ended() { // the parent has gone back in this moment
		err = engine.ErrEnded
	}
	if err != nil {
		return nil, err
	}
	w.store = w.Engine.Store()
	o := g.h.nodeOptions(w.home, w.checker, nil, g.h.build)
	clock := at.Clock()
	o.Engine, o.Mode, o.SkipEmpty, o.Summary, o.Begin, o.Small = w.Engine, production.Mode(how.Mode), how.Quiet, 0, &clock, true
	if q.Quiet != nil {
		o.SkipEmpty = *q.Quiet
	}
	share := max(g.h.home.Config.Worlds.Bytes/poolShare, leastPool)
	if o.Mempool.Bytes == 0 || o.Mempool.Bytes > share {
		o.Mempool.Bytes = share
	}
	l := &o.Limits
	l.QueueBytes = min(cmp.Or(l.QueueBytes, node.DefaultQueueBytes), int(share))
	l.HeldBytes = min(cmp.Or(l.HeldBytes, node.DefaultHeldBytes), int(share))
	o.Exit = func(who string, reason any, stack []byte) {
		w.log.WithField("world", id).Errorf("the world ends, since its %s has failed: %v\n%s", who, reason, stack)
		g.ends.Go(func() { g.drop(w, whyFailed) })
	}
	if w.Node, err = node.Start(o); err != nil {
		return nil, errors.Join(err, w.Engine.Discard())
	}
	if how.Interval != o.Delays.Endorsement {
		_, err = w.Node.Production(ctx, messages.SetProduction{Interval: &how.Interval})
	}
	if m := of.Engine.Mocks(); m != nil && err == nil {
		err = w.Node.MockVerification(ctx, m)
	}
	if err != nil {
		g.drop(w, whyAsked) // one of its actors may have failed, and be ending it
		return nil, err
	}
	if of.back != nil {
		w.back = of.back.Child(func(b *backend.Options) {
			b.Engine, b.Submit, b.Halted, b.Steer, b.Network = w.Engine, w.Node, w.Node.HaltedView, steerer{&w.Instance}, nil
		})
	}
	return w, nil
}

// beginning takes a snapshot for a world: of the head, or of a snapshot's block.
func (r *Instance) beginning(ctx context.Context, name string) (*node.RevertPoint, error) {
	if name == "" {
		return r.Node.TakeSnapshot(ctx)
	}
	all := &r.snapshots
	all.mu.Lock()
	defer all.mu.Unlock()
	all.prune()
	i := all.find(name)
	if i < 0 {
		return nil, all.refuse(name)
	}
	return r.Node.ShareSnapshot(ctx, all.list[i].RevertPoint)
}

// serve opens the way to a world.
func (g *worlds) serve(w *world, port bool) error {
	s := g.h.server
	if s == nil {
		return nil
	}
	s.AddWorld(w.id, w.back, rpc.WorldOptions{Asked: func() (func(), bool) { return g.ask(w) }, Metrics: func(b []byte) []byte { return w.Node.Metrics(w.appendChain(b, 0)) }, Actors: w.Node.AppendActors})
	if !port {
		return nil
	}
	host, _, err := net.SplitHostPort(g.h.Addr.String())
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return err
	}
	addr := l.Addr().String()
	w.addr.Store(&addr)
	g.ends.Go(func() {
		if err := s.ServeWorld(w.id, l); err != nil {
			w.log.WithField("world", w.id).WithError(err).Error("its port is closed")
		}
	})
	return nil
}

// ask counts a request; false: the world is about to end.
func (g *worlds) ask(w *world) (done func(), ok bool) {
	w.busy.Add(1)
	done = func() {
		w.asked.Store(int64(time.Since(worldClock)))
		w.busy.Add(-1)
	}
	if w.gone.Load() || w.at.Ended() {
		done()
		return nil, false
	}
	return done, true
}

// drop ends a world and those that go on from it, and waits until nothing of them is left.
func (g *worlds) drop(w *world, because why) {
	g.mu.Lock()
	all := []*world{w}
	for i := 0; i < len(all); i++ {
		for _, x := range g.list {
			if x.parent == &all[i].Instance {
				all = append(all, x)
			}
		}
	}
	g.list = slices.DeleteFunc(g.list, func(x *world) bool { return slices.Contains(all, x) })
	g.summed = time.Time{}
	g.mu.Unlock()
	for i, x := range slices.Backward(all) { // children first
		if !x.gone.CompareAndSwap(false, true) {
			<-x.ended
			continue
		}
		if i > 0 {
			g.dropped[whyAsked].Add(1)
		} else {
			g.dropped[because].Add(1)
		}
		g.end(x)
	}
}

// end takes a world apart that nobody finds any more.
func (g *worlds) end(w *world) {
	defer close(w.ended)
	if s := g.h.server; s != nil {
		s.RemoveWorld(w.id)
	}
	ctx, cancel := context.WithTimeout(context.Background(), worldEnd)
	defer cancel()
	if w.err = w.Node.Stop(ctx); w.err != nil { // what still runs keeps what it stands on
		w.log.WithField("world", w.id).WithError(w.err).Error("the world has not ended in time, and its memory is lost")
		return
	}
	w.err = w.Engine.Discard()
	w.parent.Node.EndSnapshot(w.at)
}

// dropAbove ends the worlds that began behind a height of a chain, which goes back to that.
func (g *worlds) dropAbove(of *Instance, at view.At) {
	g.mu.Lock()
	var gone []*world
	for _, w := range g.list {
		if w.parent == of && w.begin.Height > at.Height {
			gone = append(gone, w)
		}
	}
	g.mu.Unlock()
	for _, w := range gone {
		g.drop(w, whyBehind)
	}
}

// tend ends worlds that nobody asks for, that take too much together, or that can't go on, until
// all end.
func (g *worlds) tend() {
	tick := time.NewTicker(worldsPeriod)
	defer tick.Stop()
	for {
		select {
		case <-g.stop:
			return
		case <-tick.C:
		}
		for w, because := g.due(time.Since(worldClock)); w != nil; w, because = g.due(time.Since(worldClock)) {
			w.log.WithField("world", w.id).Infof("the world ends: %s", whyNames[because])
			g.drop(w, because)
		}
	}
}

// due is a world that is to end.
func (g *worlds) due(now time.Duration) (largest *world, because why) {
	c := &g.h.home.Config.Worlds
	g.mu.Lock()
	defer g.mu.Unlock()
	most := uint64(0)
	for _, w := range g.list {
		if w.at.Ended() {
			return w, whyBehind
		}
		if c.Idle > 0 && !w.kept && w.busy.Load() == 0 && now-time.Duration(w.asked.Load()) > c.Idle && !g.used(w) {
			return w, whyIdle
		}
		if n := w.bytes(); n > most {
			largest, most = w, n
		}
	}
	if g.bytes() > c.Bytes {
		return largest, whyMemory
	}
	return nil, 0
}

// used tells whether another world goes on from one. Under mu.
func (g *worlds) used(w *world) bool {
	return slices.ContainsFunc(g.list, func(x *world) bool { return x.parent == &w.Instance })
}

// close ends all.
func (g *worlds) close(ctx context.Context) error {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		close(g.stop)
	}
	list := slices.Clone(g.list)
	g.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, w := range slices.Backward(list) {
			g.drop(w, whyAsked)
		}
		g.ends.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// find returns a world by its id.
func (g *worlds) find(id string) *world {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, w := range g.list {
		if w.id == id {
			return w
		}
	}
	return nil
}

func (w *world) view() view.World {
	head := w.Engine.Head()
	out := view.World{ID: w.id, Parent: w.parent.id, Begin: w.begin, Head: view.At{Height: head.Height(), Hash: head.Hash}, Bytes: w.bytes()}
	if addr := w.addr.Load(); addr != nil {
		out.Addr = *addr
	}
	return out
}

// NewWorld makes a world that goes on from this chain.
func (s steerer) NewWorld(ctx context.Context, q *view.NewWorld) (view.World, error) {
	if err := s.alone(); err != nil {
		return view.World{}, err
	}
	w, err := s.worlds.open(ctx, s.Instance, q, false)
	if err != nil {
		return view.World{}, err
	}
	return w.view(), nil
}

// DropWorld ends a world. Who asks it of a world itself gets his answer, too.
func (s steerer) DropWorld(_ context.Context, id string) error {
	w := s.worlds.find(id)
	if w == nil {
		return &view.SandboxError{Reason: fmt.Sprintf("there is no world %q, or it has ended", id)}
	}
	s.worlds.drop(w, whyAsked)
	return w.err
}

// Worlds lists all of the process.
func (s steerer) Worlds() (out []view.World, err error) {
	s.worlds.mu.Lock()
	list := slices.Clone(s.worlds.list)
	s.worlds.mu.Unlock()
	for _, w := range list {
		out = append(out, w.view())
	}
	return out, nil
}

// appendMetrics appends what there is of worlds in Prometheus text.
func (g *worlds) appendMetrics(b []byte) []byte {
	c := &g.h.home.Config.Worlds
	g.mu.Lock()
	n, bytes := len(g.list)+g.making, g.bytes()
	g.mu.Unlock()
	b = appendMetric(b, "gauge", "troupe_worlds", "Worlds that there are", float64(n))
	b = appendMetric(b, "gauge", "troupe_worlds_limit", "Worlds that there may be (troupe.worlds.max)", float64(c.Max))
	b = appendMetric(b, "gauge", "troupe_worlds_bytes", "Memory that they take, about", float64(bytes))
	b = appendMetric(b, "gauge", "troupe_worlds_bytes_limit", "Memory that they may take (troupe.worlds.memory_bytes)", float64(c.Bytes))
	b = appendMetric(b, "counter", "troupe_worlds_made_total", "Worlds that were made", float64(g.made.Load()))
	b = appendMetric(b, "counter", "troupe_worlds_refused_total", "Worlds that were not made, since there were too many or they took too much", float64(g.refused.Load()))
	b = append(b, "# HELP troupe_worlds_ended_total Worlds that have ended, by why\n# TYPE troupe_worlds_ended_total counter\n"...)
	for i := range g.dropped {
		b = fmt.Appendf(b, "troupe_worlds_ended_total{why=%q} %d\n", whyNames[i], g.dropped[i].Load())
	}
	return b
}
