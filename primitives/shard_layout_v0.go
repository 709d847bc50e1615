package primitives

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// maxOldShards bounds the shards of V0 and V1 layouts, whose encodings only contain their number.
const maxOldShards = 1 << 16

// shardLayoutV0 assigns accounts by hash. It is the layout of mainnet's genesis.
type shardLayoutV0 struct {
	shards uint64
	vers   uint32
}

// NewShardLayoutV0 returns the layout that assigns accounts to n shards, 0 to n-1, by hash. It
// panics for n = 0.
func NewShardLayoutV0(n uint64, version uint32) ShardLayout {
	if err := checkOldShards(n); err != nil {
		panic(fmt.Sprintf("primitives: %v", err))
	}
	return ShardLayout{&shardLayoutV0{n, version}}
}

func checkOldShards(n uint64) error {
	if n == 0 || n > maxOldShards {
		return fmt.Errorf("%w: the layout has %d shards, must have 1 to %d", ErrLayout, n, maxOldShards)
	}
	return nil
}

func (l *shardLayoutV0) tag() byte       { return 0 }
func (l *shardLayoutV0) version() uint32 { return l.vers }
func (l *shardLayoutV0) numShards() int  { return int(l.shards) }

func (l *shardLayoutV0) shardOf(a AccountID) ShardID {
	h := HashBytes([]byte(a))
	return ShardID(binary.LittleEndian.Uint64(h[:]) % l.shards)
}

func (l *shardLayoutV0) ids() []ShardID { return countIDs(int(l.shards)) }

// countIDs returns 0 to n-1.
func countIDs(n int) []ShardID {
	ids := make([]ShardID, n)
	for i := range ids {
		ids[i] = ShardID(i)
	}
	return ids
}

func (l *shardLayoutV0) indexOf(id ShardID) (ShardIndex, bool) {
	return ShardIndex(id), uint64(id) < l.shards
}

func (l *shardLayoutV0) boundaries() []AccountID            { return nil }
func (l *shardLayoutV0) children(ShardID) ([]ShardID, bool) { return nil, false }
func (l *shardLayoutV0) parent(ShardID) (ShardID, bool)     { return 0, false }

func (l *shardLayoutV0) appendBorsh(b []byte) []byte {
	return borsh.AppendUint32(borsh.AppendUint64(b, l.shards), l.vers)
}

type shardLayoutV0JSON struct {
	NumShards uint64 `json:"num_shards"`
	Version   uint32 `json:"version"`
}

func (l *shardLayoutV0) json() any { return &shardLayoutV0JSON{l.shards, l.vers} }

func (j *shardLayoutV0JSON) form() (shardLayoutForm, error) {
	return &shardLayoutV0{j.NumShards, j.Version}, checkOldShards(j.NumShards)
}

// shardLayoutV1 splits at boundaries; ids are the indices.
type shardLayoutV1 struct {
	boundaryAccounts []AccountID
	split            [][]ShardID // children by parent id; nil: no previous layout
	parents          []ShardID   // parent by shard id, derived from split
	vers             uint32
}

// NewShardLayoutV1 returns an old layout whose ids are 0 to len(boundaries). split lists the
// children of each shard of the previous layout, nil if there is none. Every shard must be a child
// exactly once.
func NewShardLayoutV1(boundaries []AccountID, split [][]ShardID, version uint32) (ShardLayout, error) {
	l := &shardLayoutV1{boundaryAccounts: boundaries, vers: version}
	if err := checkBoundaries(boundaries); err != nil {
		return ShardLayout{}, err
	}
	n := len(boundaries) + 1
	if err := checkOldShards(uint64(n)); err != nil {
		return ShardLayout{}, err
	}
	if split != nil {
		l.parents = make([]ShardID, n)
		seen := make([]bool, n)
		l.split = make([][]ShardID, len(split))
		for parent, children := range split {
			l.split[parent] = notNil(children)
			for _, id := range children {
				if uint64(id) >= uint64(n) || seen[id] {
					return ShardLayout{}, fmt.Errorf("%w: child %d of shard %d is no shard of the layout, or has two parents", ErrLayout, id, parent)
				}
				l.parents[id], seen[id] = ShardID(parent), true
			}
		}
		if i := slices.Index(seen, false); i >= 0 {
			return ShardLayout{}, fmt.Errorf("%w: shard %d has no parent", ErrLayout, i)
		}
	}
	return ShardLayout{l}, nil
}

func (l *shardLayoutV1) tag() byte               { return 1 }
func (l *shardLayoutV1) version() uint32         { return l.vers }
func (l *shardLayoutV1) numShards() int          { return len(l.boundaryAccounts) + 1 }
func (l *shardLayoutV1) ids() []ShardID          { return countIDs(l.numShards()) }
func (l *shardLayoutV1) boundaries() []AccountID { return l.boundaryAccounts }

func (l *shardLayoutV1) shardOf(a AccountID) ShardID {
	i, found := slices.BinarySearch(l.boundaryAccounts, a)
	if found {
		i++
	}
	return ShardID(i)
}

func (l *shardLayoutV1) indexOf(id ShardID) (ShardIndex, bool) {
	return ShardIndex(id), uint64(id) < uint64(l.numShards())
}

func (l *shardLayoutV1) children(parent ShardID) ([]ShardID, bool) {
	if uint64(parent) >= uint64(len(l.split)) {
		return nil, false
	}
	return l.split[parent], true
}

func (l *shardLayoutV1) parent(id ShardID) (ShardID, bool) {
	if l.split == nil {
		return 0, false
	}
	return l.parents[id], true
}

func (l *shardLayoutV1) appendBorsh(b []byte) []byte {
	b = appendAccountIDs(b, l.boundaryAccounts)
	b = borsh.AppendBool(b, l.split != nil)
	if l.split != nil {
		b = borsh.AppendSlice(b, l.split, func(b []byte, ids *[]ShardID) []byte { return appendShardIDs(b, *ids) })
	}
	b = borsh.AppendBool(b, l.split != nil)
	if l.split != nil {
		b = appendShardIDs(b, l.parents)
	}
	return borsh.AppendUint32(b, l.vers)
}

type shardLayoutV1JSON struct {
	BoundaryAccounts []AccountID  `json:"boundary_accounts"`
	ShardsSplitMap   *[][]ShardID `json:"shards_split_map"`
	ToParentShardMap *[]ShardID   `json:"to_parent_shard_map"`
	Version          uint32       `json:"version"`
}

func (l *shardLayoutV1) json() any {
	j := &shardLayoutV1JSON{BoundaryAccounts: notNil(l.boundaryAccounts), Version: l.vers}
	if l.split != nil {
		j.ShardsSplitMap, j.ToParentShardMap = &l.split, &l.parents
	}
	return j
}

func (j *shardLayoutV1JSON) form() (shardLayoutForm, error) {
	if (j.ShardsSplitMap == nil) != (j.ToParentShardMap == nil) {
		return nil, fmt.Errorf("%w: shards_split_map and to_parent_shard_map must be both present or both absent", ErrLayout)
	}
	var split [][]ShardID
	if j.ShardsSplitMap != nil {
		split = notNil(*j.ShardsSplitMap)
	}
	l, err := NewShardLayoutV1(j.BoundaryAccounts, split, j.Version)
	if err == nil && split != nil && !slices.Equal(l.of.(*shardLayoutV1).parents, *j.ToParentShardMap) {
		return nil, fmt.Errorf("%w: to_parent_shard_map does not match shards_split_map", ErrLayout)
	}
	return l.of, err
}

// notNil makes an empty list encode as [] and not as null.
func notNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
