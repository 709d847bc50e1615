package storage

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// Record is a stored block. The methods of a Record read from the log when called. Callers must not
// change returned bytes, because several items share memory. Safe for concurrent use.
type Record struct {
	s    *Store
	e    *entry
	data []byte // all frames of the record; nil: frames are read from the log when needed
}

// whole reads a record at once, for a caller that needs the whole record.
func (s *Store) whole(e *entry) (*Record, error) {
	at := e.at
	at.Offset += int64(recordPrefix + e.headLen)
	if int64(recordPrefix+e.headLen) == e.size() {
		return &Record{s: s, e: e, data: []byte{}}, nil
	}
	data, err := s.log.read(at, int(e.size())-recordPrefix-e.headLen)
	if err != nil {
		return nil, fmt.Errorf("block %v: %w", e.head.Ref, err)
	}
	return &Record{s: s, e: e, data: data}, nil
}

// Ref returns the block's height and hash.
func (r *Record) Ref() BlockRef { return r.e.head.Ref }

// Prev returns the parent's height and hash. Prev returns the zero value for the genesis.
func (r *Record) Prev() BlockRef { return r.e.head.Prev }

// Timestamp returns the block's time in nanoseconds since 1970.
func (r *Record) Timestamp() uint64 { return r.e.head.Timestamp }

// Ordinal returns the block's ordinal on its branch.
func (r *Record) Ordinal() uint64 { return r.e.head.Ordinal }

// Epoch returns the block's epoch.
func (r *Record) Epoch() primitives.EpochID { return r.e.head.Epoch }

// Final returns the last final block as of this block.
func (r *Record) Final() BlockRef { return r.e.head.Final }

// Shards returns the shards in the block's order.
func (r *Record) Shards() []primitives.ShardID {
	out := make([]primitives.ShardID, len(r.e.head.Shards))
	for i := range out {
		out[i] = r.e.head.Shards[i].ID
	}
	return out
}

// ChunkHash returns the hash of the new chunk of a shard. ok is false if the shard has no new chunk
// in this block. Errors: errors of reading.
func (r *Record) ChunkHash(shard primitives.ShardID) (hash primitives.Hash, ok bool, err error) {
	for i := range r.e.head.Shards {
		if sh := &r.e.head.Shards[i]; sh.ID == shard && sh.HasChunk {
			return sh.Chunk, true, nil
		}
	}
	catchup, err := r.s.catchupEntries(r.e.head.Ref)
	if err != nil {
		return hash, false, err
	}
	for _, e := range catchup {
		if sh := &e.head.Shards[0]; sh.ID == shard && sh.HasChunk {
			return sh.Chunk, true, nil
		}
	}
	return hash, false, nil
}

// Header returns the block's header. If no header was stored, Header returns ErrNotFound, as do
// Body, Info, MerkleTree, Chunk, Extra, Incoming and Other for their part.
func (r *Record) Header() ([]byte, error) { return r.one(kindHeader, 0) }

// Body returns the block without its header.
func (r *Record) Body() ([]byte, error) { return r.one(kindBody, 0) }

// Info returns the BlockInfo.
func (r *Record) Info() ([]byte, error) { return r.one(kindInfo, 0) }

// MerkleTree returns the PartialMerkleTree of the blocks before this one.
func (r *Record) MerkleTree() ([]byte, error) { return r.one(kindMerkleTree, 0) }

// Patch returns Block.Patch, or nil without an error if the block has none.
func (r *Record) Patch() ([]byte, error) {
	if _, s, err := r.section(kindPatch, 0); s == nil {
		return nil, err
	}
	return r.one(kindPatch, 0)
}

// Chunk returns Chunk.Header of the new chunk of a shard.
func (r *Record) Chunk(shard primitives.ShardID) ([]byte, error) { return r.one(kindChunk, shard) }

// Extra returns the ChunkExtra.
func (r *Record) Extra(shard primitives.ShardID) ([]byte, error) { return r.one(kindExtra, shard) }

