package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/vm"
)

// appendNear appends metrics of the chain under nearcore's names, for existing dashboards.
// actors/node contains the metrics of the node's counters.
func (h *Instance) appendNear(b []byte) []byte {
	gauge := func(name, help string, v float64) { b = appendMetric(b, "gauge", name, help, v) }
	height := float64(h.Engine.Head().Height())
	if at, err := h.Engine.HeaderChain().Head(); err == nil {
		height = max(height, float64(at.Height))
	}
	gauge("near_header_head_height", "Height of the header head", height)
	gauge("near_chunk_tail_height", "Height of chunk tail", float64(h.store.Tip().Tail))
	if s, err := h.Engine.Upgrade(); err == nil { // fails only if the store fails
		b = appendUpgrade(b, &s)
	}
	b = h.appendEpoch(b)
	var kickouts []epoch.EarlyKickoutStats
	_ = h.Engine.Epochs(func(m *epoch.Manager) error { kickouts = m.EarlyKickoutStats(); return nil }) // cannot fail
	b = appendEarlyKickout(b, kickouts)
	b = h.appendCongestion(b)
	return appendTimes(b, h.Engine.Times())
}

// appendUpgrade appends what the chain has decided about protocol versions. Like in nearcore, there
// are no votes until an epoch has ended since the start (nearcore chain/epoch-manager/src/lib.rs:553).
func appendUpgrade(b []byte, s *engine.UpgradeState) []byte {
	gauge := func(name, help string, v float64) { b = appendMetric(b, "gauge", name, help, v) }
	gauge("near_protocol_version_next", "The protocol version for the next epoch.", float64(s.Next))
	gauge("near_protocol_upgrade_block_height", "Estimated block height of the protocol upgrade", float64(s.Boundary()))
	gauge("troupe_newer_version_votes",
		"Stake that votes in the current epoch for protocol versions that this program does not support, percent", float64(s.Forecast.Percent))
	const votes = "near_protocol_version_votes"
	b = fmt.Appendf(b, "# HELP %s The percentage of stake voting for each protocol version\n# TYPE %s gauge\n", votes, votes)
	if s.Ended == nil {
		return b
	}
	for _, x := range s.Ended.Stakes {
		b = fmt.Appendf(b, "%s{protocol_version=\"%d\"} %d\n", votes, x.Version, s.Ended.Percent(x.Stake))
	}
	return b
}

