package backend

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/verify"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/stream"
)

// StreamerMessage returns the JSON of a block as nearcore's indexer framework streams it. Errors:
// the errors of find.
func (b *Backend) StreamerMessage(r view.BlockRef) ([]byte, error) {
	k, err := b.find(r)
	if err != nil {
		return nil, err
	}
	m, details, err := b.messageOf(k)
	if err != nil {
		return nil, err
	}
	return stream.AppendMessage(nil, m, details)
}

// IndexerBlock returns the JSON of EXPERIMENTAL_indexer_block: a block's message of nearcore's
// indexer framework, and the shards that this node has executed (nearcore 2.14
// chain/jsonrpc/src/indexer.rs). IndexerBlock returns view.ErrUnknownBlock, view.ErrIncompleteData
// if a receipt is missing, and view.ErrMessageLarge if the reply would have more than `most` bytes.
func (b *Backend) IndexerBlock(hash primitives.Hash, most int) ([]byte, error) {
	out, err := b.indexerBlock(hash, most)
	if gone(err) { // garbage collection has deleted the block meanwhile
		err = view.UnknownBlock(hash)
	}
	return out, err
}

func (b *Backend) indexerBlock(hash primitives.Hash, most int) ([]byte, error) {
	k, err := b.byHash(hash)
	if err != nil {
		return nil, err
	}
	m, details, err := b.messageOf(k)
	if err != nil {
		return nil, err
	}
	var tracked []primitives.ShardID
	for i, id := range m.Layout.ShardIDs() {
		held := k.entry != nil && k.entry.Shards[i].Held()
		if k.entry == nil {
			if held, err = b.holds(k, id); err != nil {
				return nil, err
			}
		}
		if held {
			tracked = append(tracked, id)
		}
	}
	out, err := stream.AppendIndexerBlock(nil, m, details, tracked, most)
	switch {
	case errors.Is(err, stream.ErrReceipt):
		return nil, &view.LookupError{Kind: view.ErrIncompleteData, Reason: err.Error()}
	case errors.Is(err, stream.ErrLarge):
		return nil, &view.LookupError{Kind: view.ErrMessageLarge}
	}
	return out, err
}

// messageOf collects the data of a block that nearcore's indexer framework streams.
func (b *Backend) messageOf(k *block) (*stream.Block, []stream.Details, error) {
	m, err := b.streamed(k)
	if err != nil {
		return nil, nil, err
	}
	details, err := b.details(k, m)
	return m, details, err
}

// streamed collects a block's chunks and outcomes. It takes chunks and outcomes from memory if they
// are there, else from the store.
func (b *Backend) streamed(k *block) (*stream.Block, error) {
	blk, err := b.whole(k)
	if err != nil {
		return nil, err
	}
	m := &stream.Block{Block: blk, Hash: k.ref.Hash}
	if m.Author, err = b.producer(k.ref.Hash, blk.Header); err != nil {
		return nil, err
	}
	// The record is loaded only if memory lacks some data. So followers of the head do not wait for
	// the store.
	var rec *storage.Record
	if !remembered(k) {
		if err := b.executed(k); err != nil {
			return nil, err
		}
		if rec, err = b.record(k); err != nil {
			return nil, err
		}
		m.Final = max(rec.Final().Height, b.Engine.Chain().Height)
	} else {
		m.Final = k.entry.FinalHeight()
	}
	layout, err := b.layoutOf(k)
	if err != nil {
		return nil, err
	}
	m.Layout = layout
	for i, id := range layout.ShardIDs() {
		s := stream.Shard{ID: id}
		if blk.Body.Chunks[i].HeightIncluded == blk.Header.Height {
			held, err := b.hasChunk(k, primitives.ShardIndex(i))
			if err != nil {
				return nil, err
			}
			if held {
				if s.Author, s.Chunk, err = b.newChunk(k, rec, i, id); err != nil {
					return nil, err
				}
			}
		}
		if err := did(k, rec, i, &s); err != nil {
			return nil, fmt.Errorf("backend: shard %d of block %v: %w", id, k.ref, err)
		}
		m.Shards = append(m.Shards, s)
	}
	return m, nil
}

