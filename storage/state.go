package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
)

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
			if s.view.Load().folded == v.folded {
				return nil, fmt.Errorf("block %v: %w", at, ErrNotFound) // and this block lost
			}
			continue
		case !found, c != nil && c.Last() == nil:
			return nil, ErrNotFound
		case c != nil:
			return c.Last(), nil
		}
		value, err := s.storedValue(v.folded.Height, k)
		now := s.view.Load()
		if now.tail > v.folded.Height { // garbage collection has come by
			continue
		}
		if gone := now.readable(at, shard); gone != nil { // and this shard may have left
			return nil, gone
		}
		return value, err
	}
	r, err := s.readStill()
	if err != nil {
		return nil, err
	}
	defer r.done()
	if err := s.view.Load().readable(at, shard); err != nil { // a shard that left since: readers are told before a row goes
		return nil, err
	}
	all := s.erasAbove(at.Height + 1)
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
	r, err := s.readStill()
	if err != nil {
		return nil, err
	}
	defer r.done()
	return s.flatAt(r, s.erasAbove(height+1), height, key)
}

// branch returns a block above the folded one, and a view that has it so; nil: it is none, in that view.
func (s *Store) branch(at BlockRef) (*pendingBlock, *view) {
	p := s.tree.get(at.Hash)
	v := s.view.Load() // behind the tree: see there
	if p != nil && (p.ref != at || p.ref.Height <= v.folded.Height) {
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
	for p != v.base {
		if p == nil {
			return flat, nil, false, false, nil
		}
		d := p.body.Load()
		if d == nil { // nor have its ancestors a body in memory
			var split *pendingBlock
			if c, split, whole, err = s.coldChange(v, p, flat); c != nil || split == nil || !whole || err != nil {
				return flat, c, true, whole, err
			}
			if !up(split.entry.head.Splits) {
				return flat, nil, false, true, nil
			}
			p = split.parent.Load()
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

// coldChange is pendingChange for a block that is in the log alone, down to the next split, which it returns.
func (s *Store) coldChange(v *view, p *pendingBlock, flat string) (c *Change, split *pendingBlock, whole bool, err error) {
	if split = p.split; split != nil && split.ref.Height <= v.folded.Height {
		split = nil
	}
	if !v.rooted(p) {
		return nil, split, false, nil
	}
	for _, q := range s.tree.coldKey(flat) {
		if q.ref.Height > p.ref.Height || !v.ancestor(q.ref, p) {
			continue
		}
		if split != nil && q.ref.Height < split.ref.Height {
			break
		}
		d, err := s.bodyOf(q, true)
		if err != nil {
			return nil, nil, true, err
		}
		if c := d.change(flat); c != nil {
			return c, split, true, nil
		}
	}
	return nil, split, s.view.Load().folded == v.folded, nil // else a fold may have taken from the index what was to be found
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
func (s *Store) flatAt(r *still, eras []primitives.Height, height primitives.Height, key string) ([]byte, error) {
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
		if found = k.era == era && k.flat == key && k.height <= folded; found {
			break
		}
	}
	if derr := cur.done(); err == nil {
		err = derr
	}
	return k, v, found && err == nil, err
}

// foldedAt returns the height that Flat has in a snapshot. Rows of Undo above it are of a fold that has not come to its end.
func foldedAt(r snapshot) (primitives.Height, error) {
	var cell foldCell
	_, err := getCell(r, cellFold, &cell)
	return cell.Folded.Height, err
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
	rec := &Record{s: s, e: e}
	item, err := rec.item(kindChanges, v.shard, v.item)
	if err != nil {
		return nil, err
	}
	ids, err := rec.rawIDs(v.shard)
	if err != nil {
		return nil, err
	}
	c, err := parseChange(item, ids)
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

// Scan calls yield for the pairs of a shard's state after the block at with from <= key < to (to nil: no end), ascending,
// until yield returns false. accounts limits the keys of account columns to the shard's accounts. Key and value are valid
// during the call only.
func (s *Store) Scan(at BlockRef, shard primitives.ShardID, accounts AccountRange, from, to []byte,
	yield func(key, value []byte) bool) error {
	ranges := flatRanges(shard, accounts, from, to)
	overs := make([][]pendingKey, len(ranges))
	p, v := s.branch(at)
	if err := v.readable(at, shard); err != nil {
		return err
	}
again:
	for i := 0; p != nil && i < len(ranges); i++ {
		var whole bool
		var err error
		if overs[i], whole, err = s.overlay(v, p, shard, &ranges[i]); err != nil {
			return err
		}
		if whole {
			continue
		}
		if s.view.Load().folded == v.folded {
			return fmt.Errorf("block %v: %w", at, ErrNotFound) // it lost
		}
		ranges, overs = flatRanges(shard, accounts, from, to), make([][]pendingKey, len(ranges))
		p, v = s.branch(at)
		goto again
	}
	snap, err := s.db.snapshot()
	if err != nil {
		return err
	}
	defer snap.release()
	if err := s.view.Load().readable(at, shard); err != nil { // as in ValueAt
		return err
	}
	height := v.folded.Height
	if p == nil {
		height = at.Height
	}
	all := s.erasAbove(height + 1)
	if p == nil {
		if height, err = s.stateHeight(v, snap, at); err != nil {
			return err
		}
	} else if s.view.Load().tail > height { // garbage collection has come by
		return s.Scan(at, shard, accounts, from, to, yield)
	}
	for i, r := range ranges {
		more, err := s.scanRange(snap, all, height, r, overs[i], yield)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// overlay returns the pending changes of a range on the branch of p, ascending; the youngest of each key. Where a pending
// block has made the shard by a split, the range and the keys become those of the shard that it came from. whole as for pendingChange.
// Of cold blocks each is read, which takes its time.
func (s *Store) overlay(v *view, p *pendingBlock, shard primitives.ShardID, r *flatRange) (all []pendingKey, whole bool, err error) {
	for ; p != v.base; p = p.parent.Load() {
		if p == nil {
			return nil, false, nil
		}
		d, err := s.bodyOf(p, false)
		if err != nil {
			return nil, false, err
		}
		all = append(all, d.rangeKeys(r.lo, r.hi)...)
		x := splitOf(p.entry.head.Splits, shard)
		if x == nil || r.lo == "" || !shardBound(r.lo[0]) {
			continue
		}
		inherits := x.inherits(shard, r.lo[0])
		old, now := flatKey(shard, []byte{r.lo[0]}), flatKey(x.Parent, []byte{r.lo[0]})
		shard = x.Parent
		for i := range all {
			all[i].flat = now + all[i].flat[len(old):]
		}
		r.lo = now + r.lo[len(old):]
		if strings.HasPrefix(r.hi, old) {
			r.hi = now + r.hi[len(old):]
		} else {
			r.hi = string(PrefixEnd([]byte(now)))
		}
		if !inherits { // nothing of what the parent had: all that there is are these changes
			r.lo = r.hi
			break
		}
	}
	// The younger block was appended first: a stable sort keeps it first among equals.
	slices.SortStableFunc(all, func(a, b pendingKey) int { return strings.Compare(a.flat, b.flat) })
	return slices.CompactFunc(all, func(a, b pendingKey) bool { return a.flat == b.flat }), true, nil
}

// scanRange merges sorted lists: Flat, the values that Undo has in each era for keys changed above height, and the overlay.
func (s *Store) scanRange(r snapshot, eras []primitives.Height, height primitives.Height, rg flatRange, over []pendingKey,
	yield func(key, value []byte) bool) (more bool, err error) {
	hi := []byte{flat.id + 1}
	if rg.hi != "" {
		hi = append([]byte{flat.id}, rg.hi...)
	}
	flats := r.iterate(append([]byte{flat.id}, rg.lo...), hi)
	defer func() { err = errors.Join(err, flats.done()) }()
	folded, err := foldedAt(r)
	if err != nil {
		return false, err
	}
	var olds []undoScan
	defer func() {
		for i := range olds {
			err = errors.Join(err, olds[i].cur.done())
		}
	}()
	for _, era := range eras {
		if height < folded {
			olds = append(olds, undoScan{cur: r.iterate(undoRange(era, rg)), height: height, folded: folded})
		}
	}
	flats.next()
	for {
		// The least key of all.
		key, any := "", false
		consider := func(k string) {
			if !any || k < key {
				key, any = k, true
			}
		}
		if flats.valid() {
			consider(string(flats.key()[1:]))
		}
		if len(over) > 0 {
			consider(over[0].flat)
		}
		for i := range olds {
			if err := olds[i].upTo(key, any); err != nil {
				return false, err
			}
			if olds[i].ok {
				consider(olds[i].key.flat)
			}
		}
		if !any {
			return true, nil
		}
		var value []byte
		if flats.valid() && string(flats.key()[1:]) == key {
			var p packed
			if err := flat.unmarshal(flats.value(), &p); err != nil {
				return false, fmt.Errorf("%s %x: %w", flat.name, key, err)
			}
			value = p
			flats.next()
		}
		first := true // of the eras that have the key the oldest counts
		for i := range olds {
			old := &olds[i]
			if !old.ok || old.key.flat != key {
				continue
			}
			if first {
				if value, err = s.undoValue(r, old.key, old.value); errors.Is(err, ErrNotFound) {
					value = nil
				} else if err != nil {
					return false, err
				}
			}
			first = false
			old.pass()
		}
		if len(over) > 0 && over[0].flat == key {
			value, over = over[0].change.Last(), over[1:]
		}
		if value != nil && !yield(trieKey([]byte(key)), value) {
			return false, nil
		}
	}
}

// undoRange is where the history of a range stands in an era.
func undoRange(era primitives.Height, rg flatRange) (lo, hi []byte) {
	prefix := appendHeight([]byte{undo.id}, era)
	if hi = PrefixEnd(prefix); rg.hi != "" {
		hi = escape(slices.Clone(prefix), rg.hi)
	}
	return escape(prefix, rg.lo), hi
}

// undoScan finds for each key, ascending, its first change above a height. It looks no further than it is asked to: most rows are of
// keys that have not changed since.
type undoScan struct {
	cur            cursor
	height, folded primitives.Height

	key          undoKey // of the row at the cursor, if read
	value        undoValue
	begun, valid bool // valid: there is a row at the cursor
	read, ok     bool // ok: the row is such a change
}

// upTo goes on to the first such change of a key that is not above limit, or without bounded of any; ok tells whether there is one. A
// change that was found stays until pass.
func (u *undoScan) upTo(limit string, bounded bool) (err error) {
	if !u.begun {
		u.begun, u.valid = true, u.cur.next()
	}
	for u.valid && !u.ok {
		if !u.read {
			if u.key, u.value, err = parseUndo(u.cur); err != nil {
				return err
			}
			u.read = true
		}
		switch {
		case bounded && u.key.flat > limit:
			return nil
		case u.key.height > u.folded: // of a fold that has not come to its end
			u.pass()
		case u.key.height > u.height:
			u.ok = true
		default:
			u.seek(u.height + 1)
		}
	}
	return nil
}

// pass goes behind all changes of the present key.
func (u *undoScan) pass() { u.seek(1<<64 - 1) }

// seek goes to the present key's first change at or above a height, or to the next key.
func (u *undoScan) seek(h primitives.Height) {
	u.valid = u.cur.seek(undo.dbKey(undoKey{u.key.era, u.key.flat, h}))
	u.read, u.ok = false, false
}

// AccountRange is a shard's accounts: Lo <= account < Hi in byte order; empty: no bound on that side.
type AccountRange struct{ Lo, Hi primitives.AccountID }

// flatRange is a range of flat keys; hi empty: to the end.
type flatRange struct{ lo, hi string }

// flatRanges cuts [from, to) of a shard's trie into ranges of Flat, in trie order: one for each trie column.
func flatRanges(shard primitives.ShardID, accounts AccountRange, from, to []byte) []flatRange {
	first, last := byte(0), byte(maxTrieColumn)
	if len(from) > 0 {
		first = from[0]
	}
	var out []flatRange
	for col := first; col <= last; col++ {
		if to != nil && (len(to) == 0 || to[0] < col) {
			break
		}
		// Within the column: what follows its byte.
		lo, hi, bounded := "", "", false
		if len(from) > 0 && from[0] == col {
			lo = string(from[1:])
		}
		if to != nil && to[0] == col {
			hi, bounded = string(to[1:]), true
		}
		prefix := string(rune(col)) // columns are below 128: one byte
		if shardBound(col) {
			prefix = flatKey(shard, []byte{col})
		} else {
			lo = max(lo, string(accounts.Lo))
			if accounts.Hi != "" && (!bounded || string(accounts.Hi) < hi) {
				hi, bounded = string(accounts.Hi), true
			}
		}
		r := flatRange{prefix + lo, prefix + hi}
		if !bounded {
			r.hi = string(PrefixEnd([]byte(prefix)))
		}
		if r.lo < r.hi || r.hi == "" {
			out = append(out, r)
		}
	}
	return out
}

// maxTrieColumn is the highest first byte of a trie key, with room for columns to come.
const maxTrieColumn = 63

// Load is Scan for what a trie's subtree is loaded from: it fits trie.Loader when the block, shard and accounts are bound. If the block
// is the folded one, Flat has it all, and nothing else is looked at; whether it is stands in the snapshot that is read, so that no fold
// can come between.
func (s *Store) Load(at BlockRef, shard primitives.ShardID, accounts AccountRange, from, to []byte,
	yield func(key, value []byte) bool) error {
	with := func() bool { // the others
		c, ok := s.view.Load().shards[shard]
		return !ok || !c.Left && c.With
	}
	was := with()
	r, err := s.readStill()
	if err != nil {
		return err
	}
	defer r.done()
	if r.at != at || !was || !with() {
		return s.Scan(at, shard, accounts, from, to, yield)
	}
	for _, rg := range flatRanges(shard, accounts, from, to) {
		if more, err := r.loadRange(rg, yield); err != nil || !more {
			return err
		}
	}
	return nil
}

// Frontier calls yield for the subtrees of a level of a shard's frontier that lie below a path, ascending, at the folded block. The path is
// valid during the call only.
func (s *Store) Frontier(shard primitives.ShardID, level uint8, below []byte, yield func(Stub) bool) error {
	r, err := s.readStill()
	if err != nil {
		return err
	}
	defer r.done()
	lo := frontier.dbKey(frontierKey{shard, level, string(below)})
	_, err = r.scan(lo, PrefixEnd(lo), func(key, value []byte) (bool, error) {
		if len(value) != stubSize {
			return false, fmt.Errorf("%s %x: %w", frontier.name, key, damaged("%d bytes", len(value)))
		}
		return yield(Stub{level, key[10:], primitives.Hash(value[:32]), binary.LittleEndian.Uint64(value[32:])}), nil
	})
	return err
}
