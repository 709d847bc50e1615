package view

import "github.com/troupe-chain/troupe/primitives"

// AppendBlock appends BlockView (nearcore views.rs:1270): author, chunk headers by shard index,
// header.
func AppendBlock(b []byte, author primitives.AccountID, block *primitives.Block) []byte {
	b = AppendAccountID(append(b, `{"author":`...), author)
	b = appendList(append(b, `,"chunks":`...), block.Body.Chunks, func(b []byte, h **primitives.ChunkHeader) []byte {
		return AppendChunkHeader(b, *h)
	})
	return append(AppendBlockHeader(append(b, `,"header":`...), block.Header), '}')
}

// AppendBlockHeader appends BlockHeaderView with sorted members.
func AppendBlockHeader(b []byte, h *primitives.BlockHeader) []byte {
	return sortedOrder.BlockHeader(b, h)
}

func appendShardSplit(b []byte, s *primitives.ShardSplit) []byte {
	b = appendUint(append(b, '['), s.ShardID)
	return append(AppendAccountID(append(b, ','), s.Boundary), ']')
}

// appendUnless appends null if absent is set, else what the function one appends.
func appendUnless(b []byte, absent bool, one func([]byte) []byte) []byte {
	if absent {
		return append(b, "null"...)
	}
	return one(b)
}

// appendTimestamp appends the two members of a time in ns.
func appendTimestamp(b []byte, ns uint64) []byte {
	b = appendUint(append(b, `,"timestamp":`...), ns)
	return appendUintString(append(b, `,"timestamp_nanosec":`...), ns)
}

// chunksIncluded counts the new chunks. V1 headers contain the number.
func chunksIncluded(h *primitives.BlockHeader) uint64 {
	if h.Version == primitives.HeaderV1 {
		return h.ChunksIncluded
	}
	n := uint64(0)
	for _, included := range h.ChunkMask {
		if included {
			n++
		}
	}
	return n
}

// AppendByteNumbers appends bytes as a list of numbers, as in call results and endorsement bits.
func AppendByteNumbers(b, raw []byte) []byte {
	return appendList(b, raw, func(b []byte, v *byte) []byte { return appendUint(b, uint16(*v)) })
}

func appendByteLists(b []byte, lists [][]byte) []byte {
	return appendList(b, lists, func(b []byte, raw *[]byte) []byte { return AppendByteNumbers(b, *raw) })
}

// AppendValidatorStakes appends a list of ValidatorStakeView with sorted members.
func AppendValidatorStakes(b []byte, vs []primitives.ValidatorStake) []byte {
	return appendList(b, vs, sortedOrder.validatorStake)
}

// AppendValidatorStake appends ValidatorStakeView with sorted members.
func AppendValidatorStake(b []byte, v *primitives.ValidatorStake) []byte {
	return sortedOrder.validatorStake(b, v)
}
