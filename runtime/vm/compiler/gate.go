package compiler

import "sync"

// gate says when a compilation may begin. Those that a block waits for go first, and one place is
// always theirs. Those that a block is going to need go before those in the background; as long as
// they have all places, one more is there for what a block waits for.
type gate struct {
	total, later int   // that may be under way: all, and in the background
	memory       int64 // that those in the background may take together, as weighed; one may take more. 0: any

	mu               sync.Mutex
	running, back    int
	ahead            int       // of running, those that a block is going to need
	taken            int64     // of memory, by all that run
	urgent, patients []waiting // that wait, first come first
	early            []waiting // of those that a block is going to need
	closed           bool
}

// waiting is a compilation that waits for its turn.
type waiting struct {
	turn   chan struct{}
	weight int64 // bytes
}

// enter waits for a place. False: the pool was closed, or cancel came first.
func (g *gate) enter(background bool, weight int64, cancel <-chan struct{}) bool {
	if background {
		return g.wait(&g.patients, weight, cancel)
	}
	return g.wait(&g.urgent, weight, cancel)
}

// enterAhead is enter for what a block is going to need.
func (g *gate) enterAhead(weight int64) bool { return g.wait(&g.early, weight, nil) }

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
		<-turn // it had its turn meanwhile
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
		g.back--
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

// next gives free places to those that wait.
func (g *gate) next() {
	for len(g.urgent) > 0 && (g.running < g.total || g.running == g.back+g.ahead || g.closed) {
		g.begin(g.urgent[0])
		g.urgent = g.urgent[1:]
	}
	for len(g.early) > 0 && (g.running < g.total && (g.ahead == 0 || g.memory == 0 || g.taken+g.early[0].weight <= 4*g.memory) || g.closed) {
		g.ahead++
		g.begin(g.early[0])
		g.early = g.early[1:]
	}
	for len(g.patients) > 0 && (g.running < g.total && g.back < g.later && g.room(g.patients[0].weight) || g.closed) {
		g.back++
		g.begin(g.patients[0])
		g.patients = g.patients[1:]
	}
}

func (g *gate) begin(w waiting) {
	g.running++
	g.taken += w.weight
	close(w.turn)
}

// room tells whether there is memory for one more in the background. What a block waits for counts,
// and is never kept waiting.
func (g *gate) room(weight int64) bool {
	return g.memory == 0 || g.running == 0 || g.taken+weight <= g.memory
}

// withdraw takes one that waits out; false: it waits no more.
func (g *gate) withdraw(turn chan struct{}) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, q := range []*[]waiting{&g.urgent, &g.early, &g.patients} {
		for i, w := range *q {
			if w.turn == turn {
				*q = append((*q)[:i:i], (*q)[i+1:]...)
				return true
			}
		}
	}
	return false
}

// close lets all go that wait; they find that it is closed.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.next()
}