// remembered returns whether all results of a block are in memory.
func remembered(k *block) bool {
	if k.entry == nil {
		return false
	}
	for i := range k.entry.Shards {
		s := &k.entry.Shards[i]
		if s.Result == nil || s.Chunk == nil && k.entry.Block.Body.Chunks[i].HeightIncluded == k.ref.Height {
			return false
		}
	}
	return true
}

func (b *Backend) newChunk(k *block, rec *storage.Record, i int, id primitives.ShardID) (primitives.AccountID, *primitives.Chunk, error) {
	if k.entry != nil && k.entry.Shards[i].Chunk != nil {
		return b.author(k.entry.Shards[i].Chunk, k)
	}
	c, err := engine.LoadChunk(rec, id)
	if err != nil {
		return "", nil, err
	}
	return b.author(c, k)
}

// did sets s.Outcomes and the refunds of s to the outcomes and refunds of the shard with index i in
// a block.
func did(k *block, rec *storage.Record, i int, s *stream.Shard) error {
	if k.entry != nil && k.entry.Shards[i].Result != nil {
		r := k.entry.Shards[i].Result
		s.Outcomes = r.Outcomes
		for _, x := range r.Outgoing {
			s.Refund(x)
		}
		return nil
	}
	outcomes, err := rec.Outcomes(s.ID)
	if err != nil {
		return err
	}
	s.Outcomes = make([]primitives.OutcomeWithID, len(outcomes))
	for i := range outcomes {
		s.Outcomes[i].ID = outcomes[i].ID
		if err := borsh.Unmarshal(outcomes[i].Value, &s.Outcomes[i].Outcome); err != nil {
			return err
		}
	}
	outgoing, err := rec.Outgoing(s.ID)
	if err != nil {
		return err
	}
	for i := range outgoing {
		x, err := receipt(outgoing[i].Value)
		if err != nil {
			return err
		}
		s.Refund(x)
	}
	return nil
}

func receipt(raw []byte) (*primitives.Receipt, error) {
	x := new(primitives.Receipt)
	return x, borsh.Unmarshal(raw, x)
}

// details collects data that only the indexer message contains: executed receipts, local receipts
// and state changes.
func (b *Backend) details(k *block, m *stream.Block) ([]stream.Details, error) {
	var err error
	out := make([]stream.Details, len(m.Shards))
	lost := map[primitives.Hash]*stream.Details{} // receipts that are not stored on their own
	for i := range m.Shards {
		s, d := &m.Shards[i], &out[i]
		d.Receipts = map[primitives.Hash]*primitives.Receipt{}
		if err := b.local(k, i, s, d); err != nil {
			return nil, err
		}
		if d.Changes, err = b.wrote(k, i, s.ID); err != nil {
			return nil, err
		}
		// Most receipts are in came or entry.Incoming, which need no read from disk.
		came, err := b.fromQueue(k, i, s.ID)
		if err != nil {
			return nil, err
		}
		if k.entry != nil {
			for _, x := range k.entry.Shards[i].Incoming {
				came[x.ID] = x
			}
		}
		isTx := map[primitives.Hash]bool{}
		if s.Chunk != nil {
			for _, tx := range s.Chunk.Transactions {
				isTx[tx.Hash()] = true
			}
		}
		for o := range s.Outcomes {
			id := s.Outcomes[o].ID
			if isTx[id] || d.Receipts[id] != nil {
				continue
			}
			x := came[id]
			if x == nil {
				if x, err = b.storedReceipt(id); err != nil {
					return nil, err
				}
			}
			if x != nil {
				d.Receipts[id] = x
			} else {
				lost[id] = d
			}
		}
	}
	if len(lost) == 0 {
		return out, nil
	}
	rec, err := b.record(k)
	if err != nil {
		return nil, err
	}
	if err := brought(rec, lost); err != nil {
		return nil, err
	}
	return out, b.delayed(rec, lost)
}

