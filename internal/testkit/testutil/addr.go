package testutil

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// addrs are the ports that were given out in this process.
var addrs struct {
	sync.Mutex
	given map[int]bool
}

// Addr returns a loopback address without a listener, for tests that must name it before they
// listen or that listen again later. Its port is outside the ranges from which the system chooses
// ports, so that the system does not give it to another socket meanwhile. No address is returned
// twice.
func Addr(t testing.TB) string {
	t.Helper()
	addrs.Lock()
	defer addrs.Unlock()
	if addrs.given == nil {
		addrs.given = map[int]bool{}
	}
	for range 1000 {
		port := 10_000 + rand.IntN(22_000) // Linux chooses ports above 32767, other systems above 49151
		if addrs.given[port] {
			continue
		}
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		_ = l.Close()
		addrs.given[port] = true
		return addr
	}
	t.Fatal("no port below 32000 is free")
	return ""
}