// Incoming returns Shard.Incoming.
func (r *Record) Incoming(shard primitives.ShardID) ([]byte, error) {
	return r.one(kindIncoming, shard)
}

// Other returns Shard.Other.
func (r *Record) Other(shard primitives.ShardID) ([]byte, error) { return r.one(kindOther, shard) }

// Transactions returns the transactions of the new chunk of a shard. It returns nil if the chunk
// has no transactions.
func (r *Record) Transactions(shard primitives.ShardID) ([]Transaction, error) {
	var out []Transaction
	err := r.transactions(shard, func(_ int, t Transaction, _ int) { out = append(out, t) })
	return out, err
}

func (r *Record) transactions(shard primitives.ShardID, f func(i int, t Transaction, outcome int)) error {
	ids, err := r.rawIDs(shard)
	if err != nil {
		return err
	}
	return r.each(kindTransactions, shard, func(i int, item []byte) error {
		t, outcome, err := parseNamed(item, ids)
		if err == nil {
			f(i, t, outcome)
		}
		return err
	})
}

// Transaction returns transaction i of a new chunk.
func (r *Record) Transaction(shard primitives.ShardID, i int) (Transaction, error) {
	t, _, err := r.transaction(shard, i)
	return t, err
}

// transaction does the same as Transaction. It also returns the index of the transaction's outcome,
// or -1 if there is no outcome.
func (r *Record) transaction(shard primitives.ShardID, i int) (t Transaction, outcome int, err error) {
	ids, err := r.rawIDs(shard)
	if err != nil {
		return t, -1, err
	}
	item, err := r.item(kindTransactions, shard, i)
	if err != nil {
		return t, -1, err
	}
	return parseNamed(item, ids)
}

// ChunkReceipts returns the prev_outgoing_receipts of a new chunk, from this record or from the
// records of the blocks that made these receipts.
func (r *Record) ChunkReceipts(shard primitives.ShardID) ([][]byte, error) {
	var out [][]byte
	err := r.each(kindReceipts, shard, func(_ int, item []byte) error { out = append(out, item); return nil })
	if err != nil {
		return nil, err
	}
	for i := range r.e.head.Shards {
		sh := &r.e.head.Shards[i]
		if sh.ID != shard {
			continue
		}
		for _, ref := range sh.ReceiptsOf {
			from, err := r.s.Block(ref)
			if err != nil {
				return nil, fmt.Errorf("receipts of the chunk of shard %d in %v: %w", shard, r.Ref(), err)
			}
			list, err := from.Outgoing(shard)
			if err != nil {
				return nil, err
			}
			for _, receipt := range list {
				out = append(out, receipt.Value)
			}
		}
	}
	return out, nil
}

// Outgoing returns the receipts for other chunks that applying the chunk made.
func (r *Record) Outgoing(shard primitives.ShardID) ([]Receipt, error) {
	return r.receipts(kindOutgoing, shard)
}

// Local returns the receipts that were made and executed within the chunk.
func (r *Record) Local(shard primitives.ShardID) ([]Receipt, error) {
	return r.receipts(kindLocal, shard)
}

// Delayed returns the receipts that the chunk took off the queue and processed. Records that old
// versions of the program wrote have no delayed receipts.
func (r *Record) Delayed(shard primitives.ShardID) ([]Receipt, error) {
	return r.receipts(kindDelayed, shard)
}

// Origins returns Shard.Origins. Records that old versions of the program wrote have no origins.
func (r *Record) Origins(shard primitives.ShardID) ([]Origin, error) {
	raw, err := r.one(kindOrigins, shard)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, nil
	case err == nil && len(raw)%originLen != 0:
		err = damaged("the list of receipt origins has %d bytes, not a multiple of its entries", len(raw))
	}
	if err != nil {
		return nil, err
	}
	out := make([]Origin, len(raw)/originLen)
	for i := range out {
		out[i] = Origin{primitives.Hash(raw[originLen*i:][:32]), primitives.Hash(raw[originLen*i+32:][:32])}
	}
	return out, nil
}

