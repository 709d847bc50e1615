package primitives

import (
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// shardLayoutV2 is the usual layout: any ids, and the relation to the previous layout. nearcore
// also stores the maps from id to index and back and from child to parent. These maps follow from
// the other fields, so here they only exist in the encodings.
type shardLayoutV2 struct {
	rangeLayout
	split   map[ShardID][]ShardID // children of each shard of the previous layout; nil: there is none
	parents map[ShardID]ShardID   // derived from split
	vers    uint32
}

// NewShardLayoutV2 returns a layout of version 3. split has the children of every shard of the
// previous layout, nil for a first layout. A shard that was not split is its own only child; a
// split shard must not be in ids.
func NewShardLayoutV2(boundaries []AccountID, ids []ShardID, split map[ShardID][]ShardID) (ShardLayout, error) {
	return newShardLayoutV2(boundaries, ids, split, layoutVersion3)
}

func newShardLayoutV2(boundaries []AccountID, ids []ShardID, split map[ShardID][]ShardID, version uint32) (ShardLayout, error) {
	r, err := newRangeLayout(boundaries, ids)
	if err != nil {
		return ShardLayout{}, err
	}
	l := &shardLayoutV2{rangeLayout: r, split: split, vers: version}
	if split == nil {
		return ShardLayout{l}, nil
	}
	l.parents = make(map[ShardID]ShardID, len(ids))
	for _, parent := range slices.Sorted(maps.Keys(split)) {
		children := split[parent]
		if err := fitsUID(parent); err != nil {
			return ShardLayout{}, err
		}
		for _, id := range children {
			if _, twice := l.parents[id]; twice {
				return ShardLayout{}, fmt.Errorf("%w: shard %d has two parents", ErrLayout, id)
			}
			l.parents[id] = parent
		}
		switch {
		case len(children) == 0:
			return ShardLayout{}, fmt.Errorf("%w: shard %d has no children", ErrLayout, parent)
		case len(children) == 1 && children[0] != parent:
			return ShardLayout{}, fmt.Errorf("%w: shard %d has one child, %d; must have at least two children, or only itself",
				ErrLayout, parent, children[0])
		case len(children) > 1 && slices.Contains(ids, parent):
			return ShardLayout{}, fmt.Errorf("%w: shard %d is in the layout, but also split in shards_split_map", ErrLayout, parent)
		}
	}
	if !slices.Equal(slices.Sorted(maps.Keys(l.parents)), slices.Sorted(slices.Values(ids))) {
		return ShardLayout{}, fmt.Errorf("%w: the children in shards_split_map must be exactly the shard_ids", ErrLayout)
	}
	return ShardLayout{l}, nil
}

// DeriveV2 returns the V2 layout in which the shard that holds boundary is split there. Its
// children's ids are the highest present id plus 1 and 2. Errors: ErrDuplicateBoundary;
// ErrCannotDerive for V0.
func (l ShardLayout) DeriveV2(boundary AccountID) (ShardLayout, error) {
	r, err := l.ranges()
	if err != nil {
		return ShardLayout{}, err
	}
	next, parent, children, err := r.splitAt(boundary)
	if err != nil {
		return ShardLayout{}, err
	}
	split := make(map[ShardID][]ShardID, len(r.shardIDs))
	for _, id := range r.shardIDs {
		split[id] = []ShardID{id}
	}
	split[parent] = children
	return NewShardLayoutV2(next.boundaryAccounts, next.shardIDs, split)
}

// ranges returns the boundaries and ids; V0 has none.
func (l ShardLayout) ranges() (*rangeLayout, error) {
	if l.Tag() == 0 {
		return nil, ErrCannotDerive
	}
	return &rangeLayout{l.of.boundaries(), l.of.ids()}, nil
}

func (l *shardLayoutV2) tag() byte       { return 2 }
func (l *shardLayoutV2) version() uint32 { return l.vers }

func (l *shardLayoutV2) children(parent ShardID) ([]ShardID, bool) {
	c, ok := l.split[parent]
	return c, ok
}

func (l *shardLayoutV2) parent(id ShardID) (ShardID, bool) {
	p, ok := l.parents[id]
	return p, ok
}

func (l *shardLayoutV2) appendBorsh(b []byte) []byte {
	b = appendShardIDs(appendAccountIDs(b, l.boundaryAccounts), l.shardIDs)
	b = appendIDToIndex(b, l.shardIDs)
	b = borsh.AppendLen(b, len(l.shardIDs)) // the map from index to id
	for i, id := range l.shardIDs {
		b = borsh.AppendUint64(borsh.AppendUint64(b, uint64(i)), uint64(id))
	}
	b = borsh.AppendBool(b, l.split != nil)
	if l.split != nil {
		b = appendSplitMap(b, l.split)
	}
	b = borsh.AppendBool(b, l.split != nil)
	if l.split != nil {
		b = borsh.AppendLen(b, len(l.parents))
		for _, id := range slices.Sorted(maps.Keys(l.parents)) {
			b = borsh.AppendUint64(borsh.AppendUint64(b, uint64(id)), uint64(l.parents[id]))
		}
	}
	return borsh.AppendUint32(b, l.vers)
}

type shardLayoutV2JSON struct {
	BoundaryAccounts []AccountID            `json:"boundary_accounts"`
	ShardIDs         []ShardID              `json:"shard_ids"`
	IDToIndexMap     map[ShardID]ShardIndex `json:"id_to_index_map"`
	IndexToIDMap     map[ShardIndex]ShardID `json:"index_to_id_map"`
	ShardsSplitMap   map[ShardID][]ShardID  `json:"shards_split_map"`
	ShardsParentMap  map[ShardID]ShardID    `json:"shards_parent_map"`
	Version          uint32                 `json:"version"`
}

func (l *shardLayoutV2) json() any {
	j := &shardLayoutV2JSON{
		BoundaryAccounts: notNil(l.boundaryAccounts), ShardIDs: l.shardIDs, IDToIndexMap: l.idToIndex(),
		IndexToIDMap: make(map[ShardIndex]ShardID), ShardsSplitMap: l.split, ShardsParentMap: l.parents, Version: l.vers,
	}
	for i, id := range l.shardIDs {
		j.IndexToIDMap[ShardIndex(i)] = id
	}
	return j
}

func (j *shardLayoutV2JSON) form() (shardLayoutForm, error) {
	if (j.ShardsSplitMap == nil) != (j.ShardsParentMap == nil) {
		return nil, fmt.Errorf("%w: shards_split_map and shards_parent_map must be both present or both absent", ErrLayout)
	}
	layout, err := newShardLayoutV2(j.BoundaryAccounts, j.ShardIDs, j.ShardsSplitMap, j.Version)
	if err != nil {
		return nil, err
	}
	l := layout.of.(*shardLayoutV2)
	want := l.json().(*shardLayoutV2JSON)
	switch {
	case !maps.Equal(j.IDToIndexMap, want.IDToIndexMap):
		return nil, fmt.Errorf("%w: id_to_index_map does not match shard_ids", ErrLayout)
	case !maps.Equal(j.IndexToIDMap, want.IndexToIDMap):
		return nil, fmt.Errorf("%w: index_to_id_map does not match shard_ids", ErrLayout)
	case !maps.Equal(j.ShardsParentMap, want.ShardsParentMap):
		return nil, fmt.Errorf("%w: shards_parent_map is not the inverse of shards_split_map", ErrLayout)
	}
	return l, nil
}

// idToIndex is the map in the encodings.
func (l *rangeLayout) idToIndex() map[ShardID]ShardIndex {
	m := make(map[ShardID]ShardIndex, len(l.shardIDs))
	for i, id := range l.shardIDs {
		m[id] = ShardIndex(i)
	}
	return m
}
