package engine

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/engine/metrics"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
)

// Metrics of a ChunkMeter, with nearcore's names, labels, texts and bounds (nearcore
// runtime/runtime/src/metrics.rs, chain/chain/src/runtime/metrics.rs,
// chain/chain/src/stateless_validation/metrics.rs, chain/client/src/metrics.rs).
var (
	meterShard    = []string{"shard_id"}
	tgasStages    = metrics.Linear(0, 100, 13)
	gasBounds     = append([]float64{0, 50}, tgasStages[1:]...)
	computeBounds = append(append([]float64{}, gasBounds...), 1300, 2000)
	proofBounds   = metrics.Linear(0, 800_000, 20)

	chunkTgas    = chunkGas("near_chunk_tgas", "Tgas burnt by chunk, as a histogram. "+allApplied, gasBounds)
	chunkCompute = chunkGas("near_chunk_compute", "Compute time by chunk, as a histogram in ms. "+allApplied, computeBounds)
	stageTgas    = [apply.NumStages]*metrics.Family{
		apply.StageTransactions: chunkGas("near_chunk_tx_tgas",
			"Tgas burnt for transaction validation by chunk, as a histogram", gasBounds[:7]),
		apply.StageLocal: chunkGas("near_chunk_local_receipt_tgas",
			"Tgas burnt for applying local receipts by chunk, as a histogram", gasBounds),
		apply.StageDelayed: chunkGas("near_chunk_delayed_receipt_tgas",
			"Tgas burnt for applying delayed receipts by chunk, as a histogram", gasBounds),
		apply.StageIncoming: chunkGas("near_chunk_inc_receipt_tgas",
			"Tgas burnt for applying incoming receipts by chunk, as a histogram", gasBounds),
		apply.StageYieldTimeouts: chunkGas("near_chunk_yield_timeouts_tgas",
			"Tgas burnt for triggering timed-out yields by chunk, as a histogram", gasBounds),
	}
	stageCompute = [apply.NumStages]*metrics.Family{
		apply.StageTransactions: chunkGas("near_chunk_tx_compute",
			"Compute time for transaction validation by chunk, as a histogram in ms", gasBounds[:8]),
		apply.StageLocal: chunkGas("near_chunk_local_receipt_compute",
			"Compute time for applying local receipts by chunk, as a histogram in ms", computeBounds),
		apply.StageDelayed: chunkGas("near_chunk_delayed_receipt_compute",
			"Compute time for applying delayed receipts by chunk, as a histogram in ms", computeBounds),
		apply.StageIncoming: chunkGas("near_chunk_inc_receipt_compute",
			"Compute time for applying incoming receipts by chunk, as a histogram in ms", computeBounds),
		apply.StageYieldTimeouts: chunkGas("near_chunk_yield_timeouts_compute",
			"Compute time for triggering timed-out yields by chunk, as a histogram in ms", computeBounds),
	}
	receiptsProcessed = [apply.NumStages]*metrics.Family{ // StageTransactions has none
		apply.StageLocal: {Name: "near_local_receipt_processed_total", Kind: metrics.Counter, Labels: meterShard,
			Help: "The number of local receipts processed since starting this node"},
		apply.StageDelayed: {Name: "near_delayed_receipt_processed_total", Kind: metrics.Counter, Labels: meterShard,
			Help: "The number of delayed receipts processed since starting this node"},
		apply.StageIncoming: {Name: "near_incoming_receipt_processed_total", Kind: metrics.Counter, Labels: meterShard,
			Help: "The number of incoming receipts processed since starting this node"},
		apply.StageYieldTimeouts: {Name: "near_yield_timeouts_processed_total", Kind: metrics.Counter, Labels: meterShard,
			Help: "The number of yield timeouts processed since starting this node"},
	}
	receiptTime = [apply.NumStages]*metrics.Family{ // StageTransactions has none
		apply.StageLocal: {Name: "near_local_receipt_processing_seconds_total", Kind: metrics.Counter, Labels: meterShard,
			Per: 1e9, Help: "Time taken to apply local receipts since starting this node"},
		apply.StageDelayed: {Name: "near_delayed_receipt_processing_seconds_total", Kind: metrics.Counter, Labels: meterShard,
			Per: 1e9, Help: "Time taken to apply delayed receipts since starting this node"},
		apply.StageIncoming: {Name: "near_incoming_receipt_processing_seconds_total", Kind: metrics.Counter, Labels: meterShard,
			Per: 1e9, Help: "Time taken to apply incoming receipts since starting this node"},
		apply.StageYieldTimeouts: {Name: "near_yield_timeouts_processing_seconds_total", Kind: metrics.Counter, Labels: meterShard,
			Per: 1e9, Help: "Time taken to trigger timed-out yields since starting this node"},
	}
	callsProcessed = &metrics.Family{Name: "near_function_call_processed", Kind: metrics.Counter, Labels: []string{"result"},
		Help: "Contract calls executed since starting this node, by result: ok, or the kind of error"}
	callErrors = callFailures("near_function_call_processed_function_call_errors", "with an error")
	// callErrorsOf are the metrics of each error. Link, loading and unknown errors have no kinds.
	callErrorsOf = map[string]*metrics.Family{
		"CompilationError":   callFailures("near_function_call_processed_compilation_errors", "of code that does not compile"),
		"MethodResolveError": callFailures("near_function_call_processed_method_resolve_errors", "of a method that cannot be called"),
		"WasmTrap":           callFailures("near_function_call_processed_wasm_trap_errors", "that trapped"),
		"HostError":          callFailures("near_function_call_processed_host_errors", "that a host function ended"),
		"LinkError": {Name: "near_function_call_processed_link_errors", Kind: metrics.Counter,
			Help: "Contract calls of code that does not link, since starting this node"},
		"LoadingError": {Name: "near_function_call_processed_loading_errors", Kind: metrics.Counter,
			Help: "Contract calls of code that is too large to load, since starting this node"},
		"WasmUnknownError": {Name: "near_function_call_processed_wasm_unknown_errors", Kind: metrics.Counter,
			Help: "Contract calls that failed for an unknown reason of the VM, since starting this node"},
	}
	limitedBy = &metrics.Family{Name: "near_chunk_receipts_limited_by", Kind: metrics.Counter,
		Labels: []string{"shard_id", "limited_by"},
		Help:   "Applied chunks, by the limit that they reached and after which they delayed receipts"}
	applyAllTime = &metrics.Family{Name: "near_apply_all_chunks_time", Kind: metrics.Histogram, Labels: []string{"block_type"},
		Per: 1e9, Bounds: blockBounds,
		Help: "Time from the start of the first chunk of a block to the end of the last one"}
	outgoingReceipts = &metrics.Family{Name: "near_outgoing_receipts_generated_total", Kind: metrics.Counter,
		Labels: []string{"sender_shard_id", "receiver_shard_id"},
		Help:   "Number of outgoing receipts generated since starting this node"}
	transactionsApplied = &metrics.Family{Name: "near_transaction_applied_total", Kind: metrics.Counter,
		Help: "The number of transactions that have reached the transaction runtime's apply"}
	actionsCalled = &metrics.Family{Name: "near_action_called_count", Kind: metrics.Counter, Labels: []string{"action"},
		Help: "Number of times given action has been called since starting this node"}
	recordedSize = &metrics.Family{Name: "near_chunk_recorded_size", Kind: metrics.Histogram, Labels: meterShard,
		Bounds: proofBounds, Help: "Total size of storage proof (recorded trie nodes for state witness, post-finalization) for a single chunk"}
	recordedBound = &metrics.Family{Name: "near_chunk_recorded_size_upper_bound", Kind: metrics.Histogram, Labels: meterShard,
		Bounds: proofBounds,
		Help: "Upper bound of storage proof size (recorded trie nodes size + estimated charges, pre-finalization) " +
			"for a single chunk"}
	recordedRatio = &metrics.Family{Name: "near_chunk_recorded_size_upper_bound_ratio", Kind: metrics.Histogram, Labels: meterShard,
		Per: 1e6, Bounds: metrics.Exponential(1, 1.2, 15),
		Help: "Ratio of upper bound to true storage proof size, equal to " +
			"(near_chunk_recorded_size_upper_bound / near_chunk_recorded_size)"}
	applyingTime = &metrics.Family{Name: "near_applying_chunks_time", Kind: metrics.Histogram, Labels: []string{"apply_reason", "shard_id"},
		Per: 1e9, Bounds: blockBounds, Help: "Time taken to apply chunks per shard"}
	codingTime = &metrics.Family{Name: "near_validate_chunk_with_encoded_merkle_root_time", Kind: metrics.Histogram, Labels: meterShard,
		Per: 1e9, Bounds: metrics.Bounds(0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5),
		Help: "Time taken to validate a chunk with encoded merkle root"}
	chunkTransactions = &metrics.Family{Name: "near_chunk_transactions_total", Kind: metrics.Counter, Labels: meterShard,
		Help: "Total number of transactions included in chunks produced by this node"}
)

