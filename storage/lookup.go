package storage

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// entry returns where a block's record is.
func (s *Store) entry(ref BlockRef) (*entry, error) { return s.entryFrom(s.db, ref) }

func (s *Store) entryFrom(r Reader, ref BlockRef) (*entry, error) {
	if p := s.view.Load().pending[ref.Hash]; p != nil && p.ref == ref {
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

// Block returns a stored block by its name. Below the tail only genesis and what chunks above it still refer to is left.
func (s *Store) Block(ref BlockRef) (*Record, error) {
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
	if p := s.view.Load().pending[hash]; p != nil {
		return &Record{s: s, e: p.entry}, nil
	}
	prefix := append([]byte{}, hash[:shortLen]...)
	var out *Record
	var ferr error
	err := hashHeights.Scan(s.db, prefix, PrefixEnd(prefix), func(key []byte, _ Nothing) bool {
		if len(key) != shortLen+8 {
			ferr = damaged("HashHeight: key %x", key)
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

// HashAt returns the canonical block of a height: ErrNotFound if the height was skipped or is to come, ErrGone below the
// tail.
func (s *Store) HashAt(height primitives.Height) (primitives.Hash, error) {
	hash, err := blockHeight.Get(s.db, height)
	if errors.Is(err, ErrNotFound) && height < s.view.Load().tail {
		err = fmt.Errorf("height %d: %w", height, ErrGone)
	}
	return hash, err
}

// CollectedAt returns the hash of the canonical block that was collected at a height. ErrNotFound: none was.
func (s *Store) CollectedAt(height primitives.Height) (primitives.Hash, error) {
	return collected.Get(s.db, height)
}

// BlockAt returns the canonical block of a height.
func (s *Store) BlockAt(height primitives.Height) (*Record, error) {
	hash, err := s.HashAt(height)
	if err != nil {
		return nil, err
	}
	return s.Block(BlockRef{height, hash})
}

// NextBlock returns the lowest canonical block at or above a height.
func (s *Store) NextBlock(from primitives.Height) (BlockRef, error) {
	var out BlockRef
	err := s.canonicalRange(from, 1<<48, func(ref BlockRef) error { out = ref; return errStop })
	if err != nil && !errors.Is(err, errStop) {
		return out, err
	}
	if out.IsZero() {
		return out, fmt.Errorf("block at or above height %d: %w", from, ErrNotFound)
	}
	return out, nil
}

var errStop = errors.New("stop")

// BlocksAt returns all stored blocks of a height, of every branch, ascending by hash.
func (s *Store) BlocksAt(height primitives.Height) ([]BlockRef, error) {
	var out []BlockRef
	lo := appendHeight(nil, height)
	err := entries.Scan(s.db, lo, PrefixEnd(lo), func(_ []byte, e entry) bool {
		out = append(out, e.head.Ref)
		return true
	})
	return out, err
}

// OrdinalAt returns the canonical block with an ordinal.
func (s *Store) OrdinalAt(ordinal uint64) (BlockRef, error) {
	height, err := blockOrdinal.Get(s.db, ordinal)
	if err != nil {
		return BlockRef{}, err
	}
	hash, err := s.HashAt(primitives.Height(height))
	return BlockRef{primitives.Height(height), hash}, err
}

// IsCanonical tells whether a block is on the head's branch.
func (s *Store) IsCanonical(ref BlockRef) (bool, error) {
	hash, err := blockHeight.Get(s.db, ref.Height)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil && hash == ref.Hash, err
}

// Place is where something stands: an outcome, transaction, receipt or chunk of a shard in a block.
type Place struct {
	Block     *Record
	Shard     primitives.ShardID
	Index     int  // in its list
	Local     bool // of receipts: in Local, not Outgoing
	Canonical bool
}

// FindOutcome returns where the outcomes of a transaction or receipt are: canonical first, then on branches that are not
// decided yet. None: an empty list.
func (s *Store) FindOutcome(id primitives.Hash) ([]Place, error) {
	return s.find(id, places, func(k kind) bool { return k == kindOutcomes }, func(p *Place) (primitives.Hash, error) {
		o, err := p.Block.Outcome(p.Shard, p.Index)
		return o.ID, err
	})
}

// FindReceipt returns where a receipt was created: from memory or by its pointer, or else in the block of its outcome or
// that one's parent.
func (s *Store) FindReceipt(id primitives.Hash) ([]Place, error) {
	out, err := s.find(id, receiptPlaces, func(k kind) bool { return k == kindOutgoing || k == kindLocal },
		func(p *Place) (primitives.Hash, error) {
			r, err := p.Receipt()
			return r.ID, err
		})
	if v := s.view.Load(); err == nil && v.base != nil {
		for _, f := range v.base.find(id) {
			if f.kind == kindOutgoing || f.kind == kindLocal {
				out = append(out, Place{Block: &Record{s: s, e: v.base.entry}, Shard: f.shard, Index: f.index,
					Local: f.kind == kindLocal, Canonical: true})
			}
		}
		out = unique(out)
	}
	if err != nil || len(out) > 0 {
		return out, err
	}
	executed, err := s.FindOutcome(id)
	if err != nil {
		return nil, err
	}
	for _, p := range executed {
		around := []*Record{p.Block}
		if parent, err := s.Block(p.Block.Prev()); err == nil {
			around = append(around, parent)
		} else if !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrGone) {
			return nil, err
		}
		for _, rec := range around {
			if out, err = rec.findReceipt(out, id, p.Canonical); err != nil {
				return nil, err
			}
		}
		if len(out) > 0 {
			break
		}
	}
	return out, nil
}

// unique drops later places in a block and shard that has one: a fold during the look-up shows a block twice.
func unique(places []Place) []Place {
	var out []Place
	for _, p := range places {
		if !slices.ContainsFunc(out, func(q Place) bool { return q.Block.Ref() == p.Block.Ref() && q.Shard == p.Shard }) {
			out = append(out, p)
		}
	}
	return out
}

// findReceipt appends the places of a receipt in the block.
func (r *Record) findReceipt(out []Place, id primitives.Hash, canonical bool) ([]Place, error) {
	for _, shard := range r.Shards() {
		for _, k := range []kind{kindOutgoing, kindLocal} {
			err := r.each(k, shard, func(i int, item []byte) error {
				receipt, err := parseInside(item)
				if receipt.ID == id {
					out = append(out, Place{Block: r, Shard: shard, Index: i, Local: k == kindLocal, Canonical: canonical})
				}
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// FindTransaction returns the chunks that hold a transaction; Index is its number there.
func (s *Store) FindTransaction(hash primitives.Hash) ([]Place, error) {
	executed, err := s.FindOutcome(hash)
	if err != nil {
		return nil, err
	}
	var out []Place
	for _, p := range executed {
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
	loose, err := s.find(hash, txPlaces, func(k kind) bool { return k == kindTransactions },
		func(p *Place) (primitives.Hash, error) {
			t, err := p.Block.Transaction(p.Shard, p.Index)
			return t.Hash, err
		})
	return append(out, loose...), err
}

// FindChunk returns the blocks that include a chunk as new.
func (s *Store) FindChunk(hash primitives.Hash) ([]Place, error) {
	return s.find(hash, chunkPlaces, func(k kind) bool { return k == kindChunk }, func(p *Place) (primitives.Hash, error) {
		got, _ := p.Block.ChunkHash(p.Shard)
		return got, nil
	})
}

// Receipt reads the receipt of a place that FindReceipt returned.
func (p *Place) Receipt() (Receipt, error) {
	k := kindOutgoing
	if p.Local {
		k = kindLocal
	}
	item, err := p.Block.item(k, p.Shard, p.Index)
	if err != nil {
		return Receipt{}, err
	}
	return parseInside(item)
}

// find looks an id up, first in memory, then in a column of pointers, whose hits are checked by idAt.
func (s *Store) find(id primitives.Hash, c *Column[pointer, Nothing], wanted func(kind) bool,
	idAt func(*Place) (primitives.Hash, error)) ([]Place, error) {
	v := s.view.Load()
	var main, forks []Place
	var hits []*pendingBlock // most ids are in none or one
	for _, p := range v.pending {
		if len(p.find(id)) > 0 {
			hits = append(hits, p)
		}
	}
	slices.SortFunc(hits, byRef)
	for _, p := range hits {
		for _, f := range p.find(id) {
			if !wanted(f.kind) {
				continue
			}
			place := Place{Block: &Record{s: s, e: p.entry}, Shard: f.shard, Index: f.index, Local: f.kind == kindLocal,
				Canonical: v.canonical(p)}
			if place.Canonical {
				main = append(main, place)
			} else {
				forks = append(forks, place)
			}
		}
	}
	stored, err := s.findStored(v, id, c, idAt)
	return append(append(main, stored...), forks...), err
}

// findStored follows the pointers whose prefix is id's. Pointers to blocks that are pending in the view were counted.
func (s *Store) findStored(v *view, id primitives.Hash, c *Column[pointer, Nothing],
	idAt func(*Place) (primitives.Hash, error)) ([]Place, error) {
	var at []pointer
	var ferr error
	prefix := append([]byte{}, id[:shortLen]...)
	err := c.Scan(s.db, prefix, PrefixEnd(prefix), func(key []byte, _ Nothing) bool {
		p, ok := parsePointer(key)
		if !ok {
			ferr = damaged("%s: key %x", c.name, key)
			return false
		}
		at = append(at, p)
		return true
	})
	if err = errors.Join(err, ferr); err != nil {
		return nil, err
	}
	var out []Place
	for _, p := range at {
		if p.height > v.folded.Height || p.height < v.tail {
			continue // pending; or being collected just now
		}
		rec, err := s.BlockAt(p.height)
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		place := Place{Block: rec, Shard: p.shard, Index: p.index, Canonical: true}
		if c == receiptPlaces {
			place.Index, place.Local = p.index/2, p.index%2 == 1
		}
		got, err := idAt(&place)
		switch {
		case err == nil && got == id:
			out = append(out, place)
		case err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrGone):
			return nil, err
		}
	}
	return out, nil
}

// Pending returns the blocks above the folded one, of all branches, parents first: what a restart applies to the trie.
func (s *Store) Pending() []*Record {
	var out []*Record
	for _, p := range s.view.Load().sorted() {
		out = append(out, &Record{s: s, e: p.entry})
	}
	return out
}

// sorted returns the pending blocks by height, then hash.
func (v *view) sorted() []*pendingBlock { return slices.SortedFunc(maps.Values(v.pending), byRef) }

func byRef(a, b *pendingBlock) int {
	return cmp.Or(cmp.Compare(a.ref.Height, b.ref.Height), a.ref.Hash.Compare(b.ref.Hash))
}

// canonical tells whether a pending block is the head or one of its ancestors.
func (v *view) canonical(p *pendingBlock) bool {
	at := v.pending[v.head.Hash]
	for at != nil && at.ref.Height > p.ref.Height {
		at = v.pending[at.prev.Hash]
	}
	return at == p
}
