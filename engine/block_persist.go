package engine

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/storage"
)

// epochStore implements the store of the epoch manager. It looks for a row first among the rows of
// blocks in the commit pipeline, then on disk.
type epochStore struct{ e *Engine }

func (s epochStore) BlockInfo(hash primitives.Hash) (b *epoch.BlockInfo, err error) {
	s.e.pipeline.epochChanges(func(c *epoch.Changes) bool {
		if c.BlockInfo.Hash == hash {
			b = c.BlockInfo
		}
		return b != nil
	})
	if b != nil {
		return b, nil
	}
	rec, err := s.e.store.BlockByHash(hash)
	if errors.Is(err, storage.ErrNotFound) {
		return s.bootstrapInfo(hash)
	}
	if err != nil {
		return nil, absent(err)
	}
	raw, err := rec.Info()
	if err != nil {
		return nil, absent(err)
	}
	var stored epoch.StoredBlockInfo
	if err := borsh.Unmarshal(raw, &stored); err != nil {
		return nil, err
	}
	return stored.BlockInfo, nil
}

// bootstrapInfo returns the block info with the given hash from the epoch sync proof with which the
// data folder was started. It returns nil if the data folder was not started with a proof, or if
// the block info in the proof has a different hash.
func (s epochStore) bootstrapInfo(hash primitives.Hash) (*epoch.BlockInfo, error) {
	raw, err := storage.Misc.Get(s.e.store.Reader(), bootstrapFirst)
	if err != nil {
		return nil, absent(err)
	}
	b := new(epoch.BlockInfo)
	if err := borsh.Unmarshal(raw, b); err != nil || b.Hash != hash {
		return nil, err
	}
	return b, nil
}

func (s epochStore) EpochInfo(id primitives.EpochID) (info *epoch.EpochInfo, err error) {
	s.e.pipeline.epochChanges(func(c *epoch.Changes) bool {
		if c.BlockInfo.Hash == id {
			info = c.NextNextEpoch
		}
		return info != nil
	})
	if info != nil {
		return info, nil
	}
	raw, err := storage.EpochInfo.Get(s.e.store.Reader(), id)
	if err != nil {
		return nil, absent(err)
	}
	info = new(epoch.EpochInfo)
	return info, borsh.Unmarshal(raw, info)
}

func (s epochStore) EpochStart(id primitives.EpochID) (at primitives.Height, found bool, err error) {
	s.e.pipeline.epochChanges(func(c *epoch.Changes) bool {
		if c.EpochStart && c.BlockInfo.EpochID == id {
			at, found = c.BlockInfo.Height, true
		}
		return found
	})
	if found {
		return at, true, nil
	}
	h, err := storage.EpochStart.Get(s.e.store.Reader(), id)
	if err != nil {
		return 0, false, absent(err)
	}
	return primitives.Height(h), true, nil
}

func (s epochStore) EpochSummary(id primitives.EpochID) (sum *epoch.EpochSummary, err error) {
	s.e.pipeline.epochChanges(func(c *epoch.Changes) bool {
		if c.BlockInfo.EpochID == id {
			sum = c.Summary
		}
		return sum != nil
	})
	if sum != nil {
		return sum, nil
	}
	raw, err := storage.EpochSummary.Get(s.e.store.Reader(), id)
	if err != nil {
		return nil, absent(err)
	}
	sum = new(epoch.EpochSummary)
	return sum, borsh.Unmarshal(raw, sum)
}

// epochAggregator is the name of the row with the newest stored epoch.Aggregator. There is one such
// row, which later blocks replace. A folder without the row is read as before: the statistics are
// counted from the start of the epoch.
const epochAggregator = "epoch aggregator"

// Aggregator reads only the disk, because statistics of a lower block are as good.
func (s epochStore) Aggregator() (*epoch.Aggregator, error) {
	raw, err := storage.Misc.Get(s.e.store.Reader(), epochAggregator)
	if err != nil {
		return nil, absent(err)
	}
	a := new(epoch.Aggregator)
	return a, borsh.Unmarshal(raw, a)
}

