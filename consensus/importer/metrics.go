package importer

import (
	"errors"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/engine/metrics"
	"github.com/troupe-chain/troupe/primitives"
)

// Metrics of an Importer, with nearcore's names, labels, texts and bounds (nearcore
// chain/chain/src/metrics.rs).
var (
	invalidBlocks = &metrics.Family{
		Name:   "near_num_invalid_blocks",
		Kind:   metrics.Gauge,
		Labels: []string{"error"},
		Help:   "Number of invalid blocks",
	}
	missingDelay = &metrics.Family{Name: "near_block_missing_chunks_delay", Kind: metrics.Histogram, Per: 1e9,
		Bounds: metrics.Exponential(0.001, 1.6, 20), Help: "How long blocks stay in the missing chunks pool"}
	orphanedDelay = &metrics.Family{Name: "near_block_orphaned_delay", Kind: metrics.Histogram, Per: 1e9,
		Bounds: metrics.Bounds(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10), Help: "How long blocks stay in the orphan pool"}
	pendingBlocks = &metrics.Family{Name: "near_num_pending_blocks", Kind: metrics.Gauge,
		Help: "Number of blocks pending execution due to optimistic blocks in processing."}
	pendingDelay = &metrics.Family{Name: "near_block_pending_execution_delay", Kind: metrics.Histogram, Per: 1e9,
		Bounds: metrics.Exponential(0.001, 1.6, 20), Help: "Time taken for a block to wait in pending execution pool"}
)

// Families lists the metrics that an Importer adds to Options.Measured.
func Families() []*metrics.Family {
	return []*metrics.Family{invalidBlocks, missingDelay, orphanedDelay, pendingBlocks, pendingDelay}
}

// orphanTimes are the times in ns since which a pooled block lacks its parent, and at which the parent
// was imported; 0: it was not yet.
type orphanTimes struct{ since, until uint64 }

// orphaned records that a pooled block lacks its parent since now, in ns. Blocks that have left the
// pool are forgotten, so that orphans has at most one entry for each pooled block.
func (i *Importer) orphaned(hash primitives.Hash, now uint64) {
	if _, known := i.orphans[hash]; known || !i.pool.Has(hash) {
		return
	}
	for other := range i.orphans {
		if !i.pool.Has(other) {
			delete(i.orphans, other)
		}
	}
	i.orphans[hash] = orphanTimes{since: now}
}

// parentImported records that the parent of a pooled block was imported.
func (i *Importer) parentImported(hash primitives.Hash, now uint64) {
	if t, known := i.orphans[hash]; known && t.until == 0 {
		i.orphans[hash] = orphanTimes{t.since, now}
	}
}

// measureOrphaned measures how long a block lacked its parent, 0 if it never did (nearcore
// chain/chain/src/blocks_delay_tracker.rs:396).
func (i *Importer) measureOrphaned(hash primitives.Hash, now uint64) {
	t, known := i.orphans[hash]
	if delete(i.orphans, hash); !known {
		t = orphanTimes{now, now}
	} else if t.until == 0 {
		t.until = now
	}
	i.o.Measured.Add(orphanedDelay, int64(t.until-t.since))
}

// beginPending records whether the import that has just begun needs results of an optimistic block
// that is still being applied. There is at most one such block, because imports run one at a time.
func (i *Importer) beginPending(now uint64) {
	i.pending, i.pendingFor = i.run.Import.AwaitsOptimistic(), 0
	if i.pendingSince = now; i.pending {
		i.o.Measured.Put(pendingBlocks, 1)
	}
}

// OptimisticEnded tells the Importer that a job of an optimistic block has ended. now is in ns.
func (i *Importer) OptimisticEnded(now uint64) {
	if i.pending && (i.run == nil || !i.run.Import.AwaitsOptimistic()) {
		i.endPending(now)
	}
}

func (i *Importer) endPending(now uint64) {
	if i.pending {
		i.pending, i.pendingFor = false, now-i.pendingSince
		i.o.Measured.Put(pendingBlocks, 0)
	}
}

// measurePending measures how long the finished import of a peer's block was pending, 0 if it never
// was (nearcore chain/chain/src/blocks_delay_tracker.rs:412).
func (i *Importer) measurePending(now uint64) {
	i.endPending(now)
	i.o.Measured.Add(pendingDelay, int64(i.pendingFor))
}

// countInvalid counts a peer's invalid block. Blocks with a wrong signature or height do not count,
// because an attacker can make any number of them (nearcore chain/chain/src/chain.rs:741).
func (i *Importer) countInvalid(err error) {
	if !errors.Is(err, chain.InvalidSignature) && !errors.Is(err, chain.InvalidBlockHeight) {
		i.o.Measured.Add(invalidBlocks, 1, chain.ErrorLabel(err))
	}
}

// lacks records that a pooled block lacks chunk bodies since now, in ns. Blocks that have left the
// pool are forgotten, so that lacking has at most one entry for each pooled block.
func (i *Importer) lacks(hash primitives.Hash, now uint64) {
	if _, known := i.lacking[hash]; known || !i.pool.Has(hash) {
		return
	}
	for other := range i.lacking {
		if !i.pool.Has(other) {
			delete(i.lacking, other)
		}
	}
	i.lacking[hash] = now
}

// complete measures how long a block lacked chunk bodies, 0 if it never did.
func (i *Importer) complete(hash primitives.Hash, now uint64) {
	since, known := i.lacking[hash]
	if !known {
		since = now
	}
	delete(i.lacking, hash)
	i.o.Measured.Add(missingDelay, int64(now-since))
}
