package engine

import (
	"encoding/binary"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// valueFlag marks a frontier entry of a single value in the stored memory usage.
const valueFlag = 1 << 63

// stubOf is an entry of a level as it is stored.
func stubOf(level int, f *trie.FrontierEntry) storage.Stub {
	s := storage.Stub{Level: uint8(level), Path: f.Path, Hash: f.Hash, MemoryUsage: f.Size}
	if f.IsValue {
		s.MemoryUsage |= valueFlag
	}
	return s
}

// entryOf is its opposite.
func entryOf(s storage.Stub) trie.FrontierEntry {
	return trie.FrontierEntry{Path: s.Path, Hash: s.Hash, Size: s.MemoryUsage &^ valueFlag, IsValue: s.MemoryUsage&valueFlag != 0}
}

// appendFrontier appends how all levels of a shard's frontier differ between two roots.
func appendFrontier(out []storage.FrontierChange, shard primitives.ShardID, old, root *trie.Root) ([]storage.FrontierChange, error) {
	for level := range trie.Levels {
		put, removed, err := root.FrontierSince(old, level)
		if err != nil {
			return nil, err
		}
		for _, p := range removed {
			out = append(out, storage.FrontierChange{Shard: shard, Stub: storage.Stub{Level: uint8(level), Path: p}, Gone: true})
		}
		for i := range put {
			out = append(out, storage.FrontierChange{Shard: shard, Stub: stubOf(level, &put[i])})
		}
	}
	return out, nil
}

// rows reads a shard's stored frontier, as it is now.
func (e *Engine) rows(shard primitives.ShardID) trie.Rows {
	return func(level int, path []byte, yield func(trie.FrontierEntry) bool) error {
		return e.store.Frontier(shard, uint8(level), path, func(s storage.Stub) bool { return yield(entryOf(s)) })
	}
}

// frontierRows are the entries of a state that is being made, one behind the other: there may be tens of millions.
type frontierRows struct{ b []byte }

func (r *frontierRows) add(level int, f *trie.FrontierEntry) {
	s := stubOf(level, f)
	r.b = append(binary.AppendUvarint(append(r.b, s.Level), uint64(len(s.Path))), s.Path...)
	r.b = binary.LittleEndian.AppendUint64(append(r.b, s.Hash[:]...), s.MemoryUsage)
}

// each yields them until it is told to stop, and returns false then. What it yields is valid while yield runs.
func (r *frontierRows) each(shard primitives.ShardID, yield func(storage.FrontierChange) bool) bool {
	for b := r.b; len(b) > 0; {
		c := storage.FrontierChange{Shard: shard, Stub: storage.Stub{Level: b[0]}}
		n, size := binary.Uvarint(b[1:])
		b = b[1+size:]
		c.Path, b = b[:n:n], b[n:]
		c.Hash, b = primitives.Hash(b[:32]), b[32:]
		c.MemoryUsage, b = binary.LittleEndian.Uint64(b), b[8:]
		if !yield(c) {
			return false
		}
	}
	return true
}