// absent returns nil for an error that means that a row does not exist or was garbage collected.
func absent(err error) error {
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrGone) {
		return nil
	}
	return err
}

// epochPuts adds the epoch manager's changes to a batch.
func epochPuts(b *storage.Batch, c *epoch.Changes) {
	if c.BlockInfo == nil {
		return
	}
	if c.EpochStart {
		h := storage.Uint64(c.BlockInfo.Height)
		storage.EpochStart.Put(b, c.BlockInfo.EpochID, &h)
	}
	if c.NextNextEpoch != nil {
		raw := storage.Raw(c.NextNextEpoch.AppendBorsh(nil))
		storage.EpochInfo.Put(b, c.BlockInfo.Hash, &raw)
	}
	if c.Summary != nil {
		raw := storage.Raw(c.Summary.AppendBorsh(nil))
		storage.EpochSummary.Put(b, c.BlockInfo.EpochID, &raw)
	}
	if c.Aggregator != nil {
		raw := storage.Raw(c.Aggregator.AppendBorsh(nil))
		storage.Misc.Put(b, epochAggregator, &raw)
	}
}

func ref(e *BlockNode) storage.BlockRef { return storage.BlockRef{Height: e.Height(), Hash: e.Hash} }

// encodings allocates many small encodings with the same lifetime from shared slabs. The first slab
// is small, because most blocks need only a few encodings. Each further slab is twice as large. A
// large encoding gets its own allocation of the exact size.
type encodings struct{ slab []byte }

const (
	firstEncodings = 4 << 10
	mostEncodings  = 64 << 10
)

func (e *encodings) of(v borsh.Appender) (own []byte) {
	primitives.Encoded(v, func(b []byte) { own = e.copy(b) })
	return own
}

func (e *encodings) copy(b []byte) []byte {
	if len(b) > cap(e.slab)-len(e.slab) {
		size := min(max(firstEncodings, 2*cap(e.slab)), mostEncodings)
		if len(b) > size/4 {
			return bytes.Clone(b)
		}
		e.slab = make([]byte, 0, size)
	}
	from := len(e.slab)
	e.slab = append(e.slab, b...)
	return e.slab[from:len(e.slab):len(e.slab)]
}

// encodeBlock encodes the parts of a block that do not depend on its parent.
func encodeBlock(entry *BlockNode, c *epoch.Changes) *storage.Block {
	h := entry.Header()
	var whole encodings
	b := &storage.Block{
		Ref: ref(entry), Timestamp: h.Timestamp, Ordinal: entry.Tree.Size() + 1, Epoch: h.EpochID,
		Header: whole.of(h), Body: whole.of(&entry.Block.Body), Info: whole.of(epoch.StoredBlockInfo{BlockInfo: c.BlockInfo}),
		MerkleTree: whole.of(entry.Tree), Puts: new(storage.Batch), Shards: encodeShards(entry.Shards),
	}
	epochPuts(b.Puts, c)
	return b
}

// encodeShards encodes the parts of shards that do not depend on the block's parent.
func encodeShards(shards []ShardState) []storage.Shard {
	out := make([]storage.Shard, len(shards))
	for i := range shards {
		s := &shards[i]
		if !s.Held() {
			out[i] = encodeUntracked(s)
			continue
		}
		out[i] = storage.Shard{ID: s.ID, Extra: s.Extra.AppendBorsh(nil), Other: appendOrigin(nil, s)}
		if s.Chunk == nil {
			continue
		}
		c := &storage.Chunk{Hash: s.Chunk.Hash, Header: s.Chunk.Header.AppendBorsh(nil)}
		var buf encodings
		c.Transactions = make([]storage.Transaction, len(s.Chunk.Transactions))
		for i, tx := range s.Chunk.Transactions {
			c.Transactions[i] = storage.Transaction{Hash: tx.Hash(), Value: buf.of(tx)}
		}
		out[i].Chunk = c
	}
	return out
}

