//go:build !linux

package tcp

import "syscall"

// Patience is the Control function of sockets to peers. On this system TCP's defaults apply.
func Patience(_, _ string, _ syscall.RawConn) error { return nil }
