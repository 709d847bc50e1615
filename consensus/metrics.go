package consensus

import (
	"math/big"
	"slices"
	"strconv"

	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/chain/partialwitness"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/metrics"
	"github.com/troupe-chain/troupe/primitives"
)

// Units of measured values.
const (
	perSecond = 1e9 // ns
	perRatio  = 1e6
)

// Metrics of a Node, with nearcore's names, labels, texts and bounds (nearcore
// chain/chain/src/metrics.rs, chain/chain/src/stateless_validation/metrics.rs,
// chain/chunks/src/metrics.rs, chain/client/src/metrics.rs).
var (
	delayBounds = metrics.Exponential(0.001, 1.6, 20)
	fineBounds  = metrics.Bounds(0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.5, 2)
	fieldBounds = metrics.Bounds(10e3, 20e3, 50e3, 100e3, 200e3, 300e3, 500e3, 750e3, 1e6, 1.5e6, 2e6, 2.5e6, 3e6, 3.5e6, 4e6, 4.5e6, 5e6, 6e6,
		7e6, 8e6, 9e6, 10e6)
	byShard = []string{"shard_id"}

	optimisticTime = &metrics.Family{Name: "near_optimistic_block_processing_time", Kind: metrics.Histogram,
		Per: perSecond, Bounds: delayBounds,
		Help: "Time taken to process optimistic blocks successfully, from when a block is ready to be processed till when " +
			"the processing is finished. " +
			"Measures only the time taken by the successful attempts of block processing",
	}
	optimisticReadyGap = &metrics.Family{Name: "near_optimistic_block_readiness_gap", Kind: metrics.Histogram, Per: perSecond,
		Bounds: metrics.TwoSided(delayBounds), Help: "Gap between the optimistic block readiness and receiving full block"}
	optimisticDoneGap = &metrics.Family{Name: "near_optimistic_block_processed_gap", Kind: metrics.Histogram, Per: perSecond,
		Bounds: metrics.TwoSided(delayBounds), Help: "Gap between the end of optimistic block processing and receiving full block"}

	approvalDelay = &metrics.Family{Name: "near_block_approval_delay", Kind: metrics.Histogram, Per: perSecond, Bounds: delayBounds,
		Help: "How long block with chunks is waiting for approval"}
	excludedChunks = &metrics.Family{Name: "near_block_producer_excluded_chunks_count", Kind: metrics.Counter,
		Labels: []string{"shard_id", "reason"},
		Help:   "Number of chunks excluded from the block due to insufficient chunk endorsements"}
	endorsedStake = &metrics.Family{Name: "near_block_producer_endorsed_stake_ratio", Kind: metrics.Histogram, Labels: byShard, Per: perRatio,
		Bounds: metrics.Linear(0, 0.05, 20), Help: "Ratio (the value is between 0.0 and 1.0) of the endorsed stake for the produced block"}
	missingEndorsements = &metrics.Family{Name: "near_block_producer_missing_endorsement_count", Kind: metrics.Histogram, Labels: byShard,
		Bounds: slices.Concat(metrics.Linear(0, 1, 5), metrics.Exponential(5, 1.5, 10)),
		Help:   "Number of validators from which the block producer has not received endorsements"}

	witnessSize = &metrics.Family{Name: "near_chunk_state_witness_total_size", Kind: metrics.Histogram, Labels: byShard,
		Bounds: metrics.Exponential(100_000, 1.2, 32), Help: "Stateless validation compressed state witness size in bytes"}
	witnessRawSize = &metrics.Family{Name: "near_chunk_state_witness_raw_size", Kind: metrics.Histogram, Labels: byShard,
		Bounds: metrics.Exponential(100_000, 1.2, 32), Help: "Stateless validation uncompressed (raw) state witness size in bytes"}
	witnessTransitionSize = &metrics.Family{Name: "near_chunk_state_witness_main_state_transition_size",
		Kind: metrics.Histogram, Labels: byShard,
		Bounds: fieldBounds, Help: "Size of ChunkStateWitness::main_state_transition (storage proof needed to execute receipts)"}
	witnessSourcesSize = &metrics.Family{Name: "near_chunk_state_witness_source_receipt_proofs_size", Kind: metrics.Histogram, Labels: byShard,
		Bounds: fieldBounds, Help: "Size of ChunkStateWitness::source_receipt_proofs (incoming receipts proofs)"}
	witnessEncodeTime = &metrics.Family{Name: "near_chunk_state_witness_encode_time", Kind: metrics.Histogram, Labels: byShard, Per: perSecond,
		Bounds: metrics.Linear(0.025, 0.025, 20), Help: "State witness encoding (serialization + compression) latency in seconds"}
	witnessDecodeTime = &metrics.Family{Name: "near_chunk_state_witness_decode_time", Kind: metrics.Histogram, Labels: byShard, Per: perSecond,
		Bounds: metrics.Linear(0.025, 0.025, 20), Help: "State witness decoding (decompression + deserialization) latency in seconds"}
	partialEncodeTime = &metrics.Family{Name: "near_partial_witness_encode_time", Kind: metrics.Histogram, Labels: byShard, Per: perSecond,
		Bounds: metrics.Linear(0, 0.005, 20), Help: "Partial state witness generation from encoded state witness time in seconds"}
	partialLastPart = &metrics.Family{Name: "near_partial_witness_time_to_last_part", Kind: metrics.Histogram, Labels: byShard, Per: perSecond,
		Bounds: fineBounds,
		Help:   "Time taken from receiving first partial witness part to receiving enough parts to decode the state witness",
	}
	partialCacheSize = &metrics.Family{Name: "near_partial_witness_cache_size", Kind: metrics.Gauge, Labels: byShard,
		Help: "Total size in bytes of all currently cached witness parts for a given shard"}
	deploysLastPart = &metrics.Family{Name: "near_partial_contract_deploys_time_to_last_part", Kind: metrics.Histogram,
		Labels: byShard, Per: perSecond,
		Bounds: fineBounds,
		Help:   "Time taken from receiving first partial contract deploys to receiving enough parts to decode"}
	codeTime = &metrics.Family{Name: "near_receive_witness_accessed_contract_codes_time", Kind: metrics.Histogram,
		Labels: byShard, Per: perSecond,
		Bounds: metrics.Linear(0.025, 0.025, 40), Help: "Time it takes to retrieve missing contract codes"}
	codeDelay = &metrics.Family{Name: "near_witness_accessed_contract_codes_delay", Kind: metrics.Histogram, Labels: byShard, Per: perSecond,
		Bounds: metrics.Linear(0.025, 0.025, 40), Help: "Delay in witness processing caused by waiting for accessed contract codes"}
	codeState = &metrics.Family{Name: "near_decode_partial_witness_accessed_contracts_state_count", Kind: metrics.Counter,
		Labels: []string{"shard_id", "state"},
		Help:   "State of the accessed contracts when collected enough parts to decode the witness"}
	codeAnswerTime = &metrics.Family{Name: "near_process_contract_code_request_time", Kind: metrics.Histogram, Labels: byShard, Per: perSecond,
		Bounds: metrics.Exponential(0.001, 2, 10), Help: "Total time taken to process contract code request from a chunk validator"}
	witnessRoundtrip = &metrics.Family{Name: "near_chunk_state_witness_network_roundtrip_time", Kind: metrics.Histogram,
		Labels: []string{"witness_size_bucket"},
		Per:    perSecond, Bounds: fineBounds,
		Help: "Time in seconds between sending state witness through the network to chunk producer and receiving the corresponding ack message"}
	witnessTime = &metrics.Family{Name: "near_chunk_state_witness_validation_time", Kind: metrics.Histogram, Labels: byShard, Per: perSecond,
		Bounds: metrics.Exponential(0.01, 2, 12), Help: "State witness validation latency in seconds"}
	witnessFailed = &metrics.Family{Name: "near_chunk_witness_validation_failed_total", Kind: metrics.Counter,
		Labels: []string{"shard_id", "error"},
		Help:   "Witness validation failure count"}
	orphanWitnesses = &metrics.Family{Name: "near_orphan_chunk_state_witness_total_count", Kind: metrics.Counter, Labels: byShard,
		Help: "Total number of orphaned chunk state witnesses that were saved for later processing"}
	orphanPool = &metrics.Family{Name: "near_orphan_chunk_state_witness_pool_size", Kind: metrics.Gauge, Labels: byShard,
		Help: "Number of orphaned witnesses kept in OrphanStateWitnessPool (by shard_id)"}
	orphanBytes = &metrics.Family{Name: "near_orphan_chunk_state_witness_pool_memory_used", Kind: metrics.Gauge, Labels: byShard,
		Help: "Memory in bytes consumed by the OrphanStateWitnessPool (by shard_id)"}

	partTimes = [chunkparts.Timings]*metrics.Family{
		chunkparts.OwnParts: {Name: "near_partial_chunk_time_to_last_part_seconds", Kind: metrics.Histogram, Labels: byShard, Per: 1000,
			Bounds: metrics.Exponential(0.001, 2, 9),
			Help:   "Time taken from receiving the chunk header to receiving the last owned chunk part for completing the chunk"},
		chunkparts.Receipts: {Name: "near_partial_chunk_time_to_last_receipt_part_seconds", Kind: metrics.Histogram, Labels: byShard, Per: 1000,
			Bounds: metrics.Exponential(0.001, 2, 9),
			Help:   "Time taken from receiving the chunk header to receiving the last needed receipt for completing the chunk",
		},
		chunkparts.Decodable: {Name: "near_partial_chunk_time_to_reconstruct_seconds", Kind: metrics.Histogram, Labels: byShard, Per: 1000,
			Bounds: metrics.Exponential(0.001, 2, 9),
			Help:   "Time taken from receiving the chunk header to having enough parts to reconstruct the chunk"},
		chunkparts.Received: {Name: "near_chunk_receive_delay_seconds", Kind: metrics.Histogram, Labels: byShard, Per: 1000,
			Bounds: delayBounds, Help: "Delay between requesting and receiving a chunk."},
	}
)

