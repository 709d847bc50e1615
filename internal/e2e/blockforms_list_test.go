//go:build e2e

package e2e

import (
	"slices"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// rightForms neard takes.
var rightForms = []blockForm{
	{"V6", true, func(*tale) bool { return true }},
	header("V5", true, func(h *primitives.BlockHeader) { h.Version = primitives.HeaderV5 }),
	header("V7", true, func(h *primitives.BlockHeader) {
		h.Version, h.EndorsementStats = primitives.HeaderV7, []primitives.EndorsementStats{{Produced: 7, Expected: 1}}
	}),
	header("V7 of 160 KB", true, func(h *primitives.BlockHeader) {
		h.Version, h.CertifiedEpochID, h.EndorsementStats = primitives.HeaderV7, primitives.Hash{1}, make([]primitives.EndorsementStats, 20_000)
	}),
	{"challenge of two headers", true, func(x *tale) bool { return x.challenged(double(0), double(200)) }},
	{"challenge of 1.2 MB", true, func(x *tale) bool { return x.challenged(double(1_200_000)) }},
	{"challenge of a chunk's proofs", true, func(x *tale) bool { return x.challenged(x.doctored(false)) }},
	{"challenge of a chunk's state", true, func(x *tale) bool { return x.challenged(x.doctored(true), double(3)) }},
	{"V5 with challenges", true, func(x *tale) bool {
		x.Header.Version = primitives.HeaderV5
		return x.challenged(double(40))
	}},
	{"V7 with challenges", true, func(x *tale) bool {
		x.Header.Version = primitives.HeaderV7
		return x.challenged(double(40))
	}},
	header("vote for version 4294967295", true, func(h *primitives.BlockHeader) { h.LatestProtocolVersion = 1<<32 - 1 }),
	{"one vote less", true, func(x *tale) bool {
		if a := x.Header.Approvals; given(a) < len(a) && !x.allVotes() {
			return false
		}
		x.Header.Approvals[1] = ""
		return true
	}},
	{"votes without the last place", true, func(x *tale) bool {
		a := x.Header.Approvals
		x.Header.Approvals = a[:len(a)-1]
		return given(x.Header.Approvals) >= 3
	}},
	{"votes of all", true, func(x *tale) bool { return x.allVotes() }},
	{"one endorsement less", true, func(x *tale) bool {
		i := x.fresh()
		if i < 0 || given(x.Body.ChunkEndorsements[i]) < 4 {
			return false
		}
		x.Body.ChunkEndorsements[i][1] = ""
		x.roots()
		return true
	}},
	header("100 s ahead", true, func(h *primitives.BlockHeader) { h.Timestamp = uint64(time.Now().Add(100 * time.Second).UnixNano()) }),
}

// allVotes fills in what votes are missing; false: it can't be told whose.
func (x *tale) allVotes() bool {
	message, a := x.vote(), x.Header.Approvals
	missing := slices.Index(a, "")
	if given(a) != len(a)-1 || missing < 0 {
		return false
	}
	for _, key := range x.keys {
		if sig := key.Sign(message); !slices.Contains(a, sig) {
			a[missing] = sig
		}
	}
	return given(a) == len(a)
}

// wrongHeaders neard refuses, for what their header says.
var wrongHeaders = []blockForm{
	header("V1", false, func(h *primitives.BlockHeader) { h.Version = primitives.HeaderV1 }),
	{"V3", false, func(x *tale) bool {
		x.Header.ChunkEndorsements = nil
		rest := x.rest()
		x.written(3, 2, rest[32:len(rest)-4], x.Body.AppendBorsh(nil))
		return true
	}},
	{"V4", false, func(x *tale) bool {
		x.Header.ChunkEndorsements = nil
		rest := x.rest()
		x.written(3, 3, rest[:len(rest)-4], x.Body.AppendBorsh(nil))
		return true
	}},
	{"V5 with a root of challenges", false, func(x *tale) bool {
		rest := x.rest()
		rest[4*32] ^= 1
		x.written(3, 4, rest, x.Body.AppendBorsh(nil))
		return true
	}},
	{"V8", false, func(x *tale) bool {
		x.other()
		x.raw[1] = 7
		return true
	}},
	header("split", false, func(h *primitives.BlockHeader) { h.ShardSplit = &primitives.ShardSplit{ShardID: 0, Boundary: "mm"} }),
	header("V7 with a split", false, func(h *primitives.BlockHeader) {
		h.Version, h.ShardSplit = primitives.HeaderV7, &primitives.ShardSplit{ShardID: 1, Boundary: "mm"}
	}),
	{"no bits of a new chunk", false, func(x *tale) bool { return x.bits(func([]byte) []byte { return nil }) }},
	{"a byte of bits more", false, func(x *tale) bool { return x.bits(func(b []byte) []byte { return append(b, 0) }) }},
	{"a bit more", false, func(x *tale) bool { return x.bits(func(b []byte) []byte { b[0] |= 128; return b }) }},
	{"a bit less", false, func(x *tale) bool { return x.bits(func(b []byte) []byte { b[0] &= b[0] - 1; return b }) }},
	header("bits of one shard less", false, func(h *primitives.BlockHeader) { h.ChunkEndorsements = h.ChunkEndorsements[1:] }),
	header("bits of one shard more", false, func(h *primitives.BlockHeader) { h.ChunkEndorsements = append(h.ChunkEndorsements, nil) }),
	header("height of the parent", false, func(h *primitives.BlockHeader) { h.PrevHeight-- }),
	{"time of the parent", false, func(x *tale) bool { x.Header.Timestamp = x.parent.Header.Timestamp; return true }},
	flip("epoch", func(h *primitives.BlockHeader) *primitives.Hash { return (*primitives.Hash)(&h.EpochID) }),
	flip("next epoch", func(h *primitives.BlockHeader) *primitives.Hash { return (*primitives.Hash)(&h.NextEpochID) }),
	flip("next producers", func(h *primitives.BlockHeader) *primitives.Hash { return &h.NextBPHash }),
	flip("block merkle root", func(h *primitives.BlockHeader) *primitives.Hash { return &h.BlockMerkleRoot }),
	header("ordinal", false, func(h *primitives.BlockHeader) { h.BlockOrdinal++ }),
	flip("final block", func(h *primitives.BlockHeader) *primitives.Hash { return &h.LastFinalBlock }),
	flip("nearly final block", func(h *primitives.BlockHeader) *primitives.Hash { return &h.LastDSFinalBlock }),
	{"data of epoch sync", false, func(x *tale) bool {
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
	{"a vote by secp256k1", false, func(x *tale) bool {
		x.Header.Approvals[0] = primitives.SecretKeyFromSeed(primitives.SECP256K1, "any").Sign(make([]byte, 32))
		return true
	}},
	header("mask of one shard less", false, func(h *primitives.BlockHeader) { h.ChunkMask = h.ChunkMask[1:] }),
	header("mask of one shard more", false, func(h *primitives.BlockHeader) { h.ChunkMask = append(h.ChunkMask, false) }),
	{"signed by another", false, func(x *tale) bool {
		x.by = primitives.SecretKeyFromSeed(primitives.ED25519, "nobody")
		return true
	}},
	{"of the next height", false, func(x *tale) bool { // which somebody else makes, or nobody has voted for
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

// bits changes those of a new chunk.
func (x *tale) bits(change func([]byte) []byte) bool {
	i := x.fresh()
	if i < 0 {
		return false
	}
	x.Header.ChunkEndorsements[i] = change(x.Header.ChunkEndorsements[i])
	return true
}

// wrongBodies neard refuses, for what their body says, or for what it says beside the header.
var wrongBodies = []blockForm{
	{"another body", false, func(x *tale) bool {
		was := x.Header.BlockBodyHash
		x.challenged(double(3))
		x.Header.BlockBodyHash = was
		return true
	}},
	flip("random value", func(h *primitives.BlockHeader) *primitives.Hash { return &h.RandomValue }),
	{"VRF value", false, func(x *tale) bool {
		x.Body.VRFValue[0] ^= 1
		x.Header.RandomValue = primitives.HashBytes(x.Body.VRFValue[:])
		x.body()
		return true
	}},
	{"VRF proof", false, func(x *tale) bool { x.Body.VRFProof[40] ^= 1; x.body(); return true }},
	{"proposal", false, func(x *tale) bool {
		x.Header.PrevValidatorProposals = append(x.Header.PrevValidatorProposals, primitives.ValidatorStake{AccountID: "near", PublicKey: x.by.PublicKey(), Stake: primitives.NEAR(1)})
		return true
	}},
	header("mask", false, func(h *primitives.BlockHeader) { h.ChunkMask[0] = !h.ChunkMask[0] }),
	header("gas price", false, func(h *primitives.BlockHeader) { h.NextGasPrice = h.NextGasPrice.SaturatingAdd(primitives.Yocto(1)) }),
	header("supply", false, func(h *primitives.BlockHeader) { h.TotalSupply = h.TotalSupply.SaturatingAdd(primitives.Yocto(1)) }),
	flip("state root", func(h *primitives.BlockHeader) *primitives.Hash { return &h.PrevStateRoot }),
	flip("outcome root", func(h *primitives.BlockHeader) *primitives.Hash { return &h.PrevOutcomeRoot }),
	flip("receipts root", func(h *primitives.BlockHeader) *primitives.Hash { return &h.PrevChunkOutgoingReceiptsRoot }),
	flip("headers root", func(h *primitives.BlockHeader) *primitives.Hash { return &h.ChunkHeadersRoot }),
	flip("transactions root", func(h *primitives.BlockHeader) *primitives.Hash { return &h.ChunkTxRoot }),
	{"an endorsement that is none", false, func(x *tale) bool {
		return x.endorsed(func(l []primitives.Signature) []primitives.Signature {
			l[0] = primitives.ZeroED25519Signature
			return l
		})
	}},
	{"an endorsement by secp256k1", false, func(x *tale) bool {
		return x.endorsed(func(l []primitives.Signature) []primitives.Signature {
			l[0] = primitives.SecretKeyFromSeed(primitives.SECP256K1, "any").Sign(make([]byte, 32))
			return l
		})
	}},
	{"one endorsement", false, func(x *tale) bool {
		return x.endorsed(func(l []primitives.Signature) []primitives.Signature {
			for i := range l {
				if given(l) > 1 {
					l[i] = ""
				}
			}
			return l
		})
	}},
	{"endorsements of one more", false, func(x *tale) bool {
		return x.endorsed(func(l []primitives.Signature) []primitives.Signature { return append(l, "") })
	}},
	{"endorsements of one less", false, func(x *tale) bool {
		return x.endorsed(func(l []primitives.Signature) []primitives.Signature { return l[:len(l)-1] })
	}},
	{"endorsements of one shard less", false, func(x *tale) bool {
		x.Body.ChunkEndorsements = x.Body.ChunkEndorsements[:len(x.Body.ChunkEndorsements)-1]
		x.body()
		return true
	}},
	{"endorsements of one shard more", false, func(x *tale) bool {
		x.Body.ChunkEndorsements = append(x.Body.ChunkEndorsements, nil)
		x.body()
		return true
	}},
	{"chunk signed by nobody", false, func(x *tale) bool {
		return x.chunk(func(c *primitives.ChunkHeader) { c.Signature = primitives.ZeroED25519Signature })
	}},
	{"chunk of another height included", false, func(x *tale) bool { return x.chunk(func(c *primitives.ChunkHeader) { c.HeightIncluded++ }) }},
	{"chunk of no height", false, func(x *tale) bool { return x.chunk(func(c *primitives.ChunkHeader) { c.HeightIncluded = 0 }) }},
	{"old chunk as a new one", false, func(x *tale) bool {
		return x.chunk(func(c *primitives.ChunkHeader) {
			*c = *x.parent.Body.Chunks[x.fresh()]
			c.HeightIncluded = x.Header.Height
		})
	}},
	{"chunks of two shards changed", false, func(x *tale) bool {
		c, e := x.Body.Chunks, x.Body.ChunkEndorsements
		c[0], c[1], e[0], e[1] = c[1], c[0], e[1], e[0]
		x.roots()
		return true
	}},
	{"chunk of one shard less", false, func(x *tale) bool {
		x.Body.Chunks, x.Body.ChunkEndorsements = x.Body.Chunks[1:], x.Body.ChunkEndorsements[1:]
		x.roots()
		return true
	}},
	{"chunk of one shard more", false, func(x *tale) bool {
		x.Body.Chunks, x.Body.ChunkEndorsements = append(x.Body.Chunks, x.Body.Chunks[0]), append(x.Body.ChunkEndorsements, x.Body.ChunkEndorsements[0])
		x.roots()
		return true
	}},
	{"block V1", false, func(x *tale) bool { x.other(); x.raw[0] = 0; return true }},
	{"block V2", false, func(x *tale) bool {
		x.Header.BlockBodyHash = primitives.Hash{}
		x.seal()
		x.raw = append(x.Header.AppendBorsh([]byte{1}), x.bodyV1()...)
		return true
	}},
	{"block V3", false, func(x *tale) bool {
		x.Header.BlockBodyHash = primitives.HashBytes(x.bodyV1())
		x.seal()
		x.raw = append(x.Header.AppendBorsh([]byte{2}), x.bodyV1()...)
		return true
	}},
	{"body V1", false, func(x *tale) bool {
		x.Header.BlockBodyHash = primitives.HashBytes(x.bodyV1())
		x.seal()
		x.raw = append(x.Header.AppendBorsh([]byte{3}), append([]byte{0}, x.bodyV1()...)...)
		return true
	}},
	{"body V3", false, func(x *tale) bool { // of Spice: statements instead of challenges and endorsements
		body := primitives.AppendChunkHeaders([]byte{2}, x.Body.Chunks)
		body = borsh.AppendUint32(append(append(body, x.Body.VRFValue[:]...), x.Body.VRFProof[:]...), 0)
		x.Header.BlockBodyHash = primitives.HashBytes(body)
		x.seal()
		x.raw = append(x.Header.AppendBorsh([]byte{3}), body...)
		return true
	}},
	{"a byte behind the block", false, func(x *tale) bool { x.other(); x.raw = append(x.raw, 0); return true }},
	{"a byte less", false, func(x *tale) bool { x.Header.Timestamp++; x.other(); x.raw = x.raw[:len(x.raw)-1]; return true }},
	{"a mask of neither", false, func(x *tale) bool { // a bool of 2
		x.other()
		lite := len(x.Header.BlockHeaderInnerLite.AppendBorsh(nil))
		x.raw[2+32+lite+5*32+len(primitives.AppendValidatorStakes(nil, x.Header.PrevValidatorProposals))+4] = 2
		return true
	}},
}

// bodyV1 is the body without endorsements, as it was before they were in it.
func (x *tale) bodyV1() []byte {
	b := borsh.AppendUint32(primitives.AppendChunkHeaders(nil, x.Body.Chunks), 0)
	return append(append(b, x.Body.VRFValue[:]...), x.Body.VRFProof[:]...)
}

// endorsed changes the endorsements of a new chunk, and the bits with them.
func (x *tale) endorsed(change func([]primitives.Signature) []primitives.Signature) bool {
	i := x.fresh()
	if i < 0 || given(x.Body.ChunkEndorsements[i]) == 0 {
		return false
	}
	x.Body.ChunkEndorsements[i] = change(x.Body.ChunkEndorsements[i])
	x.roots()
	return true
}

// chunk changes a new chunk's header, and the roots with it.
func (x *tale) chunk(change func(*primitives.ChunkHeader)) bool {
	i := x.fresh()
	if i < 0 {
		return false
	}
	change(x.Body.Chunks[i])
	x.roots()
	return true
}
