package near

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

func headAt(h primitives.Height) Head {
	header := &primitives.BlockHeader{Version: primitives.HeaderV6, Signature: primitives.ZeroED25519Signature}
	header.Height = h
	header.Init()
	return Head{Block: &primitives.Block{Header: header}}
}

// started returns the outcome of a transaction that has started.
func started() (b []byte) {
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "x").PublicKey()
	id := primitives.AccountID("a.near")
	b = append(key.AppendBorsh(id.AppendBorsh([]byte{1})), make([]byte, 8)...)
	b = append(id.AppendBorsh(b), make([]byte, 4+8)...)
	b = append(primitives.ZeroED25519Signature.AppendBorsh(b), make([]byte, 32+1+1+4+32+32+4+4+8+16)...)
	return append(id.AppendBorsh(b), make([]byte, 1+4+1+1+4)...)
}

// withoutDialling makes a node dial no peer.
func withoutDialling(c *Config) { c.IdealLow, c.MinOutbound = -1, -1 }

// TestMessagesAfterHandshakeMatchNeard checks the messages after a T2 handshake, and their order,
// against those of neard.
func TestMessagesAfterHandshakeMatchNeard(t *testing.T) {
	f := newTestNetwork(t, 1)
	a, b := f.add("a", withoutDialling), f.add("b", withoutDialling)
	for _, m := range []*testNode{a, b} {
		f.step(m, headAt(5))
	}
	f.dial(a, b, wire.T2)
	f.run(2 * time.Second)
	if got, want := f.wrote("b", "a"), "tier2_handshake sync_routing_table sync_snapshot_hosts sync_routing_table peers_request block_response "+
		"peers_response sync_accounts_data"; !sameWords(got, want, 6) {
		t.Errorf("the listener writes\n%s, want\n%s", got, want)
	}
	if got, want := f.wrote("a", "b"), "tier2_handshake sync_routing_table sync_snapshot_hosts sync_routing_table sync_accounts_data peers_request "+
		"block_response peers_response"; !sameWords(got, want, 3) {
		t.Errorf("the dialler writes\n%s, want\n%s", got, want)
	}
	for _, m := range []*testNode{a, b} {
		if len(m.Info().Peers) != 1 || m.Info().Peers[0].Height != 5 || m.Info().Reachable != 1 {
			t.Errorf("%s: %+v", m.name, m.Info())
		}
		if len(m.delivered) != 1 || m.delivered[0].Msg.Kind() != wire.KindBlock || m.delivered[0].Requested {
			t.Errorf("%s got %+v", m.name, m.delivered)
		}
	}
	if a.Info().Public != a.ListenAddr || b.Info().Public != b.ListenAddr {
		t.Errorf("own addresses %v and %v", a.Info().Public, b.Info().Public)
	}
	if e := a.graph.Local(b.me); e == nil || !e.Active() || !e.Verify() || e.Nonce != wire.FreshNonce(start.Unix()) {
		t.Errorf("edge %+v", e)
	}
	if n := strings.Count(f.wrote("a", "b"), "block_response"); n != 1 {
		t.Errorf("%d blocks in two seconds", n)
	}
	f.run(61 * time.Second)
	if n := strings.Count(f.wrote("a", "b"), "block_response"); n != 2 {
		t.Errorf("%d blocks in a minute", n)
	}
}

// sameWords compares the first n words in order, and the rest as a set.
func sameWords(got, want string, n int) bool {
	g, w := strings.Fields(got), strings.Fields(want)
	if len(g) != len(w) || !slices.Equal(g[:n], w[:n]) {
		return false
	}
	slices.Sort(g)
	slices.Sort(w)
	return slices.Equal(g, w)
}

