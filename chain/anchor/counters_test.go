package anchor

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

// TestLookupsAreCountedByResult: a lookup that finds the producer is a hit, even if the height or
// epoch is wrong. An unknown anchor and missing chunk producers are counted under their own labels,
// even if the error is also ErrWrong or ErrEarly.
func TestLookupsAreCountedByResult(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, LookupHit}, {ErrWrong, LookupHit}, {fmt.Errorf("%w: height", ErrEarly), LookupHit},
		{fmt.Errorf("%w: %w", ErrEarly, epoch.ErrMissingBlock), LookupNoAnchor}, {epoch.ErrMissingBlock, LookupNoAnchor},
		{fmt.Errorf("%w; %w", ErrWrong, epoch.ErrMissingBlock), LookupNoAnchor},
		{fmt.Errorf("%w: %w", ErrEarly, epoch.ErrChunkProducerNotInDB), LookupNoRow},
		{epoch.ErrEpochOutOfBounds, LookupFailed}, {epoch.ErrSharding, LookupFailed}, {errors.New("the disk is broken"), LookupFailed},
		{fmt.Errorf("%w; %w", ErrWrong, epoch.ErrEpochOutOfBounds), LookupFailed},
	} {
		var n Counters
		n.CountLookup(3, MessageChunk, c.err)
		if got := n.Lookups(); len(got) != 1 || got[Lookup{"3", MessageChunk, c.want}] != 1 {
			t.Errorf("%v: %v, want %s", c.err, got, c.want)
		}
	}
}

// TestLookupsOfHighShardsShareALabel: a message may contain any shard, so all shards after the
// first 256 share a label.
func TestLookupsOfHighShardsShareALabel(t *testing.T) {
	t.Parallel()
	var n Counters
	if len(n.Lookups()) != 0 {
		t.Error("new counters are not empty")
	}
	for range 2 {
		for shard := range primitives.ShardID(3 * maxShards) {
			n.CountLookup(shard, MessageDeploys, nil)
		}
	}
	got := n.Lookups()
	if len(got) != maxShards+1 || got[Lookup{"255", MessageDeploys, LookupHit}] != 2 ||
		got[Lookup{OtherShards, MessageDeploys, LookupHit}] != 2*2*maxShards {
		t.Errorf("%d series, %d of other shards", len(got), got[Lookup{OtherShards, MessageDeploys, LookupHit}])
	}
	keys := SortLookups(got)
	if len(keys) != len(got) || !slices.IsSortedFunc(keys[:10], func(a, b Lookup) int { return len(a.Shard) - len(b.Shard) }) || keys[10].Shard != "10" {
		t.Errorf("order %v", keys[:12])
	}
}
