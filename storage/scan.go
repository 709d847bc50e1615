package storage

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
)

// Scan calls yield for the pairs of a shard's state after the block at with from <= key < to (to nil: no end), ascending,
// until yield returns false. accounts limits the keys of account columns to the shard's accounts. Key and value are valid
// during the call only.
func (s *Store) Scan(at BlockRef, shard primitives.ShardID, accounts AccountRange, from, to []byte,
	yield func(key, value []byte) bool) error {
	return s.scanParts(at, shard, func() (parts []scanPart) {
		for _, r := range flatRanges(shard, accounts, from, to) {
			parts = append(parts, scanPart{flatRange: r, shard: shard})
		}
		return parts
	}, yield)
}

// scanPart is a range of a shard, with changes that come before what the state has: those of a child's blocks.
type scanPart struct {
	flatRange
	shard primitives.ShardID
	over  []pendingKey // ascending
}

func cloneParts(parts []scanPart) []scanPart {
	out := slices.Clone(parts)
	for i := range out {
		out[i].over = slices.Clone(out[i].over)
	}
	return out
}

// scanParts is Scan of ranges, which are made anew when it has to begin again.
func (s *Store) scanParts(at BlockRef, shard primitives.ShardID, parts func() []scanPart, yield func(key, value []byte) bool) error {
	list := parts()
	p, v := s.branch(at)
	if err := v.readable(at, shard); err != nil {
		return err
	}
again:
	for i := 0; p != nil && i < len(list); i++ {
		whole, err := s.overlay(v, p, &list[i])
		if err != nil {
			return err
		}
		if whole {
			continue
		}
		if s.view.Load().folded == v.folded {
			return fmt.Errorf("block %v: %w", at, ErrNotFound) // it lost
		}
		list = parts()
		p, v = s.branch(at)
		goto again
	}
	if s.parent != nil {
		switch {
		case p != nil:
			at = v.folded
		case !s.below(at.Height):
			return fmt.Errorf("block %v: %w", at, ErrNotFound)
		}
		return s.parent.scanParts(at, shard, func() []scanPart { return cloneParts(list) }, yield)
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
		return s.scanParts(at, shard, parts, yield)
	}
	for i := range list {
		more, err := s.scanRange(snap, all, height, list[i].flatRange, list[i].over, yield)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// overlay puts the pending changes of a range on the branch of p behind those that it has, ascending; the youngest of each key. Where a pending
// block has made the shard by a split, the range and the keys become those of the shard that it came from. whole as for pendingChange.
// Of cold blocks each is read, which takes its time.
func (s *Store) overlay(v *view, p *pendingBlock, r *scanPart) (whole bool, err error) {
	all, shard := r.over, r.shard
	for ; p != v.base; p = p.parent.Load() {
		if p == nil {
			return false, nil
		}
		d, err := s.bodyOf(p, false)
		if err != nil {
			return false, err
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
	r.over = slices.CompactFunc(all, func(a, b pendingKey) bool { return a.flat == b.flat })
	r.shard = shard
	return true, nil
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
