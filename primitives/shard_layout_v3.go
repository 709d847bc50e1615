package primitives

import (
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// shardLayoutV3 is made by dynamic resharding. It contains the whole history of splits, and which
// split was the last. The ancestors follow from the history; borsh contains them, JSON does not.
type shardLayoutV3 struct {
	rangeLayout
	split     map[ShardID][]ShardID // children of every shard that was ever split
	lastSplit ShardID
	ancestors map[ShardID][]ShardID // ancestors of every present shard, nearest first
}

// NewShardLayoutV3 returns a layout with its history. The keys of split are the shards that were
// ever split. No split shard may be in ids, or be a child twice. Each split shard has at least two
// children, which are in ids or were split themselves. lastSplit is a key of split.
func NewShardLayoutV3(boundaries []AccountID, ids []ShardID, split map[ShardID][]ShardID, lastSplit ShardID) (ShardLayout, error) {
	r, err := newRangeLayout(boundaries, ids)
	if err != nil {
		return ShardLayout{}, err
	}
	if len(split[lastSplit]) == 0 {
		return ShardLayout{}, fmt.Errorf("%w: last_split is shard %d, which is not in shards_split_map", ErrLayout, lastSplit)
	}
	parents := make(map[ShardID]ShardID)
	for _, parent := range slices.Sorted(maps.Keys(split)) {
		if slices.Contains(ids, parent) {
			return ShardLayout{}, fmt.Errorf("%w: shard %d is in the layout, but also in shards_split_map", ErrLayout, parent)
		}
		if len(split[parent]) < 2 {
			return ShardLayout{}, fmt.Errorf("%w: shard %d was split into %d shards, must be at least 2",
				ErrLayout, parent, len(split[parent]))
		}
		for _, id := range split[parent] {
			if _, twice := parents[id]; twice {
				return ShardLayout{}, fmt.Errorf("%w: shard %d has two parents", ErrLayout, id)
			}
			parents[id] = parent
			if _, gone := split[id]; !gone && !slices.Contains(ids, id) {
				return ShardLayout{}, fmt.Errorf("%w: child %d of shard %d is neither in the layout nor split itself",
					ErrLayout, id, parent)
			}
		}
		if err := fitsUID(parent); err != nil {
			return ShardLayout{}, err
		}
	}
	l := &shardLayoutV3{rangeLayout: r, split: split, lastSplit: lastSplit, ancestors: make(map[ShardID][]ShardID, len(ids))}
	for _, id := range ids {
		chain := []ShardID{}
		for p, ok := parents[id]; ok; p, ok = parents[p] {
			if chain = append(chain, p); len(chain) > len(split) {
				return ShardLayout{}, fmt.Errorf("%w: shard %d is its own ancestor", ErrLayout, p)
			}
		}
		l.ancestors[id] = chain
	}
	return ShardLayout{l}, nil
}

// DeriveV3 returns the layout in which the shard that holds boundary is split there. A V1 or V2
// layout does not contain its history, so history is called once and returns the layouts so far, l
// first (see SplitHistory). A nil history means that there are none. Errors: ErrDuplicateBoundary;
// ErrCannotDerive for V0.
func (l ShardLayout) DeriveV3(boundary AccountID, history func() []ShardLayout) (ShardLayout, error) {
	r, err := l.ranges()
	if err != nil {
		return ShardLayout{}, err
	}
	next, parent, children, err := r.splitAt(boundary)
	if err != nil {
		return ShardLayout{}, err
	}
	var split map[ShardID][]ShardID
	if v3, ok := l.of.(*shardLayoutV3); ok {
		split = maps.Clone(v3.split)
	} else if history != nil {
		split = SplitHistory(history())
	}
	if split == nil {
		split = make(map[ShardID][]ShardID)
	}
	split[parent] = children
	return NewShardLayoutV3(next.boundaryAccounts, next.shardIDs, split, parent)
}

// SplitHistory collects the splits of a sequence of layouts, newest first, each made from the next.
// It ends at the first layout of a version below 3 (nearcore v3.rs: build_shard_split_map).
func SplitHistory(newestFirst []ShardLayout) map[ShardID][]ShardID {
	split := make(map[ShardID][]ShardID)
	for i := 1; i < len(newestFirst); i++ {
		l := newestFirst[i-1]
		if l.Version() < layoutVersion3 || newestFirst[i].Version() < layoutVersion3 {
			break
		}
		for _, id := range l.ShardIDs() {
			if p, ok := l.of.parent(id); ok && p != id {
				split[p] = append(split[p], id)
			}
		}
	}
	return split
}

// SplitMap returns the whole history of splits of a V3 layout, nil for other layouts. The caller
// must not change the map.
func (l ShardLayout) SplitMap() map[ShardID][]ShardID {
	if v3, ok := l.of.(*shardLayoutV3); ok {
		return v3.split
	}
	return nil
}

// LastSplit returns the shard whose split made a V3 layout; false for other layouts.
func (l ShardLayout) LastSplit() (ShardID, bool) {
	v3, ok := l.of.(*shardLayoutV3)
	if !ok {
		return 0, false
	}
	return v3.lastSplit, true
}

func (l *shardLayoutV3) tag() byte       { return 3 }
func (l *shardLayoutV3) version() uint32 { return layoutVersion3 }

func (l *shardLayoutV3) children(parent ShardID) ([]ShardID, bool) {
	last := l.split[l.lastSplit]
	switch {
	case parent == l.lastSplit:
		return last, true
	case slices.Contains(l.shardIDs, parent) && !slices.Contains(last, parent):
		return []ShardID{parent}, true
	}
	return nil, false
}

func (l *shardLayoutV3) parent(id ShardID) (ShardID, bool) {
	if slices.Contains(l.split[l.lastSplit], id) {
		return l.lastSplit, true
	}
	return id, true
}

func (l *shardLayoutV3) appendBorsh(b []byte) []byte {
	b = appendShardIDs(appendAccountIDs(b, l.boundaryAccounts), l.shardIDs)
	b = appendIDToIndex(b, l.shardIDs)
	b = borsh.AppendUint64(appendSplitMap(b, l.split), uint64(l.lastSplit))
	return appendSplitMap(b, l.ancestors)
}

type shardLayoutV3JSON struct {
	BoundaryAccounts []AccountID            `json:"boundary_accounts"`
	ShardIDs         []ShardID              `json:"shard_ids"`
	IDToIndexMap     map[ShardID]ShardIndex `json:"id_to_index_map"`
	ShardsSplitMap   map[ShardID][]ShardID  `json:"shards_split_map"`
	LastSplit        ShardID                `json:"last_split"`
}

func (l *shardLayoutV3) json() any {
	return &shardLayoutV3JSON{notNil(l.boundaryAccounts), l.shardIDs, l.idToIndex(), l.split, l.lastSplit}
}

func (j *shardLayoutV3JSON) form() (shardLayoutForm, error) {
	layout, err := NewShardLayoutV3(j.BoundaryAccounts, j.ShardIDs, j.ShardsSplitMap, j.LastSplit)
	if err != nil {
		return nil, err
	}
	l := layout.of.(*shardLayoutV3)
	if !maps.Equal(j.IDToIndexMap, l.idToIndex()) {
		return nil, fmt.Errorf("%w: id_to_index_map does not match shard_ids", ErrLayout)
	}
	return l, nil
}