// appendOrigin appends the origin of a shard's outgoing receipts: the block's hash, and the id of
// the shard that created the receipts if that is not s. For a shard that was caught up after the
// block, appendOrigin also appends the receipt proofs, because the block's own record does not
// contain the proofs.
func appendOrigin(b []byte, s *ShardState) []byte {
	b = s.OutgoingAt.AppendBorsh(b)
	if len(s.brought) > 0 {
		return primitives.AppendReceiptProofs(borsh.AppendUint64(b, uint64(s.OutgoingOf)), s.brought)
	}
	if s.OutgoingOf != s.ID && !s.OutgoingAt.IsZero() {
		b = borsh.AppendUint64(b, uint64(s.OutgoingOf))
	}
	return b
}

// readOrigin decodes what appendOrigin appended.
func (s *ShardState) readOrigin(raw []byte) error {
	r := borsh.NewReader(raw)
	s.OutgoingAt, s.OutgoingOf = primitives.ReadHash(r), s.ID
	if r.Remaining() > 0 {
		s.OutgoingOf = primitives.ShardID(r.Uint64())
		if r.Remaining() > 0 {
			if s.brought = primitives.ReadReceiptProofs(r); r.Err() == nil && len(s.brought) == 0 {
				r.Failf("an empty list")
			}
		} else if r.Err() == nil && (s.OutgoingOf == s.ID || s.OutgoingAt.IsZero()) {
			r.Failf("receipts of shard %d in block %v", s.OutgoingOf, s.OutgoingAt)
		}
	}
	return r.Close()
}

