package backend

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
)

// How ReceiptToTx finds the originating transaction of a receipt without an index of parents.
//
// The store knows the block and shard that sent each receipt. A receipt's id is a hash of its
// parent's id, the height at which the parent ran, and a number. So for most receipts it is enough
// to read the outcomes of that block and shard, because the parent's outcome lists the receipt.
// Outcomes do not list data receipts. The search recognizes a data receipt by deriving its id.
//
// Some receipts are sent many blocks after their parents ran: receipts that waited in a queue or a
// buffer, distributions of global code to further shards, and resumes of yields that timed out. For
// each of these receipts the store has a row with its parent (storage.Origin). Blocks stored by
// older versions have no such rows. For receipts of such blocks, the search reads earlier blocks
// within the bounds of Origins.

// Origins contains the bounds of ReceiptToTx. The zero value means the defaults of config.json.
type Origins struct {
	NoMapping   bool   // save_receipt_to_tx is false, so a query must contain a hint
	NoOutcomes  bool   // save_tx_outcomes is false, so even a hint does not help
	MaxWindow   uint64 // receipt_to_tx_max_hint_window, blocks; 0: 20
	MaxHop      uint64 // receipt_to_tx_max_hop_distance, blocks; 0: 20
	MaxOutcomes uint64 // receipt_to_tx_max_outcomes_per_request; 0: 20,000
}

const (
	originDepth  = 1000 // maximum number of receipts between a receipt and its transaction
	originBlocks = 5000 // maximum number of blocks searched backwards for a receipt's parent
	// Maximum numbers of derived ids that are tried. The numbers in the ids of data receipts follow
	// the numbers of the parent's other receipts. The ids of yield timeouts are counted per chunk.
	dataReceipts  = 1024
	yieldTimeouts = 4096
)

// origin is one search with its remaining budget.
type origin struct {
	*Backend
	ctx    context.Context
	bounds Origins
	left   uint64 // number of outcomes and receipts that may still be read
	older  int    // number of blocks of the history that were read
	// olderEnd is the time after which no more of them are read.
	olderEnd time.Time
}

// ReceiptToTx returns the originating transaction of a receipt. ReceiptToTx returns
// *view.OriginError if the search finds no transaction within its bounds.
func (b *Backend) ReceiptToTx(ctx context.Context, q *view.OriginQuery) (*view.Origin, error) {
	o := &origin{Backend: b, ctx: ctx, bounds: b.Origins}
	for _, d := range []struct {
		at    *uint64
		value uint64
	}{{&o.bounds.MaxWindow, 20}, {&o.bounds.MaxHop, 20}, {&o.bounds.MaxOutcomes, 20_000}} {
		if *d.at == 0 {
			*d.at = d.value
		}
	}
	o.left = o.bounds.MaxOutcomes
	window := uint64(view.DefaultOriginWindow)
	if q.Window != nil {
		window = *q.Window
	}
	switch hinted := q.Height != nil; {
	case q.Shard != nil && !hinted:
		return nil, &view.OriginError{Kind: view.OriginHint, Text: "shard_id requires block_height"}
	case q.Window != nil && !hinted:
		return nil, &view.OriginError{Kind: view.OriginHint, Text: "window requires block_height"}
	case hinted && window > o.bounds.MaxWindow:
		return nil, &view.OriginError{Kind: view.OriginWindow, Got: window, Limit: o.bounds.MaxWindow}
	case !b.Engine.HoldsAll():
		return nil, &view.OriginError{Kind: view.OriginUnsupported, Text: "node does not track all shards"}
	case !hinted && o.bounds.NoMapping:
		return nil, &view.OriginError{Kind: view.OriginUnsupported,
			Text: "receipt-to-tx mapping is disabled (save_receipt_to_tx=false) and no hint supplied"}
	}
	return o.find(q, window)
}

// find follows parents from a receipt up to its transaction.
func (o *origin) find(q *view.OriginQuery, window uint64) (*view.Origin, error) {
	id := q.Receipt
	for range originDepth {
		parent, err := o.parent(id)
		if errors.Is(err, view.OriginUnknown) && q.Height != nil && id == q.Receipt {
			parent, err = o.around(q, window)
		}
		if errors.Is(err, view.OriginUnknown) && o.History != nil {
			parent, err = o.olderParent(id)
		}
		if err != nil {
			return nil, err
		}
		tx, _, err := o.Engine.Transactions().Transaction(parent)
		if errors.Is(err, engine.ErrUnknown) && o.History != nil {
			tx, err = o.olderTransaction(parent, err)
		}
		if err == nil {
			return &view.Origin{Transaction: parent, Sender: tx.SignerID}, nil
		}
		if !errors.Is(err, engine.ErrUnknown) {
			return nil, err
		}
		id = parent
	}
	return nil, &view.OriginError{Kind: view.OriginDepth, Receipt: q.Receipt, Limit: originDepth}
}

