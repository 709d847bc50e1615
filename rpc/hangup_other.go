//go:build !unix

package rpc

import "net"

// hungUp is not supported on this system: a wait ends by its timeout.
func hungUp(net.Conn) bool { return false }

// wasReset is not supported on this system: writing the reply fails.
func wasReset(net.Conn) bool { return false }

func fdOf(net.Conn) int { return -1 }

func closedOf([]int, func(int)) {}
