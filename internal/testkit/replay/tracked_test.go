package replay

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// partial is an engine beside a replay that tracks some of the shards. From other shards' chunks it
// receives only the proofs of receipts for its shards.
type partial struct {
	name    string
	track   engine.Track
	disk    *storage.MemDisk
	store   *storage.Store
	e       *engine.Engine
	applied int // applied chunks, including missing ones
	fed     int // proofs

	snapshots, scheduled bool
}

func (p *partial) open(r *runner) (err error) {
	if p.store, err = storage.OpenMemory(p.disk, storage.Options{Identity: storeIdentity(r.rec, r.chain)}); err != nil {
		return err
	}
	p.e, err = engine.Open(engine.Options{Chain: r.chain, Store: p.store, VM: r.vm, Par: par, Tracks: p.track, Tries: r.o.Tries, Snapshots: p.snapshots, Scheduled: p.scheduled})
	return err
}

func (p *partial) close() error { return errors.Join(p.e.Close(), p.store.Close()) }

// cutChunks returns the parts of a block's chunks that a node with some shards receives.
func cutChunks(chunks []*primitives.Chunk, layout primitives.ShardLayout, track engine.Track) (out []*primitives.Chunk, proofs int) {
	var held []primitives.ShardID
	for _, id := range layout.ShardIDs() {
		if track(layout, id) {
			held = append(held, id)
		}
	}
	out = make([]*primitives.Chunk, len(chunks))
	for i, c := range chunks {
		switch {
		case c == nil:
		case slices.Contains(held, c.Header.ShardID):
			whole := *c
			whole.PrevOutgoingReceipts = nil // which follow from the state
			out[i] = &whole
		case len(held) > 0:
			out[i] = chain.CutChunk(c, layout, held)
			proofs += len(out[i].Proofs)
		}
	}
	return out, proofs
}

// feed passes a replayed block to the engine, which must compute the same results in its shards,
// and none elsewhere.
func (p *partial) feed(r *runner, b *primitives.Block, chunks []*primitives.Chunk) error {
	whole := r.e.Imported(b.Hash())
	some, proofs := cutChunks(chunks, whole.Layout, p.track)
	p.fed += proofs
	a, err := p.e.Process(b, some, false)
	if err != nil {
		return fmt.Errorf("%s: block %d: %w", p.name, b.Header.Height, err)
	}
	p.applied += r.held(a.Entry, whole.Shards, p.track)
	return nil
}

// held compares the shards of an engine with the full node's results of a block, and counts them.
func (r *runner) held(entry *engine.BlockNode, whole []engine.ShardState, track engine.Track) (n int) {
	for i := range whole {
		got, want := &entry.Shards[i], &whole[i]
		where := fmt.Sprintf("held shard %d of block %d", want.ID, entry.Height())
		if !track(entry.Layout, want.ID) {
			if got.Held() || got.Result != nil || len(got.Incoming) > 0 || entry.Root(primitives.ShardIndex(i)) != nil {
				r.differs(where, "held", "not held")
			}
			continue
		}
		if !got.Held() {
			r.differs(where, "not held", "held")
			continue
		}
		n++
		if !bytes.Equal(got.Extra.AppendBorsh(nil), want.Extra.AppendBorsh(nil)) {
			r.differs(where, fmt.Sprintf("%+v", *got.Extra), fmt.Sprintf("%+v", *want.Extra))
		}
		if !bytes.Equal(primitives.AppendReceipts(nil, got.Incoming), primitives.AppendReceipts(nil, want.Incoming)) {
			r.differs(where, "other incoming receipts", "the same")
		}
		for _, d := range unlike(got.Result, want.Result) {
			r.differs(where, d, "as where all shards are held")
		}
	}
	return n
}

// partials returns engines that each track one shard of the first layout with its child shards,
// engines that track the shard of one account of each shard of the last layout if that differs, and
// one that tracks none.
func partials(rec *Recording) (out []*partial) {
	add := func(name string, track engine.Track) {
		out = append(out, &partial{name: name, track: track, disk: storage.NewMemDisk()})
	}
	for _, c := range rec.Blocks[0].Given.Chunks {
		add(fmt.Sprintf("shard %d", c.ShardID), engine.TrackShards(c.ShardID))
	}
	last := rec.Blocks[len(rec.Blocks)-1].Given.Chunks
	if len(last) != len(rec.Blocks[0].Given.Chunks) {
		for _, account := range []primitives.AccountID{"aa", "h", "probe.near", "zz.near"} {
			add("shard of "+string(account), engine.TrackAccounts(account))
		}
	}
	add("no shard", func(primitives.ShardLayout, primitives.ShardID) bool { return false })
	return out
}

// TestTrackedShardAloneHasSameStates: on every recorded chain an engine that tracks one shard, and
// knows the others only by the receipts that they send it, computes the same states, outcomes,
// receipts and changes as the one that tracks all, also over restarts, missing chunks and splits,
// of whose children it may track both or one.
func TestTrackedShardAloneHasSameStates(t *testing.T) {
	names := chains("four", "reshard")
	if !modes() {
		// the others have more in them
		names = slices.DeleteFunc(names, func(name string) bool { return name == "native" || name == "probe" })
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			rec := openWay(t, name)
			trackAlone(t, rec, name)
		})
	}
}

func trackAlone(t *testing.T, rec *Recording, name string) {
	list, border := partials(rec), atBorders(rec)
	opened := false
	report, err := Run(rec, Options{Par: par, EpochConfig: epochConfigs(t, name), behind: func(r *runner, b *primitives.Block, chunks []*primitives.Chunk) error {
		for _, p := range list {
			if !opened {
				if err := p.open(r); err != nil {
					return err
				}
			}
			if err := p.feed(r, b, chunks); err != nil {
				return err
			}
			if border(b.Header.Height) {
				if err := p.close(); err != nil {
					return err
				}
				if err := p.open(r); err != nil {
					return fmt.Errorf("%s: restart after block %d: %w", p.name, b.Header.Height, err)
				}
			}
		}
		opened = true
		return nil
	}})
	for _, d := range report.Findings {
		t.Errorf("difference %v", d)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		t.Logf("%s: %d steps of %d blocks, %d proofs of receipts", p.name, p.applied, report.Blocks, p.fed)
		if p.applied < report.Blocks-1 && p.name != "no shard" || p.name != "no shard" && p.fed == 0 && len(rec.Blocks[0].Given.Chunks) > 1 {
			t.Errorf("%s: the test reaches too little", p.name)
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}
}