// TestHandshakeErrorsAreCheckedInOrder sends handshakes with one error each, in the order of
// neard's checks.
func TestHandshakeErrorsAreCheckedInOrder(t *testing.T) {
	owner := keyFor("owner")
	tests := []struct {
		name  string
		spoil func(h *wire.Handshake, l *testNode)
		want  string // kinds written, and the close
	}{
		{"nothing", func(*wire.Handshake, *testNode) {}, "tier2_handshake"},
		{"version too low", func(h *wire.Handshake, _ *testNode) { h.Version = 82 }, "ProtocolVersionMismatch"},
		{"the oldest version", func(h *wire.Handshake, _ *testNode) { h.Version = 83 }, "tier2_handshake"},
		{"version too high", func(h *wire.Handshake, _ *testNode) { h.Version = 87 }, "ProtocolVersionMismatch"},
		{"version before genesis", func(h *wire.Handshake, _ *testNode) { h.Version, h.Chain.Genesis.ChainID = 87, "x" }, "ProtocolVersionMismatch"},
		{"another chain", func(h *wire.Handshake, _ *testNode) { h.Chain.Genesis.ChainID = "x" }, "GenesisMismatch"},
		{"another genesis", func(h *wire.Handshake, _ *testNode) { h.Chain.Genesis.Hash[0] = 1 }, "GenesisMismatch"},
		{"genesis before target", func(h *wire.Handshake, _ *testNode) { h.Chain.Genesis.ChainID, h.Target = "x", h.Sender }, "GenesisMismatch"},
		{"another target", func(h *wire.Handshake, _ *testNode) { h.Target = idOf("c") }, "InvalidTarget"},
		{"nonce 0", func(h *wire.Handshake, _ *testNode) { h.PartialEdge.Nonce = 0 }, "disconnect HandshakeFailed"},
		{"an old nonce", func(h *wire.Handshake, l *testNode) {
			h.PartialEdge = wire.SignEdge(keyFor("a"), l.me, uint64(start.Unix()-1199)|1)
		}, "tier2_handshake"},
		{"too old a nonce", func(h *wire.Handshake, l *testNode) {
			h.PartialEdge = wire.SignEdge(keyFor("a"), l.me, uint64(start.Unix()-1201)|1)
		}, "disconnect HandshakeFailed"},
		{"too new a nonce", func(h *wire.Handshake, l *testNode) {
			h.PartialEdge = wire.SignEdge(keyFor("a"), l.me, uint64(start.Unix()+1200)|1)
		}, "disconnect HandshakeFailed"},
		{"an even nonce", func(h *wire.Handshake, l *testNode) {
			h.PartialEdge = wire.SignEdge(keyFor("a"), l.me, uint64(start.Unix()))
		}, "disconnect RejectedByPeerManager"},
		{"a signature of another", func(h *wire.Handshake, l *testNode) {
			h.PartialEdge.Signature = wire.SignEdge(keyFor("c"), l.me, h.PartialEdge.Nonce).Signature
		}, "disconnect RejectedByPeerManager"},
		{"no listen port", func(h *wire.Handshake, _ *testNode) { h.ListenPort = 0 }, "disconnect RejectedByPeerManager"},
		{"an owned account", func(h *wire.Handshake, _ *testNode) { own(h, owner, h.Sender, start) }, "tier2_handshake"},
		{"an owned account of another", func(h *wire.Handshake, _ *testNode) { own(h, owner, idOf("c"), start) }, "disconnect OwnedAccountMismatch"},
		{"an owned account of long ago", func(h *wire.Handshake, _ *testNode) { own(h, owner, h.Sender, start.Add(-30*time.Minute)) }, "disconnect TooLargeClockSkew"},
		{"an owned account of not so long ago", func(h *wire.Handshake, _ *testNode) { own(h, owner, h.Sender, start.Add(-30*time.Minute+time.Second)) }, "tier2_handshake"},
		{"a forged owned account", func(h *wire.Handshake, _ *testNode) {
			own(h, owner, h.Sender, start)
			h.OwnedAccount.Signature = keyFor("c").Sign(h.OwnedAccount.Payload)
		}, "disconnect Ban"},
		{"a banned peer", func(h *wire.Handshake, l *testNode) {
			l.known.connected(start, wire.PeerInfo{ID: h.Sender, Addr: netip.MustParseAddrPort("9.9.9.9:9")})
			l.Step(start, Ban{h.Sender, Abusive})
		}, "disconnect RejectedByPeerManager"},
		{"T1 without a key that counts", func(h *wire.Handshake, _ *testNode) { h.Tier = wire.T1; own(h, owner, h.Sender, start) }, "disconnect RejectedByPeerManager"},
		{"T1 with a key that counts", func(h *wire.Handshake, l *testNode) {
			h.Tier = wire.T1
			own(h, owner, h.Sender, start)
			head := headAt(1)
			head.T1 = map[primitives.AccountID][]primitives.PublicKey{"o": {owner.PublicKey()}}
			l.Step(start, head)
		}, "tier1_handshake"},
		{"T3 that nobody waits for", func(h *wire.Handshake, _ *testNode) { h.Tier = wire.T3 }, "disconnect RejectedByPeerManager"},
		{"T3 that was asked for", func(h *wire.Handshake, l *testNode) {
			h.Tier = wire.T3
			l.PublicAddr = l.ListenAddr
			l.Step(start, AskState{Host: h.Sender})
		}, "tier3_handshake"},
		{"no room", func(h *wire.Handshake, l *testNode) { l.MaxPeers = -1 }, "disconnect RejectedByPeerManager"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newTestNetwork(t, 1)
			a, l := f.add("a", withoutDialling), f.add("l", withoutDialling)
			l.Step(start, Accepted{1, netip.MustParseAddrPort("1.2.3.4:5")})
			h := a.handshake(start, wire.T2, l.me, 86, a.propose(start, l.me))
			tt.spoil(h, l)
			effects := l.Step(start, Received{Conn: 1, Msg: h})
			if tt.want == "tier2_handshake" {
				effects = append(effects, l.Step(start.Add(time.Second), Tick{})...)
			}
			var got []string
			for _, e := range effects {
				switch e := e.(type) {
				case Write:
					if f, ok := e.Msg.(*wire.HandshakeFailure); ok {
						got = append(got, f.Reason.String())
					} else {
						got = append(got, e.Msg.Kind().String())
					}
				case Close:
					got = append(got, e.Reason.String())
				}
			}
			if len(got) == 0 || !strings.HasPrefix(strings.Join(got, " "), tt.want) || strings.HasPrefix(tt.want, "disc") && len(got) != 2 {
				t.Errorf("%v, want %s", got, tt.want)
			}
			skewed := map[string]int{"too old a nonce": -1, "too new a nonce": 1, "an owned account of long ago": -1}[tt.name]
			switch list := l.Info().Skews; {
			case skewed == 0 && len(list) == 0:
			case len(list) != 1 || skewed == 0 || list[0].Peer != a.me || list[0].Ahead*time.Duration(skewed) < 19*time.Minute:
				t.Errorf("differences of clocks: %v", list)
			}
		})
	}
}

