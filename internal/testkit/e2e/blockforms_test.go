//go:build e2e

package e2e

import (
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// forgedBlock is a block of the byzantine validator (see byzantineCluster) that a blockForm changes
// before it is sent.
type forgedBlock struct {
	*primitives.Block
	parent *primitives.Block
	keys   map[primitives.AccountID]primitives.SecretKey // the keys of all validators
	by     primitives.SecretKey                          // the key that signs the header
	hash   primitives.Hash                               // set with raw
	raw    []byte                                        // the bytes to send; nil: not sealed yet
}

// blockForm is a change of a block. If right is set, neard accepts the changed block, according to
// its source. Otherwise neard refuses it.
type blockForm struct {
	name   string
	right  bool
	change func(x *forgedBlock) bool // returns false if the change cannot be made to this block
}

// forge returns a changed and signed copy of block b; nil if the change cannot be made to b.
func (f *blockForm) forge(b, parent *primitives.Block, keys map[primitives.AccountID]primitives.SecretKey, by primitives.SecretKey) *forgedBlock {
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
	x := &forgedBlock{Block: &primitives.Block{Header: &header, Body: body}, parent: parent, keys: keys, by: by}
	if !f.change(x) {
		return nil
	}
	if x.raw == nil {
		x.seal()
	}
	return x
}

// seal signs the header and sets hash and raw. Nothing in the header or body is recomputed.
func (x *forgedBlock) seal() {
	x.Header.Init()
	x.hash = x.Block.Hash()
	chain.SignBlock(x.Block, x.by)
	x.raw = x.Block.AppendBorsh(nil)
}

// other seals a block with another hash than the original: its timestamp is one higher. The form
// then changes raw, the bytes of that block.
func (x *forgedBlock) other() {
	x.Header.Timestamp++
	x.seal()
}

// body sets the header's hash of the body to that of the current body.
func (x *forgedBlock) body() { x.Header.BlockBodyHash = x.Body.Hash() }

// roots recomputes all fields of the header that depend on the body's chunks and endorsements.
func (x *forgedBlock) roots() {
	r, h := chain.ComputeRoots(x.Body.Chunks, x.Header.Height), x.Header
	h.PrevStateRoot, h.PrevOutcomeRoot, h.PrevChunkOutgoingReceiptsRoot = r.PrevStateRoot, r.PrevOutcomeRoot, r.PrevOutgoingReceipts
	h.ChunkHeadersRoot, h.ChunkTxRoot, h.PrevValidatorProposals, h.ChunkMask = r.ChunkHeaders, r.ChunkTx, r.PrevValidatorProposal, r.Mask
	h.ChunkEndorsements = chain.EndorsementBitmaps(x.Body.ChunkEndorsements)
	x.body()
}

// rest returns the borsh encoding of the header's inner_rest in version V5.
func (x *forgedBlock) rest() []byte {
	x.Header.Version = primitives.HeaderV5
	raw := x.Header.AppendBorsh(nil)
	return raw[1+32+len(x.Header.BlockHeaderInnerLite.AppendBorsh(nil)) : len(raw)-len(x.Header.Signature.AppendBorsh(nil))]
}

// written sets hash and raw to those of a block that is encoded by hand: the tags of block and
// header, the inner_lite of x, and the given encodings of inner_rest and body.
func (x *forgedBlock) written(block, header byte, rest, body []byte) {
	lite := x.Header.BlockHeaderInnerLite.AppendBorsh(nil)
	x.hash = primitives.CombineHash(primitives.CombineHash(primitives.HashBytes(lite), primitives.HashBytes(rest)), x.Header.PrevHash)
	raw := append([]byte{block, header}, x.Header.PrevHash[:]...)
	raw = append(append(raw, lite...), rest...)
	x.raw = append(x.by.Sign(x.hash[:]).AppendBorsh(raw), body...)
}

// fresh returns the index of the first new chunk in the block, -1 if there is none.
func (x *forgedBlock) fresh() int { return slices.Index(x.Header.ChunkMask, true) }

// given returns the number of signatures in list that are not empty.
func given(list []primitives.Signature) (n int) {
	for _, s := range list {
		if s != "" {
			n++
		}
	}
	return n
}

// vote returns the bytes that an approval of the block signs.
func (x *forgedBlock) vote() []byte {
	inner := primitives.NewApprovalInner(x.Header.PrevHash, x.Header.PrevHeight, x.Header.Height)
	return inner.SignedBytes(x.Header.Height)
}

// double returns a challenge that a producer signed two blocks of one height. Its first header
// consists of size zero bytes, its second is empty.
func double(size int) []byte {
	raw := borsh.AppendBytes(borsh.AppendBytes([]byte{0}, make([]byte, size)), nil)
	return primitives.ZeroED25519Signature.AppendBorsh(borsh.AppendString(raw, "aa"))
}

// doctored returns a challenge of the first chunk: that its proofs are invalid, or, if state is
// set, that its state is.
func (x *forgedBlock) doctored(state bool) []byte {
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

// challenged replaces the body's challenges and updates the header's hash of the body. It returns
// true.
func (x *forgedBlock) challenged(list ...[]byte) bool {
	x.Body.Challenges = borsh.AppendUint32(nil, uint32(len(list)))
	for _, c := range list {
		x.Body.Challenges = append(x.Body.Challenges, c...)
	}
	x.body()
	return true
}

// header returns a form that changes fields of the header.
func header(name string, right bool, change func(h *primitives.BlockHeader)) blockForm {
	return blockForm{name, right, func(x *forgedBlock) bool { change(x.Header); return true }}
}

// flip returns a form that inverts a bit of a hash in the header.
func flip(name string, of func(h *primitives.BlockHeader) *primitives.Hash) blockForm {
	return header(name, false, func(h *primitives.BlockHeader) { of(h)[7] ^= 1 })
}
