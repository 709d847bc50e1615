//go:build e2e

package e2e

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// wrongBodies are forms that neard refuses because of the body, or because body and header
// disagree.
var wrongBodies = []blockForm{
	{"another body", false, func(x *forgedBlock) bool {
		was := x.Header.BlockBodyHash
		x.challenged(double(3))
		x.Header.BlockBodyHash = was
		return true
	}},
	flip("random value", func(h *primitives.BlockHeader) *primitives.Hash { return &h.RandomValue }),
	{"VRF value", false, func(x *forgedBlock) bool {
		x.Body.VRFValue[0] ^= 1
		x.Header.RandomValue = primitives.HashBytes(x.Body.VRFValue[:])
		x.body()
		return true
	}},
	{"VRF proof", false, func(x *forgedBlock) bool { x.Body.VRFProof[40] ^= 1; x.body(); return true }},
	{"proposal", false, func(x *forgedBlock) bool {
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
	{"an endorsement that is none", false, func(x *forgedBlock) bool {
		return x.endorsed(func(l []primitives.Signature) []primitives.Signature {
			l[0] = primitives.ZeroED25519Signature
			return l
		})
	}},
	{"an endorsement by secp256k1", false, func(x *forgedBlock) bool {
		return x.endorsed(func(l []primitives.Signature) []primitives.Signature {
			l[0] = primitives.SecretKeyFromSeed(primitives.SECP256K1, "any").Sign(make([]byte, 32))
			return l
		})
	}},
	{"one endorsement", false, func(x *forgedBlock) bool {
		return x.endorsed(func(l []primitives.Signature) []primitives.Signature {
			for i := range l {
				if given(l) > 1 {
					l[i] = ""
				}
			}
			return l
		})
	}},
	{"endorsements of one more", false, func(x *forgedBlock) bool {
		return x.endorsed(func(l []primitives.Signature) []primitives.Signature { return append(l, "") })
	}},
	{"endorsements of one less", false, func(x *forgedBlock) bool {
		return x.endorsed(func(l []primitives.Signature) []primitives.Signature { return l[:len(l)-1] })
	}},
	{"endorsements of one shard less", false, func(x *forgedBlock) bool {
		x.Body.ChunkEndorsements = x.Body.ChunkEndorsements[:len(x.Body.ChunkEndorsements)-1]
		x.body()
		return true
	}},
	{"endorsements of one shard more", false, func(x *forgedBlock) bool {
		x.Body.ChunkEndorsements = append(x.Body.ChunkEndorsements, nil)
		x.body()
		return true
	}},
	{"chunk signed by no validator", false, func(x *forgedBlock) bool {
		return x.chunk(func(c *primitives.ChunkHeader) { c.Signature = primitives.ZeroED25519Signature })
	}},
	{"chunk of another height included", false, func(x *forgedBlock) bool { return x.chunk(func(c *primitives.ChunkHeader) { c.HeightIncluded++ }) }},
	{"chunk of no height", false, func(x *forgedBlock) bool { return x.chunk(func(c *primitives.ChunkHeader) { c.HeightIncluded = 0 }) }},
	{"old chunk as a new one", false, func(x *forgedBlock) bool {
		return x.chunk(func(c *primitives.ChunkHeader) {
			*c = *x.parent.Body.Chunks[x.fresh()]
			c.HeightIncluded = x.Header.Height
		})
	}},
	{"chunks of two shards changed", false, func(x *forgedBlock) bool {
		c, e := x.Body.Chunks, x.Body.ChunkEndorsements
		c[0], c[1], e[0], e[1] = c[1], c[0], e[1], e[0]
		x.roots()
		return true
	}},
	{"chunk of one shard less", false, func(x *forgedBlock) bool {
		x.Body.Chunks, x.Body.ChunkEndorsements = x.Body.Chunks[1:], x.Body.ChunkEndorsements[1:]
		x.roots()
		return true
	}},
	{"chunk of one shard more", false, func(x *forgedBlock) bool {
		x.Body.Chunks, x.Body.ChunkEndorsements = append(x.Body.Chunks, x.Body.Chunks[0]), append(x.Body.ChunkEndorsements, x.Body.ChunkEndorsements[0])
		x.roots()
		return true
	}},
	{"block V1", false, func(x *forgedBlock) bool { x.other(); x.raw[0] = 0; return true }},
	{"block V2", false, func(x *forgedBlock) bool {
		x.Header.BlockBodyHash = primitives.Hash{}
		x.seal()
		x.raw = append(x.Header.AppendBorsh([]byte{1}), x.bodyV1()...)
		return true
	}},
	{"block V3", false, func(x *forgedBlock) bool {
		x.Header.BlockBodyHash = primitives.HashBytes(x.bodyV1())
		x.seal()
		x.raw = append(x.Header.AppendBorsh([]byte{2}), x.bodyV1()...)
		return true
	}},
	{"body V1", false, func(x *forgedBlock) bool {
		x.Header.BlockBodyHash = primitives.HashBytes(x.bodyV1())
		x.seal()
		x.raw = append(x.Header.AppendBorsh([]byte{3}), append([]byte{0}, x.bodyV1()...)...)
		return true
	}},
	{"body V3", false, func(x *forgedBlock) bool { // of the Spice feature: core statements instead of challenges and endorsements
		body := primitives.AppendChunkHeaders([]byte{2}, x.Body.Chunks)
		body = borsh.AppendUint32(append(append(body, x.Body.VRFValue[:]...), x.Body.VRFProof[:]...), 0)
		x.Header.BlockBodyHash = primitives.HashBytes(body)
		x.seal()
		x.raw = append(x.Header.AppendBorsh([]byte{3}), body...)
		return true
	}},
	{"a byte behind the block", false, func(x *forgedBlock) bool { x.other(); x.raw = append(x.raw, 0); return true }},
	{"a byte less", false, func(x *forgedBlock) bool { x.Header.Timestamp++; x.other(); x.raw = x.raw[:len(x.raw)-1]; return true }},
	{"a mask of neither", false, func(x *forgedBlock) bool { // a bool with the value 2
		x.other()
		lite := len(x.Header.BlockHeaderInnerLite.AppendBorsh(nil))
		x.raw[2+32+lite+5*32+len(primitives.AppendValidatorStakes(nil, x.Header.PrevValidatorProposals))+4] = 2
		return true
	}},
}

// bodyV1 is the body version before endorsements were added.
func (x *forgedBlock) bodyV1() []byte {
	b := borsh.AppendUint32(primitives.AppendChunkHeaders(nil, x.Body.Chunks), 0)
	return append(append(b, x.Body.VRFValue[:]...), x.Body.VRFProof[:]...)
}

// endorsed changes the endorsements of a new chunk, and the header's endorsement bitmap to match.
func (x *forgedBlock) endorsed(change func([]primitives.Signature) []primitives.Signature) bool {
	i := x.fresh()
	if i < 0 || given(x.Body.ChunkEndorsements[i]) == 0 {
		return false
	}
	x.Body.ChunkEndorsements[i] = change(x.Body.ChunkEndorsements[i])
	x.roots()
	return true
}

// chunk changes the header of a new chunk, and recomputes the block's roots.
func (x *forgedBlock) chunk(change func(*primitives.ChunkHeader)) bool {
	i := x.fresh()
	if i < 0 {
		return false
	}
	change(x.Body.Chunks[i])
	x.roots()
	return true
}
