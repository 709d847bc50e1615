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

// Options say how a Way is reached. Zero limits are the defaults.
type Options struct {
	Key      primitives.SecretKey // of the node; of ed25519
	Genesis  wire.GenesisID
	Listen   netip.AddrPort // TCP, and QUIC at the same port of UDP
	Six      bool           // also at all addresses of IPv6, where there are any; Listen is 0.0.0.0
	NoQuic   bool
	Here     map[wire.PeerID]bool // who is known to be reached so
	Quic     map[wire.PeerID]bool // who is dialled over QUIC
	MDNS     bool                 // look for others of this chain on the local network
	NAT      bool                 // ask the router for a port
	MaxPeers int                  // 40
	Grace    time.Duration        // for a handshake; 30 s
	Stall    time.Duration        // that a piece of a frame may take; 20 s
	Counters *Metrics

	Blacklisted func(netip.AddrPort) bool // what is neither dialled nor let in; nil: nothing
}

// Transport is the libp2p host of a node. It is served once.
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

	station atomic.Pointer[tcp.Station] // set by Serve

	mu       sync.Mutex
	open     map[peer.ID]int       // streams of frames
	met      map[peer.ID]int       // of T2, whose gossip is heard
	metAt    map[peer.ID]time.Time // when it was
	shaken   map[peer.ID]int       // of any tier
	parted   map[peer.ID]time.Time // when the last of them went, while it is connected
	banned   map[peer.ID]time.Time
	rates    map[peer.ID]*rates
	outbound map[peer.ID]time.Time // since when gossip can send to whom
	joined   [numTopics]map[peer.ID]time.Time
	recent   recent // what was spread
	beside   recent // blocks that gossip does not carry on from here
	verified recent // transactions whose signatures are right, by all of their bytes
	onward   *rates // of what neighbours are brought
	checks   map[peer.ID]int
	checking chan struct{} // has who looks at a batch of transactions
}

var _ tcp.Transport = (*Transport)(nil)

// New listens.
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
	w := &Transport{o: o, open: map[peer.ID]int{}, met: map[peer.ID]int{}, metAt: map[peer.ID]time.Time{}, shaken: map[peer.ID]int{}, parted: map[peer.ID]time.Time{}, banned: map[peer.ID]time.Time{}, rates: map[peer.ID]*rates{}, onward: newRates(),
		outbound: map[peer.ID]time.Time{}, checks: map[peer.ID]int{}, checking: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
		spread: make(chan spread, maxSpread), dropped: make(chan dropped, maxDropped), recent: newRecent(), beside: newRecent(), verified: newRecent()}
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

// listen makes the host: what libp2p.New would make, without the transports that are not used here
// and what they bring along.
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
	room, err := resources.NewResourceManager(resources.NewFixedLimiter(limits(w.o.MaxPeers)), resources.WithMetricsDisabled(), ofAddress(w.o.MaxPeers))
	if err != nil {
		return err
	}
	conns, err := connmgr.NewConnManager(2*w.o.MaxPeers, 3*w.o.MaxPeers, connmgr.WithGracePeriod(w.o.Grace))
	if err != nil {
		return err
	}
	guard := gate{w}
	bus := eventbus.NewBus()
	sw, err := swarm.NewSwarm(w.me, book, bus, swarm.WithConnectionGater(guard), swarm.WithResourceManager(room), swarm.WithDialTimeout(dialLimit),
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
	// Without the reuse of ports two nodes would share one in peace, each with half of its
	// connections.
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

// bind takes the address, for QUIC at the port that TCP got.
func (w *Transport) bind(sw *swarm.Swarm, quic bool) error {
	first, err := multiaddr(w.o.Listen, false)
	if err != nil {
		return err
	}
	if err := sw.Listen(first); err != nil {
		return fmt.Errorf("libp2p: %s: %w", first, err)
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
		if err == nil { // else there is none
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
	for tries := 0; ; tries++ { // the socket of a way before this one may be on its way to its end
		switch err := sw.Listen(m); {
		case err == nil:
			return nil
		case tries == bindTries:
			return fmt.Errorf("libp2p: %s: %w", m, err)
		}
		time.Sleep(bindWait)
	}
}

// limits are those of libp2p's resource manager: so many connections and streams as a node of so
// many peers can have a use for.
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

// ofAddress is how many connections there may be with one address, and with a network of IPv6 that
// one may have: half of the peers, for nodes behind one router. libp2p's own limit is eight,
// whatever a node takes; without one a single address could have all places.
func ofAddress(peers int) resources.Option {
	n := max(8, peers/2)
	return resources.WithLimitPerSubnet([]resources.ConnLimitPerSubnet{{PrefixLength: 32, ConnCount: n}},
		[]resources.ConnLimitPerSubnet{{PrefixLength: 56, ConnCount: n}, {PrefixLength: 48, ConnCount: 2 * n}})
}

// Addr is of tcp.Transport.
func (w *Transport) Addr() netip.AddrPort { return w.addr }

// Addrs are all addresses, as others dial them.
func (w *Transport) Addrs() (out []string) {
	for _, a := range w.host.Network().ListenAddresses() {
		out = append(out, fmt.Sprintf("%s/p2p/%s", a, w.me))
	}
	return out
}

// Serve is of tcp.Transport.
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
	group.Go(func() { w.spreading(ctx) })
	group.Go(func() { w.tell(ctx, s) })
	for i := range w.topics {
		group.Go(func() { w.follow(ctx, topic(i)) })
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

// sweep closes connections over which nobody has shaken hands in time, also if it is tried for
// ever, and forgets bans.
func (w *Transport) sweep(now time.Time) {
	var lonely []network.Conn
	w.mu.Lock()
	here := map[peer.ID]bool{}
	for _, c := range w.host.Network().Conns() {
		id, since := c.RemotePeer(), c.Stat().Opened
		here[id] = true
		if at := w.parted[id]; at.After(since) {
			since = at
		}
		grace := w.o.Grace
		if w.open[id] > 0 {
			grace *= 2
		}
		if w.shaken[id] == 0 && now.Sub(since) > grace {
			lonely = append(lonely, c)
		}
	}
	for id := range w.parted {
		if !here[id] {
			delete(w.parted, id)
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
		w.o.Counters.lonely.Add(1)
		_ = c.Close()
	}
}

// Knows is of tcp.Transport.
func (w *Transport) Knows(p wire.PeerID) bool {
	id, err := idOf(p)
	if err != nil {
		return false
	}
	return w.o.Here[p] || w.o.Quic[p] || len(w.host.Peerstore().Addrs(id)) > 0 || w.host.Network().Connectedness(id) == network.Connected
}

// Met is of tcp.Transport.
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
	if count(w.shaken) {
		w.host.ConnManager().Protect(id, "near")
		return
	}
	w.parted[id] = time.Now()
	w.host.ConnManager().Unprotect(id, "near")
}

func (w *Transport) isMet(id peer.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.met[id] > 0
}

// Ban is of tcp.Transport. What is said last is given time to go.
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

// finder takes who is found on the local network.
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
