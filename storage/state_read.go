package storage

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// Above the flat head, a read visits at most maxWalked of the newest blocks one by one. Then the
// read searches the runs of pendingKeys. If the change in these runs is not in memory, the read
// takes one item from the log. So the cost of a read is bounded, however many blocks there are.

// ValueAt returns the value of a trie key in a shard's state after the block `at`. The block may be
// on any branch above the flat head, and must be canonical at or below the flat head. Errors:
// ErrNotFound if the key is absent or the block is unknown, ErrGone if the block is below the tail
// or the shard's state is gone. Safe for concurrent use.
func (s *Store) ValueAt(at BlockRef, shard primitives.ShardID, key []byte) ([]byte, error) {
	p, v := s.branch(at)
	if err := v.readable(at, shard); err != nil {
		return nil, err
	}
	for ; p != nil; p, v = s.branch(at) {
		k, c, found, whole, err := s.pendingChange(v, p, shard, key)
		switch {
		case err != nil:
			return nil, err
		case !whole: // the branch does not lead to the flat head; perhaps the flat head has advanced
			if s.view.Load().flatHead == v.flatHead {
				return nil, fmt.Errorf("block %v: %w", at, ErrNotFound) // the block is on an abandoned branch
			}
			continue
		case !found, c != nil && c.Last() == nil:
			return nil, ErrNotFound
		case c != nil:
			return c.Last(), nil
		}
		if s.parent != nil {
			return s.parent.ValueAt(v.flatHead, shardOfFlat(k, shard), trieKey([]byte(k)))
		}
		value, err := s.storedValue(v.flatHead.Height, k)
		now := s.view.Load()
		if now.tail > v.flatHead.Height { // garbage collection has passed this block, so search again
			continue
		}
		if gone := now.readable(at, shard); gone != nil { // the shard may have been untracked during the read
			return nil, gone
		}
		return value, err
	}
	if s.below(at.Height) {
		return s.parent.ValueAt(at, shard, key)
	}
	r, err := s.snapshots.current(s.db)
	if err != nil {
		return nil, err
	}
	defer r.done()
	// An untracked shard becomes unreadable before its rows are deleted.
	if err := s.view.Load().readable(at, shard); err != nil {
		return nil, err
	}
	all := s.buckets.from(at.Height + 1)
	height := r.at.Height
	if r.at != at {
		if height, err = s.stateHeight(v, r.snap, at); err != nil {
			return nil, err
		}
	}
	return s.flatAt(r, all, height, flatKey(shard, key))
}

// LookUp reads the row of a key of Flat and discards it. Benchmarks use LookUp as the lower bound
// of the cost of reading a value.
func (s *Store) LookUp(shard primitives.ShardID, key []byte) error {
	_, err := s.db.get(flat.dbKey(flatKey(shard, key)))
	return err
}

func (s *Store) storedValue(height primitives.Height, key string) ([]byte, error) {
	r, err := s.snapshots.current(s.db)
	if err != nil {
		return nil, err
	}
	defer r.done()
	return s.flatAt(r, s.buckets.from(height+1), height, key)
}

// branch returns the pending block that `at` names, and a view whose flat head is below that block.
// The block is nil if `at` is not above the flat head of the view.
func (s *Store) branch(at BlockRef) (*pendingBlock, *view) {
	p := s.tree.get(at.Hash)
	v := s.view.Load() // load the view after reading the tree, as type tree requires
	if p != nil && (p.ref != at || p.ref.Height <= v.flatHead.Height) {
		p = nil
	}
	return p, v
}

// pendingChange returns the newest change of a key that p or a pending ancestor of p made. If c is
// nil, there is no such change, and flat is the key to read in Flat. If a split above the flat head
// created the shard, flat contains the shard's ancestor at the flat head. possible is false if the
// shard did not inherit the key, which then has no value. whole is false if p's branch does not
// lead to the flat head.
func (s *Store) pendingChange(v *view, p *pendingBlock, shard primitives.ShardID,
	key []byte) (flat string, c *Change, possible, whole bool, err error) {
	flat = flatKey(shard, key)
	// up continues in the parent's layout at a split. up returns false if the shard did not inherit
	// the key.
	up := func(splits []Split) bool {
		x := splitOf(splits, shard)
		if x == nil || len(key) == 0 || !shardBound(key[0]) {
			return true
		}
		if !x.inherits(shard, key[0]) {
			return false
		}
		shard = x.Parent
		flat = flatKey(shard, key)
		return true
	}
	for walked := 0; p != v.base; walked++ {
		if p == nil {
			return flat, nil, false, false, nil
		}
		d := p.body.Load()
		if d == nil || walked == maxWalked {
			b, split, ok := s.keysAt(v, p)
			if !ok {
				return flat, nil, false, false, nil
			}
			if found := b.get(flat); found.p != nil {
				c, err = found.read()
				return flat, c, true, true, err
			}
			if split == nil {
				return flat, nil, true, true, nil
			}
			if !up(split.entry.head.Splits) {
				return flat, nil, false, true, nil
			}
			p, walked = split.parent.Load(), 0
			continue
		}
		if c := d.change(flat); c != nil {
			return flat, c, true, true, nil
		}
		if !up(p.entry.head.Splits) {
			return flat, nil, false, true, nil
		}
		p = p.parent.Load()
	}
	return flat, nil, true, true, nil
}

// maxWalked is the number of blocks that a lookup visits one by one before it searches the runs. If
// the flat head advances often, no more than maxWalked blocks are above it.
const maxWalked = 32

// splitAbove returns the nearest block that splits shards, among p and its ancestors above the flat
// head. It returns nil if no such block splits shards.
func (p *pendingBlock) splitAbove(v *view) *pendingBlock {
	if p.split != nil && p.split.ref.Height > v.flatHead.Height {
		return p.split
	}
	return nil
}

