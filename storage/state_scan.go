package storage

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
)

// Scan calls yield for the pairs of a shard's state after the block `at` with from <= key < to,
// ascending, until yield returns false. A nil to means no upper bound. Of account columns, Scan
// yields only the keys of the accounts in `accounts`, a range. Key and value are valid only during
// the call of yield. The errors are the errors of ValueAt, except that absent keys are no error.
func (s *Store) Scan(at BlockRef, shard primitives.ShardID, accounts AccountRange, from, to []byte,
	yield func(key, value []byte) bool) error {
	return s.ScanUntil(nil, at, shard, accounts, from, to, yield)
}

// ScanUntil is Scan that also calls ask after every stopCheckEvery visited keys, yielded or not. An
// error of ask ends the scan and is returned. A nil ask is never called.
func (s *Store) ScanUntil(ask func() error, at BlockRef, shard primitives.ShardID, accounts AccountRange,
	from, to []byte,
	yield func(key, value []byte) bool) error {
	return s.scanParts(at, shard, func() (parts []scanPart) {
		for _, r := range flatRanges(shard, accounts, from, to) {
			part := scanPart{flatRange: r, shard: shard}
			if col := r.lo[0]; shardBound(col) {
				part.prefix = flatKey(shard, []byte{col})
			}
			parts = append(parts, part)
		}
		return parts
	}, scanSink{stop: ask, yield: yield})
}

// stopCheckEvery is the number of visited keys between two calls that may stop a scan.
const stopCheckEvery = 64

// scanSink receives the pairs of a scan and can stop the scan.
type scanSink struct {
	stop  func() error // returns an error to stop the scan; nil: nothing stops the scan
	yield func(key, value []byte) bool
}

// scanPart is a key range of a shard with the changes of pending blocks, as layers, newest first.
type scanPart struct {
	flatRange
	shard  primitives.ShardID
	prefix string // common prefix of the keys, column and shard; empty for an account column
	over   []keyLayer
}

func cloneParts(parts []scanPart) []scanPart {
	out := slices.Clone(parts)
	for i := range out {
		out[i].over = slices.Clone(out[i].over)
	}
	return out
}