// storeGenesis writes the genesis block and its states to the store.
func (e *Engine) storeGenesis(entry *BlockNode, c *epoch.Changes, first *GenesisState, rows []frontierRows) error {
	b := encodeBlock(entry, c)
	b.Head = true
	frontier := func(yield func(storage.FrontierChange) bool) {
		for i := range rows {
			if entry.Shards[i].Held() && !rows[i].each(entry.Shards[i].ID, yield) {
				return
			}
		}
	}
	return e.store.Import(b, frontier, func(put func(storage.Pair) error) (err error) {
		for i := range entry.Shards {
			if !entry.Shards[i].Held() {
				continue
			}
			for k, v := range first.Pairs(i) {
				if err = put(storage.Pair{Shard: entry.Shards[i].ID, Key: k, Value: v}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// storeBlocks persists imported blocks with one sync. n is the number of blocks that are then on
// disk. err is the error of the first block that is not on disk.
func (e *Engine) storeBlocks(list []*inFlightBlock) (n int, err error) {
	blocks := make([]*storage.Block, 0, len(list))
	var bad error
	for _, u := range list {
		b, err := e.encodeImported(u)
		if err != nil {
			bad = err
			break
		}
		blocks = append(blocks, b)
	}
	if len(blocks) > 0 {
		if n, err = e.store.CommitAll(blocks); err != nil {
			bad = fmt.Errorf("engine: store block %d: %w", blocks[n].Ref.Height, err)
		}
	}
	for _, u := range list[:n] {
		for i := range u.imp.entry.Shards {
			if r := u.imp.entry.Shards[i].Result; r != nil {
				r.Olds = nil // no longer needed after encoding
			}
		}
	}
	return n, bad
}

// encodeImported encodes an imported block with its results.
func (e *Engine) encodeImported(u *inFlightBlock) (*storage.Block, error) {
	entry, parent := u.imp.entry, u.imp.parent
	b := encodeBlock(entry, &u.changes)
	b.Splits = splits(parent.Layout, entry.Layout)
	b.Prev, b.Head = ref(parent), u.accepted.IsHead
	var err error
	if b.Patch, err = appendPatch(u.imp.patch, u.imp.mocks); err != nil {
		return nil, err
	}
	if b.Patch != nil {
		savePatched(b.Puts, b.Ref)
	}
	if !entry.Header().LastFinalBlock.IsZero() {
		b.Final = e.finalRef(entry)
	}
	for i := range entry.Shards {
		if !entry.Shards[i].Held() {
			continue
		}
		if err := encodeResult(&b.Shards[i], &entry.Shards[i], &u.imp.prev[i], e, entry.Height()); err != nil {
			return nil, err
		}
	}
	if err := e.saveLightClientBlock(b.Puts, entry, parent); err != nil {
		return nil, fmt.Errorf("engine: light client block of epoch %v: %w", parent.Header().EpochID, err)
	}
	if err := e.epochProofs.save(b.Puts, entry, parent); err != nil {
		return nil, fmt.Errorf("engine: epoch sync proof at the start of epoch %v: %w", entry.Header().EpochID, err)
	}
	return b, nil
}

// encodeResult adds the results of applying a shard to out.
func encodeResult(out *storage.Shard, s, prev *ShardState, e *Engine, height primitives.Height) error {
	r := s.Result
	var buf encodings
	out.Outcomes = make([]storage.Outcome, len(r.Outcomes))
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		out.Outcomes[i] = storage.Outcome{ID: o.ID, Value: buf.of(&o.Outcome)}
	}
	out.Outgoing = make([]storage.Receipt, len(r.Outgoing))
	for i, x := range r.Outgoing {
		out.Outgoing[i] = storage.Receipt{ID: x.ID, Value: buf.of(x)}
	}
	for _, x := range r.Processed {
		to := &out.Local
		if x.Source == apply.SourceDelayed {
			to = &out.Delayed
		}
		*to = append(*to, storage.Receipt{ID: x.ID, Value: buf.of(x)})
	}
	var err error
	if out.Origins, err = encodeOrigins(r, prev); err != nil {
		return err
	}
	out.Changes = make([]storage.Change, len(r.Changes))
	for i, k := range r.Changes {
		old := r.Olds[i].Value
		if !r.Olds[i].Known {
			if old, err = prev.root.Get(k.Key, nil); err != nil {
				return err
			}
		}
		out.Changes[i] = storage.Change{KeyChanges: k, Old: old}
	}
	if out.Chunk == nil {
		return nil
	}
	at := e.Imported(prev.OutgoingAt)
	if at != nil && height-at.Height() <= storage.ReceiptsReach && prev.OutgoingOf == s.ID {
		if len(prev.Outgoing) > 0 {
			out.Chunk.ReceiptsOf = []storage.BlockRef{ref(at)}
		}
		return nil
	}
	for _, x := range s.Chunk.PrevOutgoingReceipts {
		out.Chunk.Receipts = append(out.Chunk.Receipts, buf.of(x))
	}
	return nil
}

// encodeOrigins returns the parents of receipts that cannot be found through outcomes. The parent
// of a resume receipt is the yield receipt. That receipt is read from the state before the chunk.
func encodeOrigins(r *apply.Result, prev *ShardState) ([]storage.Origin, error) {
	var out []storage.Origin
	for _, o := range r.Origins {
		out = append(out, storage.Origin(o))
	}
	for _, x := range r.Resumes {
		raw, err := prev.root.Get(
			primitives.AppendAccountHashKey(nil, primitives.ColPromiseYieldReceipt, x.Account, x.DataID),
			nil,
		)
		if err != nil {
			return nil, err
		}
		if raw == nil { // in a fork, the yield receipt may exist only in the remote state
			continue
		}
		yield := new(primitives.Receipt)
		if err := borsh.Unmarshal(raw, yield); err != nil {
			return nil, fmt.Errorf("engine: promise yield of %s with data id %v: %w", x.Account, x.DataID, err)
		}
		out = append(out, storage.Origin{Receipt: x.Receipt, Parent: yield.ID})
	}
	return out, nil
}
