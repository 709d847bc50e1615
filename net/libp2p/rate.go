package libp2p

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/troupe-chain/troupe/primitives"
)

// What a neighbour may bring by gossip, duplicates apart, which cost little. A hundred nodes at full load bring less.
const (
	blockRate       = 100      // messages a second
	transactionRate = 2000     // batches a second
	byteRate        = 32 << 20 // bytes a second
	burst           = 4        // seconds of each that may come at once
	maxExcess       = 5000     // messages above that, after which it is a flood; forgiven by a quiet minute
)

// allowance is what came of asking for room.
type allowance byte

const (
	allowed  allowance = iota
	flooded            // too much: dropped
	flooding           // too much for too long: its sender is banned
)

// bucket holds what may come at once.
type bucket struct {
	left float64
	at   time.Time
}

func (b *bucket) take(now time.Time, n, rate float64) bool {
	if b.at.IsZero() {
		b.left = burst * rate
	} else {
		b.left = min(b.left+now.Sub(b.at).Seconds()*rate, burst*rate)
	}
	if b.at = now; b.left < n {
		return false
	}
	b.left -= n
	return true
}

// rates are what one neighbour has left.
type rates struct {
	messages [numTopics]bucket
	bytes    bucket
	excess   int
	last     time.Time
}

func (r *rates) idle(now time.Time) bool { return now.Sub(r.last) > time.Minute }

func (r *rates) allow(now time.Time, t topic, size int) allowance {
	if r.idle(now) {
		r.excess = 0
	}
	r.last = now
	rate := [...]float64{blockRate, transactionRate}[t]
	if r.messages[t].take(now, 1, rate) && r.bytes.take(now, float64(size), byteRate) {
		return allowed
	}
	if r.excess++; r.excess > maxExcess {
		return flooding
	}
	return flooded
}

func (w *Way) allow(t topic, from peer.ID, size int) allowance {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.rates[from]
	if r == nil {
		r = &rates{}
		w.rates[from] = r
	}
	return r.allow(time.Now(), t, size)
}

const (
	freshFor  = 2 * time.Second
	staleFor  = time.Minute
	maxRecent = 50_000 // of each of two halves
)

// age is how long ago something was spread.
type age byte

const (
	never age = iota
	fresh     // it is on its way
	stale
)

// recent remembers what was spread lately, by two halves of which the older is dropped.
type recent struct {
	now, before map[primitives.Hash]time.Time
	since       time.Time
}

func newRecent() recent { return recent{now: map[primitives.Hash]time.Time{}} }

func (r *recent) state(key primitives.Hash, now time.Time) age {
	at, is := r.now[key]
	if !is {
		at, is = r.before[key]
	}
	switch age := now.Sub(at); {
	case !is || age > staleFor:
		return never
	case age > freshFor:
		return stale
	}
	return fresh
}

func (r *recent) put(key primitives.Hash, now time.Time) {
	if len(r.now) >= maxRecent || now.Sub(r.since) > staleFor {
		r.now, r.before, r.since = map[primitives.Hash]time.Time{}, r.now, now
	}
	r.now[key] = now
}
