package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// A child is a store in memory of a chain that goes on from a block of another store, its parent, in its own way. What is at that block
// and below the parent has, and it is asked for there as of that block; what is above it are pending blocks as always, in a
// log in memory. A child has no index and is never folded. Neither sees what the other stores.
//
// The parent folds no further than to what was final at the block as long as it has a child there, and does not go back behind it: its
// caller sees to both. A child may have children.

// Child opens a child behind a block of the head's branch. final is what was final then. The parent is to be closed after it.
func (s *Store) Child(at, final BlockRef) (*Store, error) {
	if err := s.writable(); err != nil {
		return nil, err
	}
	v := s.view.Load()
	if v.empty || len(v.shards) > 0 { // where such shards stand is no part of this
		return nil, fmt.Errorf("%w: a child behind %v, where shards have come or gone beside the others", ErrOrder, at)
	}
	rec, err := s.ancestor(at)
	if err != nil {
		return nil, err
	}
	o := s.o
	o.NoSync = true
	c := &Store{o: o, parent: s, disk: NewMemDisk(), space: newDiskSpace(nil, o.SpaceProbePeriod), db: noIndex{}, tree: newTree(), segments: map[uint32]primitives.Height{}}
	c.log = newLog(c.disk, &c.o)
	c.log.end.Segment = 1 // the first is for a genesis alone
	c.buckets.Store(new([]primitives.Height))
	base := &pendingBlock{ref: at, prev: rec.Prev(), entry: rec.e}
	base.body.Store(new(body))
	c.view.Store(&view{head: at, final: final, overlayFinal: final, flatHead: at, tail: v.tail, base: base})
	return c, nil
}

// below tells whether a height is one of the parent's.
func (s *Store) below(h primitives.Height) bool {
	return s.parent != nil && h <= s.view.Load().flatHead.Height
}

// ancestor is Block for a child that begins at or above a block: it has what leads to it, and nothing of other branches.
func (s *Store) ancestor(ref BlockRef) (*Record, error) {
	if v := s.view.Load(); ref.Height > v.flatHead.Height {
		if p := v.canonicalAt(ref.Height); p == nil || p.ref != ref {
			return nil, fmt.Errorf("block %v: %w", ref, ErrNotFound)
		}
	}
	return s.Block(ref)
}

// ancestorByHash finds a block of the parent's.
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

// nextBelow is NextBlock among the parent's; zero: there is none.
func (s *Store) nextBelow(from primitives.Height) (BlockRef, error) {
	ref, err := s.parent.NextBlock(from)
	if errors.Is(err, ErrNotFound) || err == nil && !s.below(ref.Height) {
		return BlockRef{}, nil
	}
	return ref, err
}

// withParentPlaces adds to places in a child's blocks those in its parent's, unless it has a canonical one and once says that there is no other on
// a branch.
func (s *Store) withParentPlaces(own []Place, once bool, find func(*Store) ([]Place, error)) ([]Place, error) {
	main := 0
	for main < len(own) && own[main].Canonical {
		main++
	}
	if s.parent == nil || once && main > 0 {
		return own, nil
	}
	theirs, err := find(s.parent)
	if err != nil {
		return nil, err
	}
	theirs = slices.DeleteFunc(theirs, func(p Place) bool { return !p.Canonical || !s.below(p.Block.Ref().Height) })
	return slices.Concat(own[:main], theirs, own[main:]), nil
}

// rowBelow is a row of the engine's as of a block of the head's branch, for a child that begins there. What came by itself is this node's
// own, and nothing to a child.
func (s *Store) rowBelow(at BlockRef, key []byte) ([]byte, error) {
	list := s.tree.put(key)
	v := s.view.Load() // behind the tree: see there
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

// shardOfFlat is the shard that a flat key names; else the one that is given.
func shardOfFlat(flat string, shard primitives.ShardID) primitives.ShardID {
	if len(flat) < 9 || !shardBound(flat[0]) {
		return shard
	}
	return primitives.ShardID(binary.BigEndian.Uint64([]byte(flat[1:9])))
}

// noIndex is the index of a child: there is nothing in it, and nothing to be written.
type noIndex struct{}

func (noIndex) get([]byte) ([]byte, error)  { return nil, ErrNotFound }
func (noIndex) iterate(_, _ []byte) cursor  { return noRows{} }
func (noIndex) frozen(int) []cursor         { return nil }
func (noIndex) snapshot() (snapshot, error) { return noIndex{}, nil }
func (noIndex) release()                    {}
func (noIndex) write(*Batch, bool) error    { return fmt.Errorf("%w: a child has no index", ErrOrder) }
func (noIndex) rotate() error               { return nil }
func (noIndex) flushes() (int, int64)       { return 0, 0 }
func (noIndex) settle() error               { return nil }
func (noIndex) stats(*Stats)                {}
func (noIndex) close() error                { return nil }

// noRows is a cursor without rows.
type noRows struct{}

func (noRows) next() bool       { return false }
func (noRows) seek([]byte) bool { return false }
func (noRows) valid() bool      { return false }
func (noRows) key() []byte      { return nil }
func (noRows) value() []byte    { return nil }
func (noRows) done() error      { return nil }
