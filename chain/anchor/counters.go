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

// Counters count the results of checking messages by their anchor. They are safe for concurrent
// use. The zero value is ready to use.
type Counters struct {
	WrongForm  atomic.Uint64 // messages dropped for ErrForm
	WrongPlace atomic.Uint64 // messages dropped for ErrWrong
	Queued     atomic.Uint64 // early messages that were queued
	Taken      atomic.Uint64 // queued messages that were checked again after the parent arrived
	Expired    atomic.Uint64 // queued messages dropped because the final block reached their height
	Evicted    atomic.Uint64 // queued messages dropped because the queue was full
	Refused    atomic.Uint64 // early messages not queued because the message's signer had too many in the queue
	Unsigned   atomic.Uint64 // early messages that are not signed by a chunk producer of the shard

	Waiting, WaitingBytes atomic.Int64 // current number and bytes of queued messages

	mu      sync.Mutex
	lookups map[Lookup]uint64
	shards  map[primitives.ShardID]bool // shards that have an own label in lookups
}

// Error counts an error of one message if it is ErrForm or ErrWrong. Other errors and nil are not
// counted.
func (c *Counters) Error(err error) {
	switch {
	case errors.Is(err, ErrForm):
		c.WrongForm.Add(1)
	case errors.Is(err, ErrWrong):
		c.WrongPlace.Add(1)
	}
}

// Lookup identifies one kind of lookup of a chunk producer by anchor. Its fields are the labels of
// nearcore's counter near_anchored_chunk_producer_lookup_total.
type Lookup struct {
	Shard   string // a shard id, or OtherShards
	Message string // one of the Message constants
	Result  string // one of the Lookup constants
}

// The kinds of messages that have an anchor, as nearcore labels them.
const (
	MessageChunk    = "chunk"
	MessageWitness  = "witness"
	MessageAccesses = "contract accesses"
	MessageDeploys  = "contract deploys"
)

// Results of a lookup, as nearcore labels them.
const (
	LookupHit      = "hit"               // the producer is known; height and epoch may be wrong
	LookupNoAnchor = "miss_anchor_block" // the anchor is unknown
	LookupNoRow    = "miss_db_entry"     // the anchor is known, but its chunk producers are not
	LookupFailed   = "error"             // any other error, for instance an unknown epoch
)

// maxShards is the maximum number of shards that get a label of their own. The limit is needed
// because a message from a peer may contain any shard ID.
const maxShards = 256

// OtherShards is the Lookup.Shard of all shards beyond the first 256.
const OtherShards = "other"

// CountLookup counts the result of one lookup of a producer for a message of the given kind. err is
// the error of Check or of the lookup, or nil if Check and the lookup succeeded.
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

// Lookups returns how often each kind of lookup was counted.
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
