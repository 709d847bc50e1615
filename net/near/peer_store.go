package near

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
)

const (
	maxKnownPeers = 1000
	knownLife     = 7 * 24 * time.Hour
	banLife       = 3 * time.Hour
)

// status is the state of a known peer.
type status byte

const (
	unknown status = iota
	notConnected
	connected
	banned
)

// known is a known peer.
type known struct {
	info     wire.PeerInfo
	status   status
	reason   Reason    // reason of the ban, if the peer is banned
	bannedAt time.Time // time of the ban, if the peer is banned
	seen     time.Time
	first    time.Time // time at which the peer became known
	attempt  time.Time // time of the last dial; zero: none
	trust    trust
	boot     bool
	// attemptFailed means that the last dial led to no connection.
	attemptFailed bool
}

// trust is the evidence that an address belongs to a peer.
type trust byte

const (
	heard  trust = iota // another peer reported the address
	direct              // the node at the address reported the address
	signed              // a handshake proved the address
)

// peerStore holds the known peers. Each peer has at most one address, and each address belongs to
// at most one peer.
type peerStore struct {
	peers  map[wire.PeerID]*known
	byAddr map[netip.AddrPort]wire.PeerID
	onlyTo bool // dial only boot nodes
}

func newPeerStore(now time.Time, boot []wire.PeerInfo, onlyTo bool) *peerStore {
	s := &peerStore{peers: map[wire.PeerID]*known{}, byAddr: map[netip.AddrPort]wire.PeerID{}, onlyTo: onlyTo}
	for _, p := range boot {
		if p.Addr.IsValid() {
			s.put(now, p, signed).boot = true
		}
	}
	return s
}

// put sets the address of a peer. If the store is full, put first evicts a peer.
func (s *peerStore) put(now time.Time, p wire.PeerInfo, t trust) *known {
	if other, taken := s.byAddr[p.Addr]; taken && other != p.ID {
		s.peers[other].info.Addr = netip.AddrPort{}
		delete(s.byAddr, p.Addr)
	}
	k := s.peers[p.ID]
	if k == nil {
		if len(s.peers) >= maxKnownPeers {
			s.evict()
		}
		k = &known{info: p, seen: now, first: now}
		s.peers[p.ID] = k
	} else if k.info.Addr.IsValid() {
		delete(s.byAddr, k.info.Addr)
	}
	k.info.Addr, k.trust = p.Addr, t
	if p.Addr.IsValid() {
		s.byAddr[p.Addr] = p.ID
	}
	return k
}

// evict drops the peer that was not seen for the longest time. If all candidates are banned, evict
// drops the peer with the oldest ban. evict keeps boot nodes and connected peers.
func (s *peerStore) evict() {
	var worst, oldest *known
	for _, k := range s.peers {
		if k.boot || k.status == connected {
			continue
		}
		if k.status == banned {
			if oldest == nil || k.bannedAt.Before(oldest.bannedAt) ||
				k.bannedAt.Equal(oldest.bannedAt) && k.info.ID < oldest.info.ID {
				oldest = k
			}
			continue
		}
		if worst == nil || k.seen.Before(worst.seen) || k.seen.Equal(worst.seen) && k.info.ID < worst.info.ID {
			worst = k
		}
	}
	if worst == nil {
		worst = oldest
	}
	if worst != nil {
		s.drop(worst)
	}
}

func (s *peerStore) drop(k *known) {
	delete(s.peers, k.info.ID)
	if s.byAddr[k.info.Addr] == k.info.ID {
		delete(s.byAddr, k.info.Addr)
	}
}

// learn adds peers that another peer reported. learn skips peers whose id or address is known.
func (s *peerStore) learn(now time.Time, list []wire.PeerInfo, me wire.PeerID) {
	for _, p := range list {
		if _, taken := s.byAddr[p.Addr]; p.ID != me && !taken && s.peers[p.ID] == nil {
			s.put(now, p, heard)
		}
	}
}

// restore adds peers of a previous run. That run has verified the addresses of these peers.
func (s *peerStore) restore(now time.Time, list []wire.PeerInfo, me wire.PeerID) {
	for _, p := range list {
		if _, taken := s.byAddr[p.Addr]; p.ID != me && !taken && s.peers[p.ID] == nil && p.Addr.IsValid() {
			s.put(now, p, direct).status = notConnected
		}
	}
}