func (r *Record) receipts(k kind, shard primitives.ShardID) ([]Receipt, error) {
	var out []Receipt
	err := r.each(k, shard, func(_ int, item []byte) error {
		receipt, err := parseInside(item)
		out = append(out, receipt)
		return err
	})
	return out, err
}

// CountOutcomes returns how many outcomes a chunk has, without reading them.
func (r *Record) CountOutcomes(shard primitives.ShardID) (int, error) {
	return r.count(kindOutcomes, shard)
}

// CountTransactions returns how many transactions a new chunk has, without reading them.
func (r *Record) CountTransactions(shard primitives.ShardID) (int, error) {
	return r.count(kindTransactions, shard)
}

// OutcomeIDs returns the IDs of a chunk's outcomes in execution order.
func (r *Record) OutcomeIDs(shard primitives.ShardID) ([]primitives.Hash, error) {
	raw, err := r.rawIDs(shard)
	if err != nil {
		return nil, err
	}
	out := make([]primitives.Hash, len(raw)/32)
	for i := range out {
		out[i] = primitives.Hash(raw[32*i : 32*i+32])
	}
	return out, nil
}

func (r *Record) rawIDs(shard primitives.ShardID) ([]byte, error) {
	raw, err := r.one(kindOutcomeIDs, shard)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, nil
	case err == nil && len(raw)%32 != 0:
		err = damaged("the list of outcome ids has %d bytes, not a multiple of 32", len(raw))
	}
	return raw, err
}

// Outcomes returns a chunk's outcomes in execution order.
func (r *Record) Outcomes(shard primitives.ShardID) ([]Outcome, error) {
	ids, err := r.OutcomeIDs(shard)
	if err != nil {
		return nil, err
	}
	out := make([]Outcome, 0, len(ids))
	err = r.each(kindOutcomes, shard, func(i int, item []byte) error {
		if i >= len(ids) {
			return damaged("there is no outcome %d of %d", i, len(ids))
		}
		out = append(out, Outcome{ids[i], item})
		return nil
	})
	return out, err
}

// OutcomeTree returns the Merkle tree over the outcomes of a shard. leaf computes the leaf of an
// outcome. The tree is built once and then cached for all callers.
func (r *Record) OutcomeTree(shard primitives.ShardID,
	leaf func(*Outcome) (primitives.Hash, error)) (primitives.MerkleTree, error) {
	in, s, err := r.section(kindOutcomes, shard)
	if err != nil {
		return primitives.MerkleTree{}, r.wrap(kindOutcomes, shard, err)
	}
	if s == nil {
		return nil, r.wrap(kindOutcomes, shard, ErrNotFound)
	}
	t := r.s.cache.tree(treeKey{in.e.at, shard})
	t.once.Do(func() {
		t.err = errNotRead // the error stays set if leaf panics
		list, err := r.Outcomes(shard)
		leaves := make([]primitives.Hash, len(list))
		for i := 0; i < len(list) && err == nil; i++ {
			leaves[i], err = leaf(&list[i])
		}
		t.of, t.err = primitives.NewMerkleTree(leaves), err
	})
	if t.err != nil {
		r.s.cache.dropTree(treeKey{in.e.at, shard}, t)
	}
	return t.of, t.err
}

// Outcome returns outcome i of a chunk.
func (r *Record) Outcome(shard primitives.ShardID, i int) (Outcome, error) {
	ids, err := r.rawIDs(shard)
	if err != nil {
		return Outcome{}, err
	}
	item, err := r.item(kindOutcomes, shard, i)
	if err != nil {
		return Outcome{}, err
	}
	if 32*i+32 > len(ids) {
		return Outcome{}, damaged("there is no outcome %d of %d", i, len(ids)/32)
	}
	return Outcome{primitives.Hash(ids[32*i : 32*i+32]), item}, nil
}