// appendEpoch appends the validators of the head's epoch and the numbers of blocks and chunks that
// these validators produced.
func (h *Instance) appendEpoch(b []byte) []byte {
	if h.back == nil {
		return b
	}
	v, err := h.back.Validators(view.EpochRef{})
	if err != nil { // no block was imported since the state sync
		return b
	}
	own, is := primitives.AccountID(""), 0.
	if k := h.home.ValidatorKey; k != nil {
		own = k.AccountID
	}
	for i := range v.Current {
		if v.Current[i].AccountID == own {
			is = 1
		}
	}
	gauge := func(name, help string, x float64) { b = appendMetric(b, "gauge", name, help, x) }
	gauge("near_epoch_height", "Height of the epoch at the head of the blockchain", float64(v.EpochHeight))
	gauge("near_is_validator", "Bool to denote if it is validating in the current epoch", is)
	b = h.appendHeights(b, own)
	for _, f := range []struct {
		name, help string
		value      func(*view.CurrentValidator) uint64
	}{
		{"near_validators_blocks_expected", "Number of blocks expected to be produced by a validator",
			func(x *view.CurrentValidator) uint64 { return x.ExpectedBlocks }},
		{"near_validators_blocks_produced", "Number of blocks produced by a validator",
			func(x *view.CurrentValidator) uint64 { return x.ProducedBlocks }},
		{"near_validators_chunks_expected", "Number of chunks expected to be produced by a validator",
			func(x *view.CurrentValidator) uint64 { return x.ExpectedChunks }},
		{"near_validators_chunks_produced", "Number of chunks produced by a validator",
			func(x *view.CurrentValidator) uint64 { return x.ProducedChunks }},
	} {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s gauge\n", f.name, f.help, f.name)
		for i := range v.Current {
			b = fmt.Appendf(b, "%s{account_id=%q} %d\n", f.name, v.Current[i].AccountID, f.value(&v.Current[i]))
		}
	}
	for _, f := range []struct {
		name, help string
		value      func(*view.CurrentValidator) ([]primitives.ShardID, []uint64)
	}{
		{"near_validators_chunks_expected_by_shard", "Number of chunks expected to be produced by a validator",
			func(x *view.CurrentValidator) ([]primitives.ShardID, []uint64) {
				return x.Shards, x.ExpectedChunksPerShard
			}},
		{"near_validators_chunks_produced_by_shard", "Number of chunks produced by a validator",
			func(x *view.CurrentValidator) ([]primitives.ShardID, []uint64) {
				return x.Shards, x.ProducedChunksPerShard
			}},
		{"near_validators_chunk_endorsements_expected_by_shard",
			"Number of chunk endorsements expected to be produced by a validator", func(x *view.CurrentValidator) ([]primitives.ShardID, []uint64) {
				return x.ShardsEndorsed, x.ExpectedEndorsementsPerShard
			}},
		{"near_validators_chunk_endorsements_produced_by_shard", "Number of chunk endorsements produced by a validator",
			func(x *view.CurrentValidator) ([]primitives.ShardID, []uint64) {
				return x.ShardsEndorsed, x.ProducedEndorsementsPerShard
			}},
	} {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s gauge\n", f.name, f.help, f.name)
		for i := range v.Current {
			shards, values := f.value(&v.Current[i])
			for k := range min(len(shards), len(values)) {
				b = fmt.Appendf(b, "%s{account_id=%q,shard_id=\"%d\"} %d\n", f.name, v.Current[i].AccountID, shards[k], values[k])
			}
		}
	}
	return b
}

// appendHeights appends the roles of the head's epoch and heights of the head. own is this node's
// validator, or empty.
func (h *Instance) appendHeights(b []byte, own primitives.AccountID) []byte {
	head, final := h.Engine.Head().Header(), h.Engine.Final()
	p := producersOf{own: own}
	var start primitives.Height
	err := h.Engine.Epochs(func(m *epoch.Manager) (err error) {
		if p.info, err = m.EpochInfo(head.EpochID); err != nil {
			return err
		}
		if p.layout, err = m.ShardLayout(head.EpochID); err != nil {
			return err
		}
		config, err := m.EpochConfig(head.EpochID)
		if err != nil {
			return err
		}
		p.length = config.EpochLength
		start, err = m.EpochStartHeight(final.Hash)
		return err
	})
	if err != nil { // as right after a state sync
		return b
	}
	b = p.appendProducers(b)
	b = appendMetric(b, "gauge", "near_final_block_height_in_epoch", "Height of the last block within the epoch.",
		float64(final.Height-min(final.Height, start)))
	b = appendMetric(b, "gauge", "near_block_ordinal_head", "Ordinal of the current head of the blockchain", float64(head.BlockOrdinal))
	doomslug := 0.
	if x, err := h.Engine.Header(head.LastDSFinalBlock); err == nil && x != nil {
		doomslug = float64(x.Height)
	}
	return appendMetric(b, "gauge", "near_final_doomslug_block_height", "Last block that has Doomslug finality", doomslug)
}

// appendEarlyKickout appends, by shard, how often chunk producers were excluded within an epoch.
func appendEarlyKickout(b []byte, stats []epoch.EarlyKickoutStats) []byte {
	for _, f := range []struct {
		name, kind, help string
		value            func(*epoch.EarlyKickoutStats) uint64
	}{
		{"near_early_kickout_chunk_producer_reassigned_total", "counter",
			"Chunks that were assigned to another producer because the drawn one missed too many",
			func(s *epoch.EarlyKickoutStats) uint64 { return s.Reassigned }},
		{"near_early_kickout_safety_valve_fired_total", "counter",
			"Chunks for which one producer was kept although all missed too many",
			func(s *epoch.EarlyKickoutStats) uint64 { return s.Kept }},
		{"near_early_kickout_blacklist_size", "gauge", "Chunk producers that missed too many chunks, including one that is kept",
			func(s *epoch.EarlyKickoutStats) uint64 { return uint64(s.Candidates) }},
	} {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
		for i := range stats {
			b = fmt.Appendf(b, "%s{shard_id=\"%d\"} %d\n", f.name, stats[i].Shard, f.value(&stats[i]))
		}
	}
	return b
}

