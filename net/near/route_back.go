package near

import (
	"slices"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// The bounds of the ways back (routing/route_back_cache.rs).
const (
	maxWaysBack = 100_000
	wayBackLife = 120 * time.Second
)

// waysBack remembers, by the hash of a request, from which neighbour it came, or that it was ours.
type waysBack struct {
	from  map[primitives.Hash]wayBack
	order []slot // oldest first; some are dead
	of    map[wire.PeerID]int
	puts  uint64
}

type wayBack struct {
	peer wire.PeerID
	at   time.Time
	n    uint64 // of its slot
}

// slot is a place in the order. It is dead when its way back was taken, even if the same hash was
// put again after that.
type slot struct {
	hash primitives.Hash
	n    uint64
}

func newWaysBack() *waysBack {
	return &waysBack{from: map[primitives.Hash]wayBack{}, of: map[wire.PeerID]int{}}
}

// put remembers one; of a request that is known the first stays. A full memory first loses what is
// too old, then the oldest of whoever has most, so that one neighbour who floods loses only its
// own.
func (w *waysBack) put(now time.Time, request primitives.Hash, peer wire.PeerID) {
	if _, known := w.from[request]; known {
		return
	}
	if len(w.from) >= maxWaysBack {
		w.evict(now)
	}
	w.puts++
	w.from[request] = wayBack{peer, now, w.puts}
	w.order = append(w.order, slot{request, w.puts})
	w.of[peer]++
	if len(w.order) > 2*len(w.from)+1000 { // mostly of those that were answered
		w.prune()
	}
}

func (w *waysBack) live(s slot) bool {
	b, known := w.from[s.hash]
	return known && b.n == s.n
}

// prune drops the dead slots; as many stay as there are ways back.
func (w *waysBack) prune() {
	w.order = slices.DeleteFunc(w.order, func(s slot) bool { return !w.live(s) })
}

func (w *waysBack) evict(now time.Time) {
	for _, s := range w.order {
		if b := w.from[s.hash]; w.live(s) && now.Sub(b.at) > wayBackLife {
			w.forget(s.hash, b.peer)
		}
	}
	w.prune()
	if len(w.from) < maxWaysBack {
		return
	}
	var most wire.PeerID
	for p, n := range w.of {
		if most == "" || n > w.of[most] || n == w.of[most] && p < most {
			most = p
		}
	}
	left := maxWaysBack / 100 // at once, so that a flood does not search for each of its messages
	for _, s := range w.order {
		if w.from[s.hash].peer == most && left > 0 {
			w.forget(s.hash, most)
			left--
		}
	}
}

func (w *waysBack) forget(request primitives.Hash, peer wire.PeerID) {
	delete(w.from, request)
	if w.of[peer]--; w.of[peer] == 0 {
		delete(w.of, peer)
	}
}

// peek returns where an answer goes.
func (w *waysBack) peek(request primitives.Hash) wire.PeerID { return w.from[request].peer }

// take is peek, once.
func (w *waysBack) take(request primitives.Hash) wire.PeerID {
	b, known := w.from[request]
	if known {
		w.forget(request, b.peer)
	}
	return b.peer
}