// fromQueue returns the delayed receipts that a shard executed, by id. Blocks that older versions
// of this program stored do not list delayed receipts.
func (b *Backend) fromQueue(k *block, i int, id primitives.ShardID) (map[primitives.Hash]*primitives.Receipt, error) {
	out := map[primitives.Hash]*primitives.Receipt{}
	if k.entry != nil && k.entry.Shards[i].Result != nil {
		for _, x := range k.entry.Shards[i].Result.Processed {
			if x.Source == apply.SourceDelayed {
				out[x.ID] = x.Receipt
			}
		}
		return out, nil
	}
	rec, err := b.record(k)
	if err != nil {
		return nil, err
	}
	stored, err := rec.Delayed(id)
	if err != nil {
		return nil, err
	}
	for i := range stored {
		if out[stored[i].ID], err = receipt(stored[i].Value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// wrote returns the state changes of a block in one shard, ascending by key. i is the index of the
// shard, id its id.
func (b *Backend) wrote(k *block, i int, id primitives.ShardID) ([]primitives.KeyChanges, error) {
	if k.entry != nil && k.entry.Shards[i].Result != nil {
		return k.entry.Shards[i].Result.Changes, nil
	}
	rec, err := b.record(k)
	if err != nil {
		return nil, err
	}
	stored, err := rec.Changes(id)
	if err != nil {
		return nil, err
	}
	out := make([]primitives.KeyChanges, len(stored))
	for c := range stored {
		out[c] = stored[c].KeyChanges
	}
	return out, nil
}

// brought finds receipts from shards that this node does not track. Only the receipt proofs of new
// chunks contain such receipts. brought moves each receipt that it finds from lost to the Details
// of the shard that executed it.
func brought(rec *storage.Record, lost map[primitives.Hash]*stream.Details) error {
	if len(lost) == 0 {
		return nil
	}
	for _, id := range rec.Shards() {
		raw, err := rec.Incoming(id)
		if errors.Is(err, storage.ErrNotFound) || err == nil && len(raw) == 0 {
			continue
		}
		if err != nil {
			return err
		}
		r := borsh.NewReader(raw)
		for _, p := range primitives.ReadReceiptProofs(r) {
			for _, x := range p.Receipts {
				if d := lost[x.ID]; d != nil {
					d.Receipts[x.ID] = x
					delete(lost, x.ID)
				}
			}
		}
		if err := r.Close(); err != nil {
			return err
		}
	}
	return nil
}

// storedReceipt finds a receipt by id on any branch. The result is nil if the receipt is not
// stored.
func (b *Backend) storedReceipt(id primitives.Hash) (*primitives.Receipt, error) {
	places, err := b.Engine.Store().Find().Receipt(id)
	if err != nil || len(places) == 0 {
		if gone(err) {
			err = nil
		}
		return nil, err
	}
	raw, err := places[0].Receipt()
	if err != nil {
		return nil, err
	}
	return receipt(raw.Value)
}

// local adds the receipts that a shard created for itself: receipts of local transactions, and
// instant receipts.
func (b *Backend) local(k *block, i int, s *stream.Shard, d *stream.Details) error {
	made, err := b.madeFor(k, i, s.ID)
	if err != nil {
		return err
	}
	byID := map[primitives.Hash]*primitives.Receipt{}
	for _, x := range made {
		byID[x.ID] = x
		d.Receipts[x.ID] = x
	}
	if s.Chunk != nil {
		for tx, id := range s.Locals() {
			x := byID[id]
			delete(byID, id)
			if x == nil { // the receipt was delayed: the block that executes the receipt stores it
				rec, err := b.record(k)
				if err != nil {
					return err
				}
				if x, err = b.localReceipt(rec, tx, id); err != nil {
					return err
				}
			}
			d.Local = append(d.Local, x)
		}
	}
	for _, x := range made {
		if byID[x.ID] != nil {
			d.Instant = append(d.Instant, x)
		}
	}
	return nil
}

// madeFor returns the receipts that a shard created for itself and executed in the same chunk, in
// the order of execution.
func (b *Backend) madeFor(k *block, i int, id primitives.ShardID) (out []*primitives.Receipt, err error) {
	if k.entry != nil && k.entry.Shards[i].Result != nil {
		for _, x := range k.entry.Shards[i].Result.Processed {
			if x.Source != apply.SourceDelayed {
				out = append(out, x.Receipt)
			}
		}
		return out, nil
	}
	rec, err := b.record(k)
	if err != nil {
		return nil, err
	}
	stored, err := rec.Local(id)
	if err != nil {
		return nil, err
	}
	out = make([]*primitives.Receipt, len(stored))
	for i := range stored {
		if out[i], err = receipt(stored[i].Value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// localReceipt recomputes the receipt of a local transaction from the transaction and the block
// that includes the transaction.
func (b *Backend) localReceipt(rec *storage.Record, tx *primitives.SignedTransaction, id primitives.Hash) (*primitives.Receipt, error) {
	prev, err := b.Engine.Store().Block(rec.Prev())
	if err != nil {
		return nil, err
	}
	h, err := b.header(&block{ref: prev.Ref(), rec: prev})
	if err != nil {
		return nil, err
	}
	var pv primitives.ProtocolVersion
	err = b.Engine.Epochs(func(m *epoch.Manager) (err error) { pv, err = m.ProtocolVersion(rec.Epoch()); return })
	if err != nil {
		return nil, err
	}
	runtime, err := parameters.ForGenesis(parameters.Version{Protocol: pv, Numbering: b.Engine.Chain().Version.Numbering})
	if err != nil {
		return nil, err
	}
	cost, invalid := verify.Cost(runtime, &tx.Transaction, h.NextGasPrice)
	if invalid != nil {
		return nil, invalid
	}
	return &primitives.Receipt{PredecessorID: tx.SignerID, ReceiverID: tx.ReceiverID, ID: id, Body: &primitives.ActionReceipt{
		SignerID: tx.SignerID, SignerPublicKey: tx.PublicKey, GasPrice: cost.ReceiptGasPrice, Actions: tx.Actions,
	}}, nil
}

// delayedReach is the maximum number of blocks that delayed searches backwards, as in nearcore.
const delayedReach = 1000

// delayed fills in the receipts in lost, which older versions of this program have stored
// incompletely: a receipt of a local transaction only as the transaction, and a receipt from an
// untracked shard only within its proof. delayed searches at most delayedReach blocks before rec,
// and removes from lost the receipts that it finds.
func (b *Backend) delayed(rec *storage.Record, lost map[primitives.Hash]*stream.Details) error {
	for range delayedReach {
		if len(lost) == 0 || rec.Prev().IsZero() {
			return nil // the caller reports the receipts that are still in lost
		}
		prev, err := b.Engine.Store().Block(rec.Prev())
		if err != nil {
			if gone(err) {
				return nil
			}
			return err
		}
		rec = prev
		if err := brought(rec, lost); err != nil {
			return err
		}
		for _, id := range rec.Shards() {
			if err := b.delayedOf(rec, id, lost); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *Backend) delayedOf(rec *storage.Record, id primitives.ShardID, lost map[primitives.Hash]*stream.Details) error {
	txs, err := rec.Transactions(id)
	if err != nil {
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		return err
	}
	for i := range txs {
		receiptID := primitives.ReceiptIDFromTransaction(txs[i].Hash, rec.Ref().Height)
		d := lost[receiptID]
		if d == nil {
			continue
		}
		tx := new(primitives.SignedTransaction)
		if err := borsh.Unmarshal(txs[i].Value, tx); err != nil {
			return err
		}
		if d.Receipts[receiptID], err = b.localReceipt(rec, tx, receiptID); err != nil {
			return err
		}
		delete(lost, receiptID)
	}
	return nil
}
