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

// status is what became of a known peer.
type status byte

const (
	unknown status = iota
	notConnected
	connected
	banned
)

// known is a peer that one has heard of.
type known struct {
	info     wire.PeerInfo
	status   status
	reason   Reason    // if banned
	bannedAt time.Time // likewise
	seen     time.Time
	trust    trust
	boot     bool
}

// trust is how well an address is known to be the peer's.
type trust byte

const (
	heard  trust = iota // somebody said so
	direct              // the peer at the address said so
	signed              // a handshake proved it
)

// store is the peers one knows of, by id, each with at most one address, and each address with one
// peer.
type store struct {
	peers  map[wire.PeerID]*known
	byAddr map[netip.AddrPort]wire.PeerID
	onlyTo bool // connect to boot nodes alone
}

func newStore(now time.Time, boot []wire.PeerInfo, onlyTo bool) *store {
	s := &store{peers: map[wire.PeerID]*known{}, byAddr: map[netip.AddrPort]wire.PeerID{}, onlyTo: onlyTo}
	for _, p := range boot {
		if p.Addr.IsValid() {
			s.put(now, p, signed).boot = true
		}
	}
	return s
}

// put sets a peer's address; a full store loses the peer that was not seen for the longest time.
func (s *store) put(now time.Time, p wire.PeerInfo, t trust) *known {
	if other, taken := s.byAddr[p.Addr]; taken && other != p.ID {
		s.peers[other].info.Addr = netip.AddrPort{}
		delete(s.byAddr, p.Addr)
	}
	k := s.peers[p.ID]
	if k == nil {
		if len(s.peers) >= maxKnownPeers {
			s.evict()
		}
		k = &known{info: p, seen: now}
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

// evict drops the peer that was not seen for the longest time; if all that may go are banned, the
// oldest ban.
func (s *store) evict() {
	var worst, oldest *known
	for _, k := range s.peers {
		if k.boot || k.status == connected {
			continue
		}
		if k.status == banned {
			if oldest == nil || k.bannedAt.Before(oldest.bannedAt) || k.bannedAt.Equal(oldest.bannedAt) && k.info.ID < oldest.info.ID {
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

func (s *store) drop(k *known) {
	delete(s.peers, k.info.ID)
	if s.byAddr[k.info.Addr] == k.info.ID {
		delete(s.byAddr, k.info.Addr)
	}
}

// hear takes peers that somebody told of: they are believed if neither the peer nor its address is
// known.
func (s *store) hear(now time.Time, list []wire.PeerInfo, me wire.PeerID) {
	for _, p := range list {
		if _, taken := s.byAddr[p.Addr]; p.ID != me && !taken && s.peers[p.ID] == nil {
			s.put(now, p, heard)
		}
	}
}

// recall takes peers of an earlier run: they were connected then, and their addresses were theirs.
func (s *store) recall(now time.Time, list []wire.PeerInfo, me wire.PeerID) {
	for _, p := range list {
		if _, taken := s.byAddr[p.Addr]; p.ID != me && !taken && s.peers[p.ID] == nil && p.Addr.IsValid() {
			s.put(now, p, direct).status = notConnected
		}
	}
}

// proven lists who was connected and is not banned, whoever was seen last first.
func (s *store) proven() (out []wire.PeerInfo) {
	list := s.sorted(func(k *known) bool {
		return k.info.Addr.IsValid() && (k.status == connected || k.status == notConnected)
	})
	slices.SortStableFunc(list, func(a, b *known) int { return b.seen.Compare(a.seen) })
	for _, k := range list[:min(len(list), maxRecalled)] {
		out = append(out, k.info)
	}
	return out
}

// maxRecalled is how many peers are worth to be remembered over a restart.
const maxRecalled = 100

// met takes what the peer at an address says it is, which is no proof.
func (s *store) met(now time.Time, p wire.PeerInfo) {
	k := s.peers[p.ID]
	if p.Addr.IsValid() && (k == nil || k.trust != signed || !k.info.Addr.IsValid()) {
		s.put(now, p, direct)
	}
}

// connected notes a handshake; an account id that was known stays.
func (s *store) connected(now time.Time, p wire.PeerInfo) {
	k := s.put(now, p, signed)
	k.status, k.seen = connected, now
}

// gone notes the end of a connection, which may be a ban; a ban of a peer that is not known is
// lost, as at neard.
func (s *store) gone(now time.Time, id wire.PeerID, reason Reason) {
	k := s.peers[id]
	if k == nil {
		return
	}
	k.seen, k.status = now, notConnected
	if reason != NotBanned {
		k.status, k.reason, k.bannedAt = banned, reason, now
	}
}

// failed notes a dial that led nowhere.
func (s *store) failed(now time.Time, id wire.PeerID) {
	if k := s.peers[id]; k != nil && k.status != banned {
		k.status, k.seen = unknown, now
	}
}

func (s *store) isBanned(id wire.PeerID) bool {
	k := s.peers[id]
	return k != nil && k.status == banned
}

// update ends bans and forgets who was not seen for long.
func (s *store) update(now time.Time) {
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

// sorted returns the peers that fit, in the order of ids, so that a draw is the same in every run.
func (s *store) sorted(fits func(*known) bool) []*known {
	var out []*known
	for _, id := range slices.Sorted(maps.Keys(s.peers)) {
		if k := s.peers[id]; fits(k) {
			out = append(out, k)
		}
	}
	return out
}

// candidate draws a peer to dial, if there is one: of those one was connected to before if
// preferKnown, else of all.
func (s *store) candidate(draw func(n int) int, preferKnown bool, skip func(wire.PeerInfo) bool) (wire.PeerInfo, bool) {
	fits := func(k *known) bool {
		return k.info.Addr.IsValid() && !skip(k.info) && (!s.onlyTo || k.boot) && (k.status == unknown || k.status == notConnected)
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

// healthy draws up to n peers to tell of.
func (s *store) healthy(draw func(n int) int, n int) []wire.PeerInfo {
	list := s.sorted(func(k *known) bool { return k.status != banned })
	var out []wire.PeerInfo
	for ; n > 0 && len(list) > 0; n-- {
		i := draw(len(list))
		out = append(out, list[i].info)
		list = slices.Delete(list, i, i+1)
	}
	return out
}
