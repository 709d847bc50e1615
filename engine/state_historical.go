package engine

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
)

// historicalValues are the key-value pairs of a shard's state after a block that has no trie in
// memory.
type historicalValues interface {
	get(key []byte) ([]byte, error) // value of a key; nil: the key does not exist
	// scan yields the pairs with from <= key < to, ascending, until yield returns false. A nil to
	// means no upper bound.
	scan(from, to []byte, yield func(key, value []byte) bool) error
}

// historicalTrie implements state.Trie from key-value pairs only, to read states that are no longer
// in memory. A path has as many nodes as in nearcore's trie, because contracts pay gas for each
// node. The hashes and lengths of these nodes are placeholders, and the root is unknown.
type historicalTrie struct {
	base historicalValues
	over []state.Change // changes that Update made, by ascending key
}

func (t *historicalTrie) overlay(key []byte) (*state.Change, bool) {
	i, found := slices.BinarySearchFunc(
		t.over,
		key,
		func(c state.Change, key []byte) int { return bytes.Compare(c.Key, key) },
	)
	if !found {
		return nil, false
	}
	return &t.over[i], true
}

func (t *historicalTrie) get(key []byte) ([]byte, error) {
	if c, found := t.overlay(key); found {
		return c.Value, nil
	}
	return t.base.get(key)
}

// scan yields the pairs of base with the changes in over applied.
func (t *historicalTrie) scan(from, to []byte, yield func(key, value []byte) bool) error {
	i, _ := slices.BinarySearchFunc(
		t.over,
		from,
		func(c state.Change, key []byte) int { return bytes.Compare(c.Key, key) },
	)
	over := t.over[i:]
	more := true
	// upTo yields the changes with keys below key. nil: all changes.
	upTo := func(key []byte) {
		for more && len(over) > 0 && (key == nil || bytes.Compare(over[0].Key, key) < 0) {
			if c := over[0]; c.Value != nil && (to == nil || bytes.Compare(c.Key, to) < 0) {
				more = yield(c.Key, c.Value)
			}
			over = over[1:]
		}
	}
	err := t.base.scan(from, to, func(key, value []byte) bool {
		upTo(key)
		if more && len(over) > 0 && bytes.Equal(over[0].Key, key) {
			if value = over[0].Value; value != nil {
				more = yield(key, value)
			}
			over = over[1:]
			return more
		}
		more = more && yield(key, value)
		return more
	})
	if err == nil {
		upTo(nil)
	}
	return err
}

// first returns the first key with from <= key < to, or nil if there is none.
func (t *historicalTrie) first(from, to []byte) (key []byte, err error) {
	err = t.scan(from, to, func(k, _ []byte) bool {
		key = bytes.Clone(k)
		return false
	})
	return key, err
}

// nibbleRange returns the range from <= key < to of the keys that share the first n nibbles with
// key. A nil to means no upper bound.
func nibbleRange(key []byte, n int) (from, to []byte) {
	from = append([]byte{}, key[:(n+1)/2]...)
	if n%2 == 1 {
		from[n/2] &= 0xf0
	}
	to = append([]byte{}, from...)
	step := byte(1)
	if n%2 == 1 {
		step = 0x10
	}
	for i := len(to) - 1; i >= 0; i-- {
		if to[i] += step; to[i] != 0 {
			return from, to[:i+1]
		}
		step = 1
	}
	return from, nil
}

// sharedNibbles returns the length in nibbles of the common prefix of two keys.
func sharedNibbles(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			if a[i]>>4 == b[i]>>4 {
				return 2*i + 1
			}
			return 2 * i
		}
	}
	return 2 * n
}