// Families lists the metrics that a Node adds to Counters.Measured.
func Families() []*metrics.Family {
	return append([]*metrics.Family{optimisticTime, optimisticReadyGap, optimisticDoneGap, approvalDelay, excludedChunks,
		endorsedStake, missingEndorsements,
		witnessSize, witnessRawSize, witnessTransitionSize, witnessSourcesSize, witnessEncodeTime, witnessDecodeTime, partialEncodeTime,
		partialLastPart, partialCacheSize, deploysLastPart, codeTime, codeDelay, codeState, codeAnswerTime, witnessRoundtrip, witnessTime,
		witnessFailed, orphanWitnesses, orphanPool, orphanBytes, engine.ProduceChunkTime, engine.ProduceAndDistributeChunkTime,
	}, partTimes[:]...)
}

// trackerFamilies are the metrics of what the witness tracker measures. codeState is not among them.
var trackerFamilies = [partialwitness.Quantities]*metrics.Family{
	partialwitness.RawSize: witnessRawSize, partialwitness.EncodedSize: witnessSize, partialwitness.TransitionSize: witnessTransitionSize,
	partialwitness.SourcesSize: witnessSourcesSize, partialwitness.EncodeTime: witnessEncodeTime, partialwitness.CutTime: partialEncodeTime,
	partialwitness.DecodeTime: witnessDecodeTime, partialwitness.LastPartTime: partialLastPart, partialwitness.LastDeployTime: deploysLastPart,
	partialwitness.CodeTime: codeTime, partialwitness.CodeDelay: codeDelay, partialwitness.AnswerTime: codeAnswerTime,
	partialwitness.CacheSize: partialCacheSize,
}