// appendCongestion appends the congestion of each shard at the head.
func (h *Instance) appendCongestion(b []byte) []byte {
	type row struct {
		shard string
		value string
	}
	family := func(name, help string, rows []row) {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name)
		for _, r := range rows {
			b = fmt.Appendf(b, "%s{shard_id=%q} %s\n", name, r.shard, r.value)
		}
	}
	var levels, sizes, delayed, incoming, outgoing []row
	head := h.Engine.Head()
	for _, c := range head.Block.Body.Chunks {
		shard := strconv.FormatUint(uint64(c.ShardID), 10)
		if h.back != nil {
			if level, err := h.back.CongestionLevel(context.Background(),
				view.ChunkRef{Block: view.BlockRef{Kind: view.RefHash, Hash: head.Hash}, ShardID: c.ShardID}); err == nil {
				levels = append(levels, row{shard, strconv.FormatFloat(level, 'g', -1, 64)})
			}
		}
		sizes = append(sizes, row{shard, strconv.FormatUint(c.CongestionInfo.ReceiptBytes, 10)})
		incoming = append(incoming, row{shard, c.CongestionInfo.DelayedReceiptsGas.String()})
		outgoing = append(outgoing, row{shard, c.CongestionInfo.BufferedReceiptsGas.String()})
	}
	for _, d := range h.Node.Stats().Delayed {
		delayed = append(delayed, row{strconv.FormatUint(uint64(d.ID), 10), strconv.FormatUint(d.Receipts, 10)})
	}
	family("near_congestion_level", "Summary of congestion per shard, between 0.0 and 1.0.", levels)
	family("near_congestion_receipt_bytes", "Size of all receipts currently delayed or buffered due to congestion.", sizes)
	family("near_congestion_incoming_gas", "Gas of all receipts currently delayed due to congestion.", incoming)
	family("near_congestion_outgoing_gas",
		"Gas of all receipts in the outgoing receipts buffer due to congestion on other shards.", outgoing)
	family("near_delayed_receipts_count", "The count of the delayed receipts. Indicator of congestion.", delayed)
	return b
}

// appendTimes appends the processing times of blocks and chunks.
func appendTimes(b []byte, t *engine.Times) []byte {
	head := func(name, help string) { b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name) }
	head("near_block_processing_time",
		"Time taken to process blocks successfully, from when a block is ready to be processed till when the processing is finished")
	if x := t.Blocks.Load(); x != nil {
		b = appendHistogram(b, "near_block_processing_time", "", x)
	}
	head("near_apply_chunk_delay_seconds", "Time to process a chunk. Gas used by the chunk is a metric label, rounded up to 100 teragas.")
	for i := range t.Chunks {
		if x := t.Chunks[i].Load(); x != nil {
			b = appendHistogram(b, "near_apply_chunk_delay_seconds", fmt.Sprintf("tgas_ceiling=\"%d\"", 100*i), x)
		}
	}
	head("near_chunk_tgas_used_hist", "Number of Tgas (10^12 of gas) used by processed chunks, as a histogram")
	if m := t.Gas.Load(); m != nil {
		for id, x := range *m {
			b = appendHistogram(b, "near_chunk_tgas_used_hist", fmt.Sprintf("shard=\"%d\"", id), x)
		}
	}
	b = t.Imports.AppendText(b, engine.BlockFamilies()...)
	b = t.Applied.AppendText(appendChoices(b, t.Choices.Read()))
	uses := t.Optimistic.Read()
	for _, c := range []struct {
		name, help string
		value      func(engine.Uses) uint64
	}{
		{"near_apply_chunk_results_cache_hits",
			"Chunks of imported blocks that were applied for an optimistic block with the same input", func(u engine.Uses) uint64 { return u.Hits }},
		{"near_apply_chunk_results_cache_misses",
			"Chunks of imported blocks for which there was no optimistic block with the same input", func(u engine.Uses) uint64 { return u.Misses }},
	} {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s counter\n", c.name, c.help, c.name)
		for _, id := range slices.Sorted(maps.Keys(uses)) {
			b = fmt.Appendf(b, "%s{shard_id=\"%d\"} %d\n", c.name, id, c.value(uses[id]))
		}
	}
	return b
}

