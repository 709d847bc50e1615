package compiler

import "sync"

// gate says when a compilation may begin. Those that a block waits for go first, and one place is always theirs.
type gate struct {
	total, later int // that may be under way: all, and in the background

	mu               sync.Mutex
	running, back    int
	urgent, patients []chan struct{} // that wait, first come first
	closed           bool
}

// enter waits for a place. False: the pool was closed, or cancel came first.
func (g *gate) enter(background bool, cancel <-chan struct{}) bool {
	turn := make(chan struct{})
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return false
	}
	if background {
		g.patients = append(g.patients, turn)
	} else {
		g.urgent = append(g.urgent, turn)
	}
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

func (g *gate) leave(background bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	if background {
		g.back--
	}
	g.next()
}

// next gives free places to those that wait.
func (g *gate) next() {
	for len(g.urgent) > 0 && (g.running < g.total || g.closed) {
		g.running++
		close(g.urgent[0])
		g.urgent = g.urgent[1:]
	}
	for len(g.patients) > 0 && (g.running < g.total && g.back < g.later || g.closed) {
		g.running++
		g.back++
		close(g.patients[0])
		g.patients = g.patients[1:]
	}
}

// withdraw takes one that waits out; false: it waits no more.
func (g *gate) withdraw(turn chan struct{}) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, q := range []*[]chan struct{}{&g.urgent, &g.patients} {
		for i, t := range *q {
			if t == turn {
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
