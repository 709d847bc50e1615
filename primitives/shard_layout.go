package primitives

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// ShardLayout maps accounts to shards. It is a handle of an immutable value: copy it freely,
// compare with Equal. The zero value is no layout; its methods panic.
//
// A shard has an index (ShardIndex: the order of chunks, masks and settlements) and an id (ShardID:
// used in messages, seeds and maps). In V0 and V1 a shard's index and id are the same number. In V2
// and V3 ids are neither contiguous nor ascending. V0 assigns accounts by hash. V1, V2 and V3 split
// the sorted accounts at boundaries; a boundary belongs to the shard on its right.
//
// source: nearcore core/primitives/src/shard_layout/
type ShardLayout struct{ of shardLayoutForm }

// shardLayoutForm is the common interface of the four versions (files shard_layout_v*.go).
type shardLayoutForm interface {
	tag() byte // tag of the borsh enum, and of the JSON key "V{tag}"
	version() uint32
	shardOf(AccountID) ShardID
	numShards() int
	ids() []ShardID // by index; callers must not change them
	indexOf(ShardID) (ShardIndex, bool)
	boundaries() []AccountID
	// children returns the shards of this layout that a shard of the previous layout was split
	// into; false: no such shard, or no history.
	children(ShardID) ([]ShardID, bool)
	// parent returns the shard of the previous layout that had id's accounts; false: there is no
	// previous layout.
	parent(id ShardID) (ShardID, bool)
	appendBorsh([]byte) []byte
	json() any
}

// Errors of layouts and of lookups in them.
var (
	ErrUnknownShard      = errors.New("shard is not in the layout")
	ErrNoParentShard     = errors.New("the layout has no parent layout")
	ErrLayout            = errors.New("inconsistent shard layout")
	ErrDuplicateBoundary = errors.New("boundary account exists already")
	ErrCannotDerive      = errors.New("no layout can be derived from version 0")
)

// layoutVersion3 is the version of every V2 layout made by NewShardLayoutV2 and of every V3. From
// this version on, layouts no longer differ in their version.
const layoutVersion3 = 3

// IsZero returns whether l is no layout.
func (l ShardLayout) IsZero() bool { return l.of == nil }

// Tag returns the form of l, 0 to 3.
func (l ShardLayout) Tag() int { return int(l.of.tag()) }

// Version returns the version, the first half of the shards' uids. It differs from the form: V2
// layouts may have version 0.
func (l ShardLayout) Version() uint32 { return l.of.version() }

// Equal returns whether l and o are equal in every field.
func (l ShardLayout) Equal(o ShardLayout) bool {
	if l.of == nil || o.of == nil || l.of == o.of { // forms are pointers
		return l.of == o.of
	}
	return string(l.AppendBorsh(nil)) == string(o.AppendBorsh(nil))
}

// ShardOf returns the shard of an account.
func (l ShardLayout) ShardOf(a AccountID) ShardID { return l.of.shardOf(a) }

// ShardUIDOf returns the uid of the shard of an account.
func (l ShardLayout) ShardUIDOf(a AccountID) ShardUID { return l.UID(l.of.shardOf(a)) }

// NumShards returns the number of shards, at least 1.
func (l ShardLayout) NumShards() int { return l.of.numShards() }

// ShardIDs returns the ids by index. The caller must not change the slice.
func (l ShardLayout) ShardIDs() []ShardID { return l.of.ids() }

// ShardUIDs returns the uids by index.
func (l ShardLayout) ShardUIDs() []ShardUID {
	ids := l.of.ids()
	out := make([]ShardUID, len(ids))
	for i, id := range ids {
		out[i] = l.UID(id)
	}
	return out
}

// UID returns the uid of a shard of this layout, or of one of its ancestors of the same version.
func (l ShardLayout) UID(id ShardID) ShardUID { return NewShardUID(l.of.version(), id) }

// Has returns whether the layout has a shard of this id.
func (l ShardLayout) Has(id ShardID) bool {
	_, ok := l.of.indexOf(id)
	return ok
}

// Index returns a shard's index; ErrUnknownShard if it has none.
func (l ShardLayout) Index(id ShardID) (ShardIndex, error) {
	i, ok := l.of.indexOf(id)
	if !ok {
		return 0, fmt.Errorf("%w: id %d", ErrUnknownShard, id)
	}
	return i, nil
}