// forks returns the depths, in nibbles and ascending, at which other keys branch off from key.
// found means that the key exists. Then the trie has a branch node at each of these depths. If the
// key does not exist, there may be no branch node at the last depth: part is true if all keys that
// differ from key at that depth continue with the same nibble.
func (t *historicalTrie) forks(key []byte, found bool) (depths []int, part bool, err error) {
	for n := 0; ; { // search the keys that sort before key
		from, to := nibbleRange(key, n)
		f, err := t.first(from, to)
		if err != nil {
			return nil, false, err
		}
		if f == nil || bytes.Compare(f, key) >= 0 {
			break
		}
		d := sharedNibbles(f, key)
		depths = append(depths, d)
		n = d + 1
	}
	for from := append(bytes.Clone(key), 0); from != nil; { // search the keys that sort after key
		f, err := t.first(from, nil)
		if err != nil {
			return nil, false, err
		}
		if f == nil {
			break
		}
		d := sharedNibbles(f, key)
		depths = append(depths, d)
		_, from = nibbleRange(key, d)
	}
	slices.Sort(depths)
	depths = slices.Compact(depths)
	if found || len(depths) == 0 {
		return depths, false, nil
	}
	// All keys that share the prefix up to the last depth differ from key there. Check whether the
	// next nibbles of these keys differ from one another.
	from, to := nibbleRange(key, depths[len(depths)-1])
	first, err := t.first(from, to)
	if err != nil {
		return nil, false, err
	}
	next := append(bytes.Clone(first), 0) // if first ends at that depth, any other key is on another branch
	if d := depths[len(depths)-1]; 2*len(first) > d {
		_, next = nibbleRange(first, d+1)
	}
	var other []byte
	if next != nil {
		if other, err = t.first(next, to); err != nil {
			return nil, false, err
		}
	}
	return depths, other == nil, nil
}

// Lengths in bytes of placeholder nodes: a branch with half of its children, and an extension or
// leaf without its key part.
const (
	historicalBranchLen = 1 + 2 + 8*32 + 8
	historicalOtherLen  = 1 + 4 + 4 + 32 + 8
)

// visits appends one node to path for each node that nearcore's trie has on the path of key.
func (t *historicalTrie) visits(key []byte, found bool, path []state.Visit) ([]state.Visit, error) {
	depths, part, err := t.forks(key, found)
	if err != nil {
		return path, err
	}
	return madeVisits(key, depths, part, found, path), nil
}

// madeVisits appends the nodes of a path to path. depths and part are results of forks.
func madeVisits(key []byte, depths []int, part, found bool, path []state.Visit) []state.Visit {
	visit := func(depth int, kind byte, n int) {
		id := binary.LittleEndian.AppendUint32([]byte{kind}, uint32(depth))
		from, _ := nibbleRange(key, min(depth, 2*len(key)))
		path = append(path, state.Visit{Hash: primitives.HashBytes(append(id, from...)), Len: uint32(n)})
	}
	at := 0
	for i, d := range depths {
		if part && i == len(depths)-1 {
			break
		}
		if d > at {
			visit(at, 'e', historicalOtherLen+(d-at)/2)
		}
		visit(d, 'b', historicalBranchLen)
		at = d + 1
	}
	if found && at <= 2*len(key) || part {
		visit(at, 'l', historicalOtherLen+(2*len(key)-min(at, 2*len(key)))/2)
	}
	return path
}

// Path implements state.Trie.
func (t *historicalTrie) Path(
	key []byte,
	rec state.Recording,
	path []state.Visit,
) ([]state.Visit, state.ValueRef, bool, error) {
	v, err := t.get(key)
	if err != nil {
		return path, state.ValueRef{}, false, err
	}
	before := len(path)
	if path, err = t.visits(key, v != nil, path); err != nil {
		return path, state.ValueRef{}, false, err
	}
	if r, ok := rec.(*historicalRecording); ok {
		for _, x := range path[before:] {
			r.add(x.Hash, uint64(x.Len))
		}
	}
	if v == nil {
		return path, state.ValueRef{}, false, nil
	}
	return path, state.ValueRef{Hash: primitives.HashBytes(v), Len: uint32(len(v))}, true, nil
}