// TestOneAddressDoesNotBlockOthers: connections of one address without a handshake do not keep out
// other addresses.
func TestOneAddressDoesNotBlockOthers(t *testing.T) {
	l := newTestNetwork(t, 1).add("l", withoutDialling)
	id := ConnID(0)
	from := func(addr string, n int) (kept int) {
		for range n {
			id++
			if kept++; slices.ContainsFunc(l.Step(start, Accepted{id, netip.MustParseAddrPort(addr)}), func(e Effect) bool { _, is := e.(Close); return is }) {
				kept--
			}
		}
		return kept
	}
	for _, x := range []struct {
		addr    string
		n, want int
	}{{"1.2.3.4:5", 100, 30}, {"1.2.3.5:5", 100, 15}, {"1.2.3.6:5", 1, 1}, {"1.2.3.4:6", 1, 0}} {
		if got := from(x.addr, x.n); got != x.want {
			t.Errorf("%d of %d of %s are kept, want %d", got, x.n, x.addr, x.want)
		}
	}
}

func own(h *wire.Handshake, key primitives.SecretKey, peer wire.PeerID, at time.Time) {
	h.OwnedAccount = &wire.OwnedAccount{PeerID: peer, Timestamp: timestamp(at)}
	h.OwnedAccount.Sign(key)
}

// TestDiallerRetriesAboveReceivedEdge: a dialling node with a nonce that is too low tries again
// above the edge that it receives, on the same connection.
func TestDiallerRetriesAboveReceivedEdge(t *testing.T) {
	f := newTestNetwork(t, 1)
	a, b := f.add("a", withoutDialling), f.add("b", withoutDialling)
	nonce := uint64(start.Unix()+100) | 1
	edge := wire.NewEdge(a.me, b.me, nonce, wire.SignEdge(a.Key, b.me, nonce).Signature, wire.SignEdge(b.Key, a.me, nonce).Signature)
	b.graph.Add(start, []*wire.Edge{edge}, "")
	f.dial(a, b, wire.T2)
	f.run(3 * time.Second)
	if got := f.wrote("b", "a"); !strings.HasPrefix(got, "last_edge tier2_handshake") {
		t.Errorf("the listener writes %s", got)
	}
	if e := a.graph.Local(b.me); e == nil || e.Nonce != nonce+2 {
		t.Errorf("edge %+v, want nonce %d", e, nonce+2)
	}
	// An edge that is older than the proposed one, of other nodes, or unsigned ends it.
	for i, bad := range []func(e *wire.Edge){func(e *wire.Edge) { e.Nonce = 1 }, func(e *wire.Edge) { e.LowSig = e.HighSig },
		func(e *wire.Edge) { e.High = idOf("c") }} {
		a := newTestNetwork(t, 1).add("a", withoutDialling)
		a.Step(start, Dialled{1, b.info(), wire.T2})
		e := *edge
		bad(&e)
		if got := a.Step(start, Received{Conn: 1, Msg: &wire.LastEdge{Edge: &e}}); !hasClose(got, HandshakeFailed) {
			t.Errorf("bad edge %d: %v", i, got)
		}
	}
}

func hasClose(effects []Effect, why CloseReason) bool {
	return slices.ContainsFunc(effects, func(e Effect) bool { c, ok := e.(Close); return ok && c.Reason == why })
}

func hasBan(effects []Effect, why Reason) bool {
	return slices.ContainsFunc(effects, func(e Effect) bool { c, ok := e.(Close); return ok && c.Reason == Banned && c.Ban == why })
}

// TestDiallerAgreesToCommonVersion: a dialling node agrees to an older common protocol version, and
// gives up if there is none.
func TestDiallerAgreesToCommonVersion(t *testing.T) {
	f := newTestNetwork(t, 1)
	a := f.add("a", withoutDialling)
	b := f.add("b", func(c *Config) { withoutDialling(c); c.Version, c.Oldest = 85, 84 })
	f.dial(a, b, wire.T2)
	f.run(2 * time.Second)
	if len(a.Info().Peers) != 1 || len(b.Info().Peers) != 1 {
		t.Errorf("85 and 86 do not meet: %v", f.log)
	}
	c := f.add("c", func(c *Config) { withoutDialling(c); c.Version, c.Oldest = 90, 87 })
	f.dial(a, c, wire.T2)
	f.run(2 * time.Second)
	if len(c.Info().Peers) != 0 || f.log[len(f.log)-1] != "a closes HandshakeFailed" && !slices.Contains(f.log, "a closes HandshakeFailed") {
		t.Errorf("86 and 87 meet: %v", f.log)
	}
}

// TestCrossedDialOfLowerIDIsKept: of two simultaneous dials, that of the lower id is kept.
func TestCrossedDialOfLowerIDIsKept(t *testing.T) {
	f := newTestNetwork(t, 1)
	lo, hi := low("a", "b")
	x, y := f.add(lo, withoutDialling), f.add(hi, withoutDialling)
	f.step(x, Tick{})
	f.dial(x, y, wire.T2)
	f.dial(y, x, wire.T2)
	f.run(3 * time.Second)
	for _, m := range []*testNode{x, y} {
		p := m.Info().Peers
		if len(p) != 1 || p[0].Inbound != (m == y) {
			t.Errorf("%s has %+v\n%s", m.name, p, strings.Join(f.log, "\n"))
		}
	}
}

