package node

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/consensus/importer"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/metrics"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// stats are counters since the node started.
type stats struct {
	begun time.Time
	// number of canonical blocks, number of transactions in these blocks, gas that these blocks
	// used
	blocks, transactions, gas atomic.Uint64
	outcomes                  atomic.Uint64
	// number of new chunks, and of transactions in these chunks that were converted to receipts and
	// that failed
	chunks, converted, failed atomic.Uint64
	burnt                     atomic.Uint64 // bits of the yoctoNEAR, as a float64, that new chunks state to have burnt
	delayed                   atomic.Pointer[[]Delayed]
	// skipped is the number of missing chunks of blocks that became the head, by shard. A shard is
	// added when it first misses a chunk, by a copy of the map.
	skipped atomic.Pointer[map[primitives.ShardID]uint64]
	lags    metrics.Set
}

// headLag is nearcore's histogram of the age of new heads (chain/chain/src/metrics.rs).
var headLag = &metrics.Family{Name: "near_head_lag_seconds_hist", Kind: metrics.Histogram, Per: 1e9,
	Bounds: metrics.Bounds(0.1, 0.25, 0.5, 1, 2, 5, 10, 30), Help: "Distribution of seconds between wall clock and the latest block timestamp"}

// measureLag measures the age of a new head.
func (s *stats) measureLag(m *messages.BlockAccepted, now time.Time) {
	if m.IsHead {
		s.lags.Add(headLag, now.UnixNano()-int64(m.Block.Header.Timestamp))
	}
}

// skip counts a missing chunk. Only one goroutine may call it at a time.
func (s *stats) skip(id primitives.ShardID) {
	all := map[primitives.ShardID]uint64{}
	if p := s.skipped.Load(); p != nil {
		maps.Copy(all, *p)
	}
	all[id]++
	s.skipped.Store(&all)
}

// appendSkipped appends near_chunk_skipped_total. A shard appears with its first missing chunk, as
// in nearcore.
func (s *stats) appendSkipped(b []byte) []byte {
	const name = "near_chunk_skipped_total"
	b = fmt.Appendf(b, "# HELP %s Number of skipped chunks\n# TYPE %s counter\n", name, name)
	if p := s.skipped.Load(); p != nil {
		for _, id := range slices.Sorted(maps.Keys(*p)) {
			b = fmt.Appendf(b, "%s{shard_id=\"%d\"} %d\n", name, id, (*p)[id])
		}
	}
	return b
}

func (s *stats) count(m *messages.BlockAccepted) {
	if !m.IsHead {
		return
	}
	s.blocks.Add(1)
	delayed := make([]Delayed, len(m.Shards))
	for i := range m.Shards {
		x := &m.Shards[i]
		delayed[i] = Delayed{x.ID, x.Delayed}
		if x.Chunk != nil {
			s.chunks.Add(1)
			s.transactions.Add(uint64(len(x.Chunk.Transactions)))
			done, failed := converted(x)
			s.converted.Add(done)
			s.failed.Add(failed)
			s.burn(x.Chunk.Header.PrevBalanceBurnt)
		} else {
			s.skip(x.ID)
		}
		s.outcomes.Add(uint64(len(x.Outcomes)))
		for k := range x.Outcomes {
			s.gas.Add(uint64(x.Outcomes[k].Outcome.GasBurnt))
		}
	}
	s.delayed.Store(&delayed)
}

// Delayed is the length of a shard's delayed receipt queue.
type Delayed struct {
	ID       primitives.ShardID
	Receipts uint64
}

// burn adds an amount to s.burnt. Only one goroutine may call it at a time.
func (s *stats) burn(b primitives.Balance) {
	yocto, _ := new(big.Float).SetInt(b.Big()).Float64()
	s.burnt.Store(math.Float64bits(math.Float64frombits(s.burnt.Load()) + yocto))
}

// converted returns how many transactions of a chunk were converted to receipts, and how many
// failed. In the list of a chunk's outcomes, the outcomes of transactions come first, in the order
// of the transactions. A transaction without an outcome is a further copy of another one.
func converted(x *messages.ShardAccepted) (done, failed uint64) {
	at := 0
	for _, t := range x.Chunk.Transactions {
		if at == len(x.Outcomes) || x.Outcomes[at].ID != t.Hash() {
			continue
		}
		if x.Outcomes[at].Outcome.Status.Kind == primitives.StatusFailure {
			failed++
		} else {
			done++
		}
		at++
	}
	return done, failed
}

