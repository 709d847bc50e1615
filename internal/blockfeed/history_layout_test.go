package blockfeed

import (
	"maps"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestChildrenProveTheirParent: the outcomes of the last block of a shard layout are proven by the chunks
// of a new layout, in which children take the place of a shard: by the root that the children name for
// the parent, and by the other shards' own roots. A root that no right shard names proves nothing, but is no lie.
func TestChildrenProveTheirParent(t *testing.T) {
	list, first, last, _ := recorded(t)
	const left, right = 1000, 1001
	seen := 0
	for h := last; h >= first; h-- {
		if list[h] == nil {
			continue
		}
		d, r := checked(t, list[h])
		var ids []primitives.ShardID
		for _, x := range d.Block.Body.Chunks {
			ids = append(ids, x.ShardID)
		}
		for i, parent := range ids {
			if s := d.Shard(parent); s == nil || len(s.Outcomes) == 0 || len(ids) < 2 || len(r.Outcomes) < len(ids) {
				continue
			}
			seen++
			own, all := 0, 0
			for _, id := range ids {
				all += len(d.Shard(id).Outcomes)
			}
			own = len(d.Shard(parent).Outcomes)
			other := ids[(i+1)%len(ids)]
			roots := maps.Clone(r.Outcomes)
			delete(roots, parent)
			roots[left], roots[right] = r.Outcomes[parent], r.Outcomes[parent]
			for _, x := range []struct {
				name     string
				alter    func(map[primitives.ShardID]primitives.Hash)
				unproven int
			}{
				{"true", func(map[primitives.ShardID]primitives.Hash) {}, 0},
				{"one child without a chunk", func(m map[primitives.ShardID]primitives.Hash) { delete(m, left) }, 0},
				{"another root of the children", func(m map[primitives.ShardID]primitives.Hash) {
					m[left], m[right] = primitives.Hash{1}, primitives.Hash{1}
				}, own},
				{"the parent's root of another shard", func(m map[primitives.ShardID]primitives.Hash) {
					m[other], m[left], m[right] = m[left], primitives.Hash{1}, primitives.Hash{1}
				}, own + len(d.Shard(other).Outcomes)},
			} {
				c := HistoryCheck{Height: h, Hash: d.Hash, Roots: maps.Clone(roots), Shards: slices.Replace(slices.Clone(ids), i, i+1, left, right)}
				x.alter(c.Roots)
				if err := c.Add(d, r, primitives.Hash{}); err != nil || int(c.Unproven) != x.unproven || int(c.Outcomes) != all-x.unproven {
					t.Errorf("block %d, shard %d, %s: %v, %d outcomes are proven, %d are not, want %d", h, parent, x.name, err, c.Outcomes, c.Unproven, x.unproven)
				}
				if slices.Contains(c.unproven, parent) != (x.unproven > 0) {
					t.Errorf("block %d, %s: unproven shards %v", h, x.name, c.unproven)
				}
			}
		}
	}
	if seen < 10 {
		t.Errorf("%d shards with outcomes", seen)
	}
}
