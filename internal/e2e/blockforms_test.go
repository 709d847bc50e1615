//go:build e2e

package e2e

import (
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// tale is a block of the liar in the form in which it is told.
type tale struct {
	*primitives.Block
	parent *primitives.Block
	keys   map[primitives.AccountID]primitives.SecretKey // of all validators
	by     primitives.SecretKey                          // signs the header
	hash   primitives.Hash
	raw    []byte // what is sent
}

// blockForm is how a block may be written. What is right neard takes, by its source, and what is
// wrong it refuses.
type blockForm struct {
	name   string
	right  bool
	change func(x *tale) bool // false: it can't be said of this block
}

// tell gives a block another form; nil: it can't be said of this one.
func (f *blockForm) tell(b, parent *primitives.Block, keys map[primitives.AccountID]primitives.SecretKey, by primitives.SecretKey) *tale {
	header := *b.Header
	body := b.Body
	body.Chunks = slices.Clone(body.Chunks)
	for i, c := range body.Chunks {
		own := *c
		body.Chunks[i] = &own
	}
	body.ChunkEndorsements = slices.Clone(body.ChunkEndorsements)
	for i, list := range body.ChunkEndorsements {
		body.ChunkEndorsements[i] = slices.Clone(list)
	}
	header.Approvals, header.ChunkMask = slices.Clone(header.Approvals), slices.Clone(header.ChunkMask)
	header.ChunkEndorsements = slices.Clone(header.ChunkEndorsements)
	for i, list := range header.ChunkEndorsements {
		header.ChunkEndorsements[i] = slices.Clone(list)
	}
	x := &tale{Block: &primitives.Block{Header: &header, Body: body}, parent: parent, keys: keys, by: by}
	if !f.change(x) {
		return nil
	}
	if x.raw == nil {
		x.seal()
	}
	return x
}

// seal signs the header as it is.
func (x *tale) seal() {
	x.Header.Init()
	x.hash = x.Block.Hash()
	chain.SignBlock(x.Block, x.by)
	x.raw = x.Block.AppendBorsh(nil)
}

// other seals it as a block of its own, whose bytes are changed afterwards.
func (x *tale) other() {
	x.Header.Timestamp++
	x.seal()
}

// body has the header say the body as it is.
func (x *tale) body() { x.Header.BlockBodyHash = x.Body.Hash() }

// roots has the header say what its chunks do.
func (x *tale) roots() {
	r, h := chain.ComputeRoots(x.Body.Chunks, x.Header.Height), x.Header
	h.PrevStateRoot, h.PrevOutcomeRoot, h.PrevChunkOutgoingReceiptsRoot = r.PrevStateRoot, r.PrevOutcomeRoot, r.PrevOutgoingReceipts
	h.ChunkHeadersRoot, h.ChunkTxRoot, h.PrevValidatorProposals, h.ChunkMask = r.ChunkHeaders, r.ChunkTx, r.PrevValidatorProposal, r.Mask
	h.ChunkEndorsements = chain.EndorsementBitmaps(x.Body.ChunkEndorsements)
	x.body()
}

// rest is inner_rest as V5 writes it.
func (x *tale) rest() []byte {
	x.Header.Version = primitives.HeaderV5
	raw := x.Header.AppendBorsh(nil)
	return raw[1+32+len(x.Header.BlockHeaderInnerLite.AppendBorsh(nil)) : len(raw)-len(x.Header.Signature.AppendBorsh(nil))]
}

// written makes a block of a header that is written by hand, with what stands around it.
func (x *tale) written(block, header byte, rest, body []byte) {
	lite := x.Header.BlockHeaderInnerLite.AppendBorsh(nil)
	x.hash = primitives.CombineHash(primitives.CombineHash(primitives.HashBytes(lite), primitives.HashBytes(rest)), x.Header.PrevHash)
	raw := append([]byte{block, header}, x.Header.PrevHash[:]...)
	raw = append(append(raw, lite...), rest...)
	x.raw = append(x.by.Sign(x.hash[:]).AppendBorsh(raw), body...)
}

// fresh is the first index of a new chunk, -1: there is none.
func (x *tale) fresh() int { return slices.Index(x.Header.ChunkMask, true) }

// given counts signatures.
func given(list []primitives.Signature) (n int) {
	for _, s := range list {
		if s != "" {
			n++
		}
	}
	return n
}

// vote is what an approval of the block signs.
func (x *tale) vote() []byte {
	inner := primitives.NewApprovalInner(x.Header.PrevHash, x.Header.PrevHeight, x.Header.Height)
	return inner.SignedBytes(x.Header.Height)
}

// double is a challenge of two headers that are none.
func double(size int) []byte {
	raw := borsh.AppendBytes(borsh.AppendBytes([]byte{0}, make([]byte, size)), nil)
	return primitives.ZeroED25519Signature.AppendBorsh(borsh.AppendString(raw, "aa"))
}

// doctored is a challenge of a chunk whose body is not its header's; of one that tells another
// outcome than it has, if path.
func (x *tale) doctored(state bool) []byte {
	header := x.Body.Chunks[0].AppendBorsh(nil)
	raw := borsh.AppendUint32(borsh.AppendBytes([]byte{1}, []byte("header")), 0)
	chunk := func(raw []byte) []byte { // ShardChunk V2, without transactions and receipts
		hash := x.Body.Chunks[0].ChunkHash()
		return append(append(append(append(raw, 1), hash[:]...), header...), make([]byte, 8)...)
	}
	if !state {
		raw = chunk(append(raw, 1)) // MaybeEncodedShardChunk::Decoded
	} else {
		raw[0] = 2
		raw = append(borsh.AppendBytes([]byte{2}, []byte("header")), make([]byte, 8)...) // block index
		raw = chunk(borsh.AppendUint32(raw, 0))
		raw = append(borsh.AppendUint32(raw, 0), header...)
		raw = borsh.AppendBytes(borsh.AppendUint32(append(raw, 0), 1), []byte{5}) // PartialState of one value
	}
	return primitives.ZeroED25519Signature.AppendBorsh(borsh.AppendString(raw, "aa"))
}

// challenged puts challenges into the body.
func (x *tale) challenged(list ...[]byte) bool {
	x.Body.Challenges = borsh.AppendUint32(nil, uint32(len(list)))
	for _, c := range list {
		x.Body.Challenges = append(x.Body.Challenges, c...)
	}
	x.body()
	return true
}

// header is a form that changes a header's field.
func header(name string, right bool, change func(h *primitives.BlockHeader)) blockForm {
	return blockForm{name, right, func(x *tale) bool { change(x.Header); return true }}
}

// flip is a form that changes a hash of the header.
func flip(name string, of func(h *primitives.BlockHeader) *primitives.Hash) blockForm {
	return header(name, false, func(h *primitives.BlockHeader) { of(h)[7] ^= 1 })
}
