package viewstate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/parallel"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/storage"
)

// ApplyRequest selects chunks to apply again.
type ApplyRequest struct {
	// Start and End are the first and the last height. nil: the lowest stored height, the head.
	Start *primitives.Height `json:"start_index,omitempty"`
	End   *primitives.Height `json:"end_index,omitempty"`
	// Shards are the shards; nil: all tracked ones.
	Shards []primitives.ShardID `json:"shard_ids,omitempty"`
	// Verbose prints a line for each chunk.
	Verbose bool `json:"verbose_output,omitempty"`
	// Parallel applies chunks at the same time, one on each processor.
	Parallel bool `json:"parallel,omitempty"`
}

const csvHead = "Height,Hash,Author,#Tx,#Receipt,Timestamp,GasUsed,ChunkPresent,#ProcessedDelayedReceipts,#DelayedReceipts,#StateChanges"

// maxDiffering is the number of differing chunks after which a range ends.
const maxDiffering = 20

// slot is one shard of one block.
type slot struct {
	rec    *storage.Record
	shard  primitives.ShardID
	index  primitives.ShardIndex
	author primitives.AccountID
	fresh  bool // the chunk is new in the block

	// results
	result  *apply.Result
	skipped string   // why the chunk was not applied
	differs []string // how the result differs from the stored one
	err     error
}

// applyRange applies stored chunks again and compares the results with the stored ones.
func applyRange(ctx context.Context, s *Source, r *ApplyRequest, out Out) error {
	store, head := s.Engine.Store(), s.Engine.Head().Height()
	from, to := max(store.Tip().Tail, s.Engine.Chain().Height), head
	if r.Start != nil {
		from = *r.Start
	}
	if r.End != nil {
		to = min(*r.End, head)
	}
	if from > to {
		return fmt.Errorf("%w: heights %d to %d: the range is empty; the head is at %d", ErrUsage, from, to, head)
	}
	if err := errors.Join(out.Line(fmt.Sprintf("Applying chunks in the range %d..=%d", from, to)), out.Row(csvHead)); err != nil {
		return err
	}
	var t tally
	window := 1
	if r.Parallel {
		window = max(1, runtime.GOMAXPROCS(0))
	}
	var batch []*slot
	run := func() error {
		parallel.Do(len(batch), func(i int) { batch[i].apply(ctx, s) })
		for _, x := range batch {
			if err := t.add(x, r.Verbose, out); err != nil {
				return err
			}
		}
		batch = batch[:0]
		return nil
	}
	for at := from; at <= to && t.differing < maxDiffering; {
		if err := ctx.Err(); err != nil {
			return err
		}
		ref, err := store.NextBlock(at)
		if errors.Is(err, storage.ErrNotFound) {
			break
		}
		if err != nil {
			return err
		}
		if ref.Height > to {
			break
		}
		list, err := slotsOf(s, ref, r.Shards)
		if err != nil {
			return err
		}
		for _, x := range list {
			if batch = append(batch, x); len(batch) >= window {
				if err := run(); err != nil {
					return err
				}
			}
		}
		if err := out.Progress(uint64(ref.Height-from)+1, uint64(to-from)+1); err != nil {
			return err
		}
		at = ref.Height + 1
	}
	if err := run(); err != nil {
		return err
	}
	if err := out.Line(fmt.Sprintf("%d chunks applied, %d skipped, %d differ; %v Tgas", t.applied, t.skipped, t.differing,
		t.gas/1e12)); err != nil {
		return err
	}
	if t.differing > 0 {
		return fmt.Errorf("%w: %d chunks", ErrDiffers, t.differing)
	}
	return nil
}

// slotsOf returns the shards of a block.
func slotsOf(s *Source, ref storage.BlockRef, shards []primitives.ShardID) ([]*slot, error) {
	author, b, err := s.Blocks.Block(context.Background(), view.BlockRef{Kind: view.RefHash, Hash: ref.Hash})
	// After state sync some of the first blocks have no body.
	if errors.As(err, new(*view.LookupError)) && ref.Height < s.Engine.StateTail() {
		return nil, nil
	}
	if err != nil || b.Header.IsGenesis() {
		return nil, err
	}
	x, err := s.Engine.Block(ref.Hash)
	if err != nil {
		return nil, err
	}
	rec, err := s.Engine.Store().BlockByHash(ref.Hash)
	if err != nil {
		return nil, err
	}
	var out []*slot
	for i, id := range x.Layout.ShardIDs() {
		if shards == nil || slices.Contains(shards, id) {
			out = append(out, &slot{rec: rec, shard: id, index: primitives.ShardIndex(i), author: author,
				fresh: x.Block.Body.Chunks[i].HeightIncluded == ref.Height})
		}
	}
	return out, nil
}

