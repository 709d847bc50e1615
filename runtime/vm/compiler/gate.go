package compiler

import "sync"

// gate decides when a compilation may begin. A gate has three queues, each first come, first served.
//
//   - urgent: a block waits for the compilation. This queue is served first. If no urgent
//     compilation is running, an urgent compilation may begin even if total compilations of the two
//     queues below are running.
//   - precompiles: a block will soon need the compilation (Pool.Ahead). This queue is served
//     second.
//   - background: no block waits. At most maxBackground of these compilations run.
//
// A background compilation waits until the memory of all running compilations and its own fit into
// the memory limit. A precompile waits until this memory fits into four times the limit, unless no
// other precompile is running. An urgent compilation never waits for memory.
type gate struct {
	total         int // maximum number of running compilations
	maxBackground int // maximum number of running background compilations
	// memory is the maximum number of bytes for all running compilations, including a new
	// background compilation. A background compilation always starts if no other is running. 0: no
	// limit.
	memory int64

	mu                         sync.Mutex
	running, runningBackground int
	ahead                      int       // number of running compilations that entered through enterAhead
	taken                      int64     // sum of the weights of all running compilations
	urgent, background         []waiting // waiting compilations
	precompiles                []waiting // waiting compilations of enterAhead
	closed                     bool
}

// waiting is a compilation that waits for its turn.
type waiting struct {
	turn   chan struct{}
	weight int64 // memory that the compilation may need, in bytes
}

// enter waits until a compilation may begin. enter returns false if the gate or cancel is closed
// before the compilation may begin.
func (g *gate) enter(background bool, weight int64, cancel <-chan struct{}) bool {
	if background {
		return g.wait(&g.background, weight, cancel)
	}
	return g.wait(&g.urgent, weight, cancel)
}

// enterAhead is enter for a precompile.
func (g *gate) enterAhead(weight int64) bool { return g.wait(&g.precompiles, weight, nil) }

func (g *gate) wait(queue *[]waiting, weight int64, cancel <-chan struct{}) bool {
	turn := make(chan struct{})
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return false
	}
	*queue = append(*queue, waiting{turn, weight})
	g.next()
	g.mu.Unlock()
	select {
	case <-turn:
	case <-cancel:
		if g.withdraw(turn) {
			return false
		}
		<-turn // the compilation may begin, because the compilation was no longer in the queue
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.closed
}

func (g *gate) leave(background bool, weight int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	g.taken -= weight
	if background {
		g.runningBackground--
	}
	g.next()
}

func (g *gate) leaveAhead(weight int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	g.ahead--
	g.taken -= weight
	g.next()
}

// next lets waiting compilations begin while slots and memory are free.
func (g *gate) next() {
	for len(g.urgent) > 0 && (g.running < g.total || g.running == g.runningBackground+g.ahead || g.closed) {
		g.begin(g.urgent[0])
		g.urgent = g.urgent[1:]
	}
	for len(g.precompiles) > 0 && (g.running < g.total && (g.ahead == 0 || g.memory == 0 ||
		g.taken+g.precompiles[0].weight <= 4*g.memory) || g.closed) {
		g.ahead++
		g.begin(g.precompiles[0])
		g.precompiles = g.precompiles[1:]
	}
	for len(g.background) > 0 && (g.running < g.total && g.runningBackground < g.maxBackground && g.room(g.background[0].weight) || g.closed) {
		g.runningBackground++
		g.begin(g.background[0])
		g.background = g.background[1:]
	}
}

func (g *gate) begin(w waiting) {
	g.running++
	g.taken += w.weight
	close(w.turn)
}

// room returns whether a background compilation of this weight fits into memory.
func (g *gate) room(weight int64) bool {
	return g.memory == 0 || g.running == 0 || g.taken+weight <= g.memory
}

// withdraw removes a waiting compilation. withdraw returns false if the compilation may already
// begin.
func (g *gate) withdraw(turn chan struct{}) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, q := range []*[]waiting{&g.urgent, &g.precompiles, &g.background} {
		for i, w := range *q {
			if w.turn == turn {
				*q = append((*q)[:i:i], (*q)[i+1:]...)
				return true
			}
		}
	}
	return false
}

// close makes enter return false for all waiting compilations.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.next()
}
