package engine

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// The frontier of a shard's trie is a set of subtrees that together cover the trie. For each of
// these subtrees, the store has the path, hash and memory usage, on several levels (trie.Levels).
// When the engine starts, it builds the trie from these hashes, so that it need not read all values
// of the state.

// valueFlag is set in the stored memory usage of a frontier entry if its subtree is a single value.
const valueFlag = 1 << 63

// storedNode returns the stored form of a frontier entry of the given level.
func storedNode(level int, f *trie.FrontierEntry) storage.FrontierNode {
	s := storage.FrontierNode{Level: uint8(level), Path: f.Path, Hash: f.Hash, MemoryUsage: f.Size}
	if f.IsValue {
		s.MemoryUsage |= valueFlag
	}
	return s
}

// entryOf is the inverse of storedNode. entryOf omits the level.
func entryOf(s storage.FrontierNode) trie.FrontierEntry {
	return trie.FrontierEntry{
		Path:    s.Path,
		Hash:    s.Hash,
		Size:    s.MemoryUsage &^ valueFlag,
		IsValue: s.MemoryUsage&valueFlag != 0,
	}
}

// appendFrontier appends to out the changes of a shard's frontier, on all levels, when root
// replaces `old` as the shard's trie. If `old` is nil, appendFrontier appends the whole frontier of
// root.
func appendFrontier(
	out []storage.FrontierChange,
	shard primitives.ShardID,
	old, root *trie.Root,
) ([]storage.FrontierChange, error) {
	puts, removed, err := root.FrontiersSince(old)
	if err != nil {
		return nil, err
	}
	n := 0
	for level := range trie.Levels {
		n += len(removed[level]) + len(puts[level])
	}
	out = slices.Grow(out, n)
	for level := range trie.Levels {
		for _, p := range removed[level] {
			out = append(
				out,
				storage.FrontierChange{
					Shard:        shard,
					FrontierNode: storage.FrontierNode{Level: uint8(level), Path: p},
					Removed:      true,
				},
			)
		}
		for i := range puts[level] {
			out = append(out, storage.FrontierChange{Shard: shard, FrontierNode: storedNode(level, &puts[level][i])})
		}
	}
	return out, nil
}

// rows returns a reader of a shard's frontier in the store's current state.
func (e *Engine) rows(shard primitives.ShardID) trie.Rows { return rowsOf(e.store.Frontier, shard) }

// rowsOf returns a trie.Rows that reads the frontier of a shard with read. read is the Frontier
// method of a store or of a stale reader of a store.
func rowsOf(
	read func(primitives.ShardID, uint8, []byte, func(storage.FrontierNode) bool) error,
	shard primitives.ShardID,
) trie.Rows {
	return func(level int, path []byte, yield func(trie.FrontierEntry) bool) error {
		return read(shard, uint8(level), path, func(s storage.FrontierNode) bool { return yield(entryOf(s)) })
	}
}

// frontierRows collects, by level, the frontier entries of a trie that is being built from a
// genesis. There may be tens of millions of entries, so the entries of each level are encoded into
// one buffer.
type frontierRows [trie.Levels]levelRows

// levelRows has the encoded entries of one level, in the order in which the builder added the
// entries.
type levelRows struct {
	b    []byte
	ends []uint64 // end offset of each entry in b
}

func (r *frontierRows) add(level int, f *trie.FrontierEntry) {
	l, s := &r[level], storedNode(level, f)
	l.b = append(append(l.b, s.Hash[:]...), s.Path...)
	l.b = binary.LittleEndian.AppendUint64(l.b, s.MemoryUsage)
	l.ends = append(l.ends, uint64(len(l.b)))
}

// entry decodes the entry in b[start:end]. path aliases b.
func (l *levelRows) entry(start, end uint64) (path []byte, hash primitives.Hash, usage uint64) {
	b := l.b[start:end]
	return b[32 : len(b)-8 : len(b)-8], primitives.Hash(b[:32]), binary.LittleEndian.Uint64(b[len(b)-8:])
}

// sorted returns the start and end of each entry in b, sorted by path. The entries in l are not
// sorted, because the builder completes an inner subtree before the subtree that contains it.
func (l *levelRows) sorted() [][2]uint64 {
	at, start := make([][2]uint64, len(l.ends)), uint64(0)
	for i, end := range l.ends {
		at[i] = [2]uint64{start, end}
		start = end
	}
	slices.SortFunc(at, func(x, y [2]uint64) int {
		a, _, _ := l.entry(x[0], x[1])
		b, _, _ := l.entry(y[0], y[1])
		return bytes.Compare(a, b)
	})
	return at
}

// each calls yield with all entries in the order of the store's keys: by level, then by path. If
// yield returns false, each stops and returns false. The path of an entry aliases r.
func (r *frontierRows) each(shard primitives.ShardID, yield func(storage.FrontierChange) bool) bool {
	for level := range r {
		l := &r[level]
		for _, at := range l.sorted() {
			c := storage.FrontierChange{Shard: shard, FrontierNode: storage.FrontierNode{Level: uint8(level)}}
			c.Path, c.Hash, c.MemoryUsage = l.entry(at[0], at[1])
			if !yield(c) {
				return false
			}
		}
	}
	return true
}