// apply applies the chunk and compares the result.
func (x *slot) apply(ctx context.Context, s *Source) {
	was, err := extraOf(x.rec, x.shard)
	if err != nil {
		x.err = err
		return
	}
	if was == nil {
		x.skipped = "this node does not track the shard"
		return
	}
	r, err := s.Engine.Reapply(ctx, x.rec.Ref().Hash, x.index, s.VM)
	switch {
	case errors.Is(err, storage.ErrGone), errors.Is(err, engine.ErrUntracked), errors.Is(err, engine.ErrUnknown):
		x.skipped = "the state before it is not stored"
		return
	case err != nil:
		x.err = err
		return
	}
	x.result = r
	stored, err := x.rec.Changes(x.shard)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		x.err = err
		return
	}
	x.differs = compare(was, stored, r, x.fresh)
}

// compare returns how a result differs from the stored one. It compares the changed values instead of
// the state root, because Reapply computes no state root for old blocks. If the chunk is not new, its
// block's chunk extra has only the state of that block.
func compare(was *chain.ChunkExtra, stored []storage.Change, r *apply.Result, fresh bool) (out []string) {
	says := func(what string, got, want any) {
		out = append(out, fmt.Sprintf("%s is %v, stored is %v", what, got, want))
	}
	if fresh {
		if r.OutcomeRoot != was.OutcomeRoot {
			says("the outcome root", r.OutcomeRoot, was.OutcomeRoot)
		}
		if r.GasUsed != was.GasUsed {
			says("the used gas", r.GasUsed, was.GasUsed)
		}
		if r.BalanceBurnt != was.BalanceBurnt {
			says("the burnt balance", r.BalanceBurnt, was.BalanceBurnt)
		}
		if r.Congestion != was.CongestionInfo {
			says("the congestion info", r.Congestion, was.CongestionInfo)
		}
		if !slices.Equal(r.BandwidthRequests, was.BandwidthRequests) {
			says("the number of bandwidth requests, or one of them,", len(r.BandwidthRequests), len(was.BandwidthRequests))
		}
		if !slices.Equal(r.Proposals, was.Proposals) {
			says("the number of proposals, or one of them,", len(r.Proposals), len(was.Proposals))
		}
	}
	for i := range min(len(stored), len(r.Changes)) {
		a, b := &r.Changes[i], &stored[i]
		if !bytes.Equal(a.Key, b.Key) || !bytes.Equal(a.Last(), b.Last()) || (a.Last() == nil) != (b.Last() == nil) {
			return append(out, fmt.Sprintf("change %d is of key %x to %d bytes, stored is key %x, %d bytes", i, a.Key,
				len(a.Last()), b.Key, len(b.Last())))
		}
	}
	if len(stored) != len(r.Changes) {
		says("the number of changes", len(r.Changes), len(stored))
	}
	return out
}

// tally counts results.
type tally struct {
	applied, skipped, differing int
	gas                         primitives.Gas
}

// add counts and prints one result.
func (t *tally) add(x *slot, verbose bool, out Out) error {
	ref := x.rec.Ref()
	at := fmt.Sprintf("block_height: %d, block_hash: %v, shard: %d", ref.Height, ref.Hash, x.shard)
	switch {
	case x.err != nil:
		return fmt.Errorf("view-state: %s: %w", at, x.err)
	case x.skipped != "":
		t.skipped++
		if verbose {
			return out.Line(at + ": skipped: " + x.skipped)
		}
		return nil
	}
	t.applied++
	t.gas += x.result.GasUsed
	if verbose {
		if err := out.Line(fmt.Sprintf("%s: gas_used: %d, outcomes: %d, state_changes: %d, chunk_present: %v",
			at, x.result.GasUsed, len(x.result.Outcomes), len(x.result.Changes), x.fresh)); err != nil {
			return err
		}
	}
	transactions := 0
	if x.fresh {
		var err error
		if transactions, err = x.rec.CountTransactions(x.shard); err != nil {
			return err
		}
	}
	st := &x.result.Stats
	if err := out.Row(fmt.Sprintf("%d,%v,%s,%d,%d,%d,%d,%v,%d,%d,%d", ref.Height, ref.Hash, x.author, transactions, st.Incoming,
		x.rec.Timestamp(), x.result.GasUsed, x.fresh, st.Delayed, st.DelayedLen, len(x.result.Changes))); err != nil {
		return err
	}
	if len(x.differs) == 0 {
		return nil
	}
	t.differing++
	for _, what := range x.differs {
		if err := out.Line(at + ": " + what); err != nil {
			return err
		}
	}
	return nil
}
