package near

import (
	"maps"
	"slices"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// lastHashes contains the last maxAsked hashes.
type lastHashes struct{ list []primitives.Hash }

const maxAsked = 30

func (l *lastHashes) put(h primitives.Hash) {
	if len(l.list) >= maxAsked {
		l.list = slices.Delete(l.list, 0, 1)
	}
	l.list = append(l.list, h)
}

func (l *lastHashes) has(h primitives.Hash) bool { return slices.Contains(l.list, h) }

// seenMessages contains the routed messages of the last duplicateWindow.
type seenMessages struct {
	at    map[seenKey]time.Time
	order []seenKey
}

type seenKey struct {
	author wire.PeerID
	target wire.Target
	sig    primitives.Signature
}

// again returns whether m has arrived before within duplicateWindow. If not, again records m. A
// message without a signature is not recorded, because the stream that carries the message delivers
// it only once.
func (s *seenMessages) again(now time.Time, m *wire.Routed) bool {
	if m.IsBare() {
		return false
	}
	for len(s.order) > 0 && (now.Sub(s.at[s.order[0]]) > duplicateWindow || len(s.order) >= maxSeenMessages) {
		delete(s.at, s.order[0])
		s.order = s.order[1:]
	}
	k := seenKey{m.Author, m.Target, m.Signature}
	if _, seen := s.at[k]; seen {
		return true
	}
	if s.at == nil {
		s.at = map[seenKey]time.Time{}
	}
	s.at[k] = now
	s.order = append(s.order, k)
	return false
}

// gossip collects items for a peer. The items are sent in at most one message per gossipPeriod.
type gossip[K ~string, V any] struct {
	pending map[K]V
	next    time.Time
}

const gossipPeriod = 10 * time.Second

func (g *gossip[K, V]) add(key K, v V, newer func(V, V) bool) {
	if g.pending == nil {
		g.pending = map[K]V{}
	}
	if old, there := g.pending[key]; !there || newer(v, old) {
		g.pending[key] = v
	}
}

// due returns the items to send at the time now, sorted by key; nil: there are none.
func (g *gossip[K, V]) due(now time.Time) []V {
	if len(g.pending) == 0 || now.Before(g.next) {
		return nil
	}
	var out []V
	for _, k := range slices.Sorted(maps.Keys(g.pending)) {
		out = append(out, g.pending[k])
	}
	g.pending, g.next = nil, now.Add(gossipPeriod)
	return out
}
