package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// Overlay stores.
//
// Problem: a sandbox world is a chain that continues, with blocks of its own, from a block of
// another chain. Copying the folder for each world costs time and disk.
//
// Invariants: blocks at and below the overlay's base belong to the parent store and never change.
// While the overlay exists, the parent does not advance its flat head beyond the block that was
// final at the base, and does not rewind below the base: the caller guarantees both. From then on,
// the parent does not see what the overlay writes, and the overlay does not see what the parent
// writes.
//
// Outline: an overlay is a Store in memory with a parent. Everything at the base block and below is
// read from the parent as of that block. Blocks above the base are pending blocks as in every
// store, with a log in memory. An overlay has no index, and its flat head never advances. An
// overlay may itself be the parent of overlays.
//
// Rejected: a copy of the index, or a snapshot that pins the index's tables for the lifetime of a
// world.

// Child opens an overlay on a block of the head's branch. final is the last final block as of that
// block. Close the overlay before its parent. Errors: ErrNotFound if the block is not on the head's
// branch; ErrOrder if the store is empty, or if a shard is catching up or was untracked.
func (s *Store) Child(at, final BlockRef) (*Store, error) {
	if err := s.writable(); err != nil {
		return nil, err
	}
	v := s.view.Load()
	if v.empty || len(v.shards) > 0 { // overlays do not support shards whose state is at another block
		return nil, fmt.Errorf("%w: no overlay on block %v while a shard is catching up or after a shard was untracked",
			ErrOrder, at)
	}
	rec, err := s.ancestor(at)
	if err != nil {
		return nil, err
	}
	o := s.o
	o.NoSync = true
	c := &Store{o: o, parent: s, disk: NewMemDisk(), space: newDiskSpace(nil, o.SpaceProbePeriod),
		db: noIndex{}, tree: newTree(), segments: map[uint32]primitives.Height{}}
	c.log = newLog(c.disk, &c.o)
	c.log.end.Segment = 1 // the first segment is reserved for genesis
	c.buckets.Store(new([]primitives.Height))
	base := &pendingBlock{ref: at, prev: rec.Prev(), entry: rec.e}
	base.body.Store(new(body))
	c.view.Store(&view{head: at, final: final, overlayFinal: final, flatHead: at, tail: v.tail, base: base})
	return c, nil
}

// below returns whether a height belongs to the parent.
func (s *Store) below(h primitives.Height) bool {
	return s.parent != nil && h <= s.view.Load().flatHead.Height
}

// ancestor does the same as Block for an overlay that begins at ref or above ref, but ancestor
// finds only blocks of the head's branch.
func (s *Store) ancestor(ref BlockRef) (*Record, error) {
	if v := s.view.Load(); ref.Height > v.flatHead.Height {
		if p := v.canonicalAt(ref.Height); p == nil || p.ref != ref {
			return nil, fmt.Errorf("block %v: %w", ref, ErrNotFound)
		}
	}
	return s.Block(ref)
}

// ancestorByHash finds a block of the parent.
func (s *Store) ancestorByHash(hash primitives.Hash) (*Record, error) {
	rec, err := s.parent.BlockByHash(hash)
	if err != nil {
		return nil, err
	}
	if !s.below(rec.Ref().Height) {
		return nil, fmt.Errorf("block %v: %w", hash, ErrNotFound)
	}
	return s.parent.ancestor(rec.Ref())
}

// nextBelow is NextBlock in the parent. nextBelow returns the zero value if there is no such block.
func (s *Store) nextBelow(from primitives.Height) (BlockRef, error) {
	ref, err := s.parent.NextBlock(from)
	if errors.Is(err, ErrNotFound) || err == nil && !s.below(ref.Height) {
		return BlockRef{}, nil
	}
	return ref, err
}

// withParentPlaces appends to `own`, the places in the overlay's blocks, the places that find
// returns from the parent. once is set if an ID has only one place on a branch. In that case, if
// `own` has a canonical place, nothing is appended.
func (f Finder) withParentPlaces(own []Place, once bool, find func(Finder) ([]Place, error)) ([]Place, error) {
	main := 0
	for main < len(own) && own[main].Canonical {
		main++
	}
	if f.s.parent == nil || once && main > 0 {
		return own, nil
	}
	theirs, err := find(Finder{f.s.parent})
	if err != nil {
		return nil, err
	}
	theirs = slices.DeleteFunc(theirs, func(p Place) bool { return !p.Canonical || !f.s.below(p.Block.Ref().Height) })
	return slices.Concat(own[:main], theirs, own[main:]), nil
}

// rowBelow returns a row of the engine as of the block `at` of the head's branch, for an overlay
// that begins at that block. Rows that Write stored belong to the parent's node, so an overlay does
// not see such rows.
func (s *Store) rowBelow(at BlockRef, key []byte) ([]byte, error) {
	list := s.tree.put(key)
	v := s.view.Load() // after the tree: see tree
	for _, x := range slices.Backward(list) {
		if p := x.owner; p != nil && p.ref.Height > v.flatHead.Height && p.ref.Height <= at.Height && v.canonical(p) {
			return valueOf(x.value)
		}
	}
	switch {
	case key[0] == Misc.id:
		return nil, ErrNotFound
	case s.parent != nil:
		return s.parent.rowBelow(v.flatHead, key)
	}
	return s.db.get(key)
}

// shardOfFlat returns the shard that a flat key contains, or shard if the key contains no shard.
func shardOfFlat(flat string, shard primitives.ShardID) primitives.ShardID {
	if len(flat) < 9 || !shardBound(flat[0]) {
		return shard
	}
	return primitives.ShardID(binary.BigEndian.Uint64([]byte(flat[1:9])))
}

// noIndex is the index of an overlay: always empty and not writable.
type noIndex struct{}

func (noIndex) get([]byte) ([]byte, error)  { return nil, ErrNotFound }
func (noIndex) iterate(_, _ []byte) cursor  { return noRows{} }
func (noIndex) frozen(int) []cursor         { return nil }
func (noIndex) snapshot() (snapshot, error) { return noIndex{}, nil }
func (noIndex) release()                    {}
func (noIndex) write(*Batch, bool) error {
	return fmt.Errorf("%w: an overlay store has no index", ErrOrder)
}
func (noIndex) rotate() error         { return nil }
func (noIndex) flushes() (int, int64) { return 0, 0 }
func (noIndex) compact() error        { return nil }
func (noIndex) stats(*Stats)          {}
func (noIndex) close() error          { return nil }

// noRows is a cursor without rows.
type noRows struct{}

func (noRows) next() bool       { return false }
func (noRows) seek([]byte) bool { return false }
func (noRows) valid() bool      { return false }
func (noRows) key() []byte      { return nil }
func (noRows) value() []byte    { return nil }
func (noRows) done() error      { return nil }
