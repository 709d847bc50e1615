package libp2p

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

func addrInfo(n *node, m ma.Multiaddr) peer.AddrInfo {
	return peer.AddrInfo{ID: n.way.me, Addrs: []ma.Multiaddr{m}}
}

// TestBridgeConnectsBothTransports: a node with both transports connects nodes that have one: for
// blocks, announcements and routed messages, in both directions.
func TestBridgeConnectsBothTransports(t *testing.T) {
	bridge := run(t, "bridge", how{near: true, libp2p: true})
	left := run(t, "left", how{near: true, boot: []wire.PeerInfo{bridge.info()}})
	right := run(t, "right", how{libp2p: true, boot: []wire.PeerInfo{bridge.over()}})
	bridge.connected(t, 2)
	left.connected(t, 1)
	right.connected(t, 1)
	go func() { // as the chain does with an accepted block
		for d := range bridge.got {
			if b, ok := d.Msg.(*wire.Block); ok {
				bridge.Post(near.ToAll{Msg: b})
			}
		}
	}()
	left.broadcastBlock(7)
	if d, _ := next(t, right, isHeight(7)); d.From != bridge.key.PublicKey() {
		t.Errorf("from %v", d.From)
	}
	right.reached(t, bridge)
	right.broadcastBlock(8)
	next(t, left, isHeight(8))
	if n := right.way.o.Counters.spread.Load(); n != 1 {
		t.Errorf("%d messages were spread, want 1", n)
	}
	for id, n := range map[primitives.AccountID]*node{"left": left, "right": right} {
		n.Post(near.AnnouncementsVerified{Good: []*wire.Announcement{wire.NewAnnouncement(id, n.key.PublicKey(), primitives.EpochID{}, n.key)}})
	}
	for _, x := range []struct {
		from, to *node
		account  primitives.AccountID
	}{{left, right, "right"}, {right, left, "left"}} {
		eventually(t, "known", time.Minute, func() bool { return len(x.from.Info().Accounts) == 2 })
		tx := transfer(x.from.key, 1)
		eventually(t, "routed", time.Minute, func() bool {
			x.from.Post(near.RouteToAccount{AccountID: x.account, Body: &wire.ForwardTx{SignedTransaction: *tx}})
			select {
			case d := <-x.to.got:
				m, ok := d.Msg.(*wire.Routed)
				return ok && m.Author == x.from.key.PublicKey() && m.Body.(*wire.ForwardTx).Hash() == tx.Hash()
			case <-time.After(50 * time.Millisecond):
				return false
			}
		})
	}
}

// TestTransportOfPeerIsDetected: a node with both transports finds out which one a peer uses.
func TestTransportOfPeerIsDetected(t *testing.T) {
	over := run(t, "over", how{libp2p: true})
	sockets := run(t, "sockets", how{near: true})
	both := run(t, "both", how{near: true, libp2p: true, boot: []wire.PeerInfo{over.info(), sockets.info()}})
	both.connected(t, 2)
}

// TestPeerOfAnotherChainIsRefused: a peer of another chain is refused and disconnected.
func TestPeerOfAnotherChainIsRefused(t *testing.T) {
	quick := func(o *Options) { o.Grace = 500 * time.Millisecond }
	a := run(t, "a", how{libp2p: true, change: quick})
	x := run(t, "x", how{libp2p: true, chain: "another", boot: []wire.PeerInfo{a.info()}, change: quick})
	conns := func() int { return len(a.way.host.Network().ConnsToPeer(x.way.me)) }
	eventually(t, "there", time.Minute, func() bool { return a.way.o.Counters.streams.Load() > 0 })
	eventually(t, "closed", time.Minute, func() bool {
		return a.way.o.Counters.idleClosed.Load()+x.way.o.Counters.idleClosed.Load() > 0 && conns() == 0
	})
	if a.peers() != 0 || x.peers() != 0 {
		t.Error("they are peers")
	}
}

// TestLostPeerReconnects: a killed peer, and one that was only dialled by others, reconnect without
// help.
func TestLostPeerReconnects(t *testing.T) {
	a := run(t, "a", how{libp2p: true})
	at, boot := a.way.Addr(), []wire.PeerInfo{a.info()}
	b := run(t, "b", how{libp2p: true, boot: boot})
	a.connected(t, 1)
	b.stop()
	a.connected(t, 0)
	b = run(t, "b", how{libp2p: true, boot: boot})
	a.connected(t, 1)
	b.connected(t, 1)
	a.stop()
	b.connected(t, 0)
	a = run(t, "a", how{libp2p: true, addr: at})
	a.connected(t, 1)
	b.connected(t, 1)
	b.reached(t, a)
	b.broadcastBlock(9)
	next(t, a, isHeight(9))
}

