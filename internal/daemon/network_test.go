package daemon

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/testnode"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// joined starts a node of a network.
func joined(t *testing.T, dir, boot string) *Daemon {
	t.Helper()
	hm, err := home.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	on := true
	n := &hm.Config.Network
	n.Enabled, n.Addr, n.BootNodes = &on, "127.0.0.1:0", boot
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// followerHome is a home for a node of another's chain.
func followerHome(t *testing.T, of string) (dir string) {
	t.Helper()
	return testnode.Home(t, home.InitOptions{GenesisFile: filepath.Join(of, "genesis.json")})
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for limit := time.Now().Add(60 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("never %s", what)
		}
	}
}

// TestFollowedSandboxRefusesStateChanges: a sandbox is one until a peer follows it: then changes
// that the peer would not accept are refused, and accounts that needed no signature have to sign
// again. Its follower reports that it is syncing until it is not, refuses the same changes, and
// finds its peer again after a restart.
func TestFollowedSandboxRefusesStateChanges(t *testing.T) {
	dirA := made(t)
	a := joined(t, dirA, "")
	defer func() { stop(t, a) }()
	key := a.home.ValidatorKey
	send := func(nonce primitives.Nonce) string {
		t.Helper()
		unsigned, _ := encode(draft(a, key, nonce, "near", &primitives.Transfer{Deposit: primitives.NEAR(1)}), nil)
		var status txStatus
		return ask(t, a, "send_tx", map[string]any{"signed_tx_base64": unsigned, "wait_until": "EXECUTED_OPTIMISTIC"}, &status)
	}
	done(t, a, "sandbox_set_clock", `{"advance_nanosec":1000}`)
	done(t, a, "sandbox_set_clock", `{"frozen":false}`)
	base := must(t, a, "sandbox_snapshot", `null`)
	if got := send(1); !strings.Contains(got, "INVALID_TRANSACTION") {
		t.Errorf("unsigned: %q", got)
	}
	done(t, a, "sandbox_impersonate", `{"all":true}`)
	mineBy(t, a, `{"blocks":20}`)

	dirB := followerHome(t, dirA)
	boot := fmt.Sprintf("%v@%s", a.home.NodeKey.PublicKey(), a.NetworkAddr())
	b := joined(t, dirB, boot)
	var none struct{}
	if f := rpcOf(t, b, "health", `[]`, &none); !b.front.Met() && !strings.HasPrefix(f, "NODE_IS_SYNCING") {
		t.Errorf("health of a node without peers: %q", f)
	}
	eventually(t, "in step", func() bool { return b.Engine.Head().Hash == a.Engine.Head().Hash && a.front.Met() })
	if got := send(1); !strings.Contains(got, "INVALID_TRANSACTION") {
		t.Errorf("unsigned, with a peer: %q", got)
	}
	for _, h := range []*Daemon{a, b} {
		for method, params := range map[string]string{
			"sandbox_patch_state": `{"records":[]}`, "sandbox_fast_forward": `[3]`, "sandbox_set_clock": `{"advance_nanosec":1}`, "sandbox_next_epoch": `[]`,
			"sandbox_impersonate": `{"all":true}`, "sandbox_revert": fmt.Sprintf("[%q]", base.ID), "sandbox_load_state": `{"records":[]}`,
		} {
			if f := rpcOf(t, h, method, params, &none); !strings.Contains(f, "not accept it") && (h == a || !strings.HasPrefix(f, "METHOD_NOT_FOUND")) {
				t.Errorf("%s: error %q", method, f)
			}
		}
	}
	mineBy(t, a, `{"blocks":1}`)
	eventually(t, "in step", func() bool { return b.Engine.Head().Hash == a.Engine.Head().Hash })
	if f := rpcOf(t, b, "health", `[]`, &none); f != "" {
		t.Errorf("health: %s", f)
	}
	eventually(t, "remembered", func() bool { return len(b.loadPeers()) == 1 })
	for _, h := range []*Daemon{a, b} { // each sent one handshake and received one
		text := string(h.front.Metrics(nil))
		for _, want := range []string{"received", "sent"} {
			if want = "near_peer_message_" + want + "_by_type_total{type=\"Tier2Handshake\"} 1\n"; !strings.Contains(text, want) {
				t.Errorf("no %s in %s", want, text)
			}
		}
	}
	for name, want := range map[string]float64{"near_peer_connections": 1, "near_edge_active": 1} {
		eventually(t, name, func() bool { return metricOf(t, "http://"+a.Addr.String(), name) == want })
	}
	stop(t, b)
	b = joined(t, dirB, "")
	defer func() { stop(t, b) }()
	mineBy(t, a, `{"blocks":3}`)
	eventually(t, "in step", func() bool { return b.Engine.Head().Hash == a.Engine.Head().Hash })
}

