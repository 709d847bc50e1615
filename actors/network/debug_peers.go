package network

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// debugLife is how long the data of a debug page is served again. A copy of the routing graph
// occupies the host for some milliseconds.
const debugLife = time.Second

// debugPages keeps the last data of each page. Its lock is held while a page is made.
type debugPages struct {
	mu   sync.Mutex
	last map[string]debugPage
}

type debugPage struct {
	at    time.Time
	value any
}

// DebugPeers returns the data of a debug page about peers (nearcore
// chain/network/src/peer_manager/peer_manager_actor.rs:1649), which is empty while no host is
// running. The result is nil for another page.
func (f *Status) DebugPeers(page string) any {
	f.debug.mu.Lock()
	defer f.debug.mu.Unlock()
	now := time.Now()
	if p := f.debug.last[page]; p.value != nil && now.Sub(p.at) < debugLife {
		return p.value
	}
	host := f.host.Load()
	inspect := func(look func(*near.PeerManager)) {
		if host != nil {
			host.Inspect(look)
		}
	}
	var value any
	switch page {
	case "peer_store":
		var list []near.KnownPeer
		inspect(func(n *near.PeerManager) { list = n.KnownPeers() })
		value = peerStore(list)
	case "network_graph":
		var edges []*wire.Edge
		var hops map[wire.PeerID][]wire.PeerID
		inspect(func(n *near.PeerManager) { edges, hops = n.RoutingGraph() })
		value = networkGraph(edges, hops)
	case "recent_outbound_connections":
		var list []near.RecentConnection
		inspect(func(n *near.PeerManager) { list = n.RecentConnections() })
		out := view.RecentConnections{List: []view.RecentConnection{}}
		for _, c := range list {
			out.List = append(out.List, view.RecentConnection{PeerID: c.Peer.ID, Addr: rustAddr(c.Peer.Addr),
				Established: c.Since.Unix(), Until: c.Until.Unix()})
		}
		value = out
	case "snapshot_hosts":
		out := view.SnapshotHosts{Hosts: []view.SnapshotHost{}}
		if i := f.info.Load(); i != nil {
			for _, h := range i.Hosts {
				out.Hosts = append(out.Hosts, view.SnapshotHost{PeerID: h.PeerID, SyncHash: h.SyncHash, EpochHeight: h.EpochHeight,
					Shards: append([]primitives.ShardID{}, h.Shards...)})
			}
		}
		value = out
	default:
		return nil
	}
	if f.debug.last == nil {
		f.debug.last = map[string]debugPage{}
	}
	f.debug.last[page] = debugPage{now, value}
	return value
}

// peerStore returns the page of known peers, the last dialled ones first, as in neard.
func peerStore(list []near.KnownPeer) view.PeerStore {
	at := func(p *near.KnownPeer) int64 {
		if p.Attempt.IsZero() {
			return 0
		}
		return p.Attempt.Unix()
	}
	slices.SortStableFunc(list, func(a, b near.KnownPeer) int {
		return cmp.Or(cmp.Compare(at(&b), at(&a)), cmp.Compare(b.LastSeen.Unix(), a.LastSeen.Unix()))
	})
	out := view.PeerStore{PeerStates: []view.KnownPeer{}}
	for i := range list {
		p := &list[i]
		x := view.KnownPeer{PeerID: p.Info.ID, Status: p.Status, Addr: rustAddr(p.Info.Addr), FirstSeen: p.FirstSeen.Unix(),
			LastSeen: p.LastSeen.Unix()}
		if p.Status == "Banned" {
			x.Status = fmt.Sprintf("Banned(%v, %s)", p.Reason, rustTime(p.BannedAt))
		}
		if !p.Attempt.IsZero() {
			result := "Ok"
			if p.Failed {
				result = `Error: "the dial or the handshake failed"`
			}
			x.LastAttempt = &[2]any{p.Attempt.Unix(), result}
		}
		out.PeerStates = append(out.PeerStates, x)
	}
	return out
}

func networkGraph(edges []*wire.Edge, hops map[wire.PeerID][]wire.PeerID) view.NetworkGraph {
	out := view.NetworkGraph{Edges: make([]view.NetworkEdge, 0, len(edges)),
		NextHops: make(map[string][]primitives.PublicKey, len(hops))}
	for _, e := range edges {
		out.Edges = append(out.Edges, view.NetworkEdge{Peer0: e.Low, Peer1: e.High, Nonce: e.Nonce})
	}
	slices.SortFunc(out.Edges, func(a, b view.NetworkEdge) int {
		return cmp.Or(cmp.Compare(a.Peer0, b.Peer0), cmp.Compare(a.Peer1, b.Peer1))
	})
	for to, by := range hops {
		out.NextHops[to.String()] = append([]primitives.PublicKey{}, by...)
	}
	return out
}

// rustAddr returns the debug form of Option<SocketAddr>.
func rustAddr(a netip.AddrPort) string {
	if !a.IsValid() {
		return "None"
	}
	return "Some(" + a.String() + ")"
}

// rustTime returns the debug form of time::OffsetDateTime in UTC: no leading zero of the hour, and as
// few digits after the point as possible.
func rustTime(t time.Time) string {
	t = t.UTC()
	fraction := strings.TrimRight(fmt.Sprintf("%09d", t.Nanosecond()), "0")
	if fraction == "" {
		fraction = "0"
	}
	return fmt.Sprintf("%s %d:%02d:%02d.%s +00:00:00", t.Format(time.DateOnly), t.Hour(), t.Minute(), t.Second(), fraction)
}
