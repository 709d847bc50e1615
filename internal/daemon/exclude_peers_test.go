package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
)

// TestExcludePeersDisconnectsPeers: a process of the same user can disconnect peers of a node on
// this machine.
func TestExcludePeersDisconnectsPeers(t *testing.T) {
	dirA := made(t)
	a := joined(t, dirA, "")
	defer func() { stop(t, a) }()
	b := joined(t, followerHome(t, dirA), fmt.Sprintf("%v@%s", a.home.NodeKey.PublicKey(), a.NetworkAddr()))
	defer func() { stop(t, b) }()
	connected := func(peers int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d peers", peers), func() bool { return a.front.Peers() == peers && b.front.Peers() == peers })
	}
	connected(1)
	if err := ExcludePeers(a.home.Paths.Data, []primitives.PublicKey{b.home.NodeKey.PublicKey()}); err != nil {
		t.Fatal(err)
	}
	connected(0)
	if err := ExcludePeers(a.home.Paths.Data, slices.Repeat([]primitives.PublicKey{b.home.NodeKey.PublicKey()},
		maxExcluded+1)); err == nil || !strings.Contains(err.Error(), "the limit is 1000") {
		t.Errorf("too many: %v", err)
	}
	if err := ExcludePeers(a.home.Paths.Data, nil); err != nil {
		t.Fatal(err)
	}
	connected(1)
	if err := ExcludePeers(t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "no node answers") {
		t.Errorf("without a node: %v", err)
	}
}

// TestReachableNodeRefusesToExcludePeers: a node that other machines can reach, or that has no
// peers, refuses.
func TestReachableNodeRefusesToExcludePeers(t *testing.T) {
	for _, c := range []struct{ addr, why string }{{"0.0.0.0:0", "not a loopback address"}, {"", "has no peers"}} {
		hm, err := home.Load(made(t))
		if err != nil {
			t.Fatal(err)
		}
		on := c.addr != ""
		hm.Config.Network.Enabled, hm.Config.Network.Addr = &on, c.addr
		h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		if err := ExcludePeers(hm.Paths.Data, []primitives.PublicKey{hm.NodeKey.PublicKey()}); err == nil ||
			!strings.Contains(err.Error(), c.why) {
			t.Errorf("%q: error %v", c.addr, err)
		}
		stop(t, h)
	}
}