// Metrics of the choice of a chunk's transactions, which takes place if transactions wait (nearcore
// chain/chain/src/runtime/metrics.rs).
var (
	prepareSize = &metrics.Family{Name: "near_prepare_tx_size", Kind: metrics.Histogram, Labels: meterShard,
		Bounds: metrics.Bounds(1e3, 1e4, 1e5, 5e5, 1e6, 2e6, 4e6, 8e6, 12e6),
		Help:   "Bytes of the transactions chosen for a chunk"}
	prepareGas = &metrics.Family{Name: "near_prepare_tx_gas", Kind: metrics.Histogram, Labels: meterShard,
		Bounds: metrics.Exponential(100e9, 2, 12), Help: "Gas for the conversion of the transactions chosen for a chunk"}
	prepareRejected = &metrics.Family{Name: "near_prepare_tx_rejected", Kind: metrics.Histogram,
		Labels: []string{"shard_id", "reason"}, Bounds: metrics.Exponential(0.99999, 10, 6),
		Help: "Transactions dropped from the pool by the choice for a chunk"}
	prepareGasLimit = &metrics.Family{Name: "near_congestion_prepare_tx_gas_limit", Kind: metrics.Gauge, Labels: meterShard,
		Help: "Gas up to which a chunk converts new transactions; less under congestion"}
)