// IDAt returns the id at an index; ErrUnknownShard if there is none.
func (l ShardLayout) IDAt(i ShardIndex) (ShardID, error) {
	ids := l.of.ids()
	if i < 0 || int(i) >= len(ids) {
		return 0, fmt.Errorf("%w: index %d", ErrUnknownShard, i)
	}
	return ids[i], nil
}

// Boundaries returns the boundary accounts in order, nil for V0. The caller must not change the
// slice.
func (l ShardLayout) Boundaries() []AccountID { return l.of.boundaries() }

// Children returns the shards of this layout that a shard of the previous layout was split into, or
// the shard itself if it was not split. It returns false if the previous layout has no such shard,
// or there is no previous layout.
func (l ShardLayout) Children(parent ShardID) ([]ShardID, bool) { return l.of.children(parent) }

// Parent returns the shard of the previous layout that a shard comes from, or the shard itself if
// it was not split. Errors: ErrUnknownShard, ErrNoParentShard.
func (l ShardLayout) Parent(id ShardID) (ShardID, error) {
	if !l.Has(id) {
		return 0, fmt.Errorf("%w: id %d", ErrUnknownShard, id)
	}
	p, ok := l.of.parent(id)
	if !ok {
		return 0, fmt.Errorf("%w: id %d", ErrNoParentShard, id)
	}
	return p, nil
}

