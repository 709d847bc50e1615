package storage

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// Above the folded block a read costs a look into some of the newest blocks, or a search in the runs of pendingKeys, and one item of the log
// where the change is not in memory, however many blocks there are.

// ValueAt returns the value of a trie key in a shard's state after the block at, or an error that wraps ErrNotFound when
// the key is absent there, ErrGone when the block is below the tail. The block may be of any branch above the folded one,
// canonical below.
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
		case !whole: // a fold has come between
			if s.view.Load().flatHead == v.flatHead {
				return nil, fmt.Errorf("block %v: %w", at, ErrNotFound) // and this block lost
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
		if now.tail > v.flatHead.Height { // garbage collection has come by
			continue
		}
		if gone := now.readable(at, shard); gone != nil { // and this shard may have left
			return nil, gone
		}
		return value, err
	}
	if s.below(at.Height) {
		return s.parent.ValueAt(at, shard, key)
	}
	r, err := s.currentSnapshot()
	if err != nil {
		return nil, err
	}
	defer r.done()
	if err := s.view.Load().readable(at, shard); err != nil { // a shard that left since: readers are told before a row goes
		return nil, err
	}
	all := s.bucketsFrom(at.Height + 1)
	height := r.at.Height
	if r.at != at {
		if height, err = s.stateHeight(v, r.snap, at); err != nil {
			return nil, err
		}
	}
	return s.flatAt(r, all, height, flatKey(shard, key))
}

// LookUp reads the row of a key of Flat as the index has it and makes nothing of it: what a look at a value costs at the least, for benchmarks.
func (s *Store) LookUp(shard primitives.ShardID, key []byte) error {
	_, err := s.db.get(flat.dbKey(flatKey(shard, key)))
	return err
}

func (s *Store) storedValue(height primitives.Height, key string) ([]byte, error) {
	r, err := s.currentSnapshot()
	if err != nil {
		return nil, err
	}
	defer r.done()
	return s.flatAt(r, s.bucketsFrom(height+1), height, key)
}

// branch returns a block above the folded one, and a view that has it so; nil: it is none, in that view.
func (s *Store) branch(at BlockRef) (*pendingBlock, *view) {
	p := s.tree.get(at.Hash)
	v := s.view.Load() // behind the tree: see there
	if p != nil && (p.ref != at || p.ref.Height <= v.flatHead.Height) {
		p = nil
	}
	return p, v
}

// pendingChange returns the youngest change of a key on the branch of p, among the blocks that are not folded; nil: none,
// then flat is the key that Flat has it by, which names the shard that was there at the folded block. possible is false if
// that shard's key is none of this one's. whole is false if the branch does not lead to the folded block.
func (s *Store) pendingChange(v *view, p *pendingBlock, shard primitives.ShardID, key []byte) (flat string, c *Change, possible, whole bool, err error) {
	flat = flatKey(shard, key)
	// up goes beyond a split.
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

// maxWalked is how many blocks a look-up looks into one by one before it asks the runs of all: with frequent folds there are no more.
const maxWalked = 32

// splitAbove returns the block or its next ancestor above the folded one that splits shards; nil: there is none.
func (p *pendingBlock) splitAbove(v *view) *pendingBlock {
	if p.split != nil && p.split.ref.Height > v.flatHead.Height {
		return p.split
	}
	return nil
}

// stateHeight returns the height at which Flat and Undo know the state of a block that is not pending in the view.
func (s *Store) stateHeight(v *view, r snapshot, at BlockRef) (primitives.Height, error) {
	if v.empty {
		return 0, fmt.Errorf("block %v: %w", at, ErrNotFound)
	}
	// The tail of now, not of v: it rises before anything is removed, so it bounds what the snapshot r lacks.
	if tail := s.view.Load().tail; at.Height < tail {
		return 0, fmt.Errorf("state of block %v: %w, the earliest is of height %d", at, ErrGone, tail)
	}
	hash, err := blockHeight.Get(r, at.Height)
	if err == nil && hash != at.Hash || errors.Is(err, ErrNotFound) {
		return 0, fmt.Errorf("block %v: %w", at, ErrNotFound)
	}
	return at.Height, err
}

// flatAt returns the value of a flat key after the canonical block at height. eras are those above it.
func (s *Store) flatAt(r *pooledSnapshot, eras []primitives.Height, height primitives.Height, key string) ([]byte, error) {
	// The first change above the height knows the value before it. There may be such changes even at the folded height:
	// a fold may have ended since the view was taken.
	k, uv, found, err := firstUndo(r.snap, eras, key, height, r.at.Height)
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

// firstUndo finds the first change of a key above a height and up to the folded one.
func firstUndo(r snapshot, eras []primitives.Height, key string, height, folded primitives.Height) (k undoKey, v undoValue, found bool, err error) {
	if height >= folded || len(eras) == 0 {
		return k, v, false, nil
	}
	last := undoKey{eras[len(eras)-1], key, folded + 1}
	cur := r.iterate(undo.dbKey(undoKey{eras[0], key, height + 1}), undo.dbKey(last))
	for i, era := range eras {
		if i == 0 {
			found = cur.next()
		} else {
			found = cur.seek(undo.dbKey(undoKey{era, key, 0}))
		}
		if !found {
			break
		}
		if k, v, err = parseUndo(cur); err != nil {
			break
		}
		if found = k.bucket == era && k.flat == key && k.height <= folded; found {
			break
		}
	}
	if derr := cur.done(); err == nil {
		err = derr
	}
	return k, v, found && err == nil, err
}

// flatHeadHeight returns the height that Flat has in a snapshot. Rows of Undo above it are of a fold that has not come to its end.
func flatHeadHeight(r snapshot) (primitives.Height, error) {
	var cell flatHeadCell
	_, err := getCell(r, cellFlatHead, &cell)
	return cell.Block.Height, err
}

func parseUndo(cur cursor) (undoKey, undoValue, error) {
	var v undoValue
	k, ok := parseUndoKey(cur.key()[1:])
	if !ok {
		return k, v, damaged("Undo: key %x", cur.key())
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

// Load is Scan for what a trie's subtree is loaded from: it fits trie.Loader when the block, shard and accounts are bound. If the block
// is the folded one, Flat has it all, and nothing else is looked at; whether it is stands in the snapshot that is read, so that no fold
// can come between.
func (s *Store) Load(at BlockRef, shard primitives.ShardID, accounts AccountRange, from, to []byte,
	yield func(key, value []byte) bool) error {
	with := func() bool { // the others
		c, ok := s.view.Load().shards[shard]
		return !ok || !c.Untracked && c.InSync
	}
	was := with()
	r, err := s.currentSnapshot()
	if err != nil {
		return err
	}
	defer r.done()
	if r.at != at || !was || !with() {
		return s.Scan(at, shard, accounts, from, to, yield)
	}
	for _, rg := range flatRanges(shard, accounts, from, to) {
		if more, err := loadRange(r.scan, rg, yield); err != nil || !more {
			return err
		}
	}
	return nil
}

// Frontier calls yield for the subtrees of a level of a shard's frontier that lie below a path, ascending, at the folded block. The path is
// valid during the call only.
func (s *Store) Frontier(shard primitives.ShardID, level uint8, below []byte, yield func(FrontierNode) bool) error {
	r, err := s.currentSnapshot()
	if err != nil {
		return err
	}
	defer r.done()
	return scanFrontier(r.scan, shard, level, below, yield)
}
