//go:build e2e

package e2e

import (
	"github.com/troupe-chain/troupe/primitives"
)

// wrongHeaders are forms that neard refuses because of the header.
var wrongHeaders = []blockForm{
	header("V1", false, func(h *primitives.BlockHeader) { h.Version = primitives.HeaderV1 }),
	{"V3", false, func(x *forgedBlock) bool {
		x.Header.ChunkEndorsements = nil
		rest := x.rest()
		x.written(3, 2, rest[32:len(rest)-4], x.Body.AppendBorsh(nil))
		return true
	}},
	{"V4", false, func(x *forgedBlock) bool {
		x.Header.ChunkEndorsements = nil
		rest := x.rest()
		x.written(3, 3, rest[:len(rest)-4], x.Body.AppendBorsh(nil))
		return true
	}},
	{"V5 with a root of challenges", false, func(x *forgedBlock) bool {
		rest := x.rest()
		rest[4*32] ^= 1
		x.written(3, 4, rest, x.Body.AppendBorsh(nil))
		return true
	}},
	{"V8", false, func(x *forgedBlock) bool {
		x.other()
		x.raw[1] = 7
		return true
	}},
	header("split", false, func(h *primitives.BlockHeader) { h.ShardSplit = &primitives.ShardSplit{ShardID: 0, Boundary: "mm"} }),
	header("V7 with a split", false, func(h *primitives.BlockHeader) {
		h.Version, h.ShardSplit = primitives.HeaderV7, &primitives.ShardSplit{ShardID: 1, Boundary: "mm"}
	}),
	{"no bits of a new chunk", false, func(x *forgedBlock) bool { return x.bits(func([]byte) []byte { return nil }) }},
	{"a byte of bits more", false, func(x *forgedBlock) bool { return x.bits(func(b []byte) []byte { return append(b, 0) }) }},
	{"a bit more", false, func(x *forgedBlock) bool { return x.bits(func(b []byte) []byte { b[0] |= 128; return b }) }},
	{"a bit less", false, func(x *forgedBlock) bool { return x.bits(func(b []byte) []byte { b[0] &= b[0] - 1; return b }) }},
	header("bits of one shard less", false, func(h *primitives.BlockHeader) { h.ChunkEndorsements = h.ChunkEndorsements[1:] }),
	header("bits of one shard more", false, func(h *primitives.BlockHeader) { h.ChunkEndorsements = append(h.ChunkEndorsements, nil) }),
	header("height of the parent", false, func(h *primitives.BlockHeader) { h.PrevHeight-- }),
	{"time of the parent", false, func(x *forgedBlock) bool { x.Header.Timestamp = x.parent.Header.Timestamp; return true }},
	flip("epoch", func(h *primitives.BlockHeader) *primitives.Hash { return (*primitives.Hash)(&h.EpochID) }),
	flip("next epoch", func(h *primitives.BlockHeader) *primitives.Hash { return (*primitives.Hash)(&h.NextEpochID) }),
	flip("next producers", func(h *primitives.BlockHeader) *primitives.Hash { return &h.NextBPHash }),
	flip("block merkle root", func(h *primitives.BlockHeader) *primitives.Hash { return &h.BlockMerkleRoot }),
	header("ordinal", false, func(h *primitives.BlockHeader) { h.BlockOrdinal++ }),
	flip("final block", func(h *primitives.BlockHeader) *primitives.Hash { return &h.LastFinalBlock }),
	flip("nearly final block", func(h *primitives.BlockHeader) *primitives.Hash { return &h.LastDSFinalBlock }),
	{"data of epoch sync", false, func(x *forgedBlock) bool {
		if x.Header.EpochSyncDataHash = new(primitives.Hash); x.parent.Header.EpochID != x.Header.EpochID {
			x.Header.EpochSyncDataHash = nil
		}
		return true
	}},
	header("older version", false, func(h *primitives.BlockHeader) { h.LatestProtocolVersion = 84 }),
	header("two votes", false, func(h *primitives.BlockHeader) {
		for i := range h.Approvals {
			if given(h.Approvals) > 2 {
				h.Approvals[i] = ""
			}
		}
	}),
	header("no votes", false, func(h *primitives.BlockHeader) { h.Approvals = nil }),
	header("votes of one more", false, func(h *primitives.BlockHeader) { h.Approvals = append(h.Approvals, "") }),
	header("a vote that is none", false, func(h *primitives.BlockHeader) { h.Approvals[0] = primitives.ZeroED25519Signature }),
	header("two votes in each other's place", false, func(h *primitives.BlockHeader) { h.Approvals[0], h.Approvals[1] = h.Approvals[1], h.Approvals[0] }),
	{"a vote by secp256k1", false, func(x *forgedBlock) bool {
		x.Header.Approvals[0] = primitives.SecretKeyFromSeed(primitives.SECP256K1, "any").Sign(make([]byte, 32))
		return true
	}},
	header("mask of one shard less", false, func(h *primitives.BlockHeader) { h.ChunkMask = h.ChunkMask[1:] }),
	header("mask of one shard more", false, func(h *primitives.BlockHeader) { h.ChunkMask = append(h.ChunkMask, false) }),
	{"signed by another", false, func(x *forgedBlock) bool {
		x.by = primitives.SecretKeyFromSeed(primitives.ED25519, "nobody")
		return true
	}},
	{"of the next height", false, func(x *forgedBlock) bool { // it belongs to another producer, or has no approvals
		x.Header.Height++
		for _, c := range x.Body.Chunks {
			if c.HeightIncluded == x.Header.Height-1 {
				c.HeightIncluded++
			}
		}
		x.roots()
		return true
	}},
}

// bits changes the endorsement bits of a new chunk.
func (x *forgedBlock) bits(change func([]byte) []byte) bool {
	i := x.fresh()
	if i < 0 {
		return false
	}
	x.Header.ChunkEndorsements[i] = change(x.Header.ChunkEndorsements[i])
	return true
}
