package daemon

import "fmt"

// appendShards appends which shards are held, and what comes of those that are on their way in.
func (h *Daemon) appendShards(b []byte) []byte {
	head := h.Engine.Head()
	b = append(b, "# HELP near_client_tracked_shards Tracked shards\n# TYPE near_client_tracked_shards gauge\n"...)
	for i := range head.Shards {
		held := 0
		if head.Shards[i].Held() {
			held = 1
		}
		b = fmt.Appendf(b, "near_client_tracked_shards{shard_id=\"%d\"} %d\n", head.Shards[i].ID, held)
	}
	b = appendMetric(b, "counter", "troupe_snapshots_given_up", "Shards' states that are not given to others, since too much had changed when they were to be kept",
		float64(h.Engine.SnapshotsGivenUp()))
	if p, known := h.Engine.SyncPointNow(); known {
		b = appendMetric(b, "gauge", "troupe_sync_point_height", "Height of the newest sync point, at whose states shards come in where they are needed", float64(p.At.Height))
		b = appendMetric(b, "gauge", "troupe_sync_point_age_epochs", "Epochs that have begun since; from 2 on some shard lacks chunks, and all since then stays on disk up to troupe.state.point_epochs",
			float64(p.Age))
	}
	m := h.Node.ShardMoves()
	if m == nil {
		return b
	}
	var here, all, behind uint64
	for i := range m.Incoming {
		x := &m.Incoming[i]
		here, all = here+x.Here, all+x.Total
		if x.At > 0 && head.Height() > x.At {
			behind += uint64(head.Height() - x.At)
		}
	}
	row := func(kind, name, help string, v uint64) { b = appendMetric(b, kind, name, help, float64(v)) }
	row("gauge", "troupe_shards_incoming", "Shards on their way in, for the epochs in which they are needed", uint64(len(m.Incoming)))
	row("gauge", "troupe_shards_incoming_parts", "Parts that there are of their states, as far as that is known", all)
	row("gauge", "troupe_shards_incoming_parts_here", "How many of them have come", here)
	row("gauge", "troupe_shards_incoming_blocks", "Blocks that they are behind the head, of those whose states are here", behind)
	row("counter", "troupe_shards_come", "Shards that have come in", m.In)
	row("counter", "troupe_shards_gone", "Shards that were let go", m.Out)
	return b
}
