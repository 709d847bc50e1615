package storage

import (
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestReplacedBodiesKeepRunsFew: if the bodies of many blocks are replaced, as when a shard is
// caught up, the number of runs stays small, and the runs have the last body of each block.
func TestReplacedBodiesKeepRunsFew(t *testing.T) {
	const blocks = 1000
	var k pendingKeys
	k.init()
	bodyWith := func(keys ...string) *body {
		d := &body{shards: []pendingShard{{}}}
		for _, key := range keys {
			d.shards[0].changes = append(d.shards[0].changes, Change{KeyChanges: primitives.KeyChanges{Key: []byte("\x00" + key), Changes: []primitives.StateChange{{}}}})
		}
		d.sortKeys()
		return d
	}
	var all []*pendingBlock
	for n := range blocks {
		p := &pendingBlock{ref: BlockRef{primitives.Height(n + 1), hashOf(n)}}
		all = append(all, p)
		k.add(p, bodyWith("key"))
	}
	for n, p := range all {
		k.replace(p, bodyWith("key", fmt.Sprintf("late%04d", n)))
	}
	if runs, keys, versions := k.stats(); runs > 3*(runMerge-1)+3 || keys > blocks+2*runs || versions > 3*blocks {
		t.Errorf("%d runs with %d keys and %d versions, of %d blocks", runs, keys, versions, blocks)
	}
	b := branchKeys{branch: branch{v: &view{canon: all}, from: blocks}, low: 1, high: blocks, runs: k.all()}
	for n, p := range all {
		if got := b.get(flatKey(0, fmt.Appendf([]byte{0}, "late%04d", n))); got.p != p {
			t.Fatalf("the late key of block %d is of %+v", n, got.p)
		}
		b.high = p.ref.Height
		if got := b.get(flatKey(0, []byte("\x00key"))); got.p != p {
			t.Fatalf("the key of all, at block %d, is of %+v", n, got.p)
		}
		b.high = blocks
	}
}
