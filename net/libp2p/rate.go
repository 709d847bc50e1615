package libp2p

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/time/rate"

	"github.com/troupe-chain/troupe/primitives"
)

// What a neighbour may bring by gossip, duplicates too. A hundred nodes at full load bring less. A
// node brings each of its own neighbours no more than half of it, of what others have made and of
// its own, so that nobody is taken for who floods because of what he was flooded with: the other
// half is for what is asked for by its name.
const (
	blockRate        = 100      // messages a second
	transactionRate  = 2000     // batches a second
	blockBytes       = 32 << 20 // a second
	transactionBytes = 2 << 20  // a second; what they cost are their signatures
	burst            = 4        // seconds of each that may come at once
	maxExcess        = 5000     // messages above that, after which it is a flood; forgiven by a minute without
)

var (
	messageRates = [numTopics]rate.Limit{blockRate, transactionRate}
	byteRates    = [numTopics]rate.Limit{blockBytes, transactionBytes}
)

// allowance is what came of asking for room.
type allowance byte

const (
	allowed  allowance = iota
	flooded            // too much: dropped
	flooding           // too much for too long: its sender is banned
)

// rates are what one neighbour has left.
type rates struct {
	messages, bytes [numTopics]*rate.Limiter
	excess          int
	last            time.Time
	exceeded        time.Time // the last time
}

func newRates() *rates {
	r := &rates{}
	for t := range numTopics {
		r.messages[t] = rate.NewLimiter(messageRates[t], burst*int(messageRates[t]))
		r.bytes[t] = rate.NewLimiter(byteRates[t], burst*int(byteRates[t]))
	}
	return r
}

func (r *rates) idle(now time.Time) bool { return now.Sub(r.last) > time.Minute }

// take tells whether a message may come that counts so many times.
func (r *rates) take(now time.Time, t topic, size, times int) bool {
	return r.messages[t].AllowN(now, times) && r.bytes[t].AllowN(now, times*size)
}

func (r *rates) allow(now time.Time, t topic, size int) allowance {
	r.last = now
	if r.take(now, t, size, 1) {
		return allowed
	}
	if now.Sub(r.exceeded) > time.Minute {
		r.excess = 0
	}
	r.exceeded = now
	if r.excess++; r.excess > maxExcess {
		return flooding
	}
	return flooded
}

func (w *Transport) allow(t topic, from peer.ID, size int) allowance {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.rates[from]
	if r == nil {
		r = newRates()
		w.rates[from] = r
	}
	return r.allow(time.Now(), t, size)
}

// goesOn tells whether neighbours will bear a message of this node's, or one that it hands on. w.mu
// is held.
func (w *Transport) goesOn(t topic, size int) bool { return w.onward.take(time.Now(), t, size, 2) }

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
	_, age := r.when(key, now)
	return age
}

// when is state, with the time.
func (r *recent) when(key primitives.Hash, now time.Time) (at time.Time, _ age) {
	at, is := r.now[key]
	if !is {
		at, is = r.before[key]
	}
	switch age := now.Sub(at); {
	case !is || age > staleFor:
		return at, never
	case age > freshFor:
		return at, stale
	}
	return at, fresh
}

func (r *recent) put(key primitives.Hash, now time.Time) {
	if len(r.now) >= maxRecent || now.Sub(r.since) > staleFor {
		r.now, r.before, r.since = map[primitives.Hash]time.Time{}, r.now, now
	}
	r.now[key] = now
}