// dropLabels are nearcore's reasons. It does not count those of DropExpired.
var dropLabels = map[apply.DropReason]string{
	apply.DropCongested: "congestion", apply.DropInvalid: "invalid_tx", apply.DropChain: "invalid_block_hash",
}

// prepared measures the choice of a chunk's transactions.
func (m *ChunkMeter) prepared(id primitives.ShardID, p *apply.Prepared) {
	shard := strconv.FormatUint(uint64(id), 10)
	m.set.Add(prepareSize, int64(p.Size), shard)
	m.set.Add(prepareGas, int64(p.Gas), shard)
	m.set.Put(prepareGasLimit, int64(p.GasLimit), shard)
	dropped := map[apply.DropReason]int64{}
	for i := range p.Dropped {
		dropped[p.Dropped[i].Reason]++
	}
	for reason, name := range dropLabels {
		m.set.Add(prepareRejected, dropped[reason], shard, name)
	}
}

// Metrics of makers of chunks, with nearcore's names and bounds (nearcore chain/client/src/metrics.rs).
var (
	// ProduceChunkTime has the ns from the choice of a chunk's transactions to the signed chunk.
	ProduceChunkTime = &metrics.Family{Name: "near_produce_chunk_time", Kind: metrics.Histogram, Labels: meterShard, Per: 1e9,
		Bounds: metrics.Exponential(0.001, 2, 16), Help: "Time to choose the transactions of a chunk and to make it"}
	// ProduceAndDistributeChunkTime has the ns until the chunk's parts and state witness are sent, too.
	ProduceAndDistributeChunkTime = &metrics.Family{Name: "near_produce_and_distribute_chunk_time", Kind: metrics.Histogram,
		Labels: meterShard, Per: 1e9, Bounds: metrics.Exponential(0.001, 2, 16),
		Help: "Time to make a chunk and to send its parts and its state witness"}
)

