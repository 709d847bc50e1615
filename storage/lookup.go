package storage

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// entry returns the index row of a block.
func (s *Store) entry(ref BlockRef) (*entry, error) { return s.entryFrom(s.db, ref) }

func (s *Store) entryFrom(r Getter, ref BlockRef) (*entry, error) {
	if p := s.tree.get(ref.Hash); p != nil && p.ref == ref {
		return p.entry, nil
	}
	if e := s.cache.entry(ref); e != nil {
		return e, nil
	}
	e, err := entries.Get(r, ref)
	if err != nil {
		return nil, err
	}
	s.cache.addEntry(&e)
	return &e, nil
}

// Block returns a stored block. Below the tail, only genesis and the blocks whose receipts a chunk
// above the tail may still refer to are left. Errors: ErrNotFound, ErrGone.
func (s *Store) Block(ref BlockRef) (*Record, error) {
	if s.below(ref.Height) {
		return s.parent.ancestor(ref)
	}
	e, err := s.entry(ref)
	if err != nil {
		if errors.Is(err, ErrNotFound) && ref.Height < s.view.Load().tail {
			err = fmt.Errorf("block %v: %w", ref, ErrGone)
		}
		return nil, err
	}
	return &Record{s: s, e: e}, nil
}

// BlockByHash returns a stored block of any branch.
func (s *Store) BlockByHash(hash primitives.Hash) (*Record, error) {
	if p := s.tree.get(hash); p != nil {
		return &Record{s: s, e: p.entry}, nil
	}
	if s.parent != nil {
		return s.ancestorByHash(hash)
	}
	prefix := append([]byte{}, hash[:shortLen]...)
	var out *Record
	var ferr error
	err := hashHeights.Scan(s.db, prefix, PrefixEnd(prefix), func(key []byte, _ Nothing) bool {
		if len(key) != shortLen+8 {
			ferr = damaged("HashHeight: malformed key %x", key)
			return false
		}
		rec, err := s.Block(BlockRef{heightOf(key[shortLen:]), hash})
		if err == nil {
			out = rec
		} else if !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrGone) {
			ferr = err
		}
		return out == nil && ferr == nil
	})
	if err = errors.Join(err, ferr); err == nil && out == nil {
		err = fmt.Errorf("block %v: %w", hash, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// HashAt returns the hash of the canonical block at a height. Errors: ErrNotFound if the height was
// skipped or lies above the head, ErrGone below the tail.
func (s *Store) HashAt(height primitives.Height) (primitives.Hash, error) {
	if v := s.view.Load(); height > v.flatHead.Height {
		if p := v.canonicalAt(height); p != nil {
			return p.ref.Hash, nil
		}
		return primitives.Hash{}, fmt.Errorf("height %d: %w", height, ErrNotFound)
	}
	if s.parent != nil {
		return s.parent.HashAt(height)
	}
	hash, err := blockHeight.Get(s.db, height)
	if errors.Is(err, ErrNotFound) && height < s.view.Load().tail {
		err = fmt.Errorf("height %d: %w", height, ErrGone)
	}
	return hash, err
}

// CollectedAt returns the hash of the canonical block that was collected at a height. Errors:
// ErrNotFound if none was.
func (s *Store) CollectedAt(height primitives.Height) (primitives.Hash, error) {
	if s.below(height) {
		return s.parent.CollectedAt(height)
	}
	return collected.Get(s.db, height)
}

// BlockAt returns the canonical block at a height.
func (s *Store) BlockAt(height primitives.Height) (*Record, error) {
	hash, err := s.HashAt(height)
	if err != nil {
		return nil, err
	}
	return s.Block(BlockRef{height, hash})
}

// EachEpochInfo calls f with the rows of column EpochInfo that are on disk, in the order of the epoch
// IDs, until f returns false. raw is only valid during the call.
func (s *Store) EachEpochInfo(f func(id primitives.EpochID, raw []byte) bool) error {
	return EpochInfo.Scan(s.db, nil, nil, func(key []byte, raw Raw) bool {
		return len(key) == len(primitives.EpochID{}) && f(primitives.EpochID(key), raw)
	})
}

// NextBlock returns the lowest canonical block at or above a height. Errors: ErrNotFound above the
// head.
func (s *Store) NextBlock(from primitives.Height) (out BlockRef, err error) {
	v := s.view.Load()
	if s.below(from) {
		if out, err := s.nextBelow(from); err != nil || !out.IsZero() {
			return out, err
		}
	} else if from <= v.flatHead.Height {
		err := blockHeight.Scan(s.db, appendHeight(nil, from), nil, func(key []byte, hash primitives.Hash) bool {
			out = BlockRef{heightOf(key), hash}
			return false
		})
		if err != nil || !out.IsZero() {
			return out, err
		}
	}
	i, _ := slices.BinarySearchFunc(v.canon, from,
		func(p *pendingBlock, h primitives.Height) int { return cmp.Compare(p.ref.Height, h) })
	if i < len(v.canon) {
		return v.canon[i].ref, nil
	}
	return out, fmt.Errorf("block at or above height %d: %w", from, ErrNotFound)
}

// BlocksAt returns all stored blocks at a height, on all branches (above the flat head, where
// several may exist), ascending by hash.
func (s *Store) BlocksAt(height primitives.Height) ([]BlockRef, error) {
	if s.below(height) {
		hash, err := s.parent.HashAt(height)
		if isAbsent(err) {
			return nil, nil
		}
		return []BlockRef{{height, hash}}, err
	}
	var out []BlockRef
	for _, p := range s.tree.at(height) {
		out = append(out, p.ref)
	}
	lo := appendHeight(nil, height)
	err := entries.Scan(s.db, lo, PrefixEnd(lo), func(_ []byte, e entry) bool {
		out = append(out, e.head.Ref)
		return true
	})
	slices.SortFunc(out, func(a, b BlockRef) int { return a.Hash.Compare(b.Hash) })
	return slices.Compact(out), err // the flat head may have advanced between the two reads
}

// OrdinalAt returns the canonical block with an ordinal.
func (s *Store) OrdinalAt(ordinal uint64) (BlockRef, error) {
	v := s.view.Load()
	i, ok := slices.BinarySearchFunc(v.canon, ordinal,
		func(p *pendingBlock, n uint64) int { return cmp.Compare(p.entry.head.Ordinal, n) })
	if ok {
		return v.canon[i].ref, nil
	}
	if s.parent != nil {
		ref, err := s.parent.OrdinalAt(ordinal)
		if err == nil && !s.below(ref.Height) {
			err = fmt.Errorf("ordinal %d: %w", ordinal, ErrNotFound)
		}
		return ref, err
	}
	height, err := blockOrdinal.Get(s.db, ordinal)
	if err != nil {
		return BlockRef{}, err
	}
	hash, err := s.HashAt(primitives.Height(height))
	return BlockRef{primitives.Height(height), hash}, err
}

// IsCanonical returns whether a block is on the head's branch.
func (s *Store) IsCanonical(ref BlockRef) (bool, error) {
	hash, err := s.HashAt(ref.Height)
	if isAbsent(err) {
		return false, nil
	}
	return err == nil && hash == ref.Hash, err
}

// Place is the location of an outcome, transaction, receipt or chunk of a shard in a block.
type Place struct {
	Block     *Record
	Shard     primitives.ShardID
	Index     int  // index in the list of transactions or receipts that contains the item
	Local     bool // true: Index is the index of a receipt in Shard.Local
	Canonical bool
	list      kind // list of the record that contains a receipt or origin
}

// Finder finds the places of transactions, receipts, outcomes and chunks by their IDs: in the blocks
// above the flat head through the tree, in other blocks through the columns of pointers. A Finder of
// an overlay also searches the parent. Safe for concurrent use.
type Finder struct{ s *Store }

// Find returns the Finder of the store.
func (s *Store) Find() Finder { return Finder{s} }

// Outcome returns the places of the outcomes of a transaction or receipt: places on the
// canonical chain first, then places on other branches above the flat head. The list is empty if
// there is no outcome.
func (f Finder) Outcome(id primitives.Hash) ([]Place, error) { return f.OutcomeFrom(id, 0) }

// OutcomeFrom is Outcome for an ID that no block below the height `from` can contain. For
// example, a receipt is executed in the block that makes it or in a block after that. If the height
// `from` is recent, the search for an absent ID does not go through the history of the whole chain.
func (f Finder) OutcomeFrom(id primitives.Hash, from primitives.Height) ([]Place, error) {
	own, err := f.outcomes(id, from)
	if err != nil {
		return nil, err
	}
	return f.withParentPlaces(own, true, func(p Finder) ([]Place, error) { return p.OutcomeFrom(id, from) })
}

// outcomes is OutcomeFrom without the places in an overlay's parent.
func (f Finder) outcomes(id primitives.Hash, from primitives.Height) ([]Place, error) {
	return f.find(id, f.outcomeRows(from), true, func(k kind) bool { return k == kindOutcomes },
		func(p *Place) (primitives.Hash, error) {
			o, err := p.Block.Outcome(p.Shard, p.Index)
			return o.ID, err
		})
}

// Receipt returns the places of a receipt: where the receipt was created or, if a chunk took it
// off the delayed queue, where it was processed. Receipt searches memory and the pointers in
// the index. If both lack the receipt, Receipt searches the block of the receipt's outcome and
// that block's parent.
func (f Finder) Receipt(id primitives.Hash) ([]Place, error) {
	return f.findReceipt(id, kindOutgoing, kindLocal, kindDelayed)
}

// Sent is Receipt limited to the place where the receipt was created. A receipt that went
// to the delayed queue or into a buffer has no such place: see Origin.
func (f Finder) Sent(id primitives.Hash) ([]Place, error) {
	return f.findReceipt(id, kindOutgoing, kindLocal)
}

// Origin returns the places of a receipt's stored Origin: the record that names the transaction
// or receipt that created the receipt. An Origin is stored with the block that created the receipt.
// Blocks on different branches may have created the same receipt, so there may be several places.
func (f Finder) Origin(id primitives.Hash) ([]Place, error) {
	out, err := f.receipts(id, f.inBuckets(receiptPlaces), kindOrigins)
	if err != nil {
		return nil, err
	}
	return f.withParentPlaces(out, true, func(p Finder) ([]Place, error) { return p.Origin(id) })
}

func (f Finder) findReceipt(id primitives.Hash, in ...kind) ([]Place, error) {
	out, err := f.receipts(id, f.inBuckets(receiptPlaces), in...)
	if err == nil {
		out, err = f.withParentPlaces(out, true, func(p Finder) ([]Place, error) { return p.findReceipt(id, in...) })
	}
	if err != nil || len(out) > 0 {
		return out, err
	}
	executed, err := f.Outcome(id)
	if err != nil {
		return nil, err
	}
	for _, p := range executed {
		around := []*Record{p.Block}
		if parent, err := f.s.Block(p.Block.Prev()); err == nil {
			around = append(around, parent)
		} else if !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrGone) {
			return nil, err
		}
		for _, rec := range around {
			if out, err = rec.findReceipt(out, id, p.Canonical, in); err != nil {
				return nil, err
			}
		}
		if len(out) > 0 {
			return out, nil
		}
	}
	return f.receiptBelow(id, len(executed) > 0, in)
}

// receipts is findReceipt that searches only memory and pointers.
func (f Finder) receipts(id primitives.Hash, rows pointerRows, in ...kind) ([]Place, error) {
	return f.find(id, rows, true, func(k kind) bool { return slices.Contains(in, k) },
		func(p *Place) (primitives.Hash, error) {
			switch {
			case !slices.Contains(in, p.list):
				return primitives.Hash{}, ErrNotFound
			case p.list == kindOrigins:
				o, err := p.Origin()
				return o.Receipt, err
			}
			r, err := p.Receipt()
			return r.ID, err
		})
}

// receiptPlace decodes the index of a pointer to a receipt or an origin: see eachReceipt.
func (p *Place) receiptPlace(index int) error {
	p.list, p.Index = kindOutgoing, index/2
	if index%2 == 0 {
		return nil
	}
	for _, k := range receiptKinds[1:] {
		p.list = k
		n, err := p.Block.count(p.list, p.Shard)
		if err != nil {
			return err
		}
		if p.list == kindOrigins || p.Index < n {
			break
		}
		p.Index -= n
	}
	p.Local = p.list == kindLocal
	return nil
}

// count returns the number of items of a section.
func (r *Record) count(k kind, shard primitives.ShardID) (n int, err error) {
	_, s, err := r.section(k, shard)
	if s != nil {
		for i := range s.Frames {
			n += s.Frames[i].Items
		}
	}
	return n, err
}

// ReceiptOf is Receipt for a receipt that was created by the execution whose outcome is at
// the place `by`. ReceiptOf first searches the block and shard of that outcome. It searches the
// history only if that block and shard lack the receipt, for example if the receipt is a local
// receipt that was delayed. If the shard made many receipts in that block, a scan for each receipt
// would be expensive, so ReceiptOf follows the receipt's pointer instead.
func (f Finder) ReceiptOf(id primitives.Hash, by *Place) ([]Place, error) {
	out, err := f.receipts(id, func(primitives.Hash, func(pointer) (bool, error)) error { return nil },
		kindOutgoing, kindLocal, kindDelayed)
	if err != nil || len(out) > 0 && out[0].Canonical {
		return out, err
	}
	sent, err := by.Block.size(kindOutgoing, by.Shard)
	if err != nil {
		return nil, err
	}
	local, err := by.Block.size(kindLocal, by.Shard)
	if err != nil {
		return nil, err
	}
	if sent+local > maxScannedReceipts {
		return f.Receipt(id)
	}
	if out, err = by.Block.findReceiptIn(nil, by.Shard, id, by.Canonical,
		[]kind{kindOutgoing, kindLocal}); err != nil || len(out) > 0 {
		return out, err
	}
	return f.Receipt(id)
}

// maxScannedReceipts is the largest number of bytes of receipts that are scanned to find one
// receipt: about two thousand transfers, a small part of the record cache.
const maxScannedReceipts = 16 * frameSize

// size returns the unpacked bytes of a section.
func (r *Record) size(k kind, shard primitives.ShardID) (n int, err error) {
	_, s, err := r.section(k, shard)
	if s != nil {
		for i := range s.Frames {
			n += s.Frames[i].Raw
		}
	}
	return n, err
}

// findReceipt appends the places of a receipt in block r.
func (r *Record) findReceipt(out []Place, id primitives.Hash, canonical bool, in []kind) (_ []Place, err error) {
	for _, shard := range r.Shards() {
		if out, err = r.findReceiptIn(out, shard, id, canonical, in); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (r *Record) findReceiptIn(out []Place, shard primitives.ShardID, id primitives.Hash, canonical bool,
	in []kind) ([]Place, error) {
	for _, k := range in {
		err := r.each(k, shard, func(i int, item []byte) error {
			receipt, err := parseInside(item)
			if receipt.ID == id {
				out = append(out, Place{Block: r, Shard: shard, Index: i, Local: k == kindLocal, Canonical: canonical, list: k})
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Transaction returns the chunks that hold a transaction. Index is the transaction's index in
// the chunk. If a canonical block has executed the transaction, Transaction does not search
// chunks that hold the transaction without an outcome.
func (f Finder) Transaction(hash primitives.Hash) ([]Place, error) {
	executed, err := f.outcomes(hash, 0)
	if err != nil {
		return nil, err
	}
	var out []Place
	for _, p := range executed {
		// A chunk's outcomes begin with the outcomes of its transactions, in the order of the
		// transactions, but transactions without an outcome leave no gap. So most transactions have
		// the index of their outcome.
		if t, outcome, err := p.Block.transaction(p.Shard, p.Index); err == nil && outcome == p.Index && t.Hash == hash {
			out = append(out, p)
			continue
		}
		err := p.Block.transactions(p.Shard, func(i int, t Transaction, outcome int) {
			if outcome == p.Index && t.Hash == hash {
				p.Index = i
				out = append(out, p)
				outcome = -1
			}
		})
		if err != nil {
			return nil, err
		}
	}
	if len(out) > 0 && out[0].Canonical {
		return out, nil
	}
	loose, err := f.find(hash, f.inBuckets(txPlaces), false, func(k kind) bool { return k == kindTransactions },
		func(p *Place) (primitives.Hash, error) {
			t, err := p.Block.Transaction(p.Shard, p.Index)
			return t.Hash, err
		})
	if err != nil {
		return nil, err
	}
	return f.withParentPlaces(append(out, loose...), false,
		func(p Finder) ([]Place, error) { return p.Transaction(hash) })
}

// Chunk returns the blocks that include a chunk as new.
func (f Finder) Chunk(hash primitives.Hash) ([]Place, error) {
	own, err := f.find(hash, f.chunkPointers, false, func(k kind) bool { return k == kindChunk },
		func(p *Place) (primitives.Hash, error) {
			got, _, err := p.Block.ChunkHash(p.Shard)
			return got, err
		})
	if err != nil {
		return nil, err
	}
	return f.withParentPlaces(own, false, func(p Finder) ([]Place, error) { return p.Chunk(hash) })
}

// Receipt reads the receipt at a place that Receipt or Sent returned.
func (p *Place) Receipt() (Receipt, error) {
	item, err := p.Block.item(p.list, p.Shard, p.Index)
	if err != nil {
		return Receipt{}, err
	}
	return parseInside(item)
}

// Origin reads the origin at a place that Origin returned.
func (p *Place) Origin() (Origin, error) {
	all, err := p.Block.Origins(p.Shard)
	if err == nil && p.Index >= len(all) {
		err = ErrNotFound
	}
	if err != nil {
		return Origin{}, p.Block.wrap(kindOrigins, p.Shard, err)
	}
	return all[p.Index], nil
}

// find looks up an ID in memory, then through a column of pointers. Pointers contain only a prefix
// of the ID, so find compares the ID with the whole ID at each place, which idAt reads. once is set
// if the ID has only one place on a branch: the search then ends at the first canonical place.
func (f Finder) find(id primitives.Hash, rows pointerRows, once bool, wanted func(kind) bool,
	idAt func(*Place) (primitives.Hash, error)) ([]Place, error) {
	hits, err := f.s.findPending(id)
	if err != nil {
		return nil, err
	}
	v := f.s.view.Load() // load the view after reading the tree, as type tree requires
	receipts := slices.ContainsFunc(receiptKinds[:], wanted)
	var main, forks []Place
	for _, h := range hits {
		p := h.block
		// Skip a hit in a block that the index covers, because findStored finds it. The index
		// covers the blocks below the flat head, and the flat head's block (v.base) except for its
		// receipts. A block on a fork at or below the flat head's height has lost: skip it too.
		if !wanted(h.kind) || p.ref.Height <= v.flatHead.Height && (p != v.base || !receipts) {
			continue
		}
		place := Place{Block: &Record{s: f.s, e: p.entry}, Shard: h.shard, Index: h.index, Local: h.kind == kindLocal,
			Canonical: p == v.base || v.canonical(p), list: h.kind}
		if place.Canonical {
			main = append(main, place)
		} else {
			forks = append(forks, place)
		}
	}
	if once && len(main) > 0 {
		return append(main, forks...), nil
	}
	stored, err := f.findStored(v, id, rows, once, receipts, idAt)
	return append(append(main, stored...), forks...), err
}

// pointerRows yields the pointers in the index that have the prefix of an ID, until yield returns
// false or an error.
type pointerRows func(id primitives.Hash, yield func(pointer) (more bool, err error)) error

// inBuckets visits each history bucket, newest first.
func (f Finder) inBuckets(c *Column[placeKey, Nothing]) pointerRows {
	return func(id primitives.Hash, yield func(pointer) (bool, error)) (err error) {
		cur := f.s.db.iterate([]byte{c.id}, []byte{c.id + 1})
		defer func() { err = errors.Join(err, cur.done()) }()
		for _, bucket := range slices.Backward(*f.s.buckets.Load()) {
			prefix := append(appendHeight([]byte{c.id}, bucket), id[:shortLen]...)
			for ok := cur.seek(prefix); ok && bytes.HasPrefix(cur.key(), prefix); ok = cur.next() {
				p, sound := parsePointer(cur.key()[1+8:])
				if !sound {
					return damaged("%s: malformed key %x", c.name, cur.key())
				}
				if more, err := yield(p); err != nil || !more {
					return err
				}
			}
		}
		return nil
	}
}

func (f Finder) chunkPointers(id primitives.Hash, yield func(pointer) (bool, error)) error {
	var failed error
	err := chunkPlaces.Scan(f.s.db, id[:shortLen], PrefixEnd(id[:shortLen]), func(key []byte, _ Nothing) (more bool) {
		p, ok := parsePointer(key)
		if !ok {
			failed = damaged("%s: malformed key %x", chunkPlaces.name, key)
			return false
		}
		more, failed = yield(p)
		return more && failed == nil
	})
	return errors.Join(failed, err)
}

// findStored follows the pointers that have the prefix of an ID. findStored skips blocks that are
// pending in the view, which find has covered.
func (f Finder) findStored(v *view, id primitives.Hash, rows pointerRows, once, receipts bool,
	idAt func(*Place) (primitives.Hash, error)) ([]Place, error) {
	var out []Place
	err := rows(id, func(p pointer) (more bool, err error) {
		if p.height > v.flatHead.Height || p.height < v.tail || receipts && p.height == v.flatHead.Height {
			return true, nil // the block is in memory or was deleted by garbage collection
		}
		rec, err := f.s.BlockAt(p.height)
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrGone) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		place := Place{Block: rec, Shard: p.shard, Index: p.index, Canonical: true}
		if receipts {
			if err := place.receiptPlace(p.index); err != nil {
				return false, err
			}
		}
		got, err := idAt(&place)
		switch {
		case err == nil && got == id:
			out = append(out, place)
		case err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrGone):
			return false, err
		}
		return !once || len(out) == 0, nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Pending returns the blocks above the flat head, of all branches, parents first. A restart applies
// them to the trie.
func (s *Store) Pending() []*Record {
	var out []*Record
	for _, p := range s.tree.sorted() {
		out = append(out, &Record{s: s, e: p.entry})
	}
	return out
}