// Stats are counters since the node started, and current values.
type Stats struct {
	Uptime                      time.Duration
	Blocks, Transactions        uint64 // number of blocks that became the head, and of transactions in these blocks
	Outcomes, Gas               uint64
	Submitted, Refused, Overrun uint64 // as in mempool.Tally
	Pooled                      int    // number of transactions in all pools
	PooledBytes                 int64
	Parked, Sessions            int64
	Chunks                      uint64    // number of new chunks
	Converted, Failed           uint64    // number of transactions in these chunks that were converted to receipts, that failed
	Delayed                     []Delayed // delayed receipts after the head block, by shard
	Subscribed                  int64     // number of open subscriptions
	Streamed                    int64     // number of subscriptions that are open or whose actor still runs
}

// Stats returns the counts.
func (n *Node) Stats() Stats {
	s := &n.stats
	out := Stats{
		Uptime: time.Since(s.begun), Blocks: s.blocks.Load(), Transactions: s.transactions.Load(), Outcomes: s.outcomes.Load(),
		Gas: s.gas.Load(), Submitted: n.tally.Submitted.Load(), Refused: n.tally.Refused.Load(), Overrun: n.tally.Overrun.Load(),
		Parked: n.parked.Load(), Sessions: n.sessions.Load(),
	}
	out.Chunks, out.Converted, out.Failed = s.chunks.Load(), s.converted.Load(), s.failed.Load()
	out.Subscribed, out.Streamed = n.subscribed.Load(), n.streamed.Load()
	if d := s.delayed.Load(); d != nil {
		out.Delayed = *d
	}
	for _, t := range n.shards.set.Load().list {
		out.Pooled += t.pool.Len()
		out.PooledBytes += t.pool.Bytes()
	}
	return out
}