// TestMessagesTakeShortestPath: messages take a shortest path, and responses return on it, over
// nodes that are not connected.
func TestMessagesTakeShortestPath(t *testing.T) {
	f := newTestNetwork(t, 1)
	var m [4]*testNode
	for i := range m {
		m[i] = f.add(fmt.Sprint("n", i), withoutDialling)
	}
	for i := range 3 {
		f.dial(m[i], m[i+1], wire.T2)
	}
	f.run(10 * time.Second)
	if r := m[0].Info().Reachable; r != 3 {
		t.Fatalf("%d of 3 reachable", r)
	}
	f.log = nil
	q := &wire.TxStatusRequest{Signer: "a.near"}
	f.step(m[0], RouteTo{wire.ToPeer(m[3].me), q})
	f.run(time.Second)
	if len(m[3].delivered) != 1 {
		t.Fatalf("not delivered: %v", f.log)
	}
	got := m[3].delivered[0].Msg.(*wire.Routed)
	if got.Author != m[0].me || got.TTL != 98 || got.Hops != 2 || m[3].delivered[0].From != m[2].me {
		t.Errorf("delivered %+v", got)
	}
	for range 2 { // the second response has no route
		f.step(m[3], RouteTo{wire.RouteBack(got.Hash()), &wire.WitnessAck{}})
	}
	f.run(time.Second)
	if len(m[0].delivered) != 1 || len(m[1].delivered)+len(m[2].delivered) != 0 {
		t.Errorf("answers: %+v", m[0].delivered)
	}
	f.log = nil
	f.step(m[0], RouteTo{wire.ToPeer(m[3].me), &wire.Ping{Nonce: 1, Source: m[0].me}})
	f.run(time.Second)
	if got := strings.Join(f.log, " "); strings.Count(got, "routed") != 6 {
		t.Errorf("ping and pong: %s", got)
	}
	// A transaction outcome is routed all the way.
	f.log = nil
	f.step(m[0], RouteTo{wire.ToPeer(m[3].me), &wire.TxStatusResponse{Outcome: started()}})
	if f.run(time.Second); len(m[3].delivered) != 2 || strings.Count(strings.Join(f.log, " "), "routed") != 3 {
		t.Errorf("an outcome: %d delivered, %v", len(m[3].delivered), f.log)
	}
	// n1 and n2 disconnect: there is no route any more, and all nodes learn of it.
	c := m[1].ready[wire.T2][m[2].me]
	f.shut(c.id)
	f.step(m[1], Closed{c.id})
	f.run(10 * time.Second)
	for i, want := range []int{1, 1, 1, 1} {
		if r := m[i].Info().Reachable; r != want {
			t.Errorf("n%d reaches %d, want %d", i, r, want)
		}
	}
	if e := m[0].graph.edges[keyOf(m[1].graph.Local(m[2].me))]; e.Active() || !e.Verify() {
		t.Errorf("the edge between n1 and n2 is %+v", e)
	}
}

// TestNodeWithoutPeersWakesRarely: a node without known peers wakes twice a minute, and normally
// once it knows one.
func TestNodeWithoutPeersWakesRarely(t *testing.T) {
	f := newTestNetwork(t, 1)
	a := f.add("a", nil)
	wakes := 0
	for end := f.now.Add(20 * time.Minute); a.Wake().Before(end); wakes++ {
		f.now = a.Wake()
		f.step(a, Tick{})
	}
	if wakes > 60 || !a.Info().Alone {
		t.Errorf("woken %d times in 20 minutes, alone: %v", wakes, a.Info().Alone)
	}
	b := f.add("b", func(c *Config) { c.Boot = []wire.PeerInfo{a.info()} })
	f.run(time.Second)
	if len(a.Info().Peers) != 1 || a.Info().Alone || b.Info().Alone {
		t.Errorf("with a peer: %d peers, alone: %v and %v", len(a.Info().Peers), a.Info().Alone, b.Info().Alone)
	}
}

// TestWakeIncludesPendingEdges: Wake includes the batch of edges that a handshake waits for. The
// monitor interval restarts with the first peer found, not with the second.
func TestWakeIncludesPendingEdges(t *testing.T) {
	f := newTestNetwork(t, 1)
	a := f.add("a", nil)
	f.run(20 * time.Minute)
	a.conns[1] = &conn{id: 1, inbound: true, waiting: true, opened: f.now.Add(-handshakeLimit)}
	if f.step(a, Tick{}); !a.Wake().After(f.now) || a.conns[1] == nil {
		t.Errorf("to be woken at %v, which is not after %v", a.Wake(), f.now)
	}
	delete(a.conns, 1)
	look := func() time.Duration {
		a.timers.monitor = f.now
		f.step(a, Tick{})
		return a.timers.monitor.Sub(f.now)
	}
	if d := look(); d != monitorLast {
		t.Errorf("alone for long: looks each %v", d)
	}
	for i, want := range []time.Duration{monitorFirst, monitorFirst * 11 / 10} {
		p := wire.PeerInfo{ID: idOf(fmt.Sprint(i)), Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 1, 0, byte(i)}), 1)}
		a.known.learn(f.now, []wire.PeerInfo{p}, a.me)
		if d := look(); d != want || len(a.out[wire.T2]) != i+1 {
			t.Errorf("with %d peers to dial: looks after %v, want %v", i+1, d, want)
		}
	}
}

