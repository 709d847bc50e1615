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

// worlds are the child chains of a process. Each continues a chain from one of its blocks
// (engine.Engine.Child) and has its own node. A world shares its parent's state, the contract
// engine, the view workers and the RPC listener. Worlds exist in memory only.
type worlds struct {
	h *Daemon

	mu         sync.Mutex
	list       []*world // worlds in the order of their creation
	making     int      // number of worlds that are being created
	last       uint64   // last ID used
	closed     bool
	sum        uint64    // estimated memory in bytes of the first `of` worlds of list
	summed     time.Time // when sum was computed; zero: a world has ended since
	of         int       // number of worlds that sum counts
	maintained sync.Once
	stop       chan struct{} // closed by the method close
	ends       sync.WaitGroup

	made    atomic.Uint64
	refused atomic.Uint64
	dropped [endReasons]atomic.Uint64
}

// endReason is the reason for which a world ends.
type endReason int

const (
	endAsked  endReason = iota // a client requested the end, or the parent world ended
	endIdle                    // the world had no request for too long
	endMemory                  // all worlds together exceed the memory limit
	// the parent has too many blocks after the world's start, or was rolled back below that start
	endBehind
	endFailed // an actor of the world failed
	endReasons
)

var endReasonNames = [endReasons]string{"asked", "idle", "memory", "behind", "failed"}

// world is a chain instance in this process that continues from a block of another instance, its
// parent.
type world struct {
	Instance
	parent *Instance
	begin  view.At
	// revert point of the parent at the block with which the world starts; this point keeps that
	// block's state in memory
	at    *node.RevertPoint
	addr  atomic.Pointer[string] // address of the world's own port; nil: the world has no port of its own
	kept  bool                   // the world does not end when idle, because code in this process uses it
	busy  atomic.Int64           // number of running requests
	asked atomic.Int64           // time on worldClock at which the last request ended
	gone  atomic.Bool            // the world is ending
	ended chan struct{}          // closed when the world has ended completely
	err   error                  // error of the end; set before ended is closed
}

// worldBytes estimates the memory in bytes of a world without blocks.
const worldBytes = 448 << 10

// Each pool of a world may take 1/poolShare of the memory limit of all worlds, but at least
// leastPool bytes. leastPool is enough for a few of the longest transactions.
const (
	poolShare = 16
	leastPool = 4 << 20
)

// Maintenance of worlds: its period and the time limit for a world to end.
const (
	worldsPeriod = time.Second
	worldEnd     = 10 * time.Second
	worldsSum    = 100 * time.Millisecond // maximum age of the memory sum
)

var worldClock = time.Now()

func newWorlds(h *Daemon) *worlds { return &worlds{h: h, stop: make(chan struct{})} }

// reserve checks the limits on worlds and reserves an ID for a new one.
func (g *worlds) reserve() (id string, err error) {
	c := &g.h.home.Config.Worlds
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.list) + g.making
	switch bytes := g.bytes(); {
	case g.closed:
		return "", &view.SandboxError{Reason: "the node is stopping"}
	case uint64(n) >= c.Max:
		err = &view.SandboxError{Reason: fmt.Sprintf("there are %d worlds already (troupe.worlds.max); end one with sandbox_drop_world", n)}
	case bytes >= c.Bytes:
		err = &view.SandboxError{Reason: fmt.Sprintf("the worlds use %d MiB of memory of at most %d "+
			"(troupe.worlds.memory_bytes); end one with sandbox_drop_world", bytes>>20, c.Bytes>>20)}
	}
	if err != nil {
		g.refused.Add(1)
		return "", err
	}
	g.making++
	g.last++
	return strconv.FormatUint(g.last, 10), nil
}

// bytes estimates the memory of all worlds. The caller holds mu.
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

// open creates a world.
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
		return nil, sandboxError(ctx, err)
	case over: // the parent ended during the creation
		g.drop(w, endAsked)
		return nil, &view.SandboxError{Reason: errEnded.Error()}
	}
	g.made.Add(1)
	g.maintained.Do(func() { g.ends.Go(g.maintain) })
	if err := g.publish(w, q.Port); err != nil {
		g.drop(w, endAsked)
		return nil, &view.SandboxError{Reason: err.Error()}
	}
	return w, nil
}

