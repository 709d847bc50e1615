//go:build !unix

package rpc

import "net"

// hungUp is not supported on this system. A wait whose client has gone ends by its timeout.
func hungUp(net.Conn) bool { return false }

// wasReset is not supported on this system. Writing the reply to a reset connection fails.
func wasReset(net.Conn) bool { return false }

func fdOf(net.Conn) int { return -1 }

func closedOf([]int, func(int)) {}