// measureWitnesses adds what a step of the witness tracker has measured.
func (n *Node) measureWitnesses(list []partialwitness.Measured) {
	for _, m := range list {
		shard := label(m.Shard)
		switch m.What {
		case partialwitness.CacheSize:
			n.measured.Put(partialCacheSize, m.Value, shard)
		case partialwitness.CodeUnknown:
			n.measured.Add(codeState, m.Value, shard, "unknown")
		case partialwitness.CodeRequested:
			n.measured.Add(codeState, m.Value, shard, "requested")
		case partialwitness.CodeReceived:
			n.measured.Add(codeState, m.Value, shard, "received")
		default:
			n.measured.Add(trackerFamilies[m.What], m.Value, shard)
		}
	}
}

// elapsed returns the time of Options.Elapsed, 0 without it.
func (n *Node) elapsed() int64 {
	if n.o.Elapsed == nil {
		return 0
	}
	return n.o.Elapsed()
}

// label returns a shard's id as the value of a label.
func label(id primitives.ShardID) string { return strconv.FormatUint(uint64(id), 10) }

// maxOptimisticTimes is the number of heights of which the times are known (nearcore
// chain/chain/src/blocks_delay_tracker.rs, BLOCK_DELAY_TRACKING_COUNT).
const maxOptimisticTimes = 50

// optimisticTimes are the times, in ns, at which an optimistic block became ready and its chunks were
// applied, and at which the block of that height was received. 0: not yet, or measured already.
type optimisticTimes struct{ ready, applied, block int64 }

// timeOptimistic sets times of a height, and measures the gaps that are then known.
func (n *Node) timeOptimistic(h primitives.Height, set func(t *optimisticTimes)) {
	t := n.optimisticTimes[h]
	if t == nil {
		if len(n.optimisticTimes) >= maxOptimisticTimes {
			lowest := h
			for at := range n.optimisticTimes {
				lowest = min(lowest, at)
			}
			delete(n.optimisticTimes, lowest)
		}
		t = new(optimisticTimes)
		n.optimisticTimes[h] = t
	}
	if set(t); t.block == 0 {
		return
	}
	if t.ready != 0 {
		n.measured.Add(optimisticReadyGap, t.block-t.ready)
	}
	if t.applied != 0 {
		n.measured.Add(optimisticDoneGap, t.block-t.applied)
	}
	t.ready, t.applied = 0, 0
}