// TestAdvertisingRequestsAccountData: a node requests all account data once each time that it would
// send its own, even without own data.
func TestAdvertisingRequestsAccountData(t *testing.T) {
	f := newTestNetwork(t, 1)
	a, b := f.add("a", withoutDialling), f.add("b", withoutDialling)
	f.dial(a, b, wire.T2)
	f.run(10 * time.Second)
	for i, ev := range []Event{Tick{}, Head{Block: headAt(5).Block, T1: map[primitives.AccountID][]primitives.PublicKey{"v": {idOf("v")}}}} {
		if i == 0 {
			a.timers.advertise = f.now
		}
		var asked int
		for _, e := range a.Step(f.now, ev) {
			if w, ok := e.(Write); ok {
				if m, ok := w.Msg.(*wire.AccountsData); ok && m.RequestingFullSync && m.Incremental {
					asked++
				}
			}
		}
		if asked != 1 {
			t.Errorf("%T: %d requests, want 1", ev, asked)
		}
	}
}

// TestOnlyConnectedProxiesArePublished: a validator publishes the proxies to which it is connected,
// itself or another node, and withdraws one that is lost. It does not publish an address at which
// no node answers or at which another node answers.
func TestOnlyConnectedProxiesArePublished(t *testing.T) {
	f := newTestNetwork(t, 1)
	vk := keyFor("validator")
	a, b, c := f.add("a", withoutDialling), f.add("b", withoutDialling), f.add("c", withoutDialling)
	head := headAt(1)
	head.T1 = map[primitives.AccountID][]primitives.PublicKey{"val.near": {vk.PublicKey()}}
	f.dial(a, b, wire.T2)
	f.dial(b, c, wire.T2)
	f.run(5 * time.Second)
	for _, m := range []*testNode{a, b, c} {
		f.step(m, head)
	}
	own, other := wire.PeerAddr{Addr: a.ListenAddr, PeerID: a.me}, wire.PeerAddr{Addr: b.ListenAddr, PeerID: b.me}
	published := func() []wire.PeerAddr {
		d := c.accounts.data[vk.PublicKey()]
		if d == nil {
			return nil
		}
		return d.Proxies
	}
	for _, x := range []struct {
		name  string
		given []wire.PeerAddr
		want  []wire.PeerAddr
	}{
		{"itself and another node", []wire.PeerAddr{own, other}, []wire.PeerAddr{own, other}},
		{"an address without a node", []wire.PeerAddr{{Addr: netip.MustParseAddrPort("9.9.9.9:9"), PeerID: c.me}, other}, []wire.PeerAddr{other}},
		{"the address of another node", []wire.PeerAddr{{Addr: c.ListenAddr, PeerID: idOf("z")}}, nil},
		{"none", nil, nil},
	} {
		f.step(a, Validator{AccountID: "val.near", Key: vk, Proxies: x.given})
		f.run(3 * time.Minute)
		if got := published(); !slices.Equal(got, x.want) {
			t.Errorf("%s: published %v, want %v", x.name, got, x.want)
		}
	}
	f.step(a, Validator{AccountID: "val.near", Key: vk, Proxies: []wire.PeerAddr{other}})
	f.run(3 * time.Minute)
	if got := published(); len(got) != 1 {
		t.Fatalf("published %v", got)
	}
	b.NoInboundT1 = true
	for _, x := range b.sorted(wire.T1) {
		f.shut(x.id)
	}
	f.run(3 * time.Minute)
	if got := published(); len(got) != 0 {
		t.Errorf("published %v after the proxy was lost", got)
	}
}

// TestNewOwnAddressReplacesOld: a validator whose address has changed connects to itself at the new
// one, although the connection at the old one is open, and publishes the new one. It publishes no
// address at which it does not reach itself.
func TestNewOwnAddressReplacesOld(t *testing.T) {
	f := newTestNetwork(t, 1)
	vk := keyFor("validator")
	a, b := f.add("a", withoutDialling), f.add("b", withoutDialling)
	head := headAt(1)
	head.T1 = map[primitives.AccountID][]primitives.PublicKey{"val.near": {vk.PublicKey()}}
	f.dial(a, b, wire.T2)
	f.run(5 * time.Second)
	f.step(a, head)
	f.step(b, head)
	moved := netip.AddrPortFrom(netip.MustParseAddr("9.9.9.9"), a.ListenAddr.Port())
	f.byAddr[moved] = a
	for _, x := range []struct{ given, want netip.AddrPort }{
		{a.ListenAddr, a.ListenAddr}, {moved, moved}, {moved, moved}, {a.ListenAddr, a.ListenAddr},
		{netip.MustParseAddrPort("9.9.9.8:24567"), netip.AddrPort{}},
	} {
		f.step(a, Validator{AccountID: "val.near", Key: vk, Proxies: []wire.PeerAddr{{Addr: x.given, PeerID: a.me}}})
		f.run(30 * time.Second)
		var got netip.AddrPort
		if list := b.accounts.data[vk.PublicKey()].Proxies; len(list) == 1 {
			got = list[0].Addr
		} else if len(list) > 1 {
			t.Errorf("published %v", list)
		}
		if got != x.want {
			t.Errorf("with the address %v, published %v", x.given, got)
		}
	}
}

