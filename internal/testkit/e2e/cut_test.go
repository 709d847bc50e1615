//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// partition are two network namespaces on one bridge. The connection between them can be cut while
// this process reaches both.
type partition struct {
	t     *testing.T
	names [2]string
	addrs [2]string
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// newPartition makes the two namespaces, or skips the test if it lacks the permission.
func newPartition(t *testing.T) *partition {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: network namespaces want root")
	}
	n := os.Getpid() % 250
	bridge := fmt.Sprintf("trp%d", n)
	if out, err := exec.Command("ip", "link", "add", bridge, "type", "bridge").CombinedOutput(); err != nil {
		t.Skipf("skipped: no network namespaces here: %v\n%s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", bridge).Run() })
	ip(t, "addr", "add", fmt.Sprintf("10.233.%d.1/24", n), "dev", bridge)
	ip(t, "link", "set", bridge, "up")
	s := &partition{t: t}
	for i, side := range []string{"a", "b"} {
		s.names[i], s.addrs[i] = bridge+side, fmt.Sprintf("10.233.%d.%d", n, 2+i)
		outer, inner := s.names[i]+"o", s.names[i]+"i"
		ip(t, "netns", "add", s.names[i])
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", s.names[i]).Run() })
		ip(t, "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", s.names[i])
		ip(t, "link", "set", outer, "master", bridge, "up")
		for _, command := range [][]string{{"addr", "add", s.addrs[i] + "/24", "dev", inner}, {"link", "set", inner, "up"}, {"link", "set", "lo", "up"}} {
			ip(t, append([]string{"-n", s.names[i]}, command...)...)
		}
	}
	return s
}

// cut drops all packets between the two namespaces; TCP connections are not reset.
func (s *partition) cut() { s.routes("add") }

// heal undoes cut.
func (s *partition) heal() { s.routes("del") }

func (s *partition) routes(verb string) {
	s.t.Helper()
	for i := range s.names {
		ip(s.t, "-n", s.names[i], "route", verb, "blackhole", s.addrs[1-i]+"/32")
	}
}

// home returns the address of node i: nodes with even numbers are on one side, those with odd
// numbers on the other.
func (s *partition) home(i int, dir string) nodeHome {
	at := s.addrs[i%2]
	return nodeHome{home: dir, network: fmt.Sprintf("%s:%d", at, 24560+i), rpc: fmt.Sprintf("%s:%d", at, 3030+i), by: []string{"ip", "netns", "exec", s.names[i%2]}}
}

// TestMixedNetworkHealsAfterPartition: of two neards and two troupes, one of each is cut off from
// the others for 20 s. No block becomes final on either side. After the repair all continue on one
// chain, which contains the blocks that were final before.
func TestMixedNetworkHealsAfterPartition(t *testing.T) {
	s := newPartition(t)
	b := newMixedClusterAt(t, 4, 2, 4, 300, s.home, nil)
	b.run(length(t, 300), func(from uint64) {
		b.until(from+40, 10*time.Minute)
		s.cut()
		time.Sleep(2 * time.Second) // packets in transit
		var was [4]head
		for i, p := range b.p {
			was[i] = p.head("final")
		}
		time.Sleep(18 * time.Second)
		for i, p := range b.p {
			now := p.head("final")
			t.Logf("%s %d, cut off: final %d, then %d", b.kind(i), i, was[i].Header.Height, now.Header.Height)
			if now.Header.Height > was[i].Header.Height {
				t.Errorf("%s %d: two of four make %d final behind %d", b.kind(i), i, now.Header.Height, was[i].Header.Height)
			}
			was[i] = now
		}
		s.heal()
		begun, at := time.Now(), b.highest()
		b.until(at+5, 2*time.Minute)
		t.Logf("healed: five more heights are final on all after %v", time.Since(begun).Round(100*time.Millisecond))
		for i, p := range b.p {
			for k := range was {
				var h head
				p.get("block", map[string]any{"block_id": was[k].Header.Height}, &h)
				if h != was[k] {
					t.Errorf("%s %d has %s at %d, which was %s and final on %d", b.kind(i), i, h.Header.Hash, h.Header.Height, was[k].Header.Hash, k)
				}
			}
		}
	})
}
