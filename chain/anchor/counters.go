package anchor

import (
	"errors"
	"sync/atomic"

	"github.com/troupe-chain/troupe/chain/epoch"
)

// Counters count what becomes of messages that are checked by their anchor. Safe for concurrent
// use. The zero value is ready.
type Counters struct {
	// Lookups of the producer by the anchor, as near_anchored_chunk_producer_lookup_total has them:
	// found; the anchor is unknown; the anchor is known, but not its producer; another error.
	Found, NoAnchor, NoRow, Failed atomic.Uint64

	WrongForm  atomic.Uint64 // messages dropped for their form
	WrongPlace atomic.Uint64 // messages dropped for ErrWrong
	Queued     atomic.Uint64 // early messages that were queued
	Taken      atomic.Uint64 // of these, checked again when the parent was known
	Expired    atomic.Uint64 // of these, dropped because the final block reached their height
	Evicted    atomic.Uint64 // of these, dropped because the queue was full
	Refused    atomic.Uint64 // early messages of signers that had too many waiting
	Unsigned   atomic.Uint64 // early messages that no chunk producer of the shard has signed

	Waiting, WaitingBytes atomic.Int64 // in the queues now
}

// Error counts what an error says about form and place.
func (c *Counters) Error(err error) {
	switch {
	case errors.Is(err, ErrForm):
		c.WrongForm.Add(1)
	case errors.Is(err, ErrWrong):
		c.WrongPlace.Add(1)
	}
}

// Lookup counts the result of a lookup of the producer, with the check of the place.
func (c *Counters) Lookup(err error) {
	switch {
	case errors.Is(err, epoch.ErrChunkProducerNotInDB):
		c.NoRow.Add(1)
	case errors.Is(err, epoch.ErrMissingBlock):
		c.NoAnchor.Add(1)
	case err == nil, errors.Is(err, ErrWrong), errors.Is(err, ErrEarly):
		c.Found.Add(1)
	default:
		c.Failed.Add(1)
	}
}
