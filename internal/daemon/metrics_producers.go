package daemon

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

// wholeNEAR returns an amount in NEAR, rounded down.
func wholeNEAR(b primitives.Balance) float64 {
	const half = 1_000_000_000_000 // squared: yoctoNEAR in a NEAR
	b, _ = b.DivMod64(half)
	b, _ = b.DivMod64(half)
	return b.Float64()
}

// producersOf are the producers of an epoch, for metrics.
type producersOf struct {
	info   *epoch.EpochInfo
	layout primitives.ShardLayout
	length uint64               // planned length of the epoch in blocks
	own    primitives.AccountID // this node's validator; empty: none
}

// appendProducers appends the roles of the head's epoch (nearcore chain/client/src/info.rs:154,
// chain/chain/src/chain.rs:2028). The numbers of expected blocks and chunks are estimates from the
// stakes, as in nearcore: the stake of each seat counts in the sum. All labels are those of the
// epoch's validators, so their number is bounded by the seats.
func (p *producersOf) appendProducers(b []byte) []byte {
	gauge := func(name, help string, v float64) { b = appendMetric(b, "gauge", name, help, v) }
	family := func(name, help string) { b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name) }
	e := p.info
	gauge("near_is_block_producer", "Bool to denote if the node is a block producer in the current epoch", p.is(e.BlockProducers))
	ids := p.layout.ShardIDs()
	shards := min(len(ids), len(e.ChunkProducers))
	family("near_is_chunk_producer_for_shard", "Bool to denote if the node is a chunk producer for a shard in the current epoch")
	for i := range shards {
		b = fmt.Appendf(b, "near_is_chunk_producer_for_shard{shard_id=\"%d\"} %g\n", ids[i], p.is(e.ChunkProducers[i]))
	}
	family("near_block_producer_stake", "Stake of each block producer in the network")
	blocks := p.seats(e.BlockProducers)
	for _, s := range blocks {
		b = fmt.Appendf(b, "near_block_producer_stake{account_id=%q,epoch_height=\"%d\"} %.0f\n", s.account, e.EpochHeight, wholeNEAR(s.stake))
	}
	family("near_validators_blocks_expected_in_epoch", "Number of blocks expected to be produced by a validator within current epoch")
	for _, s := range blocks {
		b = fmt.Appendf(b, "near_validators_blocks_expected_in_epoch{account_id=%q,epoch_height=\"%d\"} %d\n", s.account,
			e.EpochHeight, s.expected(p.length))
	}
	family("near_validators_chunks_expected_in_epoch", "Number of chunks expected to be produced by a validator within current epoch")
	producers, stake := map[epoch.ValidatorID]bool{}, primitives.Balance{}
	for i := range shards {
		for _, s := range p.seats(e.ChunkProducers[i]) {
			if !producers[s.id] {
				producers[s.id] = true
				stake = stake.SaturatingAdd(s.stake)
			}
			b = fmt.Appendf(b, "near_validators_chunks_expected_in_epoch{account_id=%q,shard_id=\"%d\",epoch_height=\"%d\"} %d\n",
				s.account, ids[i], e.EpochHeight, s.expected(p.length))
		}
	}
	gauge("near_validators_stake_total", "The total stake of all active validators during the last block", wholeNEAR(stake))
	gauge("near_validator_active_total", "The total number of chunk producers active after last block", float64(len(producers)))
	gauge("near_validator_chunk_producers_total", "The total number of chunk producers active after last block", float64(len(producers)))
	gauge("near_validator_block_producers_total", "The total number of block producers active after last block", float64(len(blocks)))
	gauge("near_validator_chunk_validators_total", "The total number of chunk validators active after last block", float64(len(e.Validators)))
	gauge("near_shard_layout_version", "The version of the shard layout of the current head.", float64(p.layout.Version()))
	gauge("near_shard_layout_num_shards", "The number of shards in the shard layout of the current head.", float64(p.layout.NumShards()))
	return b
}

// is returns 1 if this node's validator is one of the producers, else 0.
func (p *producersOf) is(ids []epoch.ValidatorID) float64 {
	if p.own != "" && slices.ContainsFunc(ids, func(id epoch.ValidatorID) bool { return p.info.Validators[id].AccountID == p.own }) {
		return 1
	}
	return 0
}

// seat is a producer of a settlement. all is the stake of all seats.
type seat struct {
	id         epoch.ValidatorID
	account    primitives.AccountID
	stake, all primitives.Balance
}

// expected returns the producer's share of a number of blocks, rounded down.
func (s *seat) expected(length uint64) uint64 {
	if s.stake.IsZero() {
		return 0
	}
	return uint64(s.stake.Float64() / s.all.Float64() * float64(length))
}

// seats returns the producers of a settlement without repeats, in the order of their first seats.
func (p *producersOf) seats(settlement []epoch.ValidatorID) (out []seat) {
	seen, all := map[epoch.ValidatorID]bool{}, primitives.Balance{}
	for _, id := range settlement {
		v := &p.info.Validators[id]
		all = all.SaturatingAdd(v.Stake)
		if !seen[id] {
			seen[id] = true
			out = append(out, seat{id: id, account: v.AccountID, stake: v.Stake})
		}
	}
	for i := range out {
		out[i].all = all
	}
	return out
}
