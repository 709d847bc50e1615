package near

import (
	"slices"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// Bounds of the route-back cache (routing/route_back_cache.rs).
const (
	maxRouteBacks = 100_000
	routeBackLife = 120 * time.Second
)

// routeBackCache remembers the neighbour from which a request came, by the request's hash. For own
// requests the cache stores this node's id.
type routeBackCache struct {
	from  map[primitives.Hash]routeBackEntry
	order []orderEntry        // entries of from, oldest first; some are outdated (see orderEntry)
	of    map[wire.PeerID]int // number of entries by peer
	puts  uint64
}

type routeBackEntry struct {
	peer wire.PeerID
	at   time.Time
	n    uint64 // equals n of the entry's orderEntry
}

// orderEntry is an entry in the eviction order. An orderEntry is dead once its route-back was used,
// even if the same hash was added again afterwards.
type orderEntry struct {
	hash primitives.Hash
	n    uint64
}

func newRouteBackCache() *routeBackCache {
	return &routeBackCache{from: map[primitives.Hash]routeBackEntry{}, of: map[wire.PeerID]int{}}
}

// put records the origin of a request. put keeps an existing entry. A full cache drops expired
// entries, and then the oldest entries of the neighbour with the most entries. So a flooding
// neighbour loses only its own entries.
func (w *routeBackCache) put(now time.Time, request primitives.Hash, peer wire.PeerID) {
	if _, known := w.from[request]; known {
		return
	}
	if len(w.from) >= maxRouteBacks {
		w.evict(now)
	}
	w.puts++
	w.from[request] = routeBackEntry{peer, now, w.puts}
	w.order = append(w.order, orderEntry{request, w.puts})
	w.of[peer]++
	if len(w.order) > 2*len(w.from)+1000 { // most entries of order are outdated
		w.prune()
	}
}

func (w *routeBackCache) live(s orderEntry) bool {
	b, known := w.from[s.hash]
	return known && b.n == s.n
}

// prune removes the dead order entries.
func (w *routeBackCache) prune() {
	w.order = slices.DeleteFunc(w.order, func(s orderEntry) bool { return !w.live(s) })
}

func (w *routeBackCache) evict(now time.Time) {
	for _, s := range w.order {
		if b := w.from[s.hash]; w.live(s) && now.Sub(b.at) > routeBackLife {
			w.forget(s.hash, b.peer)
		}
	}
	w.prune()
	if len(w.from) < maxRouteBacks {
		return
	}
	var most wire.PeerID
	for p, n := range w.of {
		if most == "" || n > w.of[most] || n == w.of[most] && p < most {
			most = p
		}
	}
	// Drop many at once, so that a flood does not cause a search for each message.
	left := maxRouteBacks / 100
	for _, s := range w.order {
		if w.from[s.hash].peer == most && left > 0 {
			w.forget(s.hash, most)
			left--
		}
	}
}

func (w *routeBackCache) forget(request primitives.Hash, peer wire.PeerID) {
	delete(w.from, request)
	if w.of[peer]--; w.of[peer] == 0 {
		delete(w.of, peer)
	}
}

// peek returns the neighbour to which a response goes. The result is empty if the neighbour is
// unknown.
func (w *routeBackCache) peek(request primitives.Hash) wire.PeerID { return w.from[request].peer }

// take does the same as peek, and removes the entry.
func (w *routeBackCache) take(request primitives.Hash) wire.PeerID {
	b, known := w.from[request]
	if known {
		w.forget(request, b.peer)
	}
	return b.peer
}
