package rpc

import (
	"net"
	"sync"
	"time"
)

// pollInterval is how often the connections are looked at whose requests wait for the chain: so long
// may a wait outlive its client.
const pollInterval = 250 * time.Millisecond

// maxFastPolled is how many waits are looked at so often. Where more wait they are looked at the less
// often, so that it takes no more.
const maxFastPolled = 8000

// pollDelay is the time until the connections are looked at again, where so many requests wait.
func pollDelay(waiting int) time.Duration {
	return pollInterval * time.Duration(max(waiting, maxFastPolled)) / maxFastPolled
}

// hangupPoller finds out whose clients have hung up while they wait. One goroutine looks at all
// connections with one call of the system for thousands: a timer and a call for each would be as
// much work as all else that a node does for who waits.
type hangupPoller struct {
	mu      sync.Mutex
	list    []*polledConn
	running bool // there is a goroutine
}

// polledConn is one connection that is looked at.
type polledConn struct {
	conn     net.Conn
	fd       int // its number may be another connection's by now: that is seen when it is looked at closely
	onHangup func()
	index    int // in the list; -1: it is in none any more
}

// add has a connection looked at; gone is called if its client has hung up, at once where it is
// closed already.
func (l *hangupPoller) add(conn net.Conn, gone func()) *polledConn {
	x := &polledConn{conn: conn, fd: fdOf(conn), onHangup: gone, index: -1}
	if x.fd < 0 { // of no system's, or closed here before
		if hungUp(conn) {
			gone()
		}
		return x
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	x.index = len(l.list)
	l.list = append(l.list, x)
	if !l.running {
		l.running = true
		go l.run()
	}
	return x
}

func (l *hangupPoller) remove(x *polledConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x.index < 0 {
		return
	}
	last := l.list[len(l.list)-1]
	l.list[x.index], last.index = last, x.index
	l.list[len(l.list)-1] = nil
	l.list, x.index = l.list[:len(l.list)-1], -1
}

// run looks until nobody waits.
func (l *hangupPoller) run() {
	var fds []int
	var all []*polledConn
	for {
		l.mu.Lock()
		n := len(l.list)
		if n == 0 {
			l.running, l.list = false, nil
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		time.Sleep(pollDelay(n))
		clear(all)
		fds, all = fds[:0], all[:0]
		l.mu.Lock()
		for _, x := range l.list {
			fds, all = append(fds, x.fd), append(all, x)
		}
		l.mu.Unlock()
		closedOf(fds, func(i int) {
			if hungUp(all[i].conn) {
				l.remove(all[i])
				all[i].onHangup()
			}
		})
	}
}