func TestUnreadablePeersFileCountsAsEmpty(t *testing.T) {
	h := joined(t, made(t), "")
	defer stop(t, h)
	if got := h.loadPeers(); got != nil {
		t.Errorf("at first %v", got)
	}
	list, err := Peers("test", "ed25519:7PGseFbWxvYVgZ89K1uTJKYoKetWs7BJtbyXDzfbAcqX@127.0.0.1:24567,ed25519:6DSjZ8mvsRZDvFqFxo8tCKePG96omXW7eVYVSySmDk8e@localhost:1@a.near")
	if err != nil || len(list) != 2 || list[1].AccountID != "a.near" || !list[1].Addr.Addr().IsLoopback() {
		t.Fatalf("list %v, error %v", list, err)
	}
	h.storePeers(list)
	if got := h.loadPeers(); len(got) != 2 || got[0] != list[0] || got[1] != list[1] {
		t.Errorf("got %v", got)
	}
	h.storePeers([]wire.PeerInfo{{ID: "\x07"}})
	if got := h.loadPeers(); got != nil {
		t.Errorf("of a key that is none: %v", got)
	}
	if _, err := Peers("test", "ed25519:7PGseFbWxvYVgZ89K1uTJKYoKetWs7BJtbyXDzfbAcqX@no such host:1"); err == nil {
		t.Error("an unknown host was accepted")
	}
	black := blacklist([]string{"10.0.0.1", "10.0.0.2:7"})
	for addr, want := range map[string]bool{"10.0.0.1:1": true, "10.0.0.2:7": true, "10.0.0.2:8": false, "10.0.0.3:7": false} {
		if got := black(netip.MustParseAddrPort(addr)); got != want {
			t.Errorf("%s: got %v", addr, got)
		}
	}
}

// TestHeightJumpOfPeersIsBounded: a node with a network accepts no block more than 20 epochs above
// its tip, like neard. A sandbox has no limit.
func TestHeightJumpOfPeersIsBounded(t *testing.T) {
	c := &engine.ChainSpec{Params: &epoch.GenesisParams{Epoch: epoch.Config{EpochLength: 500}}}
	if got, want := maxHeightJump(true, c), primitives.Height(10_000); got != want {
		t.Errorf("a node with a network: %d, want %d", got, want)
	}
	if got := maxHeightJump(false, c); got != 0 {
		t.Errorf("a sandbox: %d, want no limit", got)
	}
}

// TestPublicIPComesFromStunServers: the configured STUN servers are asked, and their answer must be
// an address that other nodes can reach.
func TestPublicIPComesFromStunServers(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() { // answers each binding request with the sender's address
		buf := make([]byte, 100)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			ip := from.(*net.UDPAddr).AddrPort().Addr().Unmap().As4()
			reply := append([]byte{1, 1, 0, 12}, buf[4:n]...)
			reply = append(reply, 0, 0x20, 0, 8, 0, 1, 0, 0, ip[0]^0x21, ip[1]^0x12, ip[2]^0xa4, ip[3]^0x42)
			_, _ = conn.WriteTo(reply, from)
		}
	}()
	c := &config.Network{Addr: "0.0.0.0:24567", Stun: []string{conn.LocalAddr().String()}, AllowPrivate: true}
	if ip, err := (stunSource{c}).PublicIP(t.Context()); err != nil || ip.String() != "127.0.0.1" {
		t.Errorf("%v, %v", ip, err)
	}
	c.AllowPrivate = false
	if _, err := (stunSource{c}).PublicIP(t.Context()); err == nil || !strings.Contains(err.Error(), "not a public address") {
		t.Errorf("a loopback address of a STUN server: %v", err)
	}
}