// reconnectable returns up to maxRecalled peers that were connected and are not banned, most
// recently seen first.
func (s *peerStore) reconnectable() (out []wire.PeerInfo) {
	list := s.sorted(func(k *known) bool {
		return k.info.Addr.IsValid() && (k.status == connected || k.status == notConnected)
	})
	slices.SortStableFunc(list, func(a, b *known) int { return b.seen.Compare(a.seen) })
	for _, k := range list[:min(len(list), maxRecalled)] {
		out = append(out, k.info)
	}
	return out
}

// maxRecalled is the maximum number of peers that are restored after a restart.
const maxRecalled = 100

// learnDirect stores the unproven identity that the node at an address claims. learnDirect does not
// replace an address from a handshake.
func (s *peerStore) learnDirect(now time.Time, p wire.PeerInfo) {
	k := s.peers[p.ID]
	if p.Addr.IsValid() && (k == nil || k.trust != signed || !k.info.Addr.IsValid()) {
		s.put(now, p, direct)
	}
}

// connected records a handshake. connected does not clear a known account id.
func (s *peerStore) connected(now time.Time, p wire.PeerInfo) {
	k := s.put(now, p, signed)
	k.status, k.seen = connected, now
}

// disconnected records the end of a connection, or a ban. As in neard, a ban of an unknown peer has
// no effect.
func (s *peerStore) disconnected(now time.Time, id wire.PeerID, reason Reason) {
	k := s.peers[id]
	if k == nil {
		return
	}
	k.seen, k.status = now, notConnected
	if reason != NotBanned {
		k.status, k.reason, k.bannedAt = banned, reason, now
	}
}

// failed records a dial that did not succeed.
func (s *peerStore) failed(now time.Time, id wire.PeerID) {
	s.attempted(now, id, true)
	if k := s.peers[id]; k != nil && k.status != banned {
		k.status, k.seen = unknown, now
	}
}

// attempted records the result of a dial.
func (s *peerStore) attempted(now time.Time, id wire.PeerID, failed bool) {
	if k := s.peers[id]; k != nil {
		k.attempt, k.attemptFailed = now, failed
	}
}

func (s *peerStore) isBanned(id wire.PeerID) bool {
	k := s.peers[id]
	return k != nil && k.status == banned
}

// update ends bans after banLife, and drops peers that were not seen for knownLife.
func (s *peerStore) update(now time.Time) {
	for _, k := range s.peers {
		if k.status == banned && now.Sub(k.bannedAt) >= banLife {
			k.status = notConnected
		}
		if k.status == connected {
			k.seen = now
		} else if now.Sub(k.seen) > knownLife && !k.boot {
			s.drop(k)
		}
	}
}

// sorted returns the peers for which fits returns true, sorted by id, so that draws can be
// repeated.
func (s *peerStore) sorted(fits func(*known) bool) []*known {
	var out []*known
	for _, id := range slices.Sorted(maps.Keys(s.peers)) {
		if k := s.peers[id]; fits(k) {
			out = append(out, k)
		}
	}
	return out
}

// candidate draws a peer to dial. If preferKnown is set and some candidates were connected before,
// candidate draws one of those. It returns false if there is no candidate.
func (s *peerStore) candidate(
	draw func(n int) int, preferKnown bool, skip func(wire.PeerInfo) bool,
) (wire.PeerInfo, bool) {
	fits := func(k *known) bool {
		return k.info.Addr.IsValid() && !skip(k.info) && (!s.onlyTo || k.boot) &&
			(k.status == unknown || k.status == notConnected)
	}
	list := s.sorted(fits)
	if preferKnown {
		if before := s.sorted(func(k *known) bool { return k.status == notConnected && fits(k) }); len(before) > 0 {
			list = before
		}
	}
	if len(list) == 0 {
		return wire.PeerInfo{}, false
	}
	return list[draw(len(list))].info, true
}

// healthy draws up to n peers to report to another peer. Banned ones are excluded.
func (s *peerStore) healthy(draw func(n int) int, n int) []wire.PeerInfo {
	list := s.sorted(func(k *known) bool { return k.status != banned })
	var out []wire.PeerInfo
	for ; n > 0 && len(list) > 0; n-- {
		i := draw(len(list))
		out = append(out, list[i].info)
		list = slices.Delete(list, i, i+1)
	}
	return out
}