var errEnded = errors.New("the parent chain has ended")

// publish makes a world reachable by RPC. The world is already listed, so drop may run
// concurrently. Whichever of the two comes second removes the route.
func (g *worlds) publish(w *world, port bool) error {
	if err := g.serve(w, port); err != nil {
		return err
	}
	if !w.gone.Load() { // if gone is set, drop removes the route
		return nil
	}
	if s := g.h.server; s != nil {
		s.RemoveWorld(w.id)
	}
	return errEnded
}

// begin creates a world that is not listed yet.
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
	w := &world{Instance: Instance{id: id, home: of.home, log: of.log, worlds: g, checker: of.checker.Child(),
		fork: of.fork, replays: make(chan struct{}, 1)}, parent: of, at: at,
		begin: view.At{Height: at.Height, Hash: at.Hash}, ended: make(chan struct{})}
	w.asked.Store(int64(time.Since(worldClock)))
	w.Engine, err = of.Engine.Child(at.Engine(), func(o *engine.Options) { o.Signature = w.checker.Check })
	if err != nil && at.Ended() { // the parent was rolled back below at
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
		w.log.WithField("world", id).Errorf("the world ends because its actor %s failed: %v\n%s", who, reason, stack)
		g.ends.Go(func() { g.drop(w, endFailed) })
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
		g.drop(w, endAsked) // does nothing if a failed actor already ends the world
		return nil, err
	}
	if of.back != nil {
		w.back = of.back.Child(func(b *backend.Options) {
			b.Engine, b.Submit, b.Obstacles, b.Control, b.Network = w.Engine, w.Node, obstacles{w.Node}, sandboxControl{&w.Instance}, nil
		})
	}
	return w, nil
}

// beginning returns the revert point at which a world starts. That point is at the head or, if name
// is set, at the block of the named snapshot.
func (r *Instance) beginning(ctx context.Context, name string) (*node.RevertPoint, error) {
	if name == "" {
		return r.Node.TakeSnapshot(ctx)
	}
	all := &r.revertPoints
	all.mu.Lock()
	defer all.mu.Unlock()
	all.prune()
	i := all.find(name)
	if i < 0 {
		return nil, all.refuse(name)
	}
	return r.Node.ShareSnapshot(ctx, all.list[i].RevertPoint)
}

// serve routes RPC requests to a world. If port is set, serve also opens a port for the world.
func (g *worlds) serve(w *world, port bool) error {
	s := g.h.server
	if s == nil {
		return nil
	}
	s.AddWorld(w.id, w.back, rpc.WorldOptions{Asked: func() (func(), bool) { return g.ask(w) },
		Metrics: func(b []byte) []byte { return w.Node.Metrics(w.appendChain(b, 0)) }, Actors: w.Node.AppendActors})
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
			w.log.WithField("world", w.id).WithError(err).Error("the RPC server on the world's own port failed")
		}
	})
	return nil
}

// ask counts a request. ok is false if the world is ending.
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

// drop ends a world and its descendants, and waits until all of them have ended.
func (g *worlds) drop(w *world, because endReason) {
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
	// children were created after their parents, so in this order they end first
	for i, x := range slices.Backward(all) {
		if !x.gone.CompareAndSwap(false, true) {
			<-x.ended
			continue
		}
		if i > 0 {
			g.dropped[endAsked].Add(1)
		} else {
			g.dropped[because].Add(1)
		}
		g.end(x)
	}
}

// end stops a world that is no longer listed and frees the world's resources.
func (g *worlds) end(w *world) {
	defer close(w.ended)
	if s := g.h.server; s != nil {
		s.RemoveWorld(w.id)
	}
	ctx, cancel := context.WithTimeout(context.Background(), worldEnd)
	defer cancel()
	if w.err = w.Node.Stop(ctx); w.err != nil { // some parts still run and keep their resources
		w.log.WithField("world", w.id).WithError(w.err).Error("the world did not stop in time; its memory is not freed")
		return
	}
	w.err = w.Engine.Discard()
	w.parent.Node.EndSnapshot(w.at)
}

// dropAbove ends the worlds that started above a block to which their parent is rolled back.
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
		g.drop(w, endBehind)
	}
}