// TestUnsteadyProxyCausesFewAdvertisements: a proxy whose connection changes ten times a second does
// not make the validator advertise each time.
func TestUnsteadyProxyCausesFewAdvertisements(t *testing.T) {
	f := newTestNetwork(t, 1)
	vk := keyFor("validator")
	a, b := f.add("a", withoutDialling), f.add("b", withoutDialling)
	head := headAt(1)
	head.T1 = map[primitives.AccountID][]primitives.PublicKey{"val.near": {vk.PublicKey()}}
	f.dial(a, b, wire.T2)
	f.run(5 * time.Second)
	f.step(a, head)
	f.step(b, head)
	f.step(a, Validator{AccountID: "val.near", Key: vk, Proxies: []wire.PeerAddr{{Addr: a.ListenAddr, PeerID: a.me}}})
	f.run(time.Minute)
	before := b.accounts.data[vk.PublicKey()].Version
	for range 600 {
		a.accounts.connected = nil // as if the connection had been lost and had come back
		f.run(100 * time.Millisecond)
	}
	if n := b.accounts.data[vk.PublicKey()].Version - before; n < 2 || n > 7 {
		t.Errorf("%d advertisements in a minute, want one per %v", n, advertisePause)
	}
}

// TestAccountDataReachesAllNodes: account data reaches all nodes. Messages to accounts go over T1
// if connected, and three times over T2 otherwise. A validator renews its data if that of an older
// run arrives.
func TestAccountDataReachesAllNodes(t *testing.T) {
	f := newTestNetwork(t, 1)
	vk := keyFor("validator")
	a, b, c := f.add("a", withoutDialling), f.add("b", withoutDialling), f.add("c", withoutDialling)
	head := headAt(1)
	head.T1 = map[primitives.AccountID][]primitives.PublicKey{"val.near": {vk.PublicKey()}, "c.near": {keyFor("cv").PublicKey()}}
	f.dial(a, b, wire.T2)
	f.dial(b, c, wire.T2)
	f.run(5 * time.Second)
	for _, m := range []*testNode{a, b, c} {
		f.step(m, head)
	}
	f.step(a, Validator{AccountID: "val.near", Key: vk, Proxies: []wire.PeerAddr{{Addr: a.ListenAddr, PeerID: a.me}}})
	f.step(c, Validator{AccountID: "c.near", Key: keyFor("cv")})
	f.run(time.Second)
	if d := c.accounts.data[vk.PublicKey()]; d == nil || d.PeerID != a.me || d.Version != 1 {
		t.Fatalf("c has account data %+v", d)
	}
	approval := &wire.BlockApproval{Approval: primitives.Approval{Inner: primitives.ApprovalInner{Skip: true}, Signature: primitives.ZeroED25519Signature, AccountID: "c.near"}}
	f.log = nil
	f.step(c, RouteToAccount{"val.near", approval})
	f.run(time.Second)
	if n := strings.Count(f.wrote("c", "b"), "routed"); n != 3 {
		t.Errorf("an approval goes %d times over T2, want 3", n)
	}
	if n := len(a.delivered); n != 1 {
		t.Errorf("an approval is delivered %d times", n)
	}
	f.run(61 * time.Second)                             // c dials a proxy of val.near
	if len(c.Info().T1) != 1 || len(a.Info().T1) != 2 { // a is its own proxy and connected to itself
		t.Fatalf("%d and %d T1 connections: %v", len(c.Info().T1), len(a.Info().T1), f.log)
	}
	f.log, a.delivered = nil, nil
	f.step(c, RouteToAccount{"val.near", approval})
	f.step(c, OptimisticTo{[]primitives.AccountID{"val.near"}, &wire.OptimisticBlock{Block: &primitives.OptimisticBlock{Signature: primitives.ZeroED25519Signature}}})
	f.run(time.Second)
	if f.wrote("c", "a") != "routed optimistic_block" || len(a.delivered) != 2 || a.delivered[0].Tier != wire.T1 {
		t.Errorf("over T1: %v, %+v", f.log, a.delivered)
	}
	// A node with the same key, without knowledge of this run, starts at version 1 and ends above
	// the others' version.
	a2 := f.add("a2", withoutDialling)
	f.step(a2, head)
	f.step(a2, Validator{AccountID: "val.near", Key: vk})
	f.dial(a2, c, wire.T2)
	f.run(30 * time.Second)
	if d := c.accounts.data[vk.PublicKey()]; d.PeerID != a2.me || d.Version < 2 {
		t.Errorf("c has account data %+v after a restart", d)
	}
	a2.delivered = nil
	f.step(a2, RouteToAccount{"val.near", approval}) // to itself: dropped
	f.step(a2, RouteToAccount{"val.near", &wire.ChunkEndorsement{}})
	if len(a2.delivered) != 1 || a2.delivered[0].Msg.(*wire.Routed).Body.BodyKind() != wire.BodyChunkEndorsement {
		t.Errorf("to itself: %+v", a2.delivered)
	}
}

