package anchor

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

// Counters count what becomes of messages that are checked by their anchor. Safe for concurrent
// use. The zero value is ready.
type Counters struct {
	WrongForm  atomic.Uint64 // messages dropped for their form
	WrongPlace atomic.Uint64 // messages dropped for ErrWrong
	Queued     atomic.Uint64 // early messages that were queued
	Taken      atomic.Uint64 // of these, checked again when the parent was known
	Expired    atomic.Uint64 // of these, dropped because the final block reached their height
	Evicted    atomic.Uint64 // of these, dropped because the queue was full
	Refused    atomic.Uint64 // early messages of signers that had too many waiting
	Unsigned   atomic.Uint64 // early messages that no chunk producer of the shard has signed

	Waiting, WaitingBytes atomic.Int64 // in the queues now

	mu      sync.Mutex
	lookups map[Lookup]uint64
	shards  map[primitives.ShardID]bool // those with a label of their own in lookups
}

// Error counts what the error of one message says about form and place. nil is not counted.
func (c *Counters) Error(err error) {
	switch {
	case errors.Is(err, ErrForm):
		c.WrongForm.Add(1)
	case errors.Is(err, ErrWrong):
		c.WrongPlace.Add(1)
	}
}

// Lookup names lookups of chunk producers by the anchor in a message, as nearcore's counter
// near_anchored_chunk_producer_lookup_total has them.
type Lookup struct {
	Shard   string // an id, or OtherShards
	Message string // one of the Message constants
	Result  string // one of the Lookup constants
}

// Messages that name an anchor, as nearcore calls them.
const (
	MessageChunk    = "chunk"
	MessageWitness  = "witness"
	MessageAccesses = "contract accesses"
	MessageDeploys  = "contract deploys"
)

// Results of a lookup, as nearcore calls them.
const (
	LookupHit      = "hit"               // the producer is known, whatever the check of the place says
	LookupNoAnchor = "miss_anchor_block" // the anchor is unknown
	LookupNoRow    = "miss_db_entry"     // the anchor is known, but not the producer in its row
	LookupFailed   = "error"             // anything else, for instance an unknown epoch
)

// maxShards bounds the shards that are counted one by one: a message may name any.
const maxShards = 256

// OtherShards is the Lookup.Shard of shards beyond the first 256.
const OtherShards = "other"

// CountLookup counts the result of a lookup of a producer with the check of the place, for a message
// of the given kind.
func (c *Counters) CountLookup(shard primitives.ShardID, message string, err error) {
	of := Lookup{Shard: OtherShards, Message: message}
	switch {
	case errors.Is(err, epoch.ErrChunkProducerNotInDB):
		of.Result = LookupNoRow
	case errors.Is(err, epoch.ErrMissingBlock):
		of.Result = LookupNoAnchor
	case errors.Is(err, epoch.ErrEpochOutOfBounds), errors.Is(err, epoch.ErrSharding):
		of.Result = LookupFailed
	case err == nil, errors.Is(err, ErrWrong), errors.Is(err, ErrEarly):
		of.Result = LookupHit
	default:
		of.Result = LookupFailed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lookups == nil {
		c.lookups, c.shards = map[Lookup]uint64{}, map[primitives.ShardID]bool{}
	}
	if c.shards[shard] || len(c.shards) < maxShards {
		c.shards[shard], of.Shard = true, strconv.FormatUint(uint64(shard), 10)
	}
	c.lookups[of]++
}

// Lookups returns the numbers of lookups that were counted.
func (c *Counters) Lookups() map[Lookup]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.lookups)
}

// SortLookups returns the keys of Lookups in a fixed order.
func SortLookups(of map[Lookup]uint64) []Lookup {
	return slices.SortedFunc(maps.Keys(of), func(a, b Lookup) int {
		return cmp.Or(cmp.Compare(len(a.Shard), len(b.Shard)), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Message, b.Message),
			cmp.Compare(a.Result, b.Result))
	})
}