// scanParts scans ranges. scanParts calls parts to get the ranges, and again if the scan restarts.
func (s *Store) scanParts(at BlockRef, shard primitives.ShardID, parts func() []scanPart, to scanSink) error {
	list := parts()
	p, v := s.branch(at)
	if err := v.readable(at, shard); err != nil {
		return err
	}
again:
	for i := 0; p != nil && i < len(list); i++ {
		if s.overlay(v, p, &list[i]) {
			continue
		}
		if s.view.Load().flatHead == v.flatHead && s.tree.get(p.ref.Hash) == p {
			return fmt.Errorf("block %v: %w", at, ErrNotFound) // the block is on an abandoned branch
		}
		list = parts()
		p, v = s.branch(at)
		goto again
	}
	if s.parent != nil {
		switch {
		case p != nil:
			at = v.flatHead
		case !s.below(at.Height):
			return fmt.Errorf("block %v: %w", at, ErrNotFound)
		}
		return s.parent.scanParts(at, shard, func() []scanPart { return cloneParts(list) }, to)
	}
	snap, err := s.db.snapshot()
	if err != nil {
		return err
	}
	defer snap.release()
	// Check after taking the snapshot, because the shard may have been untracked.
	if err := s.view.Load().readable(at, shard); err != nil {
		return err
	}
	height := v.flatHead.Height
	if p == nil {
		height = at.Height
	}
	all := s.buckets.from(height + 1)
	if p == nil {
		if height, err = s.stateHeight(v, snap, at); err != nil {
			return err
		}
	} else if s.view.Load().tail > height { // garbage collection has passed this block, so scan again
		return s.scanParts(at, shard, parts, to)
	}
	for i := range list {
		more, err := s.scanRange(snap, all, height, &list[i], to)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// overlay appends to r.over, newest first, layers with the changes in r's range that p and its
// pending ancestors made. Layers that r.over already has take precedence. At a block with the split
// that created r's shard, overlay sets r to that range in the parent shard and continues with the
// parent shard. whole is false if p's branch does not lead to the flat head.
func (s *Store) overlay(v *view, p *pendingBlock, r *scanPart) (whole bool) {
	for p != v.base {
		if p == nil {
			return false
		}
		keys, split, ok := s.keysAt(v, p)
		if !ok {
			return false
		}
		if r.prefix == "" { // a split does not change the flat keys of accounts
			split, keys.low = nil, v.flatHead.Height+1
		}
		r.over = append(r.over, keyLayer{keys, r.flatRange, len(r.prefix)})
		if split == nil {
			return true
		}
		p = split.parent.Load()
		x := splitOf(split.entry.head.Splits, r.shard)
		if x == nil {
			continue
		}
		col, child := r.prefix[0], r.shard
		old, now := r.prefix, flatKey(x.Parent, []byte{col})
		r.shard, r.prefix = x.Parent, now
		r.lo = now + r.lo[len(old):]
		if strings.HasPrefix(r.hi, old) {
			r.hi = now + r.hi[len(old):]
		} else {
			r.hi = string(PrefixEnd([]byte(now)))
		}
		if !x.inherits(child, col) { // a child without inherited rows has rows in these layers only
			r.lo = r.hi
			return true
		}
	}
	return true
}

// scanRange merges three kinds of sorted lists:
//   - the rows of Flat;
//   - for each bucket of Undo, the older values of the keys that changed above height;
//   - the layers above the flat head.
//
// scanRange yields the pairs as of height and these layers. more is false if the sink stopped the
// scan.
func (s *Store) scanRange(r snapshot, buckets []primitives.Height, height primitives.Height, part *scanPart,
	to scanSink) (more bool, err error) {
	rg := part.flatRange
	var layers []*layerScan
	for i := range part.over {
		l, err := part.over[i].scan(part.prefix, to.stop)
		if err != nil {
			return false, err
		}
		layers = append(layers, l)
	}
	hi := []byte{flat.id + 1}
	if rg.hi != "" {
		hi = append([]byte{flat.id}, rg.hi...)
	}
	flats := r.iterate(append([]byte{flat.id}, rg.lo...), hi)
	defer func() { err = errors.Join(err, flats.done()) }()
	flatHead, err := flatHeadHeight(r)
	if err != nil {
		return false, err
	}
	var olds []undoScan
	defer func() {
		for i := range olds {
			err = errors.Join(err, olds[i].cur.done())
		}
	}()
	for _, bucket := range buckets {
		if height < flatHead {
			olds = append(olds, undoScan{cur: r.iterate(undoRange(bucket, rg)), height: height, flatHead: flatHead})
		}
	}
	flats.next()
	for n := 1; ; n++ {
		if to.stop != nil && n%stopCheckEvery == 0 {
			if err := to.stop(); err != nil {
				return false, err
			}
		}
		// The least key of all lists.
		key, any := "", false
		consider := func(k string) {
			if !any || k < key {
				key, any = k, true
			}
		}
		if flats.valid() {
			consider(string(flats.key()[1:]))
		}
		for _, l := range layers {
			if l.ok {
				consider(l.key)
			}
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
		first := true // the value comes from the oldest bucket that has the key
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
		first = true // the value comes from the newest layer that has the key
		for _, l := range layers {
			if !l.ok || l.key != key {
				continue
			}
			if first {
				c, err := l.found.read()
				if err != nil {
					return false, err
				}
				value = c.Last()
			}
			first = false
			if err := l.next(part.prefix); err != nil {
				return false, err
			}
		}
		if value != nil && !to.yield(trieKey([]byte(key)), value) {
			return false, nil
		}
	}
}

// undoRange returns the rows of a key range's history in a bucket.
func undoRange(bucket primitives.Height, rg flatRange) (lo, hi []byte) {
	prefix := appendHeight([]byte{undo.id}, bucket)
	if hi = PrefixEnd(prefix); rg.hi != "" {
		hi = escape(slices.Clone(prefix), rg.hi)
	}
	return escape(prefix, rg.lo), hi
}

// undoScan iterates over the keys that changed above a height, in ascending order. For each key,
// undoScan finds the first such change. undoScan reads no further than requested.
type undoScan struct {
	cur              cursor
	height, flatHead primitives.Height

	key          undoKey // key of the row at the cursor; valid if read is true
	value        undoValue
	begun, valid bool // begun: the cursor was moved; valid: the cursor is at a row
	read, ok     bool // read: key and value were read from the row; ok: the row is a change above height
}

// upTo moves to the next change above height, if its key is at or below limit. If bounded is false,
// there is no limit. u.ok is set if there is such a change. Further calls stay at the change until
// pass is called.
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
		case u.key.height > u.flatHead: // an unfinished advance of the flat head wrote this row
			u.pass()
		case u.key.height > u.height:
			u.ok = true
		default:
			u.seek(u.height + 1)
		}
	}
	return nil
}

// pass moves beyond all changes of the current key.
func (u *undoScan) pass() { u.seek(1<<64 - 1) }

// seek moves to the current key's first change at or above a height, or to the next key.
func (u *undoScan) seek(h primitives.Height) {
	u.valid = u.cur.seek(undo.dbKey(undoKey{u.key.bucket, u.key.flat, h}))
	u.read, u.ok = false, false
}

// AccountRange is the range of a shard's accounts: Lo <= account < Hi in byte order. An empty Lo or
// Hi means no bound on that side.
type AccountRange struct{ Lo, Hi primitives.AccountID }

// flatRange is a range of flat keys. An empty hi means no upper bound.
type flatRange struct{ lo, hi string }

// flatRanges cuts [from, to) of a shard's trie into ranges of Flat, in trie order: one for each
// trie column.
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
		// lo and hi are the bounds within the column, without the column byte.
		lo, hi, bounded := "", "", false
		if len(from) > 0 && from[0] == col {
			lo = string(from[1:])
		}
		if to != nil && to[0] == col {
			hi, bounded = string(to[1:]), true
		}
		prefix := string(rune(col)) // a column number is below 128, so its UTF-8 form is one byte
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

// maxTrieColumn is the highest first byte of a trie key, with room for future columns.
const maxTrieColumn = 63
