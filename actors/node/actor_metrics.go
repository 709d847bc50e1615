package node

import (
	"fmt"
	"strconv"
	"time"

	"github.com/troupe-chain/troupe/actors/system"
)

// Meter returns the measurements of all actors, by kind and shard.
func (n *Node) Meter() []system.Sample { return n.spawner.meter.Samples() }

// actorMetrics appends the metrics troupe_actor_* to b. There is one row for each kind and shard.
// Kinds of actors that belong to clients have one row.
func (n *Node) actorMetrics(b []byte) []byte {
	samples := n.Meter()
	labels := make([]string, len(samples))
	for i := range samples {
		labels[i] = fmt.Sprintf("actor=%q", samples[i].Name)
		if s := samples[i].Shard; s != "" {
			labels[i] += fmt.Sprintf(",shard_id=\"s%s\"", s)
		}
	}
	family := func(name, kind, help string, value func(*system.Sample) string) {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
		for i := range samples {
			b = fmt.Appendf(b, "%s{%s} %s\n", name, labels[i], value(&samples[i]))
		}
	}
	histogram := func(name, help string, value func(*system.Sample) *system.Histogram) {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name)
		for i := range samples {
			h, sum := value(&samples[i]), uint64(0)
			for k, bound := range system.Bounds {
				sum += h.Counts[k]
				b = fmt.Appendf(b, "%s_bucket{%s,le=\"%s\"} %d\n", name, labels[i], seconds(bound), sum)
			}
			b = fmt.Appendf(b, "%s_bucket{%s,le=\"+Inf\"} %d\n%s_sum{%s} %s\n%s_count{%s} %d\n",
				name, labels[i], h.Count(), name, labels[i], seconds(h.Sum), name, labels[i], h.Count())
		}
	}
	whole := func(v int64) string { return strconv.FormatInt(v, 10) }
	family("troupe_actor_alive", "gauge", "Running actors", func(s *system.Sample) string { return whole(s.Alive) })
	family("troupe_actor_mailbox_length", "gauge", "Messages in the mailbox",
		func(s *system.Sample) string { return whole(s.Mailbox) })
	family("troupe_actor_mailbox_oldest_seconds", "gauge", "Age of the oldest message in the mailbox",
		func(s *system.Sample) string { return seconds(s.Oldest) })
	family(
		"troupe_actor_busy_with_one_seconds",
		"gauge",
		"Time since the handling of the current message began; 0: no message is being handled",
		func(s *system.Sample) string { return seconds(s.Since) },
	)
	family("troupe_actor_busy_seconds_total", "counter", "Time spent on handling messages, including current ones",
		func(s *system.Sample) string { return seconds(s.Busy) })
	family("troupe_actor_restarts_total", "counter", "Restarts of actors after a failure",
		func(s *system.Sample) string { return whole(s.Restarts) })
	family("troupe_actor_dead_letters_total", "counter",
		"Messages that no actor handled, because their receiver had ended", func(s *system.Sample) string { return whole(s.Dead) })
	family("troupe_actor_standstills_total", "counter", "Actors that handled one message for longer than the watchdog allows",
		func(s *system.Sample) string { return whole(s.Stalls) })
	histogram("troupe_actor_wait_seconds", "Time that messages wait in the mailbox",
		func(s *system.Sample) *system.Histogram { return &s.Waited })
	histogram("troupe_actor_handle_seconds", "Time spent on handling a message",
		func(s *system.Sample) *system.Histogram { return &s.Handled })
	return b
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'g', -1, 64) }