const allApplied = "Reported for all applied chunks, even when not included in a block."

func chunkGas(name, help string, bounds []float64) *metrics.Family {
	return &metrics.Family{Name: name, Kind: metrics.Histogram, Labels: meterShard, Per: teragas, Bounds: bounds, Help: help}
}

func callFailures(name, what string) *metrics.Family {
	return &metrics.Family{Name: name, Kind: metrics.Counter, Labels: []string{"error_type"},
		Help: "Contract calls " + what + ", by kind, since starting this node"}
}

// actionLabels are nearcore's labels of the actions.
var actionLabels = [primitives.NumActionTags]string{
	primitives.TagCreateAccount: "CreateAccount", primitives.TagDeployContract: "DeployContract",
	primitives.TagFunctionCall: "FunctionCall", primitives.TagTransfer: "Transfer", primitives.TagStake: "Stake",
	primitives.TagAddKey: "AddKey", primitives.TagDeleteKey: "DeleteKey", primitives.TagDeleteAccount: "DeleteAccount",
	primitives.TagDelegate: "Delegate", primitives.TagDelegateV2: "Delegate",
	primitives.TagDeployGlobalContract: "DeployGlobalContract", primitives.TagUseGlobalContract: "UseGlobalContract",
	primitives.TagDeterministicStateInit: "DeterministicStateInit", primitives.TagUniversalStateInit: "UniversalStateInit",
	primitives.TagTransferToGasKey: "TransferToGasKey", primitives.TagWithdrawFromGasKey: "WithdrawFromGasKey",
}

// applyReason is why a chunk is applied (nearcore core/primitives-core/src/apply.rs).
type applyReason byte

const (
	updateShard   applyReason = iota // for a block or an optimistic block, or to catch up
	validateChunk                    // to check a witness
	applyReasons
)

var applyReasonLabels = [applyReasons]string{updateShard: "update_shard", validateChunk: "validate_chunk"}

// ChunkMeter measures the chunks that this node applies, checks and produces. Its methods take a few
// microseconds for each chunk. The zero value is ready to use. Safe for concurrent use.
type ChunkMeter struct {
	set  metrics.Set
	once sync.Once // sets the fields below

	transactions *metrics.Series
	callsDone    *metrics.Series
	applyAll     [blockTypes]*metrics.Series
	actions      [primitives.NumActionTags]*metrics.Series

	mu     sync.Mutex
	shards map[primitives.ShardID]*shardMeter
}

// shardMeter has the metrics of one shard, so that a chunk looks up only its shard.
type shardMeter struct {
	label         string
	applying      [applyReasons]*metrics.Series
	tgas, compute *metrics.Series
	stages        [apply.NumStages]struct{ tgas, compute, receipts, time *metrics.Series }
	size, bound   *metrics.Series
	ratio         *metrics.Series
	unlimited     *metrics.Series
	coding        *metrics.Series
	produced      *metrics.Series
	to            map[primitives.ShardID]*metrics.Series // receipts by receiving shard; under ChunkMeter.mu
}