// TestBannableMessagesBanPeer sends messages that neard bans for, each on a new pair.
func TestBannableMessagesBanPeer(t *testing.T) {
	vk := keyFor("v")
	data := func(n int) *wire.AccountData {
		d := &wire.AccountData{PeerID: idOf("b"), Version: 1}
		for range n {
			d.Proxies = append(d.Proxies, wire.PeerAddr{Addr: netip.MustParseAddrPort("1.2.3.4:5"), PeerID: idOf("b")})
		}
		if d.Sign(vk) != nil {
			d.Signature = vk.Sign(d.Payload)
		}
		return d
	}
	forged := data(0)
	forged.Signature = keyFor("b").Sign(forged.Payload)
	host := wire.NewSnapshotHost(keyFor("h"), primitives.Hash{}, 1, []primitives.ShardID{1})
	forgedHost := *host
	forgedHost.EpochHeight = 2
	edge := wire.NewEdge(idOf("x"), idOf("y"), uint64(start.Unix())|1, keyFor("x").Sign(nil), keyFor("y").Sign(nil))
	loop := wire.NewEdge(idOf("x"), idOf("x"), uint64(start.Unix())|1, keyFor("x").Sign(nil), keyFor("x").Sign(nil))
	unsigned := wire.NewRouted(keyFor("b"), wire.ToPeer(idOf("x")), &wire.WitnessAck{}, 0)
	unsigned.Signature = keyFor("x").Sign(nil)
	peers := func(n, direct int) *wire.PeersResponse {
		r := &wire.PeersResponse{}
		for i := range n + direct {
			p := wire.PeerInfo{ID: primitives.PublicKey(fmt.Sprintf("\x00%032d", i))}
			if i < n {
				r.Peers = append(r.Peers, p)
			} else {
				r.DirectPeers = append(r.DirectPeers, p)
			}
		}
		return r
	}
	shards := make([]primitives.ShardID, 513)
	for _, tt := range []struct {
		name string
		msg  wire.Message
		ban  Reason
	}{
		{"headers of 20 hashes", &wire.HeadersRequest{Hashes: make([]primitives.Hash, 20)}, NotBanned},
		{"headers of 21 hashes", &wire.HeadersRequest{Hashes: make([]primitives.Hash, 21)}, Abusive},
		{"512 peers and 128", peers(512, 128), NotBanned},
		{"513 peers", peers(513, 0), Abusive},
		{"129 direct peers", peers(0, 129), Abusive},
		{"account data", &wire.AccountsData{Data: []*wire.AccountData{data(1)}}, NotBanned},
		{"account data twice", &wire.AccountsData{Data: []*wire.AccountData{data(1), data(2)}}, Abusive},
		{"account data too long", &wire.AccountsData{Data: []*wire.AccountData{data(300)}}, Abusive},
		{"forged account data", &wire.AccountsData{Data: []*wire.AccountData{forged}}, InvalidSignature},
		{"host", &wire.SnapshotHosts{Hosts: []*wire.SnapshotHost{host}}, NotBanned},
		{"host twice", &wire.SnapshotHosts{Hosts: []*wire.SnapshotHost{host, host}}, Abusive},
		{"host of 512 shards", &wire.SnapshotHosts{Hosts: []*wire.SnapshotHost{wire.NewSnapshotHost(keyFor("h"), primitives.Hash{}, 1, shards[:512])}}, NotBanned},
		{"host of 513 shards", &wire.SnapshotHosts{Hosts: []*wire.SnapshotHost{wire.NewSnapshotHost(keyFor("h"), primitives.Hash{}, 1, shards)}}, Abusive},
		{"forged host", &wire.SnapshotHosts{Hosts: []*wire.SnapshotHost{&forgedHost}}, InvalidSignature},
		{"forged edge", &wire.RoutingTable{Edges: []*wire.Edge{edge}}, InvalidEdge},
		{"loop", &wire.RoutingTable{Edges: []*wire.Edge{loop}}, InvalidEdge},
		{"50,001 forged edges", &wire.RoutingTable{Edges: slices.Repeat([]*wire.Edge{edge}, 50_001)}, NotBanned},
		{"50,000 forged edges", &wire.RoutingTable{Edges: slices.Repeat([]*wire.Edge{edge}, 50_000)}, InvalidEdge},
		{"nonce of long ago", &wire.NonceRequest{PartialEdge: wire.SignEdge(keyFor("b"), idOf("a"), uint64(start.Unix()-1300)|1)}, InvalidEdge},
		{"nonce of now", &wire.NonceRequest{PartialEdge: wire.SignEdge(keyFor("b"), idOf("a"), uint64(start.Unix()+60)|1)}, NotBanned},
		{"forged nonce", &wire.NonceRequest{PartialEdge: wire.SignEdge(keyFor("x"), idOf("a"), uint64(start.Unix()+60)|1)}, InvalidEdge},
		{"forged routed message", unsigned, InvalidSignature},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newTestNetwork(t, 1)
			a, b := f.add("a", withoutDialling), f.add("b", withoutDialling)
			head := headAt(1)
			head.T1 = map[primitives.AccountID][]primitives.PublicKey{"v": {vk.PublicKey()}}
			f.step(a, head)
			f.dial(b, a, wire.T2)
			f.run(3 * time.Second)
			c := a.ready[wire.T2][b.me]
			effects := a.Step(f.now, Received{Conn: c.id, Msg: tt.msg})
			effects = append(effects, a.Step(f.now.Add(time.Second), Tick{})...)
			if banned := slices.ContainsFunc(effects, func(e Effect) bool { _, ok := e.(Close); return ok }); banned != (tt.ban != NotBanned) || banned && !hasBan(effects, tt.ban) {
				t.Errorf("%v, want %v", effects, tt.ban)
			}
			if a.known.isBanned(b.me) != (tt.ban != NotBanned) {
				t.Errorf("banned %v", a.known.isBanned(b.me))
			}
			if tt.ban == NotBanned {
				return
			}
			a.known.update(f.now.Add(banLife - time.Second))
			early := a.known.isBanned(b.me)
			a.known.update(f.now.Add(banLife + time.Second))
			if !early || a.known.isBanned(b.me) {
				t.Error("the ban does not last three hours")
			}
		})
	}
}