// timeBlock measures the gaps between a received block and its optimistic block.
func (n *Node) timeBlock(h primitives.Height) {
	if n.optimistic != nil {
		n.timeOptimistic(h, func(t *optimisticTimes) { t.block = n.now })
	}
}

// measureEndorsements measures the endorsements of the chunks that the next block includes or leaves
// out (nearcore chain/client/src/chunk_inclusion_tracker.rs:249).
func (n *Node) measureEndorsements() {
	h := n.head
	for _, id := range h.layout.ShardIDs() {
		header, shard := n.ready[h.hash][id], label(id)
		if header == nil {
			n.measured.Add(excludedChunks, 1, shard, "chunk_unavailable")
			continue
		}
		key := primitives.ChunkKey{ShardID: id, EpochID: h.epoch, HeightCreated: header.HeightCreated}
		list, err := n.assigned.Validators(key)
		if err != nil {
			continue
		}
		signatures, enough, err := n.votes.Of(key, header.ChunkHash())
		if err != nil {
			continue
		}
		var signed, total primitives.Balance
		missing := int64(0)
		for i := range list {
			total = total.SaturatingAdd(list[i].Stake)
			if signatures[i] != "" {
				signed = signed.SaturatingAdd(list[i].Stake)
			} else {
				missing++
			}
		}
		if total.IsZero() {
			continue
		}
		ratio := new(big.Int).Mul(signed.Big(), big.NewInt(perRatio))
		n.measured.Add(endorsedStake, ratio.Div(ratio, total.Big()).Int64(), shard)
		n.measured.Add(missingEndorsements, missing, shard)
		if !enough {
			n.measured.Add(excludedChunks, 1, shard, "insufficient_endorsement")
		}
	}
}

// maxSentWitnesses is the number of own witnesses of which acknowledgements are timed (nearcore
// chain/client/src/stateless_validation/state_witness_tracker.rs).
const maxSentWitnesses = 50

// sentWitness is a witness that this node has sent.
type sentWitness struct {
	chunk primitives.Hash
	size  int   // compressed size in bytes
	at    int64 // ns
	left  int   // validators that have not acknowledged the witness
}

// timeWitness remembers when a witness of this node is sent.
func (n *Node) timeWitness(h *primitives.ChunkHeader, out *partialwitness.Out) {
	w := sentWitness{chunk: h.ChunkHash(), at: n.now}
	for _, s := range out.Send {
		if _, ok := s.Body.(*primitives.PartialWitness); ok {
			w.left++
		}
	}
	for _, m := range out.Measured {
		if m.What == partialwitness.EncodedSize {
			w.size = int(m.Value)
		}
	}
	if w.left == 0 {
		return
	}
	if len(n.sentWitnesses) >= maxSentWitnesses {
		n.sentWitnesses = slices.Delete(n.sentWitnesses, 0, 1)
	}
	n.sentWitnesses = append(n.sentWitnesses, w)
}

// witnessAcked measures the time from sending a witness to a validator's acknowledgement.
func (n *Node) witnessAcked(a *primitives.WitnessAck) {
	i := slices.IndexFunc(n.sentWitnesses, func(w sentWitness) bool { return w.chunk == a.ChunkHash })
	if i < 0 {
		return
	}
	w := &n.sentWitnesses[i]
	n.measured.Add(witnessRoundtrip, n.now-w.at, sizeBucket(w.size))
	if w.left--; w.left == 0 {
		n.sentWitnesses = slices.Delete(n.sentWitnesses, i, i+1)
	}
}

// sizeBucket returns nearcore's label for the size of a witness in bytes.
func sizeBucket(size int) string {
	for _, b := range []struct {
		below int
		label string
	}{{1e3, "<1KB"}, {10e3, "1-10KB"}, {100e3, "10-100KB"}, {1e6, "100KB-1MB"}, {2e6, "1-2MB"}, {3e6, "2-3MB"}, {4e6, "3-4MB"}, {5e6, "4-5MB"},
		{10e6, "5-10MB"}, {20e6, "10-20MB"}} {
		if size < b.below {
			return b.label
		}
	}
	return ">20MB"
}

// measureOrphans publishes the witnesses that wait for their previous block.
func (n *Node) measureOrphans() {
	if n.head == nil {
		return
	}
	waiting := n.witnesses.Orphans()
	for _, id := range n.head.layout.ShardIDs() {
		w := waiting[id]
		n.measured.Put(orphanPool, int64(w.Count), label(id))
		n.measured.Put(orphanBytes, int64(w.Bytes), label(id))
	}
}