// init makes the metrics that have no shard, which exist from the start.
func (m *ChunkMeter) init() {
	m.once.Do(func() {
		m.transactions = m.set.Series(transactionsApplied)
		m.callsDone = m.set.Series(callsProcessed, "ok")
		for kind, label := range blockTypeLabels {
			m.applyAll[kind] = m.set.Series(applyAllTime, label)
		}
		for tag, label := range actionLabels {
			m.actions[tag] = m.set.Series(actionsCalled, label)
		}
		m.shards = map[primitives.ShardID]*shardMeter{}
	})
}

// shard returns the metrics of a shard. The caller holds m.mu.
func (m *ChunkMeter) shard(id primitives.ShardID) *shardMeter {
	if s := m.shards[id]; s != nil {
		return s
	}
	label := strconv.FormatUint(uint64(id), 10)
	of := func(f *metrics.Family) *metrics.Series { return m.set.Series(f, label) }
	s := &shardMeter{
		label: label, tgas: of(chunkTgas), compute: of(chunkCompute), size: of(recordedSize), bound: of(recordedBound),
		ratio: of(recordedRatio), coding: of(codingTime), produced: of(chunkTransactions),
		unlimited: m.set.Series(limitedBy, label, "unlimited"),
		to:        map[primitives.ShardID]*metrics.Series{},
	}
	for reason, name := range applyReasonLabels {
		s.applying[reason] = m.set.Series(applyingTime, name, label)
	}
	for stage := range s.stages {
		x := &s.stages[stage]
		x.tgas, x.compute = of(stageTgas[stage]), of(stageCompute[stage])
		if f := receiptsProcessed[stage]; f != nil {
			x.receipts, x.time = of(f), of(receiptTime[stage])
		}
	}
	m.shards[id] = s
	return s
}

// shardOf is shard for callers that do not hold m.mu.
func (m *ChunkMeter) shardOf(id primitives.ShardID) *shardMeter {
	m.init()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shard(id)
}

// applied measures a chunk that was applied, or a block without a chunk of the shard.
func (m *ChunkMeter) applied(why applyReason, in *apply.Input, r *apply.Result, took time.Duration) {
	if m == nil {
		return
	}
	m.init()
	m.mu.Lock()
	s := m.shard(in.Block.ShardID)
	for i := range r.OutgoingByShard {
		o := &r.OutgoingByShard[i]
		if len(o.Receipts) == 0 {
			continue
		}
		if s.to[o.Shard] == nil {
			s.to[o.Shard] = m.set.Series(outgoingReceipts, s.label, strconv.FormatUint(uint64(o.Shard), 10))
		}
		s.to[o.Shard].Add(int64(len(o.Receipts)))
	}
	m.mu.Unlock()
	s.applying[why].Add(int64(took))
	if !in.NewChunk {
		return
	}
	m.transactions.Add(int64(len(in.Transactions)))
	for tag, n := range r.Stats.Begun {
		if n > 0 {
			m.actions[tag].Add(int64(n))
		}
	}
	s.tgas.Add(int64(r.GasUsed))
	s.compute.Add(int64(r.Stats.Compute))
	for stage := range s.stages {
		use := &r.Stats.Stages[stage]
		s.stages[stage].tgas.Add(int64(use.Gas))
		s.stages[stage].compute.Add(int64(use.Compute))
		s.stages[stage].time.Add(use.Nanoseconds)
	}
	m.called(&r.Stats)
	switch {
	case r.Stats.LimitedByGas:
		m.set.Add(limitedBy, 1, s.label, "compute_limit")
	case r.Stats.LimitedByProof:
		m.set.Add(limitedBy, 1, s.label, "storage_proof_size_limit")
	default:
		s.unlimited.Add(1)
	}
	s.stages[apply.StageLocal].receipts.Add(int64(r.Stats.Local))
	s.stages[apply.StageDelayed].receipts.Add(int64(r.Stats.Delayed))
	s.stages[apply.StageIncoming].receipts.Add(int64(r.Stats.Incoming))
	s.stages[apply.StageYieldTimeouts].receipts.Add(int64(len(r.YieldTimeouts)))
	size, bound := int64(r.RecordedSize), int64(r.Stats.UpperBoundBytes)
	s.size.Add(size)
	s.bound.Add(bound)
	s.ratio.Add(bound * 1e6 / max(size, 1))
}

