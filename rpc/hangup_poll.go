package rpc

import (
	"net"
	"sync"
	"time"
)

// pollInterval is how often the connections of waiting requests are polled, and so how long a wait
// may outlive its client.
const pollInterval = 250 * time.Millisecond

// maxFastPolled is how many waits are polled at pollInterval. With more waits the interval grows in
// proportion, so that the cost stays the same.
const maxFastPolled = 8000

// pollDelay is the time until the next poll with so many waits.
func pollDelay(waiting int) time.Duration {
	return pollInterval * time.Duration(max(waiting, maxFastPolled)) / maxFastPolled
}

// hangupPoller detects clients that hang up while their requests wait. One goroutine polls all
// connections, thousands with one system call. Rejected: a timer and a system call for each wait,
// which cost as much as all the other work that the node does for waits.
type hangupPoller struct {
	mu      sync.Mutex
	list    []*polledConn
	running bool // the goroutine runs
}

// polledConn is one connection that is polled.
type polledConn struct {
	conn net.Conn
	// The number may be another connection's by now, so a positive poll is checked through conn.
	fd       int
	onHangup func()
	index    int // in hangupPoller.list; -1: removed
}

// add starts polling a connection. onHangup is called once if the client hangs up, or at once if
// the connection is closed already.
func (l *hangupPoller) add(conn net.Conn, gone func()) *polledConn {
	x := &polledConn{conn: conn, fd: fdOf(conn), onHangup: gone, index: -1}
	if x.fd < 0 { // no file descriptor, or closed by us
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

// run polls until no wait is left.
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