// appendChoices appends what ended the choices of chunks' transactions.
func appendChoices(b []byte, of map[primitives.ShardID][apply.Limits]uint64) []byte {
	const name = "near_produce_chunk_transactions_limited_by"
	b = fmt.Appendf(b, "# HELP %s What limited the number of transactions in chunks that this node produced while its "+
		"pool had transactions\n# TYPE %s counter\n", name, name)
	for _, id := range slices.Sorted(maps.Keys(of)) {
		for l, n := range of[id] {
			b = fmt.Appendf(b, "%s{shard_id=\"%d\",limited_by=%q} %d\n", name, id, apply.Limit(l), n)
		}
	}
	return b
}

func appendHistogram(b []byte, name, labels string, x *engine.Histogram) []byte {
	bounds, counts, sum := x.Read()
	with, alone := labels, ""
	if labels != "" {
		with, alone = labels+",", "{"+labels+"}"
	}
	total := uint64(0)
	for i, bound := range bounds {
		total += counts[i]
		b = fmt.Appendf(b, "%s_bucket{%sle=\"%s\"} %d\n", name, with, strconv.FormatFloat(bound, 'g', -1, 64), total)
	}
	total += counts[len(bounds)]
	return fmt.Appendf(b, "%s_bucket{%sle=\"+Inf\"} %d\n%s_sum%s %s\n%s_count%s %d\n", name, with, total, name, alone,
		strconv.FormatFloat(sum, 'g', -1, 64), name, alone, total)
}

// appendProcess appends the metrics of the process.
func (h *Daemon) appendProcess(b []byte) []byte {
	b = fmt.Appendf(b, "# HELP near_build_info Metric whose labels indicate the node's version\n"+
		"# TYPE near_build_info counter\nnear_build_info{build=%q,release=%q,rustc_version=\"\"} 1\n", h.version.Build, h.version.Version)
	gauge := func(name, help string, v float64) { b = appendMetric(b, "gauge", name, help, v) }
	gauge("near_boot_time_seconds", "Unix timestamp in seconds of the moment the client was started", float64(h.began.Unix()))
	gauge("near_cpu_usage_ratio", "Percent of CPU usage since the previous scrape; 100: one core", h.cpu.percent(time.Now()))
	if h.front != nil {
		i := h.front.Info()
		gauge("near_received_bytes_per_second", "Number of bytes per second received over the network overall", float64(i.ReceivedBytesPerSec))
		gauge("near_sent_bytes_per_second", "Number of bytes per second sent over the network overall", float64(i.SentBytesPerSec))
	}
	if h.tracing != nil {
		sent, dropped := h.tracing.Counts()
		b = appendMetric(b, "counter", "troupe_traces_sent_total", "Traces that the collector received", float64(sent))
		b = appendMetric(b, "counter", "troupe_traces_dropped_total", "Traces that were dropped", float64(dropped))
	}
	return h.appendStorage(b)
}

