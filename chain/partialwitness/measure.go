package partialwitness

import "github.com/troupe-chain/troupe/primitives"

// Quantity is what a Tracker measures. Sizes are in bytes, times in ns. Each count has the value 1.
type Quantity uint8

// The quantities, which nearcore measures too (chain/chain/src/stateless_validation/metrics.rs,
// chain/client/src/metrics.rs).
const (
	RawSize        Quantity = iota // uncompressed size of a witness that this node sends
	EncodedSize                    // compressed size of that witness
	TransitionSize                 // size of its main state transition
	SourcesSize                    // size of its proofs of incoming receipts
	EncodeTime                     // time to encode and compress a witness
	CutTime                        // time to cut a compressed witness into signed parts
	DecodeTime                     // time to decompress and decode a witness
	// LastPartTime is the time from the first message about a witness until it is complete: enough
	// parts and the requested code have arrived.
	LastPartTime
	LastDeployTime // time from the first part of deployed code until enough parts have arrived
	CodeTime       // time from requesting code until it has arrived
	CodeDelay      // time for which a witness with enough parts waited for code
	AnswerTime     // time to answer a request for code
	CacheSize      // size of all collected parts and code of a shard; a current value
	// Count of witnesses by the state of the called code when enough parts had arrived: no code was
	// requested, the requested code had not arrived, or it had arrived.
	CodeUnknown
	CodeRequested
	CodeReceived
	Quantities // number of quantities
)

// Measured is a measured value.
type Measured struct {
	What  Quantity
	Shard primitives.ShardID
	Value int64
}

// now returns the time of t.Clock, 0 without a clock.
func (t *Tracker) now() int64 {
	if t.Clock == nil {
		return 0
	}
	return t.Clock()
}

// measure appends a measured value to o.
func (o *Out) measure(what Quantity, shard primitives.ShardID, value int64) {
	o.Measured = append(o.Measured, Measured{what, shard, value})
}

// measureCache appends the size of the collected parts and code of a shard.
func (t *Tracker) measureCache(out *Out, id primitives.ShardID) {
	s := t.shards[id]
	if s == nil {
		return
	}
	n := 0
	for _, w := range s.pending.by {
		if w.parts != nil {
			n += w.parts.size()
		}
		for _, code := range w.codes {
			n += len(code)
		}
	}
	out.measure(CacheSize, id, int64(n))
}