// TestAddressFamilyIsThatOfTheConfig: a node with neard's default address asks for an IPv4 address.
func TestAddressFamilyIsThatOfTheConfig(t *testing.T) {
	for addr, want := range map[string]bool{"0.0.0.0:24567": true, ":24567": true, "": true, "10.0.0.1:5": true, "node.example:5": true,
		"[::ffff:10.0.0.1]:5": true, "[::]:24567": false, "[2001:db8::1]:5": false} {
		if got := listensIPv4(addr); got != want {
			t.Errorf("%q: %v, want %v", addr, got, want)
		}
	}
	hm := loaded(t, made(t))
	if l, err := tcp.Bind("0.0.0.0:0"); err != nil {
		t.Error(err)
	} else if _ = l.Close(); !listensIPv4(hm.Config.Network.Addr) {
		t.Errorf("the default %s (listener %v) is taken for IPv6", hm.Config.Network.Addr, l.Addr())
	}
}

// TestT3AddressIsTheConfigured: network.experimental.tier3_public_addr is the address to which hosts
// connect, and the metric shows it. Peers of an earlier run are not dialled if the configuration says
// so.
func TestT3AddressIsTheConfigured(t *testing.T) {
	hm, err := home.Load(made(t))
	if err != nil {
		t.Fatal(err)
	}
	on := true
	n := &hm.Config.Network
	n.Enabled, n.Addr = &on, "127.0.0.1:0"
	n.Experimental.T3Addr = "203.0.113.5:24567"
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { stop(t, h) }()
	want := `near_tier3_public_addr{addr="203.0.113.5:24567"} 1`
	eventually(t, "shown", func() bool { return strings.Contains(string(h.front.Metrics(nil)), want) })
	h.storePeers([]wire.PeerInfo{{ID: hm.NodeKey.PublicKey(), Addr: netip.MustParseAddrPort("127.0.0.1:1")}})
	for _, forget := range []bool{false, true} {
		if n.Experimental.ForgetPeers = forget; len(h.peersOfBefore()) > 0 == forget {
			t.Errorf("ForgetPeers %v: dials %v", forget, h.peersOfBefore())
		}
	}
}

// TestDebugPagesShowPeers: the debug pages about peers show a connection. A node without a network
// serves the same pages without entries.
func TestDebugPagesShowPeers(t *testing.T) {
	dir := made(t)
	start := func(dir, boot string, on bool) *Daemon {
		hm := loaded(t, dir)
		n := &hm.Config.Network
		hm.Config.RPC.Debug, n.Enabled, n.Addr, n.BootNodes = true, &on, "127.0.0.1:0", boot
		h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(t, h) })
		return h
	}
	a := start(dir, "", true)
	id := a.home.NodeKey.PublicKey().String()
	b := start(followerHome(t, dir), id+"@"+a.NetworkAddr().String(), true)
	alone := start(made(t), "", false)
	for page, want := range map[string][2]string{ // part of b's page; the page of the node without a network
		"peer_store": {`{"status_response":{"PeerStore":{"peer_states":[{"peer_id":"` + id + `","status":"Connected","addr":"Some(` + a.NetworkAddr().String() + `)"`,
			`{"status_response":{"PeerStore":{"peer_states":[]}}}`},
		"network_graph":               {`"next_hops":{"` + id + `":["` + id + `"]}`, `{"status_response":{"NetworkGraph":{"edges":[],"next_hops":{}}}}`},
		"recent_outbound_connections": {`{"recent_outbound_connections":[]}`, `{"status_response":{"RecentOutboundConnections":{"recent_outbound_connections":[]}}}`},
		"snapshot_hosts":              {`{"status_response":{"SnapshotHosts":{"hosts":[`, `{"status_response":{"SnapshotHosts":{"hosts":[]}}}`},
	} {
		eventually(t, page, func() bool {
			status, body := get(t, b, "/debug/api/"+page)
			return status == 200 && strings.Contains(body, want[0])
		})
		if status, body := get(t, alone, "/debug/api/"+page); status != 200 || body != want[1] {
			t.Errorf("%s without a network: %d %s", page, status, body)
		}
	}
	_, body := get(t, b, "/debug/api/peer_store")
	if !strings.Contains(body, `"Ok"]`) {
		t.Errorf("the dial is not shown: %s", body)
	}
}
