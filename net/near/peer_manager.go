package near

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// Config is what does not change while a node runs. Zero limits are neard's defaults.
type Config struct {
	Key            primitives.SecretKey // of the node
	Genesis        wire.GenesisID
	Version        uint32 // the newest protocol that is spoken
	Oldest         uint32 // and the oldest
	ListenAddr     netip.AddrPort
	PublicAddr     netip.AddrPort // for answers over T3; if it is not set, the first that a peer tells
	Boot           []wire.PeerInfo
	Known          []wire.PeerInfo // of an earlier run
	OnlyBoot       bool
	Whitelist      []wire.PeerInfo
	Blacklisted    func(netip.AddrPort) bool
	Archival       bool
	MaxPeers       int // of T2
	IdealLow       int
	IdealHigh      int
	MinOutbound    int
	SafeSet        int
	NoInboundT1    bool
	NoOutboundT1   bool
	T1Period       time.Duration   // between rounds of dials to proxies
	SkipTombstones time.Duration   // after the start; removed edges are neither sent nor taken
	Sparing        bool            // nothing is said twice to who is known to have heard it, as all nodes hurry
	Draw           func(n int) int // a number below n
}

func (c *Config) fill() {
	for _, d := range []struct {
		to   *int
		from int
	}{{&c.MaxPeers, 40}, {&c.IdealLow, 30}, {&c.IdealHigh, 35}, {&c.MinOutbound, 5}, {&c.SafeSet, 20}} {
		if *d.to == 0 {
			*d.to = d.from
		}
	}
	if c.T1Period == 0 {
		c.T1Period = time.Minute
	}
	if c.Draw == nil {
		c.Draw = func(int) int { return 0 }
	}
	if c.Blacklisted == nil {
		c.Blacklisted = func(netip.AddrPort) bool { return false }
	}
}

// PeerManager is the state of one peer of the network. It is used by one goroutine.
type PeerManager struct {
	Config
	me      wire.PeerID
	created time.Time

	conns map[ConnID]*conn
	ready [4]map[wire.PeerID]*conn // by tier
	byKey [4]map[primitives.PublicKey]*conn
	loop  *conn                            // the inbound end of a T1 connection to ourselves
	out   [4]map[wire.PeerID]wire.PeerInfo // dials and handshakes of ours that are under way

	graph     *Graph
	accounts  *accounts
	announced announcements
	hosts     *hosts
	store     *store
	back      *waysBack
	recent    []outbound // connections of ours that lasted
	redial    []wire.PeerInfo
	retries   map[wire.PeerID]retry
	ownEdges  []edgeBatch // of this node
	edgeBatch []edgeBatch // of others
	edgesWait int         // in edgeBatch
	edgesAt   time.Time   // when a batch may be taken next
	searchAt  time.Time   // and when those of others
	pending3  map[wire.PeerID]time.Time
	fixing    []fix
	answers   map[wire.PeerID][]*wire.StateResponse // that wait for a T3 connection

	account primitives.AccountID
	head    *Head
	brought brought
	txs     int // forwarded since the last block from anyone
	timers  timers
	effects []Effect
}

// New returns a node that knows its boot nodes and nobody else.
func New(c Config, now time.Time) *PeerManager {
	c.fill()
	n := &PeerManager{Config: c, me: c.Key.PublicKey(), created: now, conns: map[ConnID]*conn{},
		hosts: newHosts(), back: newWaysBack(), retries: map[wire.PeerID]retry{}, pending3: map[wire.PeerID]time.Time{},
		answers: map[wire.PeerID][]*wire.StateResponse{}}
	n.graph, n.accounts, n.store = NewGraph(n.me), newAccounts(n.me), newStore(now, c.Boot, c.OnlyBoot)
	n.store.recall(now, c.Known, n.me)
	for t := range n.ready {
		n.ready[t], n.byKey[t] = map[wire.PeerID]*conn{}, map[primitives.PublicKey]*conn{}
		n.out[t] = map[wire.PeerID]wire.PeerInfo{}
	}
	n.timers.start(now, c.T1Period)
	return n
}