// Lookup implements state.Trie.
func (t *historicalTrie) Lookup(key []byte, rec state.Recording) (state.ValueRef, bool, error) {
	if rec == nil {
		v, err := t.get(key)
		if err != nil || v == nil {
			return state.ValueRef{}, false, err
		}
		return state.ValueRef{Hash: primitives.HashBytes(v), Len: uint32(len(v))}, true, nil
	}
	_, ref, found, err := t.Path(key, rec, nil)
	return ref, found, err
}

// Get implements state.Trie.
func (t *historicalTrie) Get(key []byte, rec state.Recording) ([]byte, error) {
	if rec != nil {
		ref, found, err := t.Lookup(key, rec)
		if err != nil || !found {
			return nil, err
		}
		rec.(*historicalRecording).add(ref.Hash, uint64(ref.Len))
	}
	return t.get(key)
}

// Scan implements state.Trie. Scan records the values but not the nodes on the way.
func (t *historicalTrie) Scan(prefix, after []byte, rec state.Recording, yield func(key, value []byte) bool) error {
	from, to := nibbleRange(prefix, 2*len(prefix))
	if after != nil {
		from = append(bytes.Clone(after), 0)
	}
	return t.scan(from, to, func(key, value []byte) bool {
		if r, ok := rec.(*historicalRecording); ok {
			r.add(primitives.HashBytes(value), uint64(len(value)))
		}
		return yield(bytes.Clone(key), bytes.Clone(value))
	})
}

// Update implements state.Trie.
func (t *historicalTrie) Update(changes []state.Change, _ state.Recording) (state.Trie, error) {
	merged := make([]state.Change, 0, len(t.over)+len(changes))
	old := t.over
	for _, c := range changes {
		for len(old) > 0 && bytes.Compare(old[0].Key, c.Key) < 0 {
			merged, old = append(merged, old[0]), old[1:]
		}
		if len(old) > 0 && bytes.Equal(old[0].Key, c.Key) {
			old = old[1:]
		}
		merged = append(merged, state.Change{Key: bytes.Clone(c.Key), Value: bytes.Clone(c.Value)})
	}
	return &historicalTrie{t.base, append(merged, old...)}, nil
}

// Root implements state.Trie. The root is unknown, so Root returns zero. Callers do not use the
// result.
func (t *historicalTrie) Root() primitives.Hash { return primitives.Hash{} }

// MemoryUsage implements state.Trie. MemoryUsage returns 0; only proposals to split a shard use the
// result.
func (t *historicalTrie) MemoryUsage() uint64 { return 0 }

// FindSplit implements state.Trie.
func (t *historicalTrie) FindSplit(state.Recording) (primitives.TrieSplit, error) {
	return primitives.TrieSplit{}, state.ErrNoSplit
}

// NewRecording implements state.Trie.
func (t *historicalTrie) NewRecording() state.Recording { return new(historicalRecording) }

// historicalRecording sums the sizes in bytes of the distinct nodes and values read from a
// historicalTrie.
type historicalRecording struct {
	seen  map[primitives.Hash]uint64
	order []primitives.Hash
	size  uint64
}

func (r *historicalRecording) add(h primitives.Hash, n uint64) {
	if _, known := r.seen[h]; known {
		return
	}
	if r.seen == nil {
		r.seen = map[primitives.Hash]uint64{}
	}
	r.seen[h], r.order, r.size = n, append(r.order, h), r.size+n
}

// Size implements state.Recording.
func (r *historicalRecording) Size() uint64 { return r.size }

// Merge implements state.Recording.
func (r *historicalRecording) Merge(o state.Recording) {
	other := o.(*historicalRecording)
	for _, h := range other.order {
		r.add(h, other.seen[h])
	}
}

// Reset implements state.Recording.
func (r *historicalRecording) Reset() { *r = historicalRecording{} }