// Changes returns what the block changed in a shard's state, ascending by key.
func (r *Record) Changes(shard primitives.ShardID) ([]Change, error) {
	ids, err := r.rawIDs(shard)
	if err != nil {
		return nil, err
	}
	var out []Change
	err = r.each(kindChanges, shard, func(_ int, item []byte) error {
		c, err := parseChange(item, ids)
		out = append(out, c)
		return err
	})
	return out, err
}

// change returns change i of a shard.
func (r *Record) change(shard primitives.ShardID, i int) (Change, error) {
	item, err := r.item(kindChanges, shard, i)
	if err != nil {
		return Change{}, err
	}
	ids, err := r.rawIDs(shard)
	if err != nil {
		return Change{}, err
	}
	return parseChange(item, ids)
}

// section finds a section and the record that contains it: the block's own record, or the record of
// the shard's catchup. section returns nil if both records lack the section. Errors are those of
// reading.
func (r *Record) section(k kind, shard primitives.ShardID) (*Record, *section, error) {
	for i := range r.e.head.Sections {
		if s := &r.e.head.Sections[i]; s.Kind == k && s.Shard == shard {
			return r, s, nil
		}
	}
	catchup, err := r.s.catchupEntries(r.e.head.Ref)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range catchup {
		for i := range e.head.Sections {
			if s := &e.head.Sections[i]; s.Kind == k && s.Shard == shard {
				return &Record{s: r.s, e: e}, s, nil
			}
		}
	}
	return nil, nil, nil
}

// frame returns the items of a frame, from memory, the cache or the log.
func (r *Record) frame(s *section, n int) ([][]byte, error) {
	offset := s.offset
	for _, f := range s.Frames[:n] {
		offset += f.Stored
	}
	f := s.Frames[n]
	if r.data != nil {
		return unpackFrame(f, r.data[offset:offset+f.Stored])
	}
	at := r.e.at
	at.Offset += int64(recordPrefix + r.e.headLen + offset)
	return r.s.cache.frame(at, f.Raw <= maxCached, func() ([][]byte, error) {
		stored, err := r.s.log.read(at, f.Stored)
		if err != nil {
			return nil, err
		}
		return unpackFrame(f, stored)
	})
}

func (r *Record) wrap(k kind, shard primitives.ShardID, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%v of shard %d in block %v: %w", k, shard, r.Ref(), err)
}

// each calls f for each item of a section.
func (r *Record) each(k kind, shard primitives.ShardID, f func(i int, item []byte) error) error {
	in, s, err := r.section(k, shard)
	if err != nil {
		return r.wrap(k, shard, err)
	}
	if s == nil {
		return nil
	}
	r = in
	i := 0
	for n := range s.Frames {
		items, err := r.frame(s, n)
		if err != nil {
			return r.wrap(k, shard, err)
		}
		for _, item := range items {
			if err := f(i, item); err != nil {
				return r.wrap(k, shard, err)
			}
			i++
		}
	}
	return nil
}

// item returns item i of a section.
func (r *Record) item(k kind, shard primitives.ShardID, i int) ([]byte, error) {
	in, s, err := r.section(k, shard)
	if err != nil {
		return nil, r.wrap(k, shard, err)
	}
	if s == nil || i < 0 {
		return nil, r.wrap(k, shard, ErrNotFound)
	}
	r = in
	for n, f := range s.Frames {
		if i >= f.Items {
			i -= f.Items
			continue
		}
		items, err := r.frame(s, n)
		if err != nil {
			return nil, r.wrap(k, shard, err)
		}
		return items[i], nil
	}
	return nil, r.wrap(k, shard, ErrNotFound)
}

func (r *Record) one(k kind, shard primitives.ShardID) ([]byte, error) { return r.item(k, shard, 0) }
