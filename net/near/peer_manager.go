package near

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// Config is fixed while a node runs. Zero limits mean neard's defaults, which withDefaults sets.
type Config struct {
	// This node.

	// Key is the node's key. Required.
	Key primitives.SecretKey
	// Genesis is the chain. Peers of other chains are refused.
	Genesis wire.GenesisID
	// Version and Oldest are the newest and the oldest supported protocol version.
	Version, Oldest uint32
	// ListenAddr is the address on which the node listens. Peers learn its port. Zero: port 0.
	ListenAddr netip.AddrPort
	// PublicAddr is the address to which hosts connect over T3. If PublicAddr is invalid, this node
	// uses the address that the first peer reports.
	PublicAddr netip.AddrPort
	// NoInbound refuses inbound T2 connections, except of peers in Whitelist.
	NoInbound bool
	// NoOutbound: this node dials T2 peers only to restore connections that it had dialled.
	NoOutbound bool
	// Archival tells peers that the node has the whole chain.
	Archival bool

	// Which peers.

	// Boot are the peers to connect to first. Known are peers of previous runs.
	Boot, Known []wire.PeerInfo
	// OnlyBoot makes the node dial no other peers than Boot.
	OnlyBoot bool
	// Whitelist are peers that may connect although there are MaxPeers connections, and whose
	// connections are not closed for others. Id, address and, if it is set, account must be equal.
	Whitelist []wire.PeerInfo
	// Blacklisted returns whether an address must not be connected. nil: none.
	Blacklisted func(netip.AddrPort) bool

	// How many T2 connections. 0 means the default.

	MaxPeers    int // maximum number of connections; default 40
	IdealLow    int // below this number the node dials; default 30
	IdealHigh   int // above this number the node closes a connection; default 35
	MinOutbound int // minimum number of connections that the node dialled; default 5
	SafeSet     int // number of recently active connections that are not closed; default 20

	// T1 connections, between validators.

	// NoInboundT1 refuses T1 connections. With NoOutboundT1, this node dials no T1 connections.
	NoInboundT1, NoOutboundT1 bool
	// T1Period is the time between rounds of dials to proxies. 0: one minute.
	T1Period time.Duration
	// NewT1 is the maximum number of T1 dials in one round. 0: 50. Negative: none.
	NewT1 int
	// AdvertisePeriod is the time between advertisements of this validator's proxies. 0: 15 minutes.
	// The minimum is advertisePause.
	AdvertisePeriod time.Duration

	// Messages.

	// Rates limit the messages that a peer may send, by names for which IsRateKey is true. nil:
	// StandardRates.
	Rates map[string]Rate
	// MaxPeersSent is the maximum number of known peers in an answer to a peer. 0: 512, which is the
	// maximum. Negative: none.
	MaxPeersSent int
	// TTL is the number of hops after which a message of this node is dropped. 0: wire.StartTTL.
	TTL byte
	// SkipTombstones is a period after the start in which this node neither sends nor accepts
	// removed edges. 0: they always are.
	SkipTombstones time.Duration
	// Sparing suppresses duplicates: no block is sent to a peer that is known to have it. All nodes
	// of the network must set Sparing.
	Sparing bool
	// Meter counts messages. nil: a new one.
	Meter *Meter
	// Draw returns a random number from 0 to n-1. nil: rand.IntN, so a run cannot be repeated.
	Draw func(n int) int
}

// withDefaults sets the fields that are zero and have a default.
func (c *Config) withDefaults() {
	for _, d := range []struct {
		to   *int
		from int
	}{{&c.MaxPeers, 40}, {&c.IdealLow, 30}, {&c.IdealHigh, 35}, {&c.MinOutbound, 5}, {&c.SafeSet, 20}, {&c.NewT1, 50},
		{&c.MaxPeersSent, maxPeersSent}} {
		if *d.to == 0 {
			*d.to = d.from
		}
	}
	if c.T1Period == 0 {
		c.T1Period = time.Minute
	}
	if c.AdvertisePeriod == 0 {
		c.AdvertisePeriod = advertisePeriod
	}
	c.AdvertisePeriod = max(c.AdvertisePeriod, advertisePause)
	if c.Meter == nil {
		c.Meter = NewMeter()
	}
	if c.Rates == nil {
		c.Rates = StandardRates()
	}
	if c.TTL == 0 {
		c.TTL = wire.StartTTL
	}
	if c.Draw == nil {
		c.Draw = rand.IntN
	}
	if c.Blacklisted == nil {
		c.Blacklisted = func(netip.AddrPort) bool { return false }
	}
}