// maintain ends worlds that are idle, that exceed the memory limit, or whose start was removed.
// maintain runs until close.
func (g *worlds) maintain() {
	tick := time.NewTicker(worldsPeriod)
	defer tick.Stop()
	for {
		select {
		case <-g.stop:
			return
		case <-tick.C:
		}
		for w, because := g.nextToEnd(time.Since(worldClock)); w != nil; w, because = g.nextToEnd(time.Since(worldClock)) {
			w.log.WithField("world", w.id).Infof("the world ends: %s", endReasonNames[because])
			g.drop(w, because)
		}
	}
}

// nextToEnd returns a world that should end, and the reason. nextToEnd returns nil if no world
// should end.
func (g *worlds) nextToEnd(now time.Duration) (largest *world, because endReason) {
	c := &g.h.home.Config.Worlds
	g.mu.Lock()
	defer g.mu.Unlock()
	most := uint64(0)
	for _, w := range g.list {
		if w.at.Ended() {
			return w, endBehind
		}
		if c.Idle > 0 && !w.kept && w.busy.Load() == 0 && now-time.Duration(w.asked.Load()) > c.Idle && !g.hasChild(w) {
			return w, endIdle
		}
		if n := w.bytes(); n > most {
			largest, most = w, n
		}
	}
	if g.bytes() > c.Bytes {
		return largest, endMemory
	}
	return nil, 0
}

// hasChild returns whether w is the parent of another world. The caller holds mu.
func (g *worlds) hasChild(w *world) bool {
	return slices.ContainsFunc(g.list, func(x *world) bool { return x.parent == &w.Instance })
}

// close ends all worlds. close returns when all worlds have ended or ctx ends.
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
			g.drop(w, endAsked)
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

// find returns the world with an ID, or nil.
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

// NewWorld creates a world that continues this chain.
func (s sandboxControl) NewWorld(ctx context.Context, q *view.NewWorld) (view.World, error) {
	if err := s.checkExclusive(); err != nil {
		return view.World{}, err
	}
	w, err := s.worlds.open(ctx, s.Instance, q, false)
	if err != nil {
		return view.World{}, err
	}
	return w.view(), nil
}

// DropWorld ends a world. If a client sent the request to that world, the node still answers the
// request.
func (s sandboxControl) DropWorld(_ context.Context, id string) error {
	w := s.worlds.find(id)
	if w == nil {
		return &view.SandboxError{Reason: fmt.Sprintf("there is no world %q, or it has ended", id)}
	}
	s.worlds.drop(w, endAsked)
	return w.err
}

// Worlds lists all worlds of the process.
func (s sandboxControl) Worlds() (out []view.World, err error) {
	s.worlds.mu.Lock()
	list := slices.Clone(s.worlds.list)
	s.worlds.mu.Unlock()
	for _, w := range list {
		out = append(out, w.view())
	}
	return out, nil
}

// appendMetrics appends the metrics of worlds.
func (g *worlds) appendMetrics(b []byte) []byte {
	c := &g.h.home.Config.Worlds
	g.mu.Lock()
	n, bytes := len(g.list)+g.making, g.bytes()
	g.mu.Unlock()
	b = appendMetric(b, "gauge", "troupe_worlds", "Open worlds, including those being created", float64(n))
	b = appendMetric(b, "gauge", "troupe_worlds_limit", "Limit of worlds (troupe.worlds.max)", float64(c.Max))
	b = appendMetric(b, "gauge", "troupe_worlds_bytes", "Estimated memory of all worlds", float64(bytes))
	b = appendMetric(b, "gauge", "troupe_worlds_bytes_limit", "Memory limit of all worlds (troupe.worlds.memory_bytes)", float64(c.Bytes))
	b = appendMetric(b, "counter", "troupe_worlds_made_total", "Worlds created", float64(g.made.Load()))
	b = appendMetric(b, "counter", "troupe_worlds_refused_total", "Worlds refused because of the limits", float64(g.refused.Load()))
	b = append(b, "# HELP troupe_worlds_ended_total Worlds ended, by reason\n# TYPE troupe_worlds_ended_total counter\n"...)
	for i := range g.dropped {
		b = fmt.Appendf(b, "troupe_worlds_ended_total{why=%q} %d\n", endReasonNames[i], g.dropped[i].Load())
	}
	return b
}
