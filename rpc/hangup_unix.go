//go:build unix

package rpc

import (
	"net"
	"syscall"
)

// rawOf is the system's side of a connection, as far as it has one; nil: it is none of the
// system's, or closed.
func rawOf(c net.Conn) (raw syscall.RawConn, is bool) {
	if ours, ok := c.(*conn); ok {
		c = ours.Conn
	}
	if sealed, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = sealed.NetConn()
	}
	system, ok := c.(syscall.Conn)
	if !ok {
		return nil, false
	}
	raw, err := system.SyscallConn()
	if err != nil {
		raw = nil
	}
	return raw, true
}

// hungUp tells whether the other side has closed a connection or broken it off, without reading
// from it. A connection that is none of the system's never is.
func hungUp(c net.Conn) bool {
	raw, is := rawOf(c)
	if !is || raw == nil {
		return is
	}
	gone := false
	err := raw.Control(func(fd uintptr) { gone = closed(int(fd)) })
	return err != nil || gone
}

// fdOf is a connection's number, -1 if it has none.
func fdOf(c net.Conn) (n int) {
	n = -1
	if raw, _ := rawOf(c); raw != nil {
		_ = raw.Control(func(fd uintptr) { n = int(fd) }) // of a closed one there is none
	}
	return n
}