// PeerManager is the state of one peer of the network. Not safe for concurrent use.
//
// # Peer manager
//
// Problem. neard splits this logic among actors and locks: PeerActor for each connection,
// PeerManagerActor, routing, account data, snapshot hosts. The interleavings of these actors
// determine the messages that are sent, and cannot be repeated in a test. This node needs the same
// observable behaviour towards neard, but deterministically and in one place.
//
// Invariants.
//
//   - All input comes through Step. Step takes one event and a time, and returns effects. Equal
//     events and equal draws give equal effects: every iteration that produces effects is sorted by
//     id.
//   - A connection is in conns from Dialled or Accepted until Close. After a valid handshake the
//     connection is also in ready[tier], at most once for each peer and for each validator key.
//   - While a T2 handshake waits for its edge (conn.waiting), the connection's messages are queued
//     in both directions. After that the queued messages are processed in order. So the edge is in
//     the graph before any message is routed over the connection.
//   - A peer's message costs bounded work: frames are bounded before decoding (package wire), lists
//     here, and expensive requests by rate limits (limits). As in neard, messages above the limits of
//     Config.Rates and copies are dropped before a signature is verified (Admission). Exceeding a
//     bound of the protocol bans the sender.
//   - Each table is bounded. Where a peer could displace the entries of other peers, eviction is by
//     source (Graph.Add, routeBackCache).
//
// Outline. received checks state and rate limits, and passes an admitted message to handleHandshake or
// handle. handleRouted verifies a routed message, then delivers it or sends it to the next hop: by
// Graph.NextHop, or by routeBackCache for responses. Edges are collected and processed once a
// second (processEdges), since a search over the graph costs more than any message. tick does,
// after each event, the periodic work that is due. Wake returns when the next Tick is needed.
// monitor keeps the number of T2 connections in range. connectT1 dials the proxies of validators.
//
// Rejected: a goroutine for each connection with locks around shared tables, as in neard. Reading,
// decoding and signature checks run in a goroutine for each connection in package tcp. The rest is
// cheap enough for one goroutine.
type PeerManager struct {
	Config
	me      wire.PeerID
	created time.Time

	conns map[ConnID]*conn
	ready [4]map[wire.PeerID]*conn // established connections, by tier
	byKey [4]map[primitives.PublicKey]*conn
	loop  *conn                            // inbound side of this node's T1 connection to itself; nil: none
	out   [4]map[wire.PeerID]wire.PeerInfo // outbound dials and handshakes in progress, by tier

	graph       *Graph
	accounts    *accounts
	announced   announcements
	hosts       *hosts
	known       *peerStore
	excluded    map[wire.PeerID]bool // peers of the last Exclude
	routeBack   *routeBackCache
	recent      []outbound // outbound connections that lasted for recentAfter
	redial      []wire.PeerInfo
	retries     map[wire.PeerID]retry
	ownEdges    []edgeBatch // batches of this node's own edges
	edgeBatch   []edgeBatch // batches of edges from peers
	edgesQueued int         // number of edges in edgeBatch
	edgesAt     time.Time   // earliest time at which own edges are processed
	searchAt    time.Time   // earliest time at which edges of peers are processed
	pendingT3   map[wire.PeerID]time.Time
	fixing      []fix
	answers     map[wire.PeerID][]*wire.StateResponse // responses that wait for a T3 connection

	account      primitives.AccountID
	head         *Head
	blockSources blockSources
	txs          atomic.Int32 // number of ForwardTx messages since the last block of any peer
	recentRouted recentRouted
	timers       timers
	effects      []Effect
	skews        []ClockSkew // at most maxClockSkews, oldest first
}

// New returns a peer manager. The only known peers of the new manager are the boot nodes and
// Config.Known.
func New(c Config, now time.Time) *PeerManager {
	c.withDefaults()
	n := &PeerManager{Config: c, me: c.Key.PublicKey(), created: now, conns: map[ConnID]*conn{},
		routeBack: newRouteBackCache(), retries: map[wire.PeerID]retry{},
		pendingT3: map[wire.PeerID]time.Time{}, answers: map[wire.PeerID][]*wire.StateResponse{}}
	n.graph, n.accounts, n.known = NewGraph(n.me), newAccounts(n.me), newPeerStore(now, c.Boot, c.OnlyBoot)
	n.hosts = newHosts(func(id wire.PeerID) bool { return n.ready[wire.T2][id] != nil })
	n.known.restore(now, c.Known, n.me)
	n.blockSources.Max, n.recentRouted.Max = maxBlockSources, maxRecentRouted
	for t := range n.ready {
		n.ready[t], n.byKey[t] = map[wire.PeerID]*conn{}, map[primitives.PublicKey]*conn{}
		n.out[t] = map[wire.PeerID]wire.PeerInfo{}
	}
	n.timers.start(now, c.T1Period)
	return n
}