// called counts the contract calls of a chunk. Failed ones are looked up by their labels.
func (m *ChunkMeter) called(s *apply.Stats) {
	m.callsDone.Add(int64(s.CallsDone))
	for f, n := range s.CallFailures {
		m.set.Add(callsProcessed, int64(n), f.Error)
		m.set.Add(callErrors, int64(n), f.Error)
		if of := callErrorsOf[f.Error]; of.Labels == nil {
			m.set.Add(of, int64(n))
		} else {
			m.set.Add(of, int64(n), f.Kind)
		}
	}
}

// blockType is what a block's chunks are applied for (nearcore core/primitives/src/optimistic_block.rs
// BlockToApply).
type blockType byte

const (
	normalBlock blockType = iota
	optimisticBlock
	blockTypes
)

var blockTypeLabels = [blockTypes]string{normalBlock: "Normal", optimisticBlock: "Optimistic"}

// timeSpan is when the first of some jobs began and the last one ended.
type timeSpan struct{ began, ended time.Time }

// add extends the span by a job that has run. A job that applied nothing has no span.
func (s *timeSpan) add(j *Job) {
	if j.ran.began.IsZero() {
		return
	}
	if s.began.IsZero() || j.ran.began.Before(s.began) {
		s.began = j.ran.began
	}
	if j.ran.ended.After(s.ended) {
		s.ended = j.ran.ended
	}
}

// appliedAll measures the jobs of a block.
func (m *ChunkMeter) appliedAll(kind blockType, s timeSpan) {
	if s.began.IsZero() {
		return
	}
	m.init()
	m.applyAll[kind].Add(int64(s.ended.Sub(s.began)))
}

// stopwatch is an apply.Clock that counts from a time.
type stopwatch time.Time

// Elapsed returns the ns since s.
func (s stopwatch) Elapsed() int64 { return int64(time.Since(time.Time(s))) }

// validate is chain.ValidateChunk, of which it measures the check of the coding.
func (m *ChunkMeter) validate(c *primitives.Chunk, extra *chain.ChunkExtra, outgoing []*primitives.Receipt,
	layout primitives.ShardLayout, rs *primitives.ReedSolomon) error {
	coded, err := chain.ValidateUncodedChunk(c, extra, outgoing, layout)
	if coded || err != nil {
		return err
	}
	began := time.Now()
	err = chain.ValidateCoding(c, outgoing, rs)
	if m != nil {
		m.shardOf(c.Header.ShardID).coding.Add(int64(time.Since(began)))
	}
	return err
}

// produced counts the transactions of a chunk that this node has produced.
func (m *ChunkMeter) produced(id primitives.ShardID, transactions int) {
	m.shardOf(id).produced.Add(int64(transactions))
}

// AppendText appends the metrics in Prometheus' text format.
func (m *ChunkMeter) AppendText(b []byte) []byte {
	m.init()
	list := []*metrics.Family{transactionsApplied, actionsCalled, chunkTgas, chunkCompute}
	for stage := range stageTgas {
		list = append(list, stageTgas[stage], stageCompute[stage])
		if f := receiptsProcessed[stage]; f != nil {
			list = append(list, f, receiptTime[stage])
		}
	}
	list = append(list, callsProcessed, callErrors)
	for _, name := range slices.Sorted(maps.Keys(callErrorsOf)) {
		list = append(list, callErrorsOf[name])
	}
	list = append(list, limitedBy, applyAllTime, prepareSize, prepareGas, prepareRejected, prepareGasLimit)
	return m.set.AppendText(b, append(list, outgoingReceipts, recordedSize, recordedBound, recordedRatio, applyingTime, codingTime,
		chunkTransactions)...)
}