// stateHeight returns the height under which Flat and Undo have the state of a block that is not
// pending in the view.
func (s *Store) stateHeight(v *view, r snapshot, at BlockRef) (primitives.Height, error) {
	if v.empty {
		return 0, fmt.Errorf("block %v: %w", at, ErrNotFound)
	}
	// Use the current tail, not the tail of v: the tail is raised before rows are removed, so the
	// current tail bounds what may be missing in snapshot r.
	if tail := s.view.Load().tail; at.Height < tail {
		return 0, fmt.Errorf("state of block %v: %w, the earliest state is that of height %d", at, ErrGone, tail)
	}
	hash, err := blockHeight.Get(r, at.Height)
	if err == nil && hash != at.Hash || errors.Is(err, ErrNotFound) {
		return 0, fmt.Errorf("block %v: %w", at, ErrNotFound)
	}
	return at.Height, err
}

// flatAt returns the value of a flat key after the canonical block at height. buckets are the
// history buckets above that height.
func (s *Store) flatAt(r *pooledSnapshot, buckets []primitives.Height, height primitives.Height,
	key string) ([]byte, error) {
	// The first change above the height holds the value to return. There may be such a change even
	// above the view's flat head, because the flat head may have advanced after the view was taken.
	k, uv, found, err := firstUndo(r.snap, buckets, key, height, r.at.Height)
	if err != nil {
		return nil, err
	}
	if found {
		return s.undoValue(r.snap, k, uv)
	}
	v, err := flat.Get(r.snap, key)
	if errors.Is(err, ErrNotFound) {
		return nil, ErrNotFound
	}
	return v, err
}

// firstUndo finds the first change of a key above a height and not above the flat head.
func firstUndo(r snapshot, buckets []primitives.Height, key string, height,
	flatHead primitives.Height) (k undoKey, v undoValue, found bool, err error) {
	if height >= flatHead || len(buckets) == 0 {
		return k, v, false, nil
	}
	last := undoKey{buckets[len(buckets)-1], key, flatHead + 1}
	cur := r.iterate(undo.dbKey(undoKey{buckets[0], key, height + 1}), undo.dbKey(last))
	for i, bucket := range buckets {
		if i == 0 {
			found = cur.next()
		} else {
			found = cur.seek(undo.dbKey(undoKey{bucket, key, 0}))
		}
		if !found {
			break
		}
		if k, v, err = parseUndo(cur); err != nil {
			break
		}
		if found = k.bucket == bucket && k.flat == key && k.height <= flatHead; found {
			break
		}
	}
	if derr := cur.done(); err == nil {
		err = derr
	}
	return k, v, found && err == nil, err
}

// flatHeadHeight returns the flat head of a snapshot. Rows of Undo above that height belong to an
// advance that is not complete.
func flatHeadHeight(r snapshot) (primitives.Height, error) {
	var cell flatHeadCell
	_, err := getCell(r, cellFlatHead, &cell)
	return cell.Block.Height, err
}

func parseUndo(cur cursor) (undoKey, undoValue, error) {
	var v undoValue
	k, ok := parseUndoKey(cur.key()[1:])
	if !ok {
		return k, v, damaged("Undo: malformed key %x", cur.key())
	}
	if err := undo.unmarshal(cur.value(), &v); err != nil {
		return k, v, fmt.Errorf("%s %v: %w", undo.name, k, err)
	}
	return k, v, nil
}

// undoValue returns the value before the change that an entry of Undo names.
func (s *Store) undoValue(r snapshot, k undoKey, v undoValue) ([]byte, error) {
	hash, err := blockHeight.Get(r, k.height)
	if err != nil {
		return nil, err
	}
	e, err := s.entryFrom(r, BlockRef{k.height, hash})
	if err != nil {
		return nil, err
	}
	c, err := (&Record{s: s, e: e}).change(v.shard, v.item)
	if err != nil {
		return nil, err
	}
	if flatKey(v.shard, c.Key) != k.flat {
		return nil, damaged("Undo %v leads to a change of key %x", k, c.Key)
	}
	if c.Old == nil {
		return nil, ErrNotFound
	}
	return c.Old, nil
}

// Load does the same as Scan, for loading a trie's subtree. With its first three parameters bound,
// it has the signature of trie.Loader. If the block is the flat head of the snapshot that is read,
// Load reads only Flat.
func (s *Store) Load(at BlockRef, shard primitives.ShardID, accounts AccountRange, from, to []byte,
	yield func(key, value []byte) bool) error {
	inSync := func() bool {
		c, ok := s.view.Load().shards[shard]
		return !ok || !c.Untracked && c.InSync
	}
	was := inSync()
	r, err := s.snapshots.current(s.db)
	if err != nil {
		return err
	}
	defer r.done()
	if r.at != at || !was || !inSync() {
		return s.Scan(at, shard, accounts, from, to, yield)
	}
	for _, rg := range flatRanges(shard, accounts, from, to) {
		if more, err := loadRange(r.scan, rg, yield); err != nil || !more {
			return err
		}
	}
	return nil
}

// Frontier reads the frontier of a shard: the persisted upper nodes of its trie. Frontier calls
// yield, in ascending order, for each node of a level whose path begins with the path `below`,
// until yield returns false. Frontier reads the nodes as of the flat head. The path is valid during
// the call only.
func (s *Store) Frontier(shard primitives.ShardID, level uint8, below []byte, yield func(FrontierNode) bool) error {
	r, err := s.snapshots.current(s.db)
	if err != nil {
		return err
	}
	defer r.done()
	return scanFrontier(r.scan, shard, level, below, yield)
}