// Step processes an event. now is the current time. Step returns the effects that the caller must
// carry out, in order. Equal events and draws give equal effects. Step panics on an unknown event
// type.
func (n *PeerManager) Step(now time.Time, ev Event) []Effect {
	n.effects = nil
	n.Meter.requested(ev)
	switch ev := ev.(type) {
	case Dialled:
		n.dialled(now, ev)
	case Accepted:
		n.accepted(now, ev)
	case DialFailed:
		delete(n.out[ev.Tier], ev.Peer.ID)
		n.dialFailed(now, ev.Peer.ID, ev.Tier)
	case Received:
		if c := n.conns[ev.Conn]; c != nil {
			n.received(now, c, ev.Msg, ev.Admitted)
		}
	case TooLong:
		if c := n.conns[ev.Conn]; c != nil {
			n.close(now, c, Banned, Abusive)
		}
	case Closed:
		if c := n.conns[ev.Conn]; c != nil {
			n.close(now, c, StreamError, NotBanned)
		}
	case Gossiped:
		n.gossiped(now, &ev)
	case Heard:
		n.known.restore(now, ev.Peers, n.me)
		n.timers.monitor = now
	case Tick:
	case Head:
		n.newHead(ev)
	case Validator:
		n.setValidator(now, ev)
	case ToPeer:
		n.toPeer(wire.T2, ev.Peer, ev.Msg)
	case ToAll:
		n.toAll(now, ev)
	case OptimisticTo:
		n.optimistic(ev)
	case RouteTo:
		n.route(now, wire.T2, n.message(now, ev.Target, ev.Body))
	case RouteToAccount:
		n.routeToAccount(now, ev)
	case AskState:
		n.askState(now, ev)
	case AnswerState:
		n.answerState(ev)
	case AnnouncementsVerified:
		n.announcementsVerified(now, ev)
	case Snapshot:
		n.snapshot(now, ev)
	case Ban:
		n.ban(now, ev.Peer, ev.Reason)
	case Exclude:
		n.exclude(now, ev.Peers)
	default:
		panic(fmt.Sprintf("near: no case for %T", ev))
	}
	n.tick(now)
	out := n.effects
	n.effects = nil
	return out
}

// write sends m over c. If the edge of c's handshake is not in the graph yet, write queues m.
func (n *PeerManager) write(c *conn, m wire.Message) {
	if c.waiting {
		c.queued = append(c.queued, queuedMsg{msg: m})
		return
	}
	if r, ok := m.(*wire.BlockRequest); ok {
		c.asked.put(r.Hash)
	}
	n.effects = append(n.effects, Write{c.id, m})
}

func (n *PeerManager) do(e Effect) { n.effects = append(n.effects, e) }

// toPeer sends over the peer's connection of a tier. toPeer returns whether there is such a
// connection.
func (n *PeerManager) toPeer(tier wire.Tier, to wire.PeerID, m wire.Message) bool {
	c := n.ready[tier][to]
	if c != nil {
		n.write(c, m)
	}
	return c != nil
}

// sorted returns the established connections of a tier, sorted by peer.
func (n *PeerManager) sorted(tier wire.Tier) []*conn {
	out := make([]*conn, 0, len(n.ready[tier]))
	for _, c := range n.ready[tier] {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *conn) int { return compareStrings(a.peer.ID, b.peer.ID) })
	return out
}

func (n *PeerManager) toAll(now time.Time, ev ToAll) {
	b, _ := ev.Msg.(*wire.Block)
	for _, c := range n.sorted(wire.T2) {
		switch {
		case b == nil:
		case ev.Again && c.lastSentBlock == b.Block.Hash(), !ev.Again && n.knowsBlock(now, c, b.Block):
			continue
		}
		n.write(c, ev.Msg)
	}
}

func (n *PeerManager) newHead(h Head) {
	n.head = &h
	n.hosts.setEpoch(h.EpochHeight, h.PointEpoch)
	changed := n.Sparing && !slices.Equal(n.accounts.trackedShards, h.TrackedShards)
	if changed {
		n.accounts.trackedShards = slices.Clone(h.TrackedShards)
	}
	if n.accounts.setKeys(h.T1) || changed {
		n.timers.advertise = time.Time{} // advertise at once, which also requests the data of all peers
	}
}