// SplitParents returns the shards of the previous layout that were split, ascending. For V3 that is
// the last split.
func (l ShardLayout) SplitParents() []ShardID {
	if v3, ok := l.of.(*shardLayoutV3); ok {
		return []ShardID{v3.lastSplit}
	}
	var out []ShardID
	for _, id := range l.of.ids() {
		if p, ok := l.of.parent(id); ok && p != id {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// SplitChildren returns the uids of the shards that the last change of layout created, ascending.
func (l ShardLayout) SplitChildren() []ShardUID {
	var out []ShardUID
	for _, p := range l.SplitParents() {
		children, _ := l.of.children(p)
		for _, id := range children {
			out = append(out, l.UID(id))
		}
	}
	slices.SortFunc(out, ShardUID.Compare)
	return out
}

// Ancestors returns the former shards that had id's accounts, nearest first; false before V3,
// which only know parents.
func (l ShardLayout) Ancestors(id ShardID) ([]ShardID, bool) {
	v3, ok := l.of.(*shardLayoutV3)
	if !ok {
		return nil, false
	}
	return v3.ancestors[id], true
}

// ResolveToCurrent maps a shard of a previous layout to a shard of this layout, by the first child
// of each split. It returns false if the history does not contain the shard. Before V3 the history
// is one generation.
func (l ShardLayout) ResolveToCurrent(id ShardID) (ShardID, bool) {
	v3, ok := l.of.(*shardLayoutV3)
	if !ok {
		children, ok := l.of.children(id)
		if !ok || len(children) == 0 {
			return 0, false
		}
		return children[0], true
	}
	for range len(v3.split) + 1 { // a chain of splits is no longer than their number
		if l.Has(id) {
			return id, true
		}
		children := v3.split[id]
		if len(children) == 0 {
			return 0, false
		}
		id = children[0]
	}
	return 0, false
}

// String is a short form for logs: version, then ids and boundaries in order.
func (l ShardLayout) String() string {
	if l.of == nil {
		return "no layout"
	}
	b := fmt.Appendf(nil, "V%d.v%d[", l.of.tag(), l.of.version())
	bounds := l.of.boundaries()
	for i, id := range l.of.ids() {
		if i > 0 {
			b = append(b, ' ')
			if i <= len(bounds) {
				b = append(append(b, bounds[i-1]...), ' ')
			}
		}
		b = strconv.AppendUint(b, uint64(id), 10)
	}
	return string(append(b, ']'))
}

// SingleShardLayout returns the layout of nearcore's tests and `init`: one shard with id 0, version
// 0.
func SingleShardLayout() ShardLayout {
	return ShardLayout{&shardLayoutV2{rangeLayout: rangeLayout{shardIDs: []ShardID{0}}}}
}

// MultiShardLayout returns the layout of n shards that nearcore's `init` and tests make. It has
// version 0 and boundaries test1 to test{n-1}. The layout's ids are shuffled by the StdRng of seed
// 42, so that code cannot rely on their order. Past ten shards the boundary names are not in byte
// order, and nearcore then searches an unsorted list; here that is ErrLayout, as is n < 1.
func MultiShardLayout(n int) (ShardLayout, error) {
	if n < 1 || n > 10 {
		return ShardLayout{}, fmt.Errorf("%w: a default layout has %d shards, must have 1 to 10", ErrLayout, n)
	}
	boundaries := make([]AccountID, n-1)
	for i := range boundaries {
		boundaries[i] = AccountID("test" + strconv.Itoa(i+1))
	}
	return MultiShardLayoutAt(boundaries)
}

// MultiShardLayoutAt is MultiShardLayout with the given boundaries, which must ascend.
func MultiShardLayoutAt(boundaries []AccountID) (ShardLayout, error) {
	ids := make([]ShardID, len(boundaries)+1)
	for i := range ids {
		ids[i] = ShardID(i)
	}
	Shuffle(NewStdRng(RngSeedFromUint64(42)), ids)
	r, err := newRangeLayout(boundaries, ids)
	if err != nil {
		return ShardLayout{}, err
	}
	return ShardLayout{&shardLayoutV2{rangeLayout: r}}, nil
}

func checkBoundaries(b []AccountID) error {
	for i := 1; i < len(b); i++ {
		if b[i-1] >= b[i] {
			return fmt.Errorf("%w: boundary account %q comes after %q, must be in ascending order", ErrLayout, b[i], b[i-1])
		}
	}
	return nil
}

// rangeLayout is the common part of V2 and V3: sorted boundaries, and an id for each range between
// them.
type rangeLayout struct {
	boundaryAccounts []AccountID
	shardIDs         []ShardID
}

func newRangeLayout(boundaries []AccountID, ids []ShardID) (rangeLayout, error) {
	l := rangeLayout{boundaries, ids}
	if len(ids) != len(boundaries)+1 {
		return l, fmt.Errorf("%w: the layout has %d shard ids, must have %d, one more than boundary accounts", ErrLayout,
			len(ids), len(boundaries)+1)
	}
	if err := checkBoundaries(boundaries); err != nil {
		return l, err
	}
	sorted := slices.Sorted(slices.Values(ids))
	if len(slices.Compact(sorted)) != len(ids) {
		return l, fmt.Errorf("%w: a shard id occurs twice", ErrLayout)
	}
	return l, fitsUID(sorted[len(sorted)-1])
}

// fitsUID returns an error if an id cannot be part of a uid.
func fitsUID(id ShardID) error {
	if id > 1<<32-1 {
		return fmt.Errorf("%w: shard id %d is above the limit of 32 bits", ErrLayout, id)
	}
	return nil
}

func (l *rangeLayout) shardOf(a AccountID) ShardID {
	i, found := slices.BinarySearch(l.boundaryAccounts, a)
	if found {
		i++ // a boundary belongs to the shard on its right
	}
	return l.shardIDs[i]
}

func (l *rangeLayout) numShards() int          { return len(l.shardIDs) }
func (l *rangeLayout) ids() []ShardID          { return l.shardIDs }
func (l *rangeLayout) boundaries() []AccountID { return l.boundaryAccounts }

// indexOf searches linearly: layouts have few shards.
func (l *rangeLayout) indexOf(id ShardID) (ShardIndex, bool) {
	i := slices.Index(l.shardIDs, id)
	return ShardIndex(max(i, 0)), i >= 0
}

// splitAt returns the layout with one more boundary. Two shards replace the shard that contains the
// boundary. The ids of the two new shards are the greatest present id plus 1 and plus 2. splitAt
// also returns the replaced shard.
func (l *rangeLayout) splitAt(boundary AccountID) (out rangeLayout, parent ShardID, children []ShardID, err error) {
	i, found := slices.BinarySearch(l.boundaryAccounts, boundary)
	if found {
		return out, 0, nil, fmt.Errorf("%w: %s", ErrDuplicateBoundary, boundary)
	}
	top := slices.Max(l.shardIDs)
	parent, children = l.shardIDs[i], []ShardID{top + 1, top + 2}
	out, err = newRangeLayout(slices.Insert(slices.Clone(l.boundaryAccounts), i, boundary),
		slices.Concat(l.shardIDs[:i], children, l.shardIDs[i+1:]))
	return out, parent, children, err
}