// Metrics appends the metrics of actors and pools to b, in Prometheus' text format: troupe_actor_*
// for actors, near_transaction_pool_* for pools, near_num_orphans and troupe_orphans_* for blocks
// whose parent is not imported, troupe_* for sessions, waits and limits.
func (n *Node) Metrics(b []byte) []byte {
	b = n.asyncMetrics(n.actorMetrics(b))
	shard := func(name, help string, value func(*shardActors) int64) {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name)
		for _, t := range n.shards.set.Load().list {
			b = fmt.Appendf(b, "%s{shard_id=\"s%d\"} %d\n", name, t.id, value(t))
		}
	}
	shard("near_transaction_pool_entries", "Total number of transactions currently in the pools tracked by the node",
		func(t *shardActors) int64 { return int64(t.pool.Len()) })
	shard("troupe_transactions_queued", "Submitted transactions that have not been checked",
		func(t *shardActors) int64 { return int64(t.pool.Queued()) })
	shard("near_transaction_pool_size", "Total size of transactions currently in the pools tracked by the node, bytes",
		func(t *shardActors) int64 { return t.pool.Bytes() })
	shard("troupe_transactions_held",
		"Transactions in the pools that wait until the contract that they deploy or call is compiled",
		func(t *shardActors) int64 { return int64(t.pool.Held()) })
	shard("troupe_transactions_held_bytes", "Total size of the transactions in the pools that wait for the compilation of a contract",
		func(t *shardActors) int64 { return t.pool.HeldBytes() })
	shard("troupe_transactions_compiling", "Transactions in the pools whose contract is being compiled now",
		func(t *shardActors) int64 { return int64(t.pool.Compiling()) })

	blocks, imports := &n.blocks, &n.imports
	if n.validator != nil {
		b = n.validator.Metrics(b)
		blocks, imports = &n.validator.Counters.Blocks, &n.validator.Counters.Produced.Measured
	} else {
		b = n.production.AppendText(b, engine.ProduceChunkTime)
	}
	b = imports.AppendText(b, importer.Families()...)
	halted := 0
	if _, ok := n.Halted(); ok {
		halted = 1
	}
	b = fmt.Appendf(b, "# HELP troupe_halted 1: the node accepts no blocks until it is restarted; GET /status has the reason\n"+
		"# TYPE troupe_halted gauge\ntroupe_halted %d\n", halted)

	s, known := n.Stats(), n.records.Stats()
	shown, looks, spared := n.statusGroup.stats()
	for _, g := range []struct {
		name, kind, help string
		value            uint64
	}{
		{"troupe_blocks_accepted_total", "counter", "Blocks that became the head", s.Blocks},
		{"troupe_transactions_included_total", "counter", "Transactions in blocks that became the head", s.Transactions},
		{"troupe_transactions_submitted_total", "counter", "Transactions that clients submitted", s.Submitted},
		{"troupe_transactions_refused_total", "counter", "Submitted transactions that were rejected", s.Refused},
		{"troupe_transactions_overrun_total", "counter", "Submitted transactions dropped without a check because the queue was full",
			s.Overrun},
		{"troupe_transactions_dropped_total", "counter",
			"Transactions dropped from a pool, or rejected without a waiting client: the sum of _invalid, _full and _node",
			n.drops.invalid.Load() + n.drops.room.Load() + n.drops.node.Load()},
		{"troupe_transactions_dropped_invalid_total", "counter",
			"Dropped transactions that became invalid: expired, nonce already used, or signer unable to pay", n.drops.invalid.Load()},
		{"troupe_transactions_dropped_full_total", "counter", "Dropped transactions that exceeded a limit of the pool", n.drops.room.Load()},
		{"troupe_transactions_dropped_node_total", "counter",
			"Transactions dropped for another reason: a rollback, a failed mempool, or a rejection by the writer of this replica",
			n.drops.node.Load()},
		{"troupe_transactions_unheld_total", "counter",
			"Transactions dropped because too many wait for the compilation of a contract, or for a transaction that does",
			n.tally.HoldsDropped.Load()},
		{"troupe_transactions_queued_limit", "gauge", "Limit of submitted transactions that wait for their check, per shard",
			uint64(n.o.Limits.Queue)},
		{"troupe_transactions_queued_bytes_limit", "gauge",
			"Limit of the total size of submitted transactions that wait for their check, per shard", uint64(n.o.Limits.QueueBytes)},
		{"troupe_transactions_held_limit", "gauge",
			"Limit of transactions that wait for the compilation of a contract, per shard, not counting those being compiled",
			uint64(n.o.Limits.Held)},
		{"troupe_transactions_held_bytes_limit", "gauge",
			"Limit of the total size of transactions that wait for the compilation of a contract, per shard", uint64(n.o.Limits.HeldBytes)},
		{"troupe_waits_parked", "gauge", "Requests that wait for a transaction", uint64(max(s.Parked, 0))},
		{"troupe_waits_beginning", "gauge", "Requests that wait for a transaction and that the transaction tracker does not know yet",
			uint64(max(n.admission.pending.Load(), 0))},
		{"troupe_waits_refused_late_total", "counter",
			"Requests to wait for a transaction refused because a wait takes longer than troupe.rpc.max_wait_delay to begin",
			n.admission.refused.Load()},
		{"troupe_waits_transactions", "gauge",
			"Distinct transactions that requests wait for; during a reorganisation each branch counts", uint64(known.Transactions)},
		{"troupe_waits_outcomes", "gauge",
			"Outcomes in memory, of the transactions that requests wait for and of their receipts", uint64(known.Outcomes)},
		{"troupe_waits_outcomes_limit", "gauge",
			"Limit of outcomes in memory; beyond it a wait that needs more than a few from the store is refused", uint64(n.o.Limits.Outcomes)},
		{"troupe_waits_lookups_total", "counter", "Outcomes read from the store for waiting requests", known.Lookups},
		{"troupe_waits_shown_bytes", "gauge", "Size of the transaction statuses kept in memory for several replies",
			uint64(shown)},
		{"troupe_waits_shown_bytes_limit", "gauge",
			"Limit of the transaction statuses kept in memory; beyond it each reply reads the status from the store", maxSharedBytes},
		{"troupe_waits_shown_reads_total", "counter", "Statuses of transactions read for replies", looks},
		{"troupe_waits_shown_spared_total", "counter", "Replies that use a transaction status read for another reply", spared},
		{"troupe_sessions_open", "gauge", "Clients with an open session", uint64(max(s.Sessions, 0))},
		{"troupe_subscriptions_open", "gauge", "Subscriptions that have not ended", uint64(max(s.Subscribed, 0))},
		{"troupe_subscriptions_ending", "gauge", "Subscriptions that have ended, but whose actor still runs",
			uint64(max(s.Streamed-s.Subscribed, 0))},
		{"near_num_orphans", "gauge", "Number of orphan blocks", uint64(max(blocks.Orphans.Load(), 0))},
		{"troupe_orphans_limit", "gauge", "Limit of the blocks that wait for their parent or for chunks, together", blockpool.MaxBlocks},
		{"troupe_orphans_evicted_total", "counter",
			"Orphan blocks dropped to make room for other blocks; each is requested again when another block builds on it",
			blocks.EvictedOrphans.Load()},
		{"near_block_processed_total", "counter", "Total number of blocks processed", s.Blocks},
		{"near_chunks_processed", "counter", "Number of processed chunks", s.Chunks},
		{"near_gas_used", "counter", "Gas used by processed blocks, measured in gas", s.Gas},
		{"near_transaction_processed_total", "counter", "The number of transactions processed since starting this node",
			s.Transactions},
		{"near_transaction_processed_successfully_total", "counter",
			"The number of transactions processed successfully since starting this node", s.Converted},
		{"near_transaction_processed_failed_total", "counter",
			"The number of transactions processed and failed since starting this node", s.Failed},
		{"near_blocks_processed", "counter", "Number of processed blocks", s.Blocks},
	} {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s %s\n%s %d\n", g.name, g.help, g.name, g.kind, g.name, g.value)
	}
	b = fmt.Appendf(b, "# HELP near_balance_burnt Balance burnt by processed blocks in yoctoNEAR\n"+
		"# TYPE near_balance_burnt counter\nnear_balance_burnt %g\n", math.Float64frombits(n.stats.burnt.Load()))
	b = n.stats.lags.AppendText(n.stats.appendSkipped(b), headLag)
	return fmt.Appendf(b, "# HELP troupe_waits_begin_seconds Current delay until the transaction tracker knows a new "+
		"request that waits for a transaction\n"+
		"# TYPE troupe_waits_begin_seconds gauge\ntroupe_waits_begin_seconds %g\n",
		n.admission.delay().Seconds())
}

