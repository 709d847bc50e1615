package libp2p

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/libp2p/go-libp2p/p2p/discovery/mdns"
	basic "github.com/libp2p/go-libp2p/p2p/host/basic"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"
	resources "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/connmgr"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	libp2pquic "github.com/libp2p/go-libp2p/p2p/transport/quic"
	"github.com/libp2p/go-libp2p/p2p/transport/quicreuse"
	libp2ptcp "github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/quic-go/quic-go"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

const (
	dialLimit = 5 * time.Second
	banLife   = 3 * time.Hour
	maxBanned = 1000
	bindTries = 20
	bindWait  = 50 * time.Millisecond
)

// Options configures a Transport. Zero limits mean the defaults.
type Options struct {
	Key      primitives.SecretKey // node key, an Ed25519 key
	Genesis  wire.GenesisID
	Listen   netip.AddrPort // address for TCP; QUIC uses the UDP port of the same number
	Six      bool           // true: listen on all IPv6 addresses too; Listen must then be 0.0.0.0
	NoQuic   bool
	Here     map[wire.PeerID]bool // peers that are known to use libp2p
	Quic     map[wire.PeerID]bool // peers to dial over QUIC
	MDNS     bool                 // discover peers of this chain on the local network
	NAT      bool                 // ask the router for a port mapping
	MaxPeers int                  // maximum number of peers; 0: 40
	Grace    time.Duration        // timeout of a handshake; 0: 30 s
	Stall    time.Duration        // timeout of the transfer of a piece of a frame; 0: 20 s
	Counters *Metrics

	// Blacklisted returns whether an address is neither dialled nor accepted. nil: no address is.
	Blacklisted func(netip.AddrPort) bool
}

// Transport is the libp2p host of a node. Serve may be called once. Safe for concurrent use.
type Transport struct {
	o      Options
	me     peer.ID
	addr   netip.AddrPort
	host   host.Host
	reuse  *quicreuse.ConnManager
	topics [numTopics]*pubsub.Topic
	stop   context.CancelFunc
	spread chan spread

	dropped chan dropped

	station atomic.Pointer[tcp.Station] // node that handles the connections; nil before Serve

	mu      sync.Mutex
	streams map[peer.ID]int // number of open streams to each peer that carry frames
	// met is the number of connections to a peer with a complete T2 handshake. If met is above 0,
	// this node accepts gossip of the peer.
	met        map[peer.ID]int
	metAt      map[peer.ID]time.Time // time at which met of the peer last became positive
	handshakes map[peer.ID]int       // number of connections to a peer with a complete handshake of any tier
	// lastHandshakeEnd is the end of the peer's last such handshake, while the peer is connected.
	lastHandshakeEnd map[peer.ID]time.Time
	banned           map[peer.ID]time.Time
	excluded         map[peer.ID]bool // peers that Exclude has excluded
	rates            map[peer.ID]*rates
	outbound         map[peer.ID]time.Time // time at which gossipsub opened its current stream to the peer
	joined           [numTopics]map[peer.ID]time.Time
	recent           recent // hashes of messages that this node has published or relayed
	notGossiped      recent // hashes of blocks that this node does not relay over gossip
	verified         recent // hashes of encoded transactions whose signatures were verified
	outRates         *rates // remaining allowance for messages that this node publishes
	checks           map[peer.ID]int
	checking         chan struct{} // semaphore that bounds concurrently validated batches
}

var _ tcp.Transport = (*Transport)(nil)

