package libp2p

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/time/rate"

	"github.com/troupe-chain/troupe/primitives"
)

// Gossip rates of a peer, including duplicates. A network of a hundred nodes at full load stays
// below these rates. A node sends each peer at most half of these rates, counting relayed and own
// messages together. So a flooded node does not appear to flood. The other half is for messages
// that peers request by id.
const (
	blockRate        = 100      // maximum number of block messages per second
	transactionRate  = 2000     // maximum number of transaction batches per second
	blockBytes       = 32 << 20 // maximum number of bytes of block messages per second
	transactionBytes = 2 << 20  // maximum number of bytes of transaction batches per second
	burst            = 4        // number of seconds whose allowance may be used at once
	// maxExcess is the number of messages above the rate after which a peer is banned. The count is
	// reset after a minute within the rate.
	maxExcess = 5000
)

var (
	messageRates = [numTopics]rate.Limit{blockRate, transactionRate}
	byteRates    = [numTopics]rate.Limit{blockBytes, transactionBytes}
)

// allowance is the result of a rate check.
type allowance byte

const (
	allowed  allowance = iota
	flooded            // the message exceeds the rate and is dropped
	flooding           // the sender exceeds the rate for too long and is banned
)

// rates is the remaining allowance of a peer.
type rates struct {
	messages, bytes [numTopics]*rate.Limiter
	excess          int
	last            time.Time
	exceeded        time.Time // time of the last message above the rate
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

// take returns whether the rate allows a message of size bytes that counts as times messages.
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

// mayRelayLocked returns whether the rate allows this node to publish or relay a message. The
// caller holds w.mu.
func (w *Transport) mayRelayLocked(t topic, size int) bool {
	return w.outRates.take(time.Now(), t, size, 2)
}

const (
	freshFor  = 2 * time.Second
	staleFor  = time.Minute
	maxRecent = 50_000 // maximum number of hashes in each of the two maps
)

// age is the time since a message was published, in coarse steps.
type age byte

const (
	never age = iota
	fresh     // published so recently that the message may still be in transit
	stale
)

// recent remembers published hashes in two maps. When now is full or old, now replaces before, and
// a new now is created.
type recent struct {
	now, before map[primitives.Hash]time.Time
	since       time.Time
}

func newRecent() recent { return recent{now: map[primitives.Hash]time.Time{}} }

func (r *recent) state(key primitives.Hash, now time.Time) age {
	_, age := r.when(key, now)
	return age
}

// when returns the age that state returns, and the time when the hash was published.
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