// meter is the actor that logs a summary line once in Options.Summary.
type meter struct {
	n     *Node
	timer *time.Timer
	last  Stats
}

// summarise is the timer's message to self.
type summarise struct{}

// Receive handles one message.
func (m *meter) Receive(c actor.Context) {
	switch c.Message().(type) {
	case *actor.Started:
		root, self := c.ActorSystem().Root, c.Self()
		m.last = m.n.Stats()
		m.timer = time.AfterFunc(m.n.o.Summary, func() { root.Send(self, summarise{}) })
	case *actor.Stopping, *actor.Restarting:
		if m.timer != nil {
			m.timer.Stop()
		}
	case summarise:
		m.summarise()
		m.timer.Reset(m.n.o.Summary)
	}
}

func (m *meter) summarise() {
	if !m.n.o.Log.IsLevelEnabled(logrus.InfoLevel) {
		return
	}
	now, head := m.n.Stats(), m.n.engine.Head()
	span := max((now.Uptime - m.last.Uptime).Seconds(), 1e-9)
	behind := ""
	if m.n.o.Network != nil {
		is, best := m.n.o.Network.Status.Syncing()
		switch peers := m.n.o.Network.Status.Peers(); {
		case is && peers == 0:
			behind = ", no peers"
		case is:
			behind = fmt.Sprintf(", %d peer%s, %d blocks behind", peers, plural(peers), best-min(best, head.Height()))
		default:
			behind = fmt.Sprintf(", %d peer%s", peers, plural(peers))
		}
	}
	m.n.o.Log.WithFields(logrus.Fields{
		"height": head.Height(), "block": head.Hash, "final": m.n.finalHeight(),
	}).Infof("%.1f blocks/s, %.1f transactions/s, %d pooled transactions, %d waiting requests%s",
		float64(now.Blocks-m.last.Blocks)/span, float64(now.Transactions-m.last.Transactions)/span, now.Pooled, now.Parked, behind)
	m.last = now
}

// plural returns the ending of a noun after a number, as in neard's line ("1 peer", "2 peers";
// nearcore chain/client/src/info.rs).
func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}
