package daemon

import (
	"container/list"
	"net"
	"sync"
)

// few is a listener with at most so many connections at a time: one more closes the oldest. So
// nobody is kept out by those who came before, and they take no files that the node needs.
type few struct {
	net.Listener
	most int
	mu   sync.Mutex
	open list.List // of *fewConn, the oldest first
}

type fewConn struct {
	net.Conn
	of *few
	at *list.Element // nil: it is not in the list any more
}

// Accept returns the next connection.
func (l *few) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	in := &fewConn{Conn: c, of: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open.Len() >= l.most {
		oldest := l.open.Front().Value.(*fewConn)
		oldest.leave()
		_ = oldest.Conn.Close()
	}
	in.at = l.open.PushBack(in)
	return in, nil
}

// leave takes it out of the list; the lock is held.
func (c *fewConn) leave() {
	if c.at != nil {
		c.of.open.Remove(c.at)
		c.at = nil
	}
}

// Close closes it.
func (c *fewConn) Close() error {
	c.of.mu.Lock()
	c.leave()
	c.of.mu.Unlock()
	return c.Conn.Close()
}
