//go:build unix

package rpc

import (
	"net"
	"syscall"
)

// rawOf returns the system's handle of a connection; nil if the connection is closed. is is false
// if the connection has no file descriptor.
func rawOf(c net.Conn) (raw syscall.RawConn, is bool) {
	if ours, ok := c.(*conn); ok {
		c = ours.Conn
	}
	if sealed, ok := c.(interface{ NetConn() net.Conn }); ok { // a TLS connection
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

// hungUp returns whether the peer has closed or reset a connection. hungUp does not read from the
// connection. It returns false for a connection without a file descriptor.
func hungUp(c net.Conn) bool {
	raw, is := rawOf(c)
	if !is || raw == nil {
		return is
	}
	gone := false
	err := raw.Control(func(fd uintptr) { gone = closed(int(fd)) })
	return err != nil || gone
}

// wasReset returns whether the peer has reset a connection, so that no reply can be sent. It
// returns false for a connection without a file descriptor.
func wasReset(c net.Conn) bool {
	raw, _ := rawOf(c)
	if raw == nil {
		return false
	}
	gone := false
	err := raw.Control(func(fd uintptr) { gone = broken(int(fd)) })
	return err != nil || gone
}

// fdOf returns a connection's file descriptor; -1 if it has none.
func fdOf(c net.Conn) (n int) {
	n = -1
	if raw, _ := rawOf(c); raw != nil {
		_ = raw.Control(func(fd uintptr) { n = int(fd) }) // Control fails if the connection is closed
	}
	return n
}