// New creates the host and listens. Close it by ending Serve.
func New(o Options) (*Transport, error) {
	for _, d := range []struct {
		to   *time.Duration
		from time.Duration
	}{{&o.Grace, 30 * time.Second}, {&o.Stall, 20 * time.Second}} {
		if *d.to == 0 {
			*d.to = d.from
		}
	}
	if o.MaxPeers == 0 {
		o.MaxPeers = 40
	}
	if o.Counters == nil {
		o.Counters = new(Metrics)
	}
	w := &Transport{o: o, streams: map[peer.ID]int{}, met: map[peer.ID]int{}, metAt: map[peer.ID]time.Time{},
		handshakes: map[peer.ID]int{}, lastHandshakeEnd: map[peer.ID]time.Time{}, banned: map[peer.ID]time.Time{},
		rates: map[peer.ID]*rates{}, outRates: newRates(),
		outbound: map[peer.ID]time.Time{}, checks: map[peer.ID]int{}, checking: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
		spread: make(chan spread, maxSpread), dropped: make(chan dropped, maxDropped), recent: newRecent(),
		notGossiped: newRecent(), verified: newRecent()}
	for i := range w.joined {
		w.joined[i] = map[peer.ID]time.Time{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	if err := w.listen(ctx); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// listen creates the host as libp2p.New does, but leaves out unused transports and their
// dependencies.
func (w *Transport) listen(ctx context.Context) error {
	key, err := privateOf(w.o.Key)
	if err != nil {
		return err
	}
	if w.me, err = peer.IDFromPrivateKey(key); err != nil {
		return err
	}
	book, err := pstoremem.NewPeerstore()
	if err != nil {
		return err
	}
	if err := errors.Join(book.AddPrivKey(w.me, key), book.AddPubKey(w.me, key.GetPublic())); err != nil {
		return err
	}
	room, err := resources.NewResourceManager(resources.NewFixedLimiter(limits(w.o.MaxPeers)),
		resources.WithMetricsDisabled(), perAddressLimit(w.o.MaxPeers))
	if err != nil {
		return err
	}
	conns, err := connmgr.NewConnManager(2*w.o.MaxPeers, 3*w.o.MaxPeers, connmgr.WithGracePeriod(w.o.Grace))
	if err != nil {
		return err
	}
	guard := connGater{w}
	bus := eventbus.NewBus()
	sw, err := swarm.NewSwarm(w.me, book, bus, swarm.WithConnectionGater(guard), swarm.WithResourceManager(room),
		swarm.WithDialTimeout(dialLimit),
		swarm.WithDialRanker(swarm.NoDelayDialRanker))
	if err != nil {
		return err
	}
	muxers := []upgrader.StreamMuxer{{ID: yamux.ID, Muxer: yamux.DefaultTransport}}
	secure, err := noise.New(noise.ID, key, muxers)
	if err != nil {
		return err
	}
	up, err := upgrader.New([]security{secure}, muxers, nil, room, guard)
	if err != nil {
		return err
	}
	// Disable port reuse. With port reuse, two nodes could listen on the same port, and each node
	// would get half of the connections.
	over, err := libp2ptcp.NewTCPTransport(up, room, nil, libp2ptcp.DisableReuseport(),
		libp2ptcp.WithDialerForAddr(func(ma.Multiaddr) (libp2ptcp.ContextDialer, error) { return &net.Dialer{Control: tcp.Patience}, nil }))
	if err != nil {
		return err
	}
	ways := []transport.Transport{over}
	if !w.o.NoQuic {
		seed := sha256.Sum256([]byte("troupe quic " + w.o.Key.Raw()))
		w.reuse, err = quicreuse.NewConnManager(quic.StatelessResetKey(seed), quic.TokenGeneratorKey(sha256.Sum256(seed[:])))
		if err != nil {
			return err
		}
		q, err := libp2pquic.NewTransport(key, w.reuse, nil, guard, room)
		if err != nil {
			return err
		}
		ways = append(ways, q)
	}
	for _, t := range ways {
		if err := sw.AddTransport(t); err != nil {
			return err
		}
	}
	opts := &basic.HostOpts{EventBus: bus, ConnManager: conns, UserAgent: "troupe"}
	if w.o.NAT {
		opts.NATManager = func(n network.Network) basic.NATManager { return basic.NewNATManager(n) }
	}
	h, err := basic.NewHost(sw, opts)
	if err != nil {
		_ = sw.Close()
		return err
	}
	w.host = h
	h.Start()
	if err := w.bind(sw, !w.o.NoQuic); err != nil {
		return err
	}
	return w.gossip(ctx)
}

// bind listens on the address, and for QUIC on the same port number.
func (w *Transport) bind(sw *swarm.Swarm, quic bool) error {
	first, err := multiaddr(w.o.Listen, false)
	if err != nil {
		return err
	}
	if err := sw.Listen(first); err != nil {
		return fmt.Errorf("libp2p: listen on %s: %w", first, err)
	}
	for _, a := range sw.ListenAddresses() {
		if _, err := a.ValueForProtocol(ma.P_TCP); err == nil {
			w.addr = addrOf(a)
		}
	}
	at := []netip.AddrPort{w.addr}
	if w.o.Six {
		six := netip.AddrPortFrom(netip.IPv6Unspecified(), w.addr.Port())
		m, err := multiaddr(six, false)
		if err == nil {
			err = sw.Listen(m)
		}
		if err == nil { // an error means that the machine has no IPv6
			at = append(at, six)
		}
	}
	for _, a := range at {
		if !quic {
			break
		}
		if err := listenQuic(sw, a); err != nil {
			return err
		}
	}
	return nil
}

func listenQuic(sw *swarm.Swarm, at netip.AddrPort) error {
	m, err := multiaddr(at, true)
	if err != nil {
		return err
	}
	for tries := 0; ; tries++ { // retry, because the previous transport may not have closed its socket yet
		switch err := sw.Listen(m); {
		case err == nil:
			return nil
		case tries == bindTries:
			return fmt.Errorf("libp2p: listen on %s: %w", m, err)
		}
		time.Sleep(bindWait)
	}
}

// limits returns the connection and stream limits of libp2p's resource manager for a number of
// peers.
func limits(peers int) resources.ConcreteLimitConfig {
	scaled := resources.DefaultLimits.AutoScale()
	change := resources.PartialLimitConfig{
		System: resources.ResourceLimits{Conns: resources.LimitVal(4*peers + 64), ConnsInbound: resources.LimitVal(3*peers + 48),
			Streams: resources.LimitVal(64*peers + 256), StreamsInbound: resources.LimitVal(48*peers + 192)},
		Transient:   resources.ResourceLimits{Conns: 128, ConnsInbound: 96, Streams: 256, StreamsInbound: 192},
		PeerDefault: resources.ResourceLimits{Conns: 6, ConnsInbound: 4, Streams: 64, StreamsInbound: 32},
	}
	return change.Build(scaled)
}

// perAddressLimit limits the connections of one address to half of the peers, because nodes may
// share a router. perAddressLimit applies that limit also to an IPv6 network that one owner may
// have. libp2p's own limit is eight. Without a limit, one address could take all connections.
func perAddressLimit(peers int) resources.Option {
	n := max(8, peers/2)
	return resources.WithLimitPerSubnet([]resources.ConnLimitPerSubnet{{PrefixLength: 32, ConnCount: n}},
		[]resources.ConnLimitPerSubnet{{PrefixLength: 56, ConnCount: n}, {PrefixLength: 48, ConnCount: 2 * n}})
}

// Addr implements tcp.Transport.
func (w *Transport) Addr() netip.AddrPort { return w.addr }

// Addrs returns all addresses in the form that peers dial.
func (w *Transport) Addrs() (out []string) {
	for _, a := range w.host.Network().ListenAddresses() {
		out = append(out, fmt.Sprintf("%s/p2p/%s", a, w.me))
	}
	return out
}

// Serve implements tcp.Transport.
func (w *Transport) Serve(ctx context.Context, s tcp.Station) {
	w.station.Store(&s)
	defer w.close()
	for _, id := range [...]protocol.ID{bareID, signedID} {
		w.host.SetStreamHandler(id, func(x network.Stream) {
			if c := w.wrap(x); c != nil {
				s.Take(c)
			}
		})
	}
	w.host.Network().Notify(&network.NotifyBundle{
		ConnectedF:    func(network.Network, network.Conn) { w.o.Counters.connections.Add(1) },
		DisconnectedF: func(network.Network, network.Conn) { w.o.Counters.connections.Add(-1) },
	})
	if w.o.MDNS {
		found := mdns.NewMdnsService(w.host, "_troupe-"+w.o.Genesis.Hash.String()[:8]+"._udp", finder{w})
		if err := found.Start(); err == nil {
			defer func() { _ = found.Close() }()
		}
	}
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group.Go(func() { w.publishLoop(ctx) })
	group.Go(func() { w.sendDropped(ctx, s) })
	for i := range w.topics {
		group.Go(func() { w.trackSubscribers(ctx, topic(i)) })
	}
	tick := time.NewTicker(max(w.o.Grace/6, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			w.sweep(now)
		}
	}
}

func (w *Transport) close() {
	w.stop()
	if w.host != nil {
		_ = w.host.Close()
	}
	if w.reuse != nil {
		_ = w.reuse.Close()
	}
	w.o.Counters.met.Store(0)
	w.o.Counters.connections.Store(0)
}

// sweep closes connections without a complete handshake after Grace, or after twice Grace if a
// handshake is in progress. sweep also drops expired bans.
func (w *Transport) sweep(now time.Time) {
	var lonely []network.Conn
	w.mu.Lock()
	here := map[peer.ID]bool{}
	for _, c := range w.host.Network().Conns() {
		id, since := c.RemotePeer(), c.Stat().Opened
		here[id] = true
		if at := w.lastHandshakeEnd[id]; at.After(since) {
			since = at
		}
		grace := w.o.Grace
		if w.streams[id] > 0 {
			grace *= 2
		}
		if w.handshakes[id] == 0 && now.Sub(since) > grace {
			lonely = append(lonely, c)
		}
	}
	for id := range w.lastHandshakeEnd {
		if !here[id] {
			delete(w.lastHandshakeEnd, id)
		}
	}
	for id, at := range w.banned {
		if now.Sub(at) > banLife {
			delete(w.banned, id)
		}
	}
	for id, r := range w.rates {
		if r.idle(now) {
			delete(w.rates, id)
		}
	}
	w.mu.Unlock()
	for _, c := range lonely {
		w.o.Counters.idleClosed.Add(1)
		_ = c.Close()
	}
}

// Knows implements tcp.Transport.
func (w *Transport) Knows(p wire.PeerID) bool {
	id, err := idOf(p)
	if err != nil {
		return false
	}
	return w.o.Here[p] || w.o.Quic[p] || len(w.host.Peerstore().Addrs(id)) > 0 || w.host.Network().Connectedness(id) == network.Connected
}

// Met implements tcp.Transport.
func (w *Transport) Met(p wire.PeerID, tier wire.Tier, is bool) {
	id, err := idOf(p)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	count := func(m map[peer.ID]int) bool {
		if is {
			m[id]++
		} else if m[id]--; m[id] <= 0 {
			delete(m, id)
		}
		return m[id] > 0
	}
	if tier == wire.T2 {
		switch was := w.met[id] > 0; {
		case count(w.met) == was:
		case was:
			delete(w.metAt, id)
		default:
			w.metAt[id] = time.Now()
		}
		w.o.Counters.met.Store(int64(len(w.met)))
	}
	if count(w.handshakes) {
		w.host.ConnManager().Protect(id, "near")
		return
	}
	w.lastHandshakeEnd[id] = time.Now()
	w.host.ConnManager().Unprotect(id, "near")
}

func (w *Transport) isMet(id peer.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.met[id] > 0
}

// Ban implements tcp.Transport. Ban closes connections after a delay, so that the last messages are
// still sent.
func (w *Transport) Ban(p wire.PeerID) {
	id, err := idOf(p)
	if err != nil {
		return
	}
	w.mu.Lock()
	if len(w.banned) >= maxBanned {
		clear(w.banned)
	}
	_, again := w.banned[id]
	w.banned[id] = time.Now()
	w.mu.Unlock()
	if again {
		return
	}
	w.o.Counters.bans.Add(1)
	time.AfterFunc(200*time.Millisecond, func() { _ = w.host.Network().ClosePeer(id) })
}

func (w *Transport) isBanned(id peer.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, is := w.banned[id]
	return is && time.Since(at) < banLife
}

// Exclude implements tcp.Transport. Exclude closes connections after a delay, as Ban does.
func (w *Transport) Exclude(peers []wire.PeerID) {
	list := make(map[peer.ID]bool, len(peers))
	for _, p := range peers {
		if id, err := idOf(p); err == nil {
			list[id] = true
		}
	}
	w.mu.Lock()
	w.excluded = list
	w.mu.Unlock()
	time.AfterFunc(200*time.Millisecond, func() {
		for id := range list {
			if w.isExcluded(id) {
				_ = w.host.Network().ClosePeer(id)
			}
		}
	})
}

func (w *Transport) isExcluded(id peer.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.excluded[id]
}

// finder receives peers found on the local network.
type finder struct{ *Transport }

func (f finder) HandlePeerFound(found peer.AddrInfo) {
	who, err := PeerOf(found.ID)
	station := f.station.Load()
	if err != nil || found.ID == f.me || station == nil {
		return
	}
	for _, a := range found.Addrs {
		if _, err := a.ValueForProtocol(ma.P_TCP); err == nil && addrOf(a).IsValid() {
			f.host.Peerstore().AddAddr(found.ID, a, time.Hour)
			(*station).Post(near.Heard{Peers: []wire.PeerInfo{{ID: who, Addr: addrOf(a)}}})
			return
		}
	}
}
