package testutil

import (
	"net"
	"testing"
)

// TestAddressesDifferAndAreFree: all addresses differ, and a listener can use each.
func TestAddressesDifferAndAreFree(t *testing.T) {
	seen := map[string]bool{}
	for range 50 {
		addr := Addr(t)
		if seen[addr] {
			t.Errorf("%s again", addr)
		}
		seen[addr] = true
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
	}
}
