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
	order []primitives.Hash // oldest first; some are gone
	of    map[wire.PeerID]int
}

type wayBack struct {
	peer wire.PeerID
	at   time.Time
}

func newWaysBack() *waysBack {
	return &waysBack{from: map[primitives.Hash]wayBack{}, of: map[wire.PeerID]int{}}
}

// put remembers one; a full memory first loses what is too old, then the oldest of whoever has most, so that one neighbour who floods
// loses only its own.
func (w *waysBack) put(now time.Time, request primitives.Hash, peer wire.PeerID) {
	if old, known := w.from[request]; known {
		w.forget(request, old.peer)
	}
	if len(w.from) >= maxWaysBack {
		w.evict(now)
	}
	w.from[request] = wayBack{peer, now}
	w.order = append(w.order, request)
	w.of[peer]++
	if len(w.order) > 2*len(w.from)+1000 { // mostly of those that were answered
		w.order = slices.DeleteFunc(w.order, func(h primitives.Hash) bool { _, known := w.from[h]; return !known })
	}
}

func (w *waysBack) evict(now time.Time) {
	kept := w.order[:0]
	for _, h := range w.order {
		if b, known := w.from[h]; known && now.Sub(b.at) > wayBackLife {
			w.forget(h, b.peer)
		} else if known {
			kept = append(kept, h)
		}
	}
	w.order = kept
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
	for _, h := range w.order {
		if b := w.from[h]; b.peer == most && left > 0 {
			w.forget(h, most)
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