func unknownOrigin(id primitives.Hash) error {
	return &view.OriginError{Kind: view.OriginUnknown, Receipt: id}
}

// parent returns the id of the transaction or receipt that created a receipt.
func (o *origin) parent(id primitives.Hash) (primitives.Hash, error) {
	p, err := o.canonical(o.Engine.Store().Find().Origin(id))
	if err != nil {
		return id, err
	}
	if p != nil {
		known, err := p.Origin()
		return known.Parent, err
	}
	if p, err = o.canonical(o.Engine.Store().Find().Sent(id)); err != nil {
		return id, err
	}
	if p == nil {
		return id, unknownOrigin(id)
	}
	stored, err := p.Receipt()
	if err != nil {
		return id, err
	}
	receipt := new(primitives.Receipt)
	if err := borsh.Unmarshal(stored.Value, receipt); err != nil {
		return id, err
	}
	switch body := receipt.Body.(type) {
	case *primitives.GlobalContractDistribution:
		if parent, ok, err := o.distributor(p, receipt, body); err != nil || ok {
			return parent, err
		}
	case *primitives.DataReceipt:
		if body.Resume && body.Data == nil && derived(body.DataID, p.Block.Ref().Height, yieldTimeouts, id) {
			return o.yield(p, id, body.DataID)
		}
	case *primitives.ActionReceipt: // the outcome of the parent receipt lists this receipt
	}
	return o.search(p, id, func(out *primitives.OutcomeWithID, height primitives.Height) bool {
		if slices.Contains(out.ReceiptIDs, id) {
			return true
		}
		switch receipt.Body.(type) { // no outcome lists these receipts
		case *primitives.DataReceipt:
			return out.ExecutorID == receipt.PredecessorID && derived(out.ID, height, len(out.ReceiptIDs)+dataReceipts, id)
		case *primitives.GlobalContractDistribution:
			return derived(out.ID, height, len(out.ReceiptIDs)+dataReceipts, id)
		case *primitives.ActionReceipt:
		}
		return false
	})
}

// canonical returns the place that is on the head's chain, or nil if none is.
func (o *origin) canonical(places []storage.Place, err error) (*storage.Place, error) {
	if err != nil && !gone(err) {
		return nil, err
	}
	i := slices.IndexFunc(places, func(p storage.Place) bool { return o.Engine.Canonical(p.Block.Ref()) })
	if i < 0 {
		return nil, nil
	}
	return &places[i], nil
}

// derived returns whether id is among the first n ids derived from base at a height.
func derived(base primitives.Hash, height primitives.Height, n int, id primitives.Hash) bool {
	for i := range n {
		if primitives.ReceiptIDFromReceipt(base, height, uint64(i)) == id {
			return true
		}
	}
	return false
}

// search looks for an outcome in the block and shard of a place, and then in earlier blocks.
func (o *origin) search(p *storage.Place, id primitives.Hash, is func(*primitives.OutcomeWithID, primitives.Height) bool) (parent primitives.Hash, err error) {
	found := false
	err = o.back(p, originBlocks, func(rec *storage.Record, shard primitives.ShardID) (bool, error) {
		parent, found, err = o.outcome(rec, shard, is)
		return !found, err
	})
	if err == nil && !found {
		err = unknownOrigin(id)
	}
	return parent, err
}

// outcome searches the outcomes of one chunk for the first one for which is returns true, and
// returns the id of that outcome.
func (o *origin) outcome(rec *storage.Record, shard primitives.ShardID, is func(*primitives.OutcomeWithID, primitives.Height) bool) (primitives.Hash, bool, error) {
	all, err := rec.Outcomes(shard)
	if err != nil && !gone(err) {
		return primitives.Hash{}, false, err
	}
	for i := range all {
		if err := o.pay(); err != nil {
			return primitives.Hash{}, false, err
		}
		out := primitives.OutcomeWithID{ID: all[i].ID}
		if err := borsh.Unmarshal(all[i].Value, &out.Outcome); err != nil {
			return out.ID, false, err
		}
		if is(&out, rec.Ref().Height) {
			return out.ID, true, nil
		}
	}
	return primitives.Hash{}, false, nil
}

// pay takes one outcome or receipt from the budget. pay returns an error if the budget is exhausted
// or the request has ended.
func (o *origin) pay() error {
	if o.left == 0 {
		return &view.OriginError{Kind: view.OriginBudget, Got: o.bounds.MaxOutcomes, Limit: o.bounds.MaxOutcomes}
	}
	o.left--
	return nil
}

