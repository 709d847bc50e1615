package near

import (
	"bytes"
	"slices"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

const (
	maxHosts = wire.MaxHosts
	// hostEpochsKept is the number of past epochs whose hosts are stored; neard: 1. If a shard has
	// no chunks in an epoch, the epoch has no sync block, and this node asks hosts of the previous
	// epoch.
	hostEpochsKept = 2
)

// hosts stores which peers serve the state of which shards.
type hosts struct {
	of    map[wire.PeerID]*wire.SnapshotHost
	order []wire.PeerID // keys of the map of, oldest entry first
	// connected returns whether a peer is connected. Entries of connected peers are evicted last: any
	// node can announce states under any number of keys, and so evict all others.
	connected func(wire.PeerID) bool
	least     uint64 // lowest epoch height that is kept
	tried     map[hostTry]int
}

// hostTry identifies the requests for one part that were sent to one host.
type hostTry struct {
	shard primitives.ShardID
	part  uint64
	peer  wire.PeerID
}

func newHosts(connected func(wire.PeerID) bool) *hosts {
	return &hosts{connected: connected, of: map[wire.PeerID]*wire.SnapshotHost{}, tried: map[hostTry]int{}}
}

// add verifies and stores entries from a peer, and returns the new entries. add ignores a list with
// more than maxHosts entries.
func (h *hosts) add(list []*wire.SnapshotHost) (fresh []*wire.SnapshotHost, ban Reason) {
	if len(list) > maxHosts {
		return nil, NotBanned
	}
	seen := map[wire.PeerID]bool{}
	for _, s := range list {
		if seen[s.PeerID] {
			return nil, Abusive
		}
		seen[s.PeerID] = true
	}
	for _, s := range list {
		if len(s.Shards) == 0 || !h.isNew(s) {
			continue
		}
		if len(s.Shards) > wire.MaxHostShards {
			return fresh, Abusive
		}
		if !s.Verify() {
			return fresh, InvalidSignature
		}
		h.put(s)
		fresh = append(fresh, s)
	}
	return fresh, NotBanned
}

func (h *hosts) isNew(s *wire.SnapshotHost) bool {
	old := h.of[s.PeerID]
	return s.EpochHeight >= h.least && (old == nil || newerHost(s, old))
}

// newerHost returns whether the entry s replaces the entry old. It does if the epoch of s is after
// the epoch of old. s also replaces old if s has the sync block of old and additional shards, which
// a host can add by catchup. neard ignores an entry with additional shards and does not ban its
// sender.
func newerHost(s, old *wire.SnapshotHost) bool {
	if s.EpochHeight != old.EpochHeight || s.SyncHash != old.SyncHash || len(s.Shards) <= len(old.Shards) ||
		len(s.Shards) > wire.MaxHostShards {
		return s.EpochHeight > old.EpochHeight
	}
	has := make(map[primitives.ShardID]bool, len(s.Shards))
	for _, id := range s.Shards {
		has[id] = true
	}
	lacks := func(id primitives.ShardID) bool { return !has[id] }
	return len(has) > len(old.Shards) && !slices.ContainsFunc(old.Shards, lacks)
}

func (h *hosts) put(s *wire.SnapshotHost) {
	if h.of[s.PeerID] != nil {
		h.order = slices.DeleteFunc(h.order, func(p wire.PeerID) bool { return p == s.PeerID })
	} else if len(h.of) >= maxHosts {
		i := max(0, slices.IndexFunc(h.order, func(p wire.PeerID) bool { return !h.connected(p) }))
		delete(h.of, h.order[i])
		h.order = slices.Delete(h.order, i, i+1)
	}
	h.of[s.PeerID] = s
	h.order = append(h.order, s.PeerID)
}

// setEpoch drops hosts of past epochs. setEpoch keeps the hosts of point, the newest epoch with a
// sync block. If point is 0, that epoch is unknown.
func (h *hosts) setEpoch(height, point uint64) {
	h.least = height - min(height, hostEpochsKept)
	if point > 0 {
		h.least = min(h.least, point)
	}
	h.order = slices.DeleteFunc(h.order, func(p wire.PeerID) bool {
		if h.of[p].EpochHeight >= h.least {
			return false
		}
		delete(h.of, p)
		return true
	})
}

// all returns the entries, newest first, as neard lists them.
func (h *hosts) all() []*wire.SnapshotHost {
	out := make([]*wire.SnapshotHost, 0, len(h.order))
	for _, p := range slices.Backward(h.order) {
		out = append(out, h.of[p])
	}
	return out
}

// serving returns the hosts of a shard of a snapshot, sorted by id.
func (h *hosts) serving(sync primitives.Hash, shard primitives.ShardID) []wire.PeerID {
	var out []wire.PeerID
	for _, s := range h.of {
		if s.SyncHash == sync && slices.Contains(s.Shards, shard) {
			out = append(out, s.PeerID)
		}
	}
	slices.Sort(out)
	return out
}

// HostScore orders the hosts of a part, as in neard. Of the hosts with the fewest requests, this
// node first asks the host with the highest score.
func HostScore(peer wire.PeerID, shard primitives.ShardID, part uint64) primitives.Hash {
	b := borsh.AppendUint64([]byte(peer.Raw()), uint64(shard))
	return primitives.HashBytes(borsh.AppendUint64(b, part))
}

// forPart returns the host to ask for a part, and counts the request. The result is empty if there
// is no host.
func (h *hosts) forPart(sync primitives.Hash, shard primitives.ShardID, part uint64) wire.PeerID {
	var best wire.PeerID
	for _, p := range h.serving(sync, shard) {
		if best == "" || h.before(hostTry{shard, part, p}, hostTry{shard, part, best}) {
			best = p
		}
	}
	if best != "" {
		h.tried[hostTry{shard, part, best}]++
	}
	return best
}

func (h *hosts) before(a, b hostTry) bool {
	if h.tried[a] != h.tried[b] {
		return h.tried[a] < h.tried[b]
	}
	x, y := HostScore(a.peer, a.shard, a.part), HostScore(b.peer, b.shard, b.part)
	if c := bytes.Compare(x[:], y[:]); c != 0 {
		return c > 0
	}
	return a.peer > b.peer
}

// partDone forgets the counted requests of a part.
func (h *hosts) partDone(shard primitives.ShardID, part uint64) {
	for t := range h.tried {
		if t.shard == shard && t.part == part {
			delete(h.tried, t)
		}
	}
}
