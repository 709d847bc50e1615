package network

import (
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/troupe-chain/troupe/chain/statesync"
	"github.com/troupe-chain/troupe/engine/metrics"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// State comes from nodes (hosts) that have announced a snapshot. A host that is a connected peer
// gets the request and answers on the same connection. Another host gets a routed message, as in
// neard, and answers on a new tier 3 connection if this node is reachable. Therefore this node asks
// distant hosts only if too few connected peers serve a shard. A peer that announces a state and does
// not deliver does not count: two such peers would otherwise keep all distant hosts from being asked.
const (
	enoughNeighbours = 2          // connected peers that serve a shard
	maxFar           = 16         // maximum number of distant hosts asked for one shard
	lotteryPeriod    = 5 * 60_000 // ms between two choices of distant hosts
)

// stateHosts are the nodes that announced the state that this node fetches.
type stateHosts struct {
	self   wire.PeerID
	peers  map[wire.PeerID]bool // connected peers
	public bool                 // this node has a public address that peers know
	hosts  []*wire.SnapshotHost
	lot    [16]byte // seed of the order of distant hosts
}

// hostLottery is the seed for the random order of distant hosts, which changes with time.
// Announcing state costs nothing, so an attacker must not be able to predict which hosts are asked.
type hostLottery uint64

func newHostLottery(random func(n int) int) hostLottery {
	if random == nil {
		return 0
	}
	return hostLottery(random(1 << 62))
}

func (l hostLottery) draw(ms int64) (lot [16]byte) {
	binary.BigEndian.PutUint64(lot[:], uint64(l))
	binary.BigEndian.PutUint64(lot[8:], uint64(ms/lotteryPeriod))
	return lot
}

func stateHostsOf(self wire.PeerID, info *near.Info, lot [16]byte) stateHosts {
	a := stateHosts{self: self, lot: lot, peers: map[wire.PeerID]bool{}, public: info.Public.IsValid(), hosts: info.Hosts}
	for i := range info.Peers {
		a.peers[info.Peers[i].Info.ID] = true
	}
	return a
}

// list returns the hosts for which fits returns true. The list has connected peers with all their
// shards, and distant hosts only with shards that too few connected peers deliver. m has asked the
// hosts so far.
func (a *stateHosts) list(m *statesync.Machine, fits func(*wire.SnapshotHost) bool) (out []statesync.Host) {
	served := map[primitives.ShardID]int{}
	for _, h := range a.hosts {
		if a.peers[h.PeerID] && fits(h) {
			out = append(out, statesync.Host{ID: h.PeerID, Shards: h.Shards})
			for _, id := range h.Shards {
				if m.Delivers(h.PeerID) {
					served[id]++
				}
			}
		}
	}
	if !a.public {
		return out
	}
	type drawn struct {
		*wire.SnapshotHost
		lot primitives.Hash
	}
	var others []drawn
	for _, h := range a.hosts {
		if !a.peers[h.PeerID] && h.PeerID != a.self && fits(h) {
			others = append(others, drawn{h, primitives.HashBytes(append(a.lot[:], h.PeerID...))})
		}
	}
	slices.SortFunc(others, func(x, y drawn) int { return x.lot.Compare(y.lot) })
	far := map[primitives.ShardID]int{}
	for _, h := range others {
		shards := slices.DeleteFunc(slices.Clone(h.Shards),
			func(id primitives.ShardID) bool { return served[id] >= enoughNeighbours || far[id] >= maxFar })
		for _, id := range shards {
			far[id]++
		}
		if len(shards) > 0 {
			out = append(out, statesync.Host{ID: h.PeerID, Shards: shards})
		}
	}
	return out
}

// request returns the event that makes package near send a state request. A connected host that does not
// deliver on its connection gets routed messages, if it can reach this node. m has asked the hosts so far.
func (a *stateHosts) request(m *statesync.Machine, q statesync.Ask, sync primitives.Hash) near.Event {
	switch i := q.Item; {
	case !a.peers[q.Peer], a.public && !m.Delivers(q.Peer):
		return near.AskState{Host: q.Peer, SyncHash: sync, ShardID: i.Shard, IsHeader: i.Header, Part: i.Part}
	case i.Header:
		return near.ToPeer{Peer: q.Peer, Msg: &wire.StateHeaderRequest{ShardID: i.Shard, SyncHash: sync}}
	default:
		return near.ToPeer{Peer: q.Peer, Msg: &wire.StatePartRequest{ShardID: i.Shard, SyncHash: sync, Part: i.Part}}
	}
}

// ackedItem returns the item of an acknowledgement, and whether the host refuses to send that item.
func ackedItem(q *primitives.StateRequestAck) (item statesync.Item, refused bool) {
	return statesync.Item{Shard: q.ShardID, Header: q.Header, Part: q.Part}, q.Body != primitives.StateWillRespond
}

// addAck handles the acknowledgement of a routed request. If the host refuses, the waiting ask
// requests the item from another host at once. addAck returns false if catchup did not make the
// request.
func (s *Shards) addAck(from wire.PeerID, q *primitives.StateRequestAck) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.points, func(p *syncPoint) bool { return p.sync == q.SyncHash })
	if i < 0 {
		return false
	}
	if item, refused := ackedItem(q); refused {
		s.step(s.points[i], statesync.None{From: from, Item: item})
	}
	return true
}

// bootstrapAck does the same as addAck for state sync at start.
func (a *Actor) bootstrapAck(from wire.PeerID, q *primitives.StateRequestAck) {
	x := a.bootstrap
	if x == nil || x.machine == nil || q.SyncHash != x.at.Sync.Hash {
		return
	}
	if item, refused := ackedItem(q); refused {
		a.stateStep(x, statesync.None{From: from, Item: item})
	}
}

// Metrics of requests for states (nearcore chain/client/src/metrics.rs).
var (
	stateRequestDelay = &metrics.Family{Name: "near_state_sync_p2p_request_delay_sec", Kind: metrics.Histogram,
		Labels: []string{"shard_id", "type"}, Per: 1000, Bounds: metrics.Exponential(0.001, 2, 20),
		Help: "Latency of state requests to peers"}
	stateDownloads = &metrics.Family{Name: "near_state_sync_download_result", Kind: metrics.Counter,
		Labels: []string{"shard_id", "type", "source", "result"},
		Help: "Count of number of state sync downloads by type (header, part), source (network, external), " +
			"and result (timeout, error, success)"}
	downloadResults = [statesync.Results]string{
		statesync.Success: "success", statesync.Refused: "sender_dropped", statesync.TimedOut: "timeout",
	}
)

// stateRequestsEnded measures requests for states.
func (f *Status) stateRequestsEnded(list []statesync.Ended) {
	for i := range list {
		shard, kind := strconv.FormatUint(uint64(list[i].Item.Shard), 10), "part"
		if list[i].Item.Header {
			kind = "header"
		}
		f.partTimes.Add(stateRequestDelay, list[i].Ms, shard, kind)
		f.partTimes.Add(stateDownloads, 1, shard, kind, "network", downloadResults[list[i].Result])
	}
}
