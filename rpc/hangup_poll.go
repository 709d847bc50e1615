package rpc

import (
	"net"
	"sync"
	"time"
)

// lookEvery is how often the connections are looked at whose requests wait for the chain: so long
// may a wait outlive its client.
const lookEvery = 250 * time.Millisecond

// lookedFor is how many waits are looked at so often. Where more wait they are looked at the less
// often, so that it takes no more.
const lookedFor = 8000

// lookAfter is the time until the connections are looked at again, where so many requests wait.
func lookAfter(waiting int) time.Duration {
	return lookEvery * time.Duration(max(waiting, lookedFor)) / lookedFor
}

// looks finds out whose clients have hung up while they wait. One goroutine looks at all
// connections with one call of the system for thousands: a timer and a call for each would be as
// much work as all else that a node does for who waits.
type looks struct {
	mu      sync.Mutex
	list    []*look
	looking bool // there is a goroutine
}

// look is one connection that is looked at.
type look struct {
	conn  net.Conn
	fd    int // its number may be another connection's by now: that is seen when it is looked at closely
	gone  func()
	place int // in the list; -1: it is in none any more
}

// add has a connection looked at; gone is called if its client has hung up, at once where it is
// closed already.
func (l *looks) add(conn net.Conn, gone func()) *look {
	x := &look{conn: conn, fd: fdOf(conn), gone: gone, place: -1}
	if x.fd < 0 { // of no system's, or closed here before
		if hungUp(conn) {
			gone()
		}
		return x
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	x.place = len(l.list)
	l.list = append(l.list, x)
	if !l.looking {
		l.looking = true
		go l.run()
	}
	return x
}

func (l *looks) remove(x *look) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x.place < 0 {
		return
	}
	last := l.list[len(l.list)-1]
	l.list[x.place], last.place = last, x.place
	l.list[len(l.list)-1] = nil
	l.list, x.place = l.list[:len(l.list)-1], -1
}

// run looks until nobody waits.
func (l *looks) run() {
	var fds []int
	var all []*look
	for {
		l.mu.Lock()
		n := len(l.list)
		if n == 0 {
			l.looking, l.list = false, nil
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		time.Sleep(lookAfter(n))
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
				all[i].gone()
			}
		})
	}
}
