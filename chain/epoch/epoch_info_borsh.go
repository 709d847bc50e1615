package epoch

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

func appendIDs(b []byte, ids *[]ValidatorID) []byte { return borsh.AppendUint64s(b, *ids) }

// emptyOldFields is the encoding of three fields that EpochInfo V5 no longer has and that are
// always empty here: the hidden settlement, the fishermen, and the map of the fishermen.
const emptyOldFields = "\x00\x00\x00\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"

// AppendBorsh appends the tag and the fields of e's version.
func (e *EpochInfo) AppendBorsh(b []byte) []byte {
	b = borsh.AppendUint64(append(b, e.Version), e.EpochHeight)
	b = primitives.AppendValidatorStakes(b, e.Validators)
	b = appendAccountMap(b, e.ValidatorIndex, appendUint64)
	b = borsh.AppendUint64s(b, e.BlockProducers)
	b = borsh.AppendSlice(b, e.ChunkProducers, appendIDs)
	if e.Version != EpochInfoV5 {
		b = append(b, emptyOldFields...)
	}
	b = appendAccountMap(b, e.StakeChange, appendBalance)
	b = appendAccountMap(b, e.ValidatorReward, appendBalance)
	b = appendKickouts(b, e.ValidatorKickout)
	b = e.SeatPrice.AppendBorsh(e.MintedAmount.AppendBorsh(b))
	b = borsh.AppendUint32(b, uint32(e.ProtocolVersion))
	if e.Version == EpochInfoV2 {
		return b
	}
	if e.Version == EpochInfoV5 {
		b = e.ShardLayout.AppendBorsh(b)
		if e.LastResharding == nil {
			b = append(b, 0)
		} else {
			b = borsh.AppendUint64(append(b, 1), *e.LastResharding)
		}
	}
	b = e.BlockSampler.AppendBorsh(e.RngSeed.AppendBorsh(b))
	b = borsh.AppendSlice(b, e.ChunkSamplers,
		func(b []byte, s **primitives.StakeWeightedIndex) []byte { return (*s).AppendBorsh(b) })
	return e.Mandates.AppendBorsh(b)
}

// DecodeBorsh reads the tag and the fields. DecodeBorsh refuses IDs and tables that could make a
// query panic.
func (e *EpochInfo) DecodeBorsh(r *borsh.Reader) {
	e.Version = r.Byte()
	if e.Version != EpochInfoV2 && e.Version != EpochInfoV4 && e.Version != EpochInfoV5 {
		r.BadTag("EpochInfo", e.Version)
		return
	}
	e.EpochHeight = r.Uint64()
	e.Validators = primitives.ReadValidatorStakes(r)
	e.ValidatorIndex = readAccountMap(r, 8, (*borsh.Reader).Uint64)
	e.BlockProducers = r.Uint64s()
	e.ChunkProducers = borsh.Slice(r, 4, (*borsh.Reader).Uint64s)
	if e.Version != EpochInfoV5 && string(r.Take(len(emptyOldFields))) != emptyOldFields {
		r.Failf("EpochInfo with fishermen")
		return
	}
	e.StakeChange = readAccountMap(r, 16, primitives.ReadBalance)
	e.ValidatorReward = readAccountMap(r, 16, primitives.ReadBalance)
	e.ValidatorKickout = readKickouts(r)
	e.MintedAmount, e.SeatPrice = primitives.ReadBalance(r), primitives.ReadBalance(r)
	e.ProtocolVersion = primitives.ProtocolVersion(r.Uint32())
	if e.Version == EpochInfoV5 {
		e.ShardLayout.DecodeBorsh(r)
		if r.Option() {
			h := r.Uint64()
			e.LastResharding = &h
		}
	}
	if e.Version != EpochInfoV2 {
		e.RngSeed = primitives.ReadHash(r)
		e.BlockSampler = readSampler(r)
		e.ChunkSamplers = borsh.Slice(r, 24, readSampler)
		e.Mandates.DecodeBorsh(r)
	}
	if r.Err() == nil && !e.consistent() {
		r.Failf("EpochInfo with an index out of range")
	}
}

// consistent returns whether every ID and table entry is within its list, so that no query can
// panic.
func (e *EpochInfo) consistent() bool {
	within := func(ids []ValidatorID) bool {
		for _, id := range ids {
			if id >= uint64(len(e.Validators)) {
				return false
			}
		}
		return true
	}
	for _, p := range e.ValidatorIndex {
		if p.Value >= uint64(len(e.Validators)) {
			return false
		}
	}
	if len(e.BlockProducers) == 0 || !within(e.BlockProducers) || !within(e.Mandates.Mandates) {
		return false
	}
	for _, p := range e.Mandates.Partials {
		if p.ID >= uint64(len(e.Validators)) {
			return false
		}
	}
	for _, ids := range e.ChunkProducers {
		if !within(ids) {
			return false
		}
	}
	if _, ok := sumStakes(e.Validators); !ok {
		return false
	}
	if e.Version == EpochInfoV2 {
		return true
	}
	if len(e.ChunkSamplers) != len(e.ChunkProducers) || !fits(e.BlockSampler, len(e.BlockProducers)) ||
		e.Mandates.NumShards != uint64(len(e.ChunkProducers)) || e.Mandates.NumShards == 0 {
		return false
	}
	for i := range e.ChunkSamplers {
		if !fits(e.ChunkSamplers[i], len(e.ChunkProducers[i])) {
			return false
		}
	}
	return e.Version != EpochInfoV5 || e.ShardLayout.NumShards() == len(e.ChunkProducers)
}

func readSampler(r *borsh.Reader) *primitives.StakeWeightedIndex {
	s := new(primitives.StakeWeightedIndex)
	s.DecodeBorsh(r)
	return s
}

// fits returns whether s can draw one of n items.
func fits(s *primitives.StakeWeightedIndex, n int) bool {
	return s.Len() == n && (n == 0 || !s.StakeSum().IsZero())
}