// TestStateResponsesOutlastDialling: a host sends all responses that accumulated while it was
// dialling, even if the requester connected first.
func TestStateResponsesOutlastDialling(t *testing.T) {
	f := newTestNetwork(t, 1)
	host, asker := f.add("host", withoutDialling), f.add("asker", withoutDialling)
	f.dial(asker, host, wire.T2)
	f.run(3 * time.Second)
	f.step(asker, AskState{Host: host.me, IsHeader: true})
	f.run(time.Second)
	if len(host.delivered) != 1 {
		t.Fatalf("the host got %+v", host.delivered)
	}
	q := host.delivered[0].Msg.(*wire.Routed).Body.(*wire.RoutedStateHeaderRequest)
	answer := func(shard primitives.ShardID) AnswerState {
		return AnswerState{wire.PeerInfo{ID: asker.me, Addr: q.Addr},
			&wire.StateResponse{StateResponse: primitives.StateResponse{ShardID: shard, SyncHash: q.SyncHash}}}
	}
	for shard := range primitives.ShardID(3) {
		f.step(host, answer(shard))
	}
	f.run(time.Second)
	f.step(host, answer(3))
	f.run(time.Second)
	if a, h := asker.Info().T3, host.Info().T3; len(a) != 1 || !a[0].Inbound || len(h) != 1 || h[0].Inbound {
		t.Errorf("T3 connections %+v and %+v, want the one that the host dialled", a, h)
	}
	if n := len(asker.delivered); n != 4 || asker.delivered[0].Tier != wire.T3 {
		t.Errorf("%d answers arrive: %+v", n, asker.delivered)
	}
	f.run(20 * time.Second)
	if len(host.ready[wire.T3])+len(asker.ready[wire.T3]) != 0 || len(host.Info().Peers) != 1 {
		t.Error("an idle T3 connection stays, or takes the T2 connection with it")
	}
	f.step(host, answer(4)) // no request is pending: refused after pendingT3Life
	f.run(2 * time.Minute)
	f.step(host, answer(5))
	f.run(time.Second)
	if len(host.answers) != 0 {
		t.Errorf("answers wait for ever: %v", host.answers)
	}
}

// TestExpensiveMessagesAreRateLimited: each peer can send expensive messages as often as useful,
// and everything else is unaffected.
func TestExpensiveMessagesAreRateLimited(t *testing.T) {
	f := newTestNetwork(t, 1)
	a, b := f.add("a", withoutDialling), f.add("b", withoutDialling)
	f.dial(a, b, wire.T2)
	f.run(3 * time.Second)
	for i := range maxKnownPeers {
		a.known.put(f.now, wire.PeerInfo{ID: idOf(fmt.Sprint("p", i)), Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{1, 2, byte(i >> 8), byte(i)}), 5)}, heard)
	}
	c := a.ready[wire.T2][b.me]
	nonce := wire.FreshNonce(f.now.Unix())
	told := make([]wire.PeerInfo, maxPeersSent)
	heard := 0
	for _, x := range []struct {
		name string
		most int // a minute, and as many at once
		m    func() wire.Message
	}{
		{"peers are asked for", 12, func() wire.Message { return &wire.PeersRequest{} }},
		{"peers are told", 12, func() wire.Message {
			heard++
			for i := range told {
				told[i] = wire.PeerInfo{ID: wire.PeerID(fmt.Sprintf("\x00%032d", heard*len(told)+i)), Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{2, byte(heard), byte(i >> 8), byte(i)}), 5)}
			}
			return &wire.PeersResponse{Peers: slices.Clone(told)}
		}},
		{"edges are asked for", 12, func() wire.Message {
			nonce = wire.FreshNonce(f.now.Unix() + 2)
			return &wire.NonceRequest{PartialEdge: wire.SignEdge(b.Key, a.me, nonce)}
		}},
		{"accounts are asked for", 70, func() wire.Message { return &wire.AccountsData{RequestingFullSync: true} }},
		{"pings", 6200, func() wire.Message {
			nonce++
			m := wire.Unsigned(b.Key, wire.ToPeer(a.me), &wire.Ping{Nonce: nonce}, 0)
			m.Direct()
			return m
		}},
	} {
		done := 0
		begun := time.Now()
		for range 60 * 200 {
			before := c.quota
			a.Step(f.now, Received{Conn: c.id, Msg: x.m()})
			if c.quota != before {
				done++
			}
			f.now = f.now.Add(5 * time.Millisecond)
		}
		if done > x.most || done == 0 {
			t.Errorf("%s: %d times in a minute, which took %v, want at most %d", x.name, done, time.Since(begun), x.most)
		}
	}
	if a.ready[wire.T2][b.me] != c {
		t.Error("the peer is disconnected")
	}
	f.step(a, Received{Conn: c.id, Msg: &wire.Transaction{Transaction: &primitives.SignedTransaction{}}})
	if len(a.delivered) == 0 {
		t.Error("nothing else is taken")
	}
}
