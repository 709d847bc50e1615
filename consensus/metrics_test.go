package consensus

import (
	"testing"

	"github.com/troupe-chain/troupe/chain/optimistic"
	"github.com/troupe-chain/troupe/chain/partialwitness"
	"github.com/troupe-chain/troupe/engine/metrics"
	"github.com/troupe-chain/troupe/primitives"
)

// TestGapsOfOptimisticBlocksAreMeasured: the gaps are measured once for each height, in whatever
// order the block and the optimistic block come, and times are kept of a limited number of heights.
func TestGapsOfOptimisticBlocksAreMeasured(t *testing.T) {
	t.Parallel()
	n := &Node{measured: new(metrics.Set), optimistic: optimistic.New(0), optimisticTimes: map[primitives.Height]*optimisticTimes{}}
	at := func(now int64, h primitives.Height, what string) {
		n.now = now
		switch what {
		case "ready":
			n.timeOptimistic(h, func(t *optimisticTimes) { t.ready = now })
		case "applied":
			n.timeOptimistic(h, func(t *optimisticTimes) { t.applied = now })
		case "block":
			n.timeBlock(h)
		}
	}
	at(100, 7, "ready")
	at(150, 7, "applied")
	if c := n.measured.Count(optimisticReadyGap); c != 0 {
		t.Errorf("%d gaps without a block", c)
	}
	at(400, 7, "block")
	if r, d := n.measured.Value(optimisticReadyGap), n.measured.Value(optimisticDoneGap); r != 300 || d != 250 {
		t.Errorf("gaps %d and %d ns, want 300 and 250", r, d)
	}
	at(1000, 8, "block")
	at(1100, 8, "ready")
	at(1300, 8, "applied")
	if r, d := n.measured.Value(optimisticReadyGap), n.measured.Value(optimisticDoneGap); r != 200 || d != -50 {
		t.Errorf("sums %d and %d ns, want 200 and -50", r, d)
	}
	at(2000, 8, "block") // another block of the height
	if c := n.measured.Count(optimisticReadyGap); c != 2 {
		t.Errorf("%d gaps, want 2", c)
	}
	for h := range primitives.Height(1000) {
		at(3000, h, "block")
	}
	if len(n.optimisticTimes) != maxOptimisticTimes || n.optimisticTimes[999] == nil {
		t.Errorf("times of %d heights, of the highest: %v", len(n.optimisticTimes), n.optimisticTimes[999] != nil)
	}
}

// TestWitnessRoundtripIsMeasured: each validator's acknowledgement of a witness is measured, under
// the label of the witness's size. Other acknowledgements are not, and the number of witnesses that
// are remembered is limited.
func TestWitnessRoundtripIsMeasured(t *testing.T) {
	t.Parallel()
	n := &Node{measured: new(metrics.Set)}
	send := func(now int64, height primitives.Height, size uint64, to ...primitives.AccountID) primitives.Hash {
		n.now = now
		h := new(primitives.ChunkHeader)
		h.ShardID, h.HeightCreated = 3, height
		var sends []partialwitness.Send
		for _, a := range to {
			sends = append(sends, partialwitness.Send{To: []primitives.AccountID{a}, Body: &primitives.PartialWitness{EncodedLength: size}})
		}
		out := partialwitness.Out{Send: append(sends, partialwitness.Send{Body: &primitives.ChunkEndorsement{}}),
			Measured: []partialwitness.Measured{{What: partialwitness.EncodedSize, Shard: 3, Value: int64(size)}}}
		n.timeWitness(h, &out)
		return h.ChunkHash()
	}
	small, large := send(100, 1, 500, "a", "b"), send(200, 2, 1_500_000, "a")
	send(200, 3, 500) // to no validator
	for _, a := range []struct {
		now  int64
		hash primitives.Hash
	}{{300, small}, {310, large}, {400, small}, {500, small}, {500, primitives.Hash{9}}} {
		n.now = a.now
		n.witnessAcked(&primitives.WitnessAck{ChunkHash: a.hash})
	}
	if s, l := n.measured.Value(witnessRoundtrip, "<1KB"), n.measured.Value(witnessRoundtrip, "1-2MB"); s != 200+300 || l != 110 {
		t.Errorf("%d and %d ns, want 500 and 110", s, l)
	}
	for h := range primitives.Height(1000) {
		send(600, h, 30_000_000, "a")
	}
	if len(n.sentWitnesses) != maxSentWitnesses || sizeBucket(30_000_000) != ">20MB" {
		t.Errorf("%d witnesses are remembered", len(n.sentWitnesses))
	}
}
