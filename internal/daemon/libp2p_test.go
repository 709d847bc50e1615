package daemon

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
)

// over starts a node of a network over a transport. With both transports it dials its peers by
// libp2p.
func over(t *testing.T, dir, transport, boot string) *Daemon {
	t.Helper()
	hm, err := home.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	on := true
	n := &hm.Config.Network
	n.Enabled, n.Addr, n.BootNodes, n.Transport, n.Libp2p.Addr = &on, "127.0.0.1:0", boot, transport, "127.0.0.1:0"
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, h) })
	return h
}

// TestBridgeRelaysBetweenTransports: a bridge follows a node with sockets only, and is followed by
// a node with libp2p only; both reach the same head, each new block passes, and a transaction
// submitted to the last reaches the first.
func TestBridgeRelaysBetweenTransports(t *testing.T) {
	dirA := made(t)
	a := over(t, dirA, config.Near, "")
	mineBy(t, a, `{"blocks":20}`)
	b := over(t, followerHome(t, dirA), config.Both, fmt.Sprintf("%v@%s", a.home.NodeKey.PublicKey(), a.NetworkAddr()))
	at, err := b.libp2pOptions(b.network)
	if err != nil || !strings.HasPrefix(at.Listen.String(), "127.0.0.1:") {
		t.Fatalf("got %v, error %v", at, err)
	}
	var addr net.Addr
	eventually(t, "listening", func() bool {
		if p := b.libp2pTransport.Load(); p != nil {
			addr = net.TCPAddrFromAddrPort(p.Addr())
		}
		return addr != nil
	})
	c := over(t, followerHome(t, dirA), config.OverLibp2p, fmt.Sprintf("%v@%s", b.home.NodeKey.PublicKey(), addr))
	same := func() bool {
		return c.Engine.Head().Hash == a.Engine.Head().Hash && b.Engine.Head().Hash == a.Engine.Head().Hash
	}
	eventually(t, "in step", func() bool { return a.Engine.Head().Height() >= 20 && same() })
	for range 3 {
		mineBy(t, a, `{"blocks":1}`)
		eventually(t, "in step", same)
	}
	if text := string(c.appendMetrics(nil)); !strings.Contains(text, "\ntroupe_libp2p_peers 1\n") {
		t.Error("network_info has no libp2p peer")
	}
	if text := string(a.appendMetrics(nil)); strings.Contains(text, "troupe_libp2p_") {
		t.Error("a node without libp2p reports a libp2p address")
	}
	key := a.home.ValidatorKey
	eventually(t, "known", func() bool { return len(c.front.Info().KnownProducers) == 1 })
	signed, hash := encode(draft(c, key, 1, "near", &primitives.Transfer{Deposit: primitives.NEAR(1)}), key)
	before := a.Engine.Head().Height()
	var said string
	if f := rpcOf(t, c, "broadcast_tx_async", fmt.Sprintf("[%q]", signed), &said); f != "" || said != hash.String() {
		t.Errorf("broadcast_tx_async: %s, %s", said, f)
	}
	eventually(t, "in a block", func() bool { return a.Engine.Head().Height() > before && same() })
}
