package node

import (
	"fmt"

	"github.com/troupe-chain/troupe/actors/system"
)

// asyncMetrics appends the data of troupe_actor_* to b under nearcore's names (near_async_*), for
// dashboards made for neard. Each row sums all shards of an actor kind and has the message type
// "any". The shard actors appear as the thread pool apply_chunks.
func (n *Node) asyncMetrics(b []byte) []byte {
	var kinds []system.Sample
	for _, s := range n.Meter() {
		if k := len(kinds) - 1; k >= 0 && kinds[k].Name == s.Name {
			x := &kinds[k]
			x.Mailbox += s.Mailbox
			x.Waited.Sum += s.Waited.Sum
			x.Handled.Sum += s.Handled.Sum
			for i := range s.Waited.Counts {
				x.Waited.Counts[i] += s.Waited.Counts[i]
				x.Handled.Counts[i] += s.Handled.Counts[i]
			}
			continue
		}
		kinds = append(kinds, s)
	}
	head := func(name, kind, help string) {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	}
	head("near_async_queue_pending_messages", "gauge", "Number of pending messages in the queue.")
	waiting := int64(0)
	for i := range kinds {
		b = fmt.Appendf(b, "near_async_queue_pending_messages{actor=%q} %d\n", kinds[i].Name, kinds[i].Mailbox)
		if kinds[i].Name == "shard" {
			waiting = kinds[i].Mailbox
		}
	}
	head("near_thread_pool_queue_size", "gauge", "thread pool job queue size")
	b = fmt.Appendf(b, "near_thread_pool_queue_size{pool_name=\"apply_chunks\"} %d\n", waiting)
	for _, of := range []struct {
		name, help string
		value      func(*system.Sample) *system.Histogram
	}{
		{"near_async_message_dequeue_time", "Time spent in the queue before being dequeued, in seconds.",
			func(s *system.Sample) *system.Histogram { return &s.Waited }},
		{"near_async_message_processing_time", "Time spent processing a message, in seconds.",
			func(s *system.Sample) *system.Histogram { return &s.Handled }},
	} {
		name := of.name
		head(name, "histogram", of.help)
		for i := range kinds {
			h, sum := of.value(&kinds[i]), uint64(0)
			labels := fmt.Sprintf("actor=%q,message_type=\"any\"", kinds[i].Name)
			for k, bound := range system.Bounds {
				sum += h.Counts[k]
				b = fmt.Appendf(b, "%s_bucket{%s,le=\"%s\"} %d\n", name, labels, seconds(bound), sum)
			}
			b = fmt.Appendf(b, "%s_bucket{%s,le=\"+Inf\"} %d\n%s_sum{%s} %s\n%s_count{%s} %d\n", name, labels, h.Count(),
				name, labels, seconds(h.Sum), name, labels, h.Count())
		}
	}
	return b
}