func TestFramesAndGossipWorkOverQUIC(t *testing.T) {
	a := run(t, "a", how{libp2p: true})
	b := run(t, "b", how{libp2p: true, boot: []wire.PeerInfo{a.info()}, change: func(o *Options) {
		o.Quic = map[wire.PeerID]bool{primitives.SecretKeyFromSeed(primitives.ED25519, "a").PublicKey(): true}
	}})
	a.connected(t, 1)
	b.connected(t, 1)
	for _, c := range b.way.host.Network().ConnsToPeer(a.way.me) {
		if !strings.Contains(c.RemoteMultiaddr().String(), "/quic-v1") {
			t.Errorf("over %v", c.RemoteMultiaddr())
		}
	}
	if p := a.Info().Peers[0]; p.Info.Addr != b.way.Addr() {
		t.Errorf("the address of b is %v, want %v", p.Info.Addr, b.way.Addr())
	}
	b.reached(t, a)
	b.broadcastBlock(9)
	next(t, a, isHeight(9))
	if len(a.way.Addrs()) != 2 {
		t.Errorf("%v", a.way.Addrs())
	}
}

// TestPeerOnLocalNetworkIsDialled: a peer found on the local network is dialled.
func TestPeerOnLocalNetworkIsDialled(t *testing.T) {
	a := run(t, "a", how{libp2p: true})
	b := run(t, "b", how{libp2p: true, open: true})
	m, err := multiaddr(a.way.Addr(), false)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "served", time.Minute, func() bool { return b.way.station.Load() != nil })
	finder{b.way}.HandlePeerFound(addrInfo(b, m)) // its own address is ignored
	finder{b.way}.HandlePeerFound(addrInfo(a, m))
	a.connected(t, 1)
	b.connected(t, 1)
}

// dial opens a stream of frames without a node.
func (w *Transport) dial(t *testing.T, to *node) net.Conn {
	t.Helper()
	c, err := w.Dial(t.Context(), to.over())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	return c
}