// Step applies ev, which is of the time now, and returns what is to be done. Equal events give
// equal effects.
func (n *PeerManager) Step(now time.Time, ev Event) []Effect {
	n.effects = nil
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
			n.received(now, c, ev.Msg)
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
		n.store.recall(now, ev.Peers, n.me)
		n.timers.monitor = now
	case Tick:
	case Head:
		n.newHead(ev)
	case Validator:
		n.validator(now, ev)
	case ToPeer:
		n.toPeer(wire.T2, ev.Peer, ev.Msg)
	case ToAll:
		n.toAll(now, ev)
	case OptimisticTo:
		n.optimistic(ev)
	case RouteTo:
		n.route(now, wire.T2, wire.Unsigned(n.Key, ev.Target, ev.Body, now.Unix()))
	case RouteToAccount:
		n.routeToAccount(now, ev)
	case AskState:
		n.askState(now, ev)
	case AnswerState:
		n.answerState(ev)
	case Judged:
		n.judged(now, ev)
	case Snapshot:
		n.snapshot(now, ev)
	case Ban:
		n.ban(now, ev.Peer, ev.Reason)
	default:
		panic(fmt.Sprintf("near: no case for %T", ev))
	}
	n.tick(now)
	out := n.effects
	n.effects = nil
	return out
}

// write sends m over c, once the edge of its handshake is in the graph.
func (n *PeerManager) write(c *conn, m wire.Message) {
	if c.waiting {
		c.held = append(c.held, held{msg: m})
		return
	}
	if r, ok := m.(*wire.BlockRequest); ok {
		c.asked.put(r.Hash)
	}
	n.effects = append(n.effects, Write{c.id, m})
}

func (n *PeerManager) do(e Effect) { n.effects = append(n.effects, e) }

// toPeer sends over a connection of the tier, if there is one.
func (n *PeerManager) toPeer(tier wire.Tier, to wire.PeerID, m wire.Message) bool {
	c := n.ready[tier][to]
	if c != nil {
		n.write(c, m)
	}
	return c != nil
}

// sorted returns the ready connections of a tier in the order of peers.
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
		case ev.Again && c.itself == b.Block.Hash(), !ev.Again && n.hasHeard(now, c, b.Block):
			continue
		}
		n.write(c, ev.Msg)
	}
}

func (n *PeerManager) newHead(h Head) {
	n.head = &h
	n.hosts.setEpoch(h.EpochHeight, h.PointEpoch)
	changed := n.Sparing && !slices.Equal(n.accounts.holds, h.TrackedShards)
	if changed {
		n.accounts.holds = slices.Clone(h.TrackedShards)
	}
	if n.accounts.setKeys(h.T1) || changed {
		n.timers.advertise = time.Time{} // at once, which asks too
	}
}

func (n *PeerManager) validator(now time.Time, v Validator) {
	n.account = v.AccountID
	n.accounts.key, n.accounts.proxies, n.accounts.told = v.Key, v.Proxies, false
	n.timers.advertise = time.Time{}
}

// Info is what the rest of the node asks about the network.
type Info struct {
	Peers     []PeerState // of T2
	T1        []PeerState
	Producers []*wire.Announcement
	Reachable int
	Public    netip.AddrPort
	Accounts  []primitives.AccountID                        // that are known to be reached by some node
	Known     []wire.PeerInfo                               // who was connected, and may be dialled again
	Hosts     []*wire.SnapshotHost                          // who gives states, the newest entry first
	Holders   map[primitives.AccountID][]primitives.ShardID // what validators hold at all times, as they have signed
	// nodes of this epoch's validators and the next's, as these have signed
	Seats []wire.PeerID
	// nobody is connected or comes up, and nobody is known who could be dialled
	Alone bool
}

// PeerState is a connected peer.
type PeerState struct {
	Info          wire.PeerInfo
	Inbound       bool
	Archival      bool
	TrackedShards []primitives.ShardID
	Height        primitives.Height // of the highest block it has sent
	Hash          primitives.Hash
	HasBlock      bool // it counts for sync only then
	Since         time.Time
	LastReceived  time.Time
}

// Info returns the state of the network.
func (n *PeerManager) Info() Info {
	i := Info{Producers: n.announced.all(), Reachable: n.graph.Reachable(), Public: n.PublicAddr, Known: n.store.proven(), Hosts: n.hosts.all(), Alone: n.alone()}
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
	i.Seats = n.seats()
	for _, c := range n.sorted(wire.T2) {
		i.Peers = append(i.Peers, c.state())
	}
	for _, c := range n.sorted(wire.T1) {
		i.T1 = append(i.T1, c.state())
	}
	return i
}

// seats are the nodes of the validators whose keys count.
func (n *PeerManager) seats() (out []wire.PeerID) {
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

// holders are the shards of validators who have said what they hold, by the key that counts in this
// epoch: where an account has another one in the next, it may be another node's, which judges
// nothing yet.
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