// appendStorage appends the metrics of the store and its index.
func (h *Daemon) appendStorage(b []byte) []byte {
	s := h.store.Stats()
	row := func(kind, name, help string, v float64) { b = appendMetric(b, kind, name, help, v) }
	row("counter", "troupe_storage_log_bytes_total", "Bytes written to the block log", float64(s.LogBytes))
	row("counter", "troupe_storage_index_written_bytes_total", "Bytes written to the index: journal, tables, compactions",
		float64(s.IndexBytes))
	row("counter", "troupe_storage_index_read_bytes_total", "Bytes read from the index's tables", float64(s.IndexRead))
	row("counter", "troupe_storage_write_delays_total", "Writes that the index delayed because compactions were behind", float64(s.DelayCount))
	row("counter", "troupe_storage_write_delay_seconds_total", "Total time by which the index delayed writes", s.Delay.Seconds())
	paused := 0.
	if s.Paused {
		paused = 1
	}
	row("gauge", "troupe_storage_write_paused", "1 while a write waits for a compaction", paused)
	row("gauge", "troupe_storage_cache_bytes", "Bytes in the index's block cache", float64(s.CacheBytes))
	row("gauge", "troupe_storage_cache_capacity_bytes", "Capacity of the index's block cache, which follows the index's size",
		float64(s.CacheCapacity))
	row("gauge", "troupe_storage_open_tables", "Open tables of the index", float64(s.OpenTables))
	if len(s.LevelSizes) == 0 { // no compaction yet
		s.LevelSizes, s.LevelTables = []int64{0}, []int{0}
	}
	row("gauge", "troupe_storage_pending_blocks", "Blocks above the flat head", float64(s.Pending))
	row("gauge", "troupe_storage_pending_bytes", "Bytes of changes above the flat head", float64(s.PendingBytes))
	for _, f := range []struct {
		name, help string
		value      func(i int) int64
	}{
		{"troupe_storage_level_bytes", "Bytes in a level of the index", func(i int) int64 { return s.LevelSizes[i] }},
		{"troupe_storage_level_tables", "Tables in a level of the index", func(i int) int64 { return int64(s.LevelTables[i]) }},
	} {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s gauge\n", f.name, f.help, f.name)
		for i := range min(len(s.LevelSizes), len(s.LevelTables)) {
			b = fmt.Appendf(b, "%s{level=\"%d\"} %d\n", f.name, i, f.value(i))
		}
	}
	return b
}

// appendVM appends the metrics of contract calls by shard (nearcore
// runtime/near-vm-runner/src/metrics.rs).
func appendVM(b []byte, list []vm.ShardUsage) []byte {
	for _, f := range []struct {
		name, help string
		value      func(*vm.ShardUsage) *vm.Durations
	}{
		{"near_vm_runner_compilation_seconds", "Histogram of how long it takes to compile things",
			func(u *vm.ShardUsage) *vm.Durations { return &u.Compilation }},
		{"near_vm_runner_execution_seconds", "Histogram of how long it takes to execute a contract call",
			func(u *vm.ShardUsage) *vm.Durations { return &u.Execution }},
	} {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s histogram\n", f.name, f.help, f.name)
		for i := range list {
			d, total := f.value(&list[i]), uint64(0)
			for k, n := range d.Counts {
				le := "+Inf"
				if total += n; k < len(vm.UsageBounds) {
					le = strconv.FormatFloat(vm.UsageBounds[k].Seconds(), 'g', -1, 64)
				}
				b = fmt.Appendf(b, "%s_bucket{shard_id=\"%d\",le=%q} %d\n", f.name, list[i].Shard, le, total)
			}
			b = fmt.Appendf(b, "%s_sum{shard_id=\"%d\"} %s\n%s_count{shard_id=\"%d\"} %d\n", f.name, list[i].Shard,
				strconv.FormatFloat(d.Sum.Seconds(), 'g', -1, 64), f.name, list[i].Shard, total)
		}
	}
	for _, f := range []struct {
		name, help string
		value      func(*vm.ShardUsage) *[vm.Purposes]uint64
	}{
		{"near_vm_compiled_contract_cache_lookups_total", "The number of times the runtime looks up for an entry in the " +
			"compiled-contract cache for the given caller context and shard_id",
			func(u *vm.ShardUsage) *[vm.Purposes]uint64 { return &u.Lookups }},
		{"near_vm_compiled_contract_cache_hits_total", "The number of times the runtime finds an entry in the " +
			"compiled-contract cache for the given caller context and shard_id",
			func(u *vm.ShardUsage) *[vm.Purposes]uint64 { return &u.Hits }},
	} {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s counter\n", f.name, f.help, f.name)
		for i := range list {
			for p, n := range f.value(&list[i]) {
				b = fmt.Appendf(b, "%s{context=%q,shard_id=\"%d\"} %d\n", f.name, vm.Purpose(p), list[i].Shard, n)
			}
		}
	}
	return b
}