func (n *PeerManager) setValidator(now time.Time, v Validator) {
	n.account = v.AccountID
	n.accounts.key, n.accounts.proxies, n.accounts.advertised = v.Key, v.Proxies, false
	n.closeOldLoop(now)
	n.dialProxies()
	n.timers.advertise = time.Time{}
}

// Info is the state of the network for other parts of the node.
type Info struct {
	Peers     []PeerState // T2 peers
	T1        []PeerState // T1 peers
	T3        []PeerState // T3 peers
	Producers []*wire.Announcement
	Reachable int
	Public    netip.AddrPort
	Accounts  []primitives.AccountID // accounts with a known node
	// Known lists peers that are or were connected, for dialling after a restart.
	Known []wire.PeerInfo
	Hosts []*wire.SnapshotHost // snapshot hosts, newest entry first
	// Holders contains the shards that validators always track, as the validators published these
	// shards under their signature.
	Holders map[primitives.AccountID][]primitives.ShardID
	// Seats are the ids of the nodes of this and the next epoch's validators, as the validators
	// published these ids under their signature.
	Seats      []wire.PeerID
	Edges      EdgeCounts
	Unreliable int // number of peers that are too far behind to route messages through them
	// RateLimited is the number of messages that were dropped because of a limit, by neard's names.
	RateLimited map[string]uint64
	// Alone: no connection is open or being opened, and no peer is known to dial.
	Alone bool
	// Skews has the peers whose clocks differ too much for a handshake, oldest entry first.
	Skews []ClockSkew
}

// PeerState is a connected peer.
type PeerState struct {
	Info          wire.PeerInfo
	Inbound       bool
	Archival      bool
	TrackedShards []primitives.ShardID
	Height        primitives.Height // height of the highest block that the peer has sent
	Hash          primitives.Hash
	HasBlock      bool // the peer has sent a block; block sync ignores other peers
	Since         time.Time
	LastReceived  time.Time
}

// Info returns the state of the network. Must not be called concurrently with Step.
func (n *PeerManager) Info() Info {
	i := Info{Producers: n.announced.all(), Reachable: n.graph.Reachable(), Public: n.PublicAddr,
		Known: n.known.reconnectable(), Hosts: n.hosts.all(), Alone: n.alone(), Skews: slices.Clone(n.skews)}
	for id := range n.announced.of {
		i.Accounts = append(i.Accounts, id)
	}
	for id := range n.accounts.byID {
		if n.announced.of[id] == nil && len(n.accounts.of(id)) > 0 {
			i.Accounts = append(i.Accounts, id)
		}
	}
	slices.Sort(i.Accounts)
	i.Holders = n.holders()
	i.Seats = n.validatorNodes()
	i.Edges, i.Unreliable = n.graph.counts(), len(n.unreliable())
	i.RateLimited = n.Meter.rateLimited()
	for _, c := range n.sorted(wire.T2) {
		i.Peers = append(i.Peers, c.state())
	}
	for _, c := range n.sorted(wire.T1) {
		i.T1 = append(i.T1, c.state())
	}
	for _, c := range n.sorted(wire.T3) {
		i.T3 = append(i.T3, c.state())
	}
	return i
}

// validatorNodes returns the nodes of the validators with keys in use, sorted.
func (n *PeerManager) validatorNodes() (out []wire.PeerID) {
	for id := range n.accounts.byID {
		for _, d := range n.accounts.of(id) {
			out = append(out, d.PeerID)
		}
		if a := n.announced.of[id]; a != nil {
			out = append(out, a.PeerID)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// holders returns the shards that validators publish under their key of this epoch. If an account
// has a different key in the next epoch, holders ignores data under that key. The next epoch's key
// may belong to another node, which does not validate yet.
func (n *PeerManager) holders() map[primitives.AccountID][]primitives.ShardID {
	out := map[primitives.AccountID][]primitives.ShardID{}
	for id, keys := range n.accounts.byID {
		if len(keys) == 0 {
			continue
		}
		if d := n.accounts.data[keys[0]]; d != nil && len(d.Holds) > 0 {
			out[id] = d.Holds
		}
	}
	return out
}

func (c *conn) state() PeerState {
	return PeerState{c.peer, c.inbound, c.archival, c.tracked, c.height, c.hash, c.hasBlock, c.since, c.heard}
}
