package daemon

import (
	"container/list"
	"net"
	"sync"
)

// limitListener limits the open connections of a listener. Above the limit, a new connection closes
// the oldest one. So idle clients cannot lock out new clients or use up file descriptors.
type limitListener struct {
	net.Listener
	most int
	mu   sync.Mutex
	open list.List // open connections (*limitedConn), oldest first
}

type limitedConn struct {
	net.Conn
	of *limitListener
	at *list.Element // element of limitListener.open; nil: the connection was removed
}

// Accept returns the next connection. If the limit is reached, Accept first closes the oldest open
// connection.
func (l *limitListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	in := &limitedConn{Conn: c, of: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open.Len() >= l.most {
		oldest := l.open.Front().Value.(*limitedConn)
		oldest.remove()
		_ = oldest.Conn.Close()
	}
	in.at = l.open.PushBack(in)
	return in, nil
}

// remove removes c from the list. The caller holds the lock.
func (c *limitedConn) remove() {
	if c.at != nil {
		c.of.open.Remove(c.at)
		c.at = nil
	}
}

// Close closes the connection and removes it from the list.
func (c *limitedConn) Close() error {
	c.of.mu.Lock()
	c.remove()
	c.of.mu.Unlock()
	return c.Conn.Close()
}