// back calls each for the block of p and its ancestors, for at most `blocks` blocks. For each
// block, back passes the shard that then contained the accounts of p's shard. back stops when each
// returns false.
func (o *origin) back(p *storage.Place, blocks int, each func(*storage.Record, primitives.ShardID) (more bool, err error)) error {
	rec, shard := p.Block, p.Shard
	for range blocks {
		if err := o.ctx.Err(); err != nil {
			return err
		}
		if more, err := each(rec, shard); err != nil || !more {
			return err
		}
		layout, err := o.layoutOf(&block{ref: rec.Ref(), rec: rec})
		if err != nil {
			return err
		}
		before, err := o.Engine.Store().Block(rec.Prev())
		if gone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		was, err := o.layoutOf(&block{ref: before.Ref(), rec: before})
		if err != nil {
			return err
		}
		if !was.Equal(layout) {
			if shard, err = layout.Parent(shard); err != nil {
				return err
			}
		}
		rec = before
	}
	return nil
}

// yield finds the receipt whose yielded promise timed out. This receipt is the parent of the resume
// receipt that the protocol created with the given data id.
func (o *origin) yield(p *storage.Place, id, data primitives.Hash) (parent primitives.Hash, err error) {
	found := false
	err = o.back(p, originBlocks, func(rec *storage.Record, shard primitives.ShardID) (bool, error) {
		local, err1 := rec.Local(shard)
		sent, err2 := rec.Outgoing(shard)
		if err := errors.Join(err1, err2); err != nil && !gone(err) {
			return false, err
		}
		for _, stored := range append(local, sent...) {
			if err := o.pay(); err != nil {
				return false, err
			}
			x := new(primitives.Receipt)
			if err := borsh.Unmarshal(stored.Value, x); err != nil {
				return false, err
			}
			if a, ok := x.Body.(*primitives.ActionReceipt); ok && a.Yield && slices.Contains(a.InputDataIDs, data) {
				parent, found = x.ID, true
				return false, nil
			}
		}
		return true, nil
	})
	if err == nil && !found {
		err = unknownOrigin(id)
	}
	return parent, err
}

// distributor finds the previous distribution receipt of global code. That receipt came from
// another shard, some blocks earlier.
func (o *origin) distributor(p *storage.Place, r *primitives.Receipt, d *primitives.GlobalContractDistribution) (parent primitives.Hash, found bool, err error) {
	height := p.Block.Ref().Height
	blocks := o.bounds.MaxHop
	err = o.back(p, int(min(blocks, originBlocks))+1, func(rec *storage.Record, _ primitives.ShardID) (bool, error) {
		for _, shard := range rec.Shards() {
			sent, err := rec.Outgoing(shard)
			if err != nil && !gone(err) {
				return false, err
			}
			for _, stored := range sent {
				if err := o.pay(); err != nil {
					return false, err
				}
				if stored.ID != r.ID && derived(stored.ID, height, 1, r.ID) {
					parent, found = stored.ID, true
					return false, nil
				}
			}
		}
		return true, nil
	})
	return parent, found, err
}

// If a receipt is not stored, around searches for its parent at the heights around the hint in the
// query, nearest first.
func (o *origin) around(q *view.OriginQuery, window uint64) (parent primitives.Hash, err error) {
	if o.bounds.NoOutcomes {
		return parent, &view.OriginError{Kind: view.OriginNoOutcomes}
	}
	at := *q.Height
	heights := []primitives.Height{at}
	for d := primitives.Height(1); d <= primitives.Height(window); d++ {
		if d <= at {
			heights = append(heights, at-d)
		}
		if at+d > at {
			heights = append(heights, at+d)
		}
	}
	for _, h := range heights {
		k, err := o.byHeight(h)
		if errors.Is(err, view.ErrUnknownHeight) || errors.Is(err, view.ErrUnknownBlock) {
			continue
		}
		if err != nil {
			return parent, err
		}
		rec, err := o.record(k)
		if err != nil {
			return parent, err
		}
		shards, err := o.hinted(k, rec, q.Shard)
		if err != nil {
			return parent, err
		}
		for _, shard := range shards {
			parent, found, err := o.outcome(rec, shard, func(out *primitives.OutcomeWithID, _ primitives.Height) bool {
				return slices.Contains(out.ReceiptIDs, q.Receipt)
			})
			if err != nil || found {
				return parent, err
			}
		}
	}
	return parent, unknownOrigin(q.Receipt)
}

// hinted returns the shards of a block to search. These are the named shard and the shards from
// which the named shard was split. Without a named shard, hinted returns all shards.
func (o *origin) hinted(k *block, rec *storage.Record, named *primitives.ShardID) ([]primitives.ShardID, error) {
	if named == nil {
		return rec.Shards(), nil
	}
	layout, err := o.layoutOf(k)
	if err != nil {
		return nil, err
	}
	if layout.Has(*named) {
		return []primitives.ShardID{*named}, nil
	}
	now := o.Engine.Head().Layout
	if older, ok := now.Ancestors(*named); ok {
		return slices.DeleteFunc(slices.Clone(older), func(id primitives.ShardID) bool { return !layout.Has(id) }), nil
	}
	if parent, err := now.Parent(*named); err == nil && layout.Has(parent) {
		return []primitives.ShardID{parent}, nil
	}
	return nil, nil
}
