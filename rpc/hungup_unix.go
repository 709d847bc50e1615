//go:build unix

package rpc

import (
	"net"
	"syscall"
)

// hungUp tells whether the other side has closed a connection or broken it off, without reading from it. A connection that
// is none of the system's never is.
func hungUp(c net.Conn) bool {
	if ours, ok := c.(*conn); ok {
		c = ours.Conn
	}
	if sealed, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = sealed.NetConn()
	}
	system, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := system.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Control(func(fd uintptr) { gone = closed(int(fd)) })
	return err != nil || gone
}
