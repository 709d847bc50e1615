package rpc

import (
	"net"
	"sync"
	"time"
)

// pollInterval is the interval at which the connections of waiting requests are polled. A wait may
// last for up to pollInterval after its client's connection has ended.
const pollInterval = 250 * time.Millisecond

// maxFastPolled is the number of waits up to which all are polled at pollInterval. With more waits
// the interval grows in proportion, so that the cost stays the same.
const maxFastPolled = 8000

// pollDelay returns the time until the next poll.
func pollDelay(waiting int) time.Duration {
	return pollInterval * time.Duration(max(waiting, maxFastPolled)) / maxFastPolled
}

// hangupPoller detects clients that hang up while their requests wait. One goroutine polls all
// connections, pollsAtOnce with one system call. Rejected: a timer and a system call for each wait.
// These timers and calls cost as much as the rest of the work that the node does for waits.
type hangupPoller struct {
	mu      sync.Mutex
	list    []*polledConn
	running bool // the goroutine of run is running

	fds    []int         // buffer of poll
	polled []*polledConn // buffer of poll
}

// polledConn is a connection that hangupPoller polls.
type polledConn struct {
	conn net.Conn
	// The descriptor's number may belong to another connection by now, so run checks a positive
	// poll through conn.
	fd       int
	onHangup func()
	index    int // index in hangupPoller.list; -1: not in the list
}

// add starts polling a connection. The poller calls gone once: when the client hangs up, or
// immediately if the connection is already closed.
func (l *hangupPoller) add(conn net.Conn, gone func()) *polledConn {
	x := &polledConn{conn: conn, fd: fdOf(conn), onHangup: gone, index: -1}
	if x.fd < 0 { // conn has no file descriptor, or this server has closed conn
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

// remove stops polling a connection. It returns false if the connection is not polled any more; then
// the poller has called its function, or is about to.
func (l *hangupPoller) remove(x *polledConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x.index < 0 {
		return false
	}
	last := l.list[len(l.list)-1]
	l.list[x.index], last.index = last, x.index
	l.list[len(l.list)-1] = nil
	l.list, x.index = l.list[:len(l.list)-1], -1
	return true
}

// run polls until the list is empty.
func (l *hangupPoller) run() {
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
		l.poll()
	}
}

// poll polls each connection once. Only one goroutine may call poll at a time.
func (l *hangupPoller) poll() {
	clear(l.polled)
	l.fds, l.polled = l.fds[:0], l.polled[:0]
	l.mu.Lock()
	for _, x := range l.list {
		l.fds, l.polled = append(l.fds, x.fd), append(l.polled, x)
	}
	l.mu.Unlock()
	closedOf(l.fds, func(i int) {
		// A request that ended since the list was read has removed its connection.
		if x := l.polled[i]; hungUp(x.conn) && l.remove(x) {
			x.onHangup()
		}
	})
}
