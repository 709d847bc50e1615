package daemon

import (
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/actors/network"
	"github.com/troupe-chain/troupe/actors/validator"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

const makeSnapshot = "near_make_state_snapshot_elapsed_sec"

// appendShards appends which shards are tracked, and the progress of catchups.
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
	b = appendMetric(b, "counter", "troupe_snapshots_given_up", "State snapshots given up because too much had changed since their sync point",
		float64(h.Engine.Snapshots().GivenUp()))
	if x := h.Engine.Snapshots().Took(); x != nil {
		b = fmt.Appendf(b, "# HELP %s Time to make the state snapshots of a sync point\n# TYPE %[1]s histogram\n", makeSnapshot)
		b = appendHistogram(b, makeSnapshot, "", x)
	}
	if p, known := h.Engine.Snapshots().LastPoint(); known {
		b = appendMetric(b, "gauge", "troupe_sync_point_height",
			"Height of the newest sync point, from which shards catch up", float64(p.At.Height))
		b = appendMetric(b, "gauge", "troupe_sync_point_age_epochs",
			"Epochs since the sync point; from 2 on a shard lacks chunks, and all later blocks stay on disk, up to troupe.state.point_epochs",
			float64(p.Age))
	}
	m := h.Node.ShardMoves()
	b = h.appendSyncStages(b, m)
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
	row("gauge", "troupe_shards_incoming", "Shards that are catching up", uint64(len(m.Incoming)))
	row("gauge", "troupe_shards_incoming_parts", "State parts of the shards that are catching up; 0 until known", all)
	row("gauge", "troupe_shards_incoming_parts_here", "State parts received of the shards that are catching up", here)
	row("gauge", "troupe_shards_incoming_blocks", "Blocks that shards which have all state parts still have to apply to catch up", behind)
	row("counter", "troupe_shards_come", "Shards that caught up", m.In)
	row("counter", "troupe_shards_gone", "Shards that were untracked", m.Out)
	return b
}

// appendSyncStages appends the stage of each shard whose state is fetched, at start or in a catchup.
func (h *Daemon) appendSyncStages(b []byte, m *validator.Moved) []byte {
	const name = "near_state_sync_stage"
	stages := map[primitives.ShardID]int{}
	if h.front != nil {
		maps.Copy(stages, h.front.SyncStages())
	}
	if m != nil {
		for i := range m.Incoming {
			stage := network.StageDone // blocks after the state are applied
			switch m.Incoming[i].Stage {
			case engine.StageHeader:
				stage = network.StageHeader
			case engine.StageParts:
				stage = network.StageParts
			}
			stages[m.Incoming[i].Shard] = stage
		}
	}
	b = fmt.Appendf(b, "# HELP %s Stage of state sync per shard\n# TYPE %s gauge\n", name, name)
	for _, id := range slices.Sorted(maps.Keys(stages)) {
		b = fmt.Appendf(b, "%s{shard_id=\"%d\"} %d\n", name, id, stages[id])
	}
	return b
}