func frame(m wire.Message) []byte {
	payload := wire.Append(nil, m)
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

func handshakeFrame(as primitives.SecretKey, to *node) []byte {
	return frame(&wire.Handshake{Tier: wire.T2, Version: 86, Oldest: 83, Sender: as.PublicKey(), Target: to.key.PublicKey(), ListenPort: 1,
		Chain:       wire.ChainInfo{Genesis: wire.GenesisID{ChainID: "test", Hash: primitives.HashBytes([]byte("test"))}},
		PartialEdge: wire.SignEdge(as, to.key.PublicKey(), wire.FreshNonce(time.Now().Unix()))})
}

// ends returns whether the peer closes a connection.
func ends(c net.Conn) bool {
	_, err := io.Copy(io.Discard, c)
	if x, ok := err.(interface{ Timeout() bool }); ok && x.Timeout() {
		return false
	}
	return true
}

// TestMisbehavingPeerLosesItsConnection: each misbehaving peer loses its connection in time, and no
// other peer is affected.
func TestMisbehavingPeerLosesItsConnection(t *testing.T) {
	a := run(t, "a", how{libp2p: true, change: func(o *Options) { o.Grace, o.Stall = time.Second, 300*time.Millisecond }})
	good := run(t, "good", how{libp2p: true, boot: []wire.PeerInfo{a.info()}})
	a.connected(t, 1)

	mute := bare(t, "mute", nil) // connects, and sends nothing
	m, err := multiaddr(a.way.Addr(), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := mute.host.Connect(t.Context(), addrInfo(a, m)); err != nil {
		t.Fatal(err)
	}
	slow := bare(t, "slow", nil).dial(t, a)
	_, _ = slow.Write([]byte{0, 1, 0, 0, 1})
	long := bare(t, "long", nil)
	tooLong := long.dial(t, a)
	_, _ = tooLong.Write(binary.LittleEndian.AppendUint32(nil, wire.MaxFrame+1))
	posing := bare(t, "posing", nil).dial(t, a)
	_, _ = posing.Write(handshakeFrame(primitives.SecretKeyFromSeed(primitives.ED25519, "somebody"), a))
	noisy := bare(t, "noisy", nil).dial(t, a)
	for range 100 {
		_, _ = noisy.Write([]byte{5, 0, 0, 0, 'o', 't', 'h', 'e', 'r'})
	}
	_, _ = noisy.Write(handshakeFrame(primitives.SecretKeyFromSeed(primitives.ED25519, "noisy"), a))
	a.connected(t, 2) // invalid frames are ignored, as in neard
	for what, c := range map[string]net.Conn{"slow": slow, "too long": tooLong, "posing": posing} {
		t.Run(what, func(t *testing.T) {
			if !ends(c) {
				t.Error("still connected")
			}
		})
	}
	eventually(t, "mute ended", time.Minute, func() bool { return len(a.way.host.Network().ConnsToPeer(mute.me)) == 0 })
	if !a.way.isBanned(long.me) {
		t.Error("the peer that announced a frame too long is not banned")
	}

	deaf := noisy // reads nothing while a has much to send
	for range 4 {
		a.Post(near.ToPeer{Peer: primitives.SecretKeyFromSeed(primitives.ED25519, "noisy").PublicKey(),
			Msg: &wire.EpochSyncResponse{Compressed: make([]byte, 32<<20)}})
	}
	a.connected(t, 1)
	_ = deaf.Close()
	good.broadcastBlock(4)
	next(t, a, isHeight(4))
}

// TestClosingConnectionEndsInTime: a connection that is being closed ends within its time limit,
// however slowly the peer reads, and whatever it sends.
func TestClosingConnectionEndsInTime(t *testing.T) {
	taken := make(chan tcp.Conn, 1)
	a, b := bare(t, "a", taken), bare(t, "b", nil)
	conn, err := b.Dial(t.Context(), wire.PeerInfo{ID: a.o.Key.PublicKey(), Addr: a.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	s := <-taken
	defer func() { _ = s.Close() }()
	_ = s.SetDeadline(time.Now().Add(time.Second))
	begun := time.Now()
	go func() { // reads and writes a little, again and again
		piece := make([]byte, 64<<10)
		for {
			if _, err := io.ReadFull(conn, piece); err != nil {
				return
			}
			_, _ = conn.Write([]byte{1})
			time.Sleep(100 * time.Millisecond)
		}
	}()
	read := make(chan error, 1)
	go func() {
		for {
			s.Within(-1)
			if _, err := s.Read(make([]byte, 1)); err != nil {
				read <- err
				return
			}
		}
	}()
	if _, err := s.Write(make([]byte, 32<<20)); err == nil {
		t.Error("all was written")
	}
	select {
	case <-read:
	case <-time.After(time.Minute):
		t.Error("it is read from for ever")
	}
	if took := time.Since(begun); took > 20*time.Second { // at the reader's speed it would take 50 s
		t.Errorf("it took %v", took)
	}
}

// TestPeerWithoutHandshakeIsDisconnected: a peer that opens streams and never completes a handshake
// is disconnected.
func TestPeerWithoutHandshakeIsDisconnected(t *testing.T) {
	a := run(t, "a", how{libp2p: true, change: func(o *Options) { o.Grace = time.Second }})
	x := bare(t, "x", nil)
	id := x.dial(t, a).(*stream).Conn().ID()
	var open []network.Stream
	eventually(t, "ended", time.Minute, func() bool {
		conns := x.host.Network().ConnsToPeer(a.way.me)
		if len(conns) == 0 || conns[0].ID() != id {
			return true
		}
		if s, err := x.host.NewStream(network.WithNoDial(t.Context(), "test"), a.way.me, bareID); err == nil {
			_, _ = s.Write([]byte{1}) // opens the stream
			open = append(open, s)
		}
		if len(open) > 5 {
			_ = open[0].Reset()
			open = open[1:]
		}
		time.Sleep(50 * time.Millisecond)
		return false
	})
	if a.way.o.Counters.idleClosed.Load() == 0 {
		t.Error("it was not closed for that")
	}
}

// TestManyStreamsLeaveRoomForHandshakes: places for handshakes remain free for other peers, however
// many streams one peer opens.
func TestManyStreamsLeaveRoomForHandshakes(t *testing.T) {
	a := run(t, "a", how{near: true, libp2p: true, change: func(o *Options) { o.Grace = time.Hour }}) // no place is freed
	for _, name := range []string{"x", "y", "z"} {
		x := bare(t, name, nil)
		for range 30 {
			_, _ = x.dial(t, a).Write([]byte{200, 0, 0, 0})
		}
	}
	over := run(t, "over", how{libp2p: true, boot: []wire.PeerInfo{a.over()}})
	sockets := run(t, "sockets", how{near: true, boot: []wire.PeerInfo{a.info()}})
	over.connected(t, 1)
	sockets.connected(t, 1)
}

// TestOneAddressMayHaveHalfThePeers: nodes with one address, for example behind a NAT, can be up to
// half of the peers.
func TestOneAddressMayHaveHalfThePeers(t *testing.T) {
	var at netip.Addr
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list {
		if p, err := netip.ParsePrefix(x.String()); err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() {
			at = p.Addr()
		}
	}
	if !at.IsValid() {
		t.Skip("this machine has no address but that of itself, which has no limit")
	}
	a := run(t, "a", how{libp2p: true, addr: netip.AddrPortFrom(at, 0)})
	const others = 12
	for i := range others {
		run(t, fmt.Sprint("other", i), how{libp2p: true, boot: []wire.PeerInfo{a.over()}, addr: netip.AddrPortFrom(at, 0)})
	}
	a.connected(t, others)
}

// TestOtherTiersStayOpenWithoutGossip: connections of other tiers than T2 are not closed as idle,
// and their gossip is not accepted.
func TestOtherTiersStayOpenWithoutGossip(t *testing.T) {
	a, b := bare(t, "a", nil), bare(t, "b", nil)
	who := b.o.Key.PublicKey()
	for tier, gossips := range map[wire.Tier]bool{wire.T1: false, wire.T2: true, wire.T3: false} {
		a.Met(who, tier, true)
		a.Met(who, tier, true)
		a.Met(who, tier, false)
		if a.isMet(b.me) != gossips || a.handshakes[b.me] != 1 || !a.host.ConnManager().IsProtected(b.me, "near") {
			t.Errorf("tier %d: gossips %v, shaken %d times", tier, a.isMet(b.me), a.handshakes[b.me])
		}
		a.Met(who, tier, false)
		if a.isMet(b.me) || a.handshakes[b.me] != 0 || a.host.ConnManager().IsProtected(b.me, "near") {
			t.Errorf("tier %d: it stays", tier)
		}
	}
}

// TestBridgeLearnsItsPublicAddress: a node with both transports learns the address that neards dial
// from a peer that also knows its libp2p port.
func TestBridgeLearnsItsPublicAddress(t *testing.T) {
	bridge := run(t, "bridge", how{near: true, libp2p: true})
	run(t, "right", how{libp2p: true, boot: []wire.PeerInfo{bridge.over()}})
	bridge.connected(t, 1)
	eventually(t, "told", 90*time.Second, func() bool { return bridge.Info().Public.IsValid() })
	if at := bridge.Info().Public; at != bridge.Addr() {
		t.Errorf("%v, want %v and not %v", at, bridge.Addr(), bridge.way.Addr())
	}
}

// TestBlacklistedAddressIsRefused: a blacklisted address is neither dialled nor accepted, and no
// peer is dialled because another one proposes it.
func TestBlacklistedAddressIsRefused(t *testing.T) {
	a := bare(t, "a", nil)
	b := serve(t, Options{Key: primitives.SecretKeyFromSeed(primitives.ED25519, "b"), Blacklisted: func(a netip.AddrPort) bool { return a.Addr().IsLoopback() }},
		recordingHandler{nil, make(chan near.Event, 100)})
	if _, err := b.Dial(t.Context(), wire.PeerInfo{ID: a.o.Key.PublicKey(), Addr: a.Addr()}); err == nil {
		t.Error("dialled")
	}
	if _, err := a.Dial(t.Context(), wire.PeerInfo{ID: b.o.Key.PublicKey(), Addr: b.Addr()}); err == nil {
		t.Error("let in")
	}
	p, limits := a.scores()
	a.Met(b.o.Key.PublicKey(), wire.T2, true)
	if most := p.AppSpecificScore(b.me) * p.AppSpecificWeight; most >= limits.AcceptPXThreshold {
		t.Errorf("a peer of score %v may propose peers to dial", most)
	}
}

// TestNodeIsReachedByIPv6: a node that listens on all addresses is reached by IPv6, over TCP and
// QUIC.
func TestNodeIsReachedByIPv6(t *testing.T) {
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skip("no IPv6 here")
	} else {
		_ = l.Close()
	}
	a := serve(t, Options{Key: primitives.SecretKeyFromSeed(primitives.ED25519, "a"), Listen: netip.MustParseAddrPort("0.0.0.0:0"), Six: true},
		recordingHandler{nil, make(chan near.Event, 100)})
	for name, quic := range map[string]bool{"tcp": false, "quic": true} {
		for _, host := range []string{"::1", "127.0.0.1"} {
			b := bare(t, name+host, nil)
			b.o.Quic = map[wire.PeerID]bool{a.o.Key.PublicKey(): quic}
			c, err := b.Dial(t.Context(), wire.PeerInfo{ID: a.o.Key.PublicKey(), Addr: netip.AddrPortFrom(netip.MustParseAddr(host), a.Addr().Port())})
			if err != nil {
				t.Errorf("%s at %s: %v", name, host, err)
				continue
			}
			_ = c.(*stream).Reset()
		}
	}
}

// TestSecondNodeOnPortIsRefused: a second node on a port is refused.
func TestSecondNodeOnPortIsRefused(t *testing.T) {
	a := bare(t, "a", nil)
	if w, err := New(Options{Key: primitives.SecretKeyFromSeed(primitives.ED25519, "b"), Listen: a.Addr()}); err == nil {
		w.close()
		t.Error("two nodes at one port")
	}
}

// TestEachCounterIsListedOnce: each counter is listed once.
func TestEachCounterIsListedOnce(t *testing.T) {
	var c Metrics
	c.bans.Store(3)
	text := string(c.Metrics(nil))
	if strings.Count(text, "# TYPE troupe_libp2p_") != 14 || !strings.Contains(text, "\ntroupe_libp2p_bans_total 3\n") {
		t.Error(text)
	}
}

var _ tcp.Station = recordingHandler{}

// TestOwnMessagesToPeerAreUnsigned: a node's own messages to a peer have no signature, since the
// connection authenticates them, unless the peer does not support that.
func TestOwnMessagesToPeerAreUnsigned(t *testing.T) {
	for _, old := range []bool{false, true} {
		a := run(t, "a", how{libp2p: true})
		if old {
			eventually(t, "served", time.Minute, func() bool { return slices.Contains(a.way.host.Mux().Protocols(), bareID) })
			a.way.host.RemoveStreamHandler(bareID)
		}
		b := run(t, "b", how{libp2p: true, boot: []wire.PeerInfo{a.over()}})
		b.connected(t, 1)
		a.connected(t, 1)
		for _, x := range [][2]*node{{a, b}, {b, a}} {
			for i := range 3 {
				x[0].Post(near.RouteTo{Target: wire.ToPeer(x[1].key.PublicKey()), Body: &wire.TxStatusRequest{Signer: "a.near", Hash: primitives.Hash{byte(i)}}})
			}
			for range 3 {
				if _, m := next[*wire.Routed](t, x[1], nil); m.IsBare() == old || !m.VerifyFor() || m.Verify() != old {
					t.Errorf("old %v: bare %v, valid for its receiver %v, for others %v", old, m.IsBare(), m.VerifyFor(), m.Verify())
				}
			}
		}
		a.stop()
		b.stop()
	}
}

// TestBridgeRelaysNoInvalidMessages: a bridge disconnects an attacker on one transport instead of
// relaying its messages, and is not banned by the peers on the other.
func TestBridgeRelaysNoInvalidMessages(t *testing.T) {
	bridge := run(t, "bridge", how{near: true, libp2p: true, open: true})
	left := run(t, "left", how{near: true, boot: []wire.PeerInfo{bridge.info()}})
	right := run(t, "right", how{libp2p: true, boot: []wire.PeerInfo{bridge.over()}})
	bridge.connected(t, 2)
	left.connected(t, 1)
	right.connected(t, 1)
	since := left.Info().Peers[0].Since
	now := time.Now().Unix()
	host := func(key primitives.SecretKey, shards int) *wire.SnapshotHost {
		return wire.NewSnapshotHost(key, primitives.Hash{1}, 1, make([]primitives.ShardID, shards))
	}
	body := &wire.ForwardTx{SignedTransaction: *transfer(right.key, 1)}
	forged := func(m *wire.Routed) *wire.Routed { // names another author than the signer
		m.Sign()
		out := *m
		out.Author = right.key.PublicKey()
		return wire.Unsigned(right.key, m.Target, body, now).Bare()
	}
	type enemy struct {
		name    string
		rubbish func(primitives.SecretKey) wire.Message
	}
	var enemies []enemy
	for i, to := range []*node{left, right} {
		for name, rubbish := range map[string]func(key primitives.SecretKey) wire.Message{
			"without a signature": func(key primitives.SecretKey) wire.Message {
				return wire.Unsigned(key, wire.ToPeer(to.key.PublicKey()), body, now).Bare()
			},
			"of another": func(key primitives.SecretKey) wire.Message {
				return forged(wire.Unsigned(key, wire.ToPeer(to.key.PublicKey()), body, now))
			},
			"for the bridge, of another": func(key primitives.SecretKey) wire.Message {
				return forged(wire.Unsigned(key, wire.ToPeer(bridge.key.PublicKey()), body, now))
			},
			"an edge of others": func(key primitives.SecretKey) wire.Message {
				nonce := wire.FreshNonce(now)
				s := wire.SignEdge(key, to.key.PublicKey(), nonce).Signature
				return &wire.RoutingTable{Edges: []*wire.Edge{wire.NewEdge(right.key.PublicKey(), left.key.PublicKey(), nonce, s, s)}}
			},
			"a host of others": func(key primitives.SecretKey) wire.Message {
				h := *host(key, 1)
				h.PeerID = right.key.PublicKey()
				return &wire.SnapshotHosts{Hosts: []*wire.SnapshotHost{&h}}
			},
			"a host of too much": func(key primitives.SecretKey) wire.Message {
				return &wire.SnapshotHosts{Hosts: []*wire.SnapshotHost{host(key, wire.MaxHostShards+1)}}
			},
			"a host twice": func(key primitives.SecretKey) wire.Message {
				return &wire.SnapshotHosts{Hosts: []*wire.SnapshotHost{host(key, 1), host(key, 2)}}
			},
		} {
			enemies = append(enemies, enemy{fmt.Sprint(i, name), rubbish})
		}
	}
	t.Run("enemies", func(t *testing.T) {
		for _, x := range enemies {
			t.Run(x.name, func(t *testing.T) {
				t.Parallel()
				key := primitives.SecretKeyFromSeed(primitives.ED25519, x.name)
				w := bare(t, x.name, nil)
				c := w.dial(t, bridge)
				_, _ = c.Write(handshakeFrame(key, bridge))
				eventually(t, "met", 20*time.Second, func() bool { return bridge.way.isMet(w.me) })
				_, _ = c.Write(frame(x.rubbish(key)))
				if !ends(c) {
					t.Error("still connected")
				}
				eventually(t, "banned", 10*time.Second, func() bool { return bridge.way.isBanned(w.me) })
			})
		}
	})
	if got := left.Info().Peers; len(got) != 1 || got[0].Since != since || bridge.peers() != 2 || right.peers() != 1 {
		t.Errorf("left has %d peers, the bridge %d, right %d; want 1, 2, 1", len(got), bridge.peers(), right.peers())
	}
	for _, n := range []*node{left, right} {
		for len(n.got) > 0 {
			if d := <-n.got; d.Msg.Kind() == wire.KindRouted {
				t.Error("it was handed on")
			}
		}
	}
}

// TestExcludedPeerCannotReconnect: an excluded peer is disconnected and can't reconnect, until it
// is excluded no more.
func TestExcludedPeerCannotReconnect(t *testing.T) {
	a := run(t, "a", how{libp2p: true})
	b := run(t, "b", how{libp2p: true, boot: []wire.PeerInfo{a.info()}})
	a.connected(t, 1)
	a.Post(near.Exclude{Peers: []wire.PeerID{b.key.PublicKey()}})
	a.connected(t, 0)
	b.connected(t, 0)
	eventually(t, "disconnected", 10*time.Second, func() bool { return len(a.way.host.Network().Conns()) == 0 })
	if c, err := b.way.Dial(t.Context(), a.info()); err == nil {
		eventually(t, "refused", 10*time.Second, func() bool { return ends(c) })
	}
	a.Post(near.Exclude{})
	a.connected(t, 1)
	b.connected(t, 1)
}
