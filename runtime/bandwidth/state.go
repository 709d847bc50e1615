package bandwidth

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// State is the scheduler's state between heights (nearcore BandwidthSchedulerState V1). The zero
// value is the initial state.
type State struct {
	Links []LinkAllowance // by sender's, then receiver's index in the layout
	// SanityCheck is a hash chain over the layouts scheduled so far. Shards that used different
	// layouts get different state roots.
	SanityCheck primitives.Hash
}

// LinkAllowance is the part of its fair share that a link has not yet used, in bytes.
type LinkAllowance struct {
	Sender, Receiver primitives.ShardID
	Allowance        uint64
}

// AppendBorsh appends tag 0, the links and the hash.
func (s *State) AppendBorsh(b []byte) []byte {
	b = borsh.AppendSlice(append(b, 0), s.Links, func(b []byte, l *LinkAllowance) []byte {
		b = borsh.AppendUint64(borsh.AppendUint64(b, uint64(l.Sender)), uint64(l.Receiver))
		return borsh.AppendUint64(b, l.Allowance)
	})
	return append(b, s.SanityCheck[:]...)
}

// DecodeBorsh reads what AppendBorsh wrote.
func (s *State) DecodeBorsh(r *borsh.Reader) {
	if tag := r.Byte(); tag != 0 {
		r.BadTag("BandwidthSchedulerState", tag)
		return
	}
	s.Links = borsh.Slice(r, 24, func(r *borsh.Reader) LinkAllowance {
		return LinkAllowance{primitives.ShardID(r.Uint64()), primitives.ShardID(r.Uint64()), r.Uint64()}
	})
	s.SanityCheck = primitives.ReadHash(r)
}

// nextSanityCheck returns H(previous ‖ H(borsh Vec<u64> of the shard ids)).
func nextSanityCheck(prev primitives.Hash, shards []primitives.ShardID) primitives.Hash {
	b := borsh.AppendLen(make([]byte, 0, 4+8*len(shards)), len(shards))
	for _, id := range shards {
		b = borsh.AppendUint64(b, uint64(id))
	}
	return primitives.CombineHash(prev, primitives.HashBytes(b))
}
