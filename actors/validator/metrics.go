package validator

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/chain/anchor"
	"github.com/troupe-chain/troupe/consensus"
)

// Metrics appends the wait of the validator's key, and the counters of chunk messages that name an
// anchor (the parent of the chunk's parent), to b, in Prometheus' text format.
func (l *Life) Metrics(b []byte) []byte {
	const (
		lookups = "near_anchored_chunk_producer_lookup_total"
		results = "troupe_anchored_messages_total"
		keyWait = "troupe_validator_key_wait_blocks"
		waiting = "troupe_anchored_messages_waiting"
		bytes   = "troupe_anchored_messages_waiting_bytes"
	)
	type value struct {
		result string
		n      uint64
	}
	kinds := []struct {
		name string
		c    *anchor.Counters
	}{{"chunk", &l.Counters.Chunks}, {"witness", &l.Counters.Witnesses}}
	counters := func(name, help string, of func(c *anchor.Counters) []value) {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s counter\n", name, help, name)
		for _, k := range kinds {
			for _, v := range of(k.c) {
				b = fmt.Appendf(b, "%s{message_type=%q,result=%q} %d\n", name, k.name, v.result, v.n)
			}
		}
	}
	b = fmt.Appendf(b, "# HELP %s Lookups of a chunk's producer by the anchor in a message\n# TYPE %s counter\n", lookups, lookups)
	all := map[anchor.Lookup]uint64{}
	for _, k := range kinds { // each kind of message is in one of these counters
		maps.Copy(all, k.c.Lookups())
	}
	for _, of := range anchor.SortLookups(all) {
		b = fmt.Appendf(b, "%s{shard_id=%q,message_type=%q,result=%q} %d\n", lookups, of.Shard, of.Message, of.Result, all[of])
	}
	counters(results, "Messages about chunks that were dropped or queued instead of being handled on arrival, by result",
		func(c *anchor.Counters) []value {
			return []value{{"wrong_form", c.WrongForm.Load()}, {"wrong_place", c.WrongPlace.Load()}, {"unsigned", c.Unsigned.Load()},
				{"queued", c.Queued.Load()}, {"taken", c.Taken.Load()}, {"expired", c.Expired.Load()}, {"evicted", c.Evicted.Load()},
				{"refused", c.Refused.Load()}}
		})
	gauges := func(name, help string, of func(c *anchor.Counters) int64) {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name)
		for _, k := range kinds {
			b = fmt.Appendf(b, "%s{message_type=%q} %d\n", name, k.name, of(k.c))
		}
	}
	b = fmt.Appendf(b, "# HELP %s Blocks for which the validator's key, which is new to this node, signs nothing\n# TYPE %s gauge\n%s %d\n",
		keyWait, keyWait, keyWait, l.Waiting().Left)
	gauges(waiting, "Messages about chunks that wait until the parent block of the chunk arrives",
		func(c *anchor.Counters) int64 { return c.Waiting.Load() })
	gauges(bytes, "Total size of the messages that wait for the parent of their chunk",
		func(c *anchor.Counters) int64 { return c.WaitingBytes.Load() })
	return l.produced(b)
}

// produced appends what the validator has produced and received, under nearcore's names.
func (l *Life) produced(b []byte) []byte {
	c := &l.Counters.Produced
	for _, m := range []struct {
		name, kind, help string
		value            uint64
	}{
		{"near_block_produced_total", "counter", "Total number of blocks produced since starting this node", c.Blocks.Load()},
		{"near_chunk_produced_total", "counter", "Total number of chunks produced since starting this node", c.Chunks.Load()},
		{"near_largest_target_height", "gauge", "The largest height for which we sent an approval (or skip)", c.LargestTarget.Load()},
		{"near_largest_approval_height", "gauge", "The largest height for which we've got at least one approval", c.LargestApproval.Load()},
		{"near_largest_threshold_height", "gauge", "The largest height where we got enough approvals", c.LargestThreshold.Load()},
		{"near_largest_final_height", "gauge", "Largest height for which we saw a block containing 1/2 endorsements in it",
			c.LargestFinal.Load()},
	} {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s %s\n%s %d\n", m.name, m.help, m.name, m.kind, m.name, m.value)
	}
	results := c.Endorsements()
	sorted := slices.SortedFunc(maps.Keys(results), func(x, y consensus.EndorsementResult) int {
		return cmp.Or(cmp.Compare(x.Shard, y.Shard), cmp.Compare(x.Reason, y.Reason))
	})
	const accepted, rejected = "near_chunk_endorsements_accepted", "near_chunk_endorsements_rejected"
	b = fmt.Appendf(b, "# HELP %s Number of chunk endorsements which passed all validation checks and were included\n"+
		"# TYPE %s counter\n", accepted, accepted)
	for _, r := range sorted {
		if r.Reason == "" {
			b = fmt.Appendf(b, "%s{shard_id=\"%d\"} %d\n", accepted, r.Shard, results[r])
		}
	}
	b = fmt.Appendf(b, "# HELP %s Number of chunk endorsements which failed some validation check and were rejected\n"+
		"# TYPE %s counter\n", rejected, rejected)
	for _, r := range sorted {
		if r.Reason != "" {
			b = fmt.Appendf(b, "%s{shard_id=\"%d\",reason=%q} %d\n", rejected, r.Shard, r.Reason, results[r])
		}
	}
	return l.optimisticMetrics(b)
}

// optimisticMetrics appends the counters of optimistic blocks.
func (l *Life) optimisticMetrics(b []byte) []byte {
	o := &l.Counters.Optimistic
	for _, c := range []struct {
		name, help string
		n          uint64
	}{
		{"near_optimistic_block_produced_total", "Total number of optimistic blocks produced since starting this node", o.Produced.Load()},
		{"near_num_invalid_optimistic_blocks", "Number of invalid optimistic blocks", o.Invalid.Load()},
		{"near_num_dropped_optimistic_blocks_because_of_processed_height",
			"Number of optimistic blocks dropped because the height was already processed with a full block", o.Late.Load()},
		{"near_num_failed_optimistic_blocks", "Number of optimistic blocks which failed to be processed", o.Failed.Load()},
		{"near_num_failed_optimistic_block_applies", "Number of per-shard optimistic apply tasks that returned an error", o.Applies.Load()},
	} {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s counter\n%s %d\n", c.name, c.help, c.name, c.name, c.n)
	}
	const orphans = "near_num_optimistic_orphans"
	b = l.Counters.Produced.Measured.AppendText(b, consensus.Families()...)
	return fmt.Appendf(b, "# HELP %s Number of optimistic orphan blocks.\n# TYPE %s gauge\n%s %d\n", orphans, orphans,
		orphans, o.Orphans.Load())
}
