package primitives

import "github.com/troupe-chain/troupe/primitives/borsh"

// LightClientBlock is the result of next_light_client_block (nearcore LightClientBlockView): enough
// to verify that the block of InnerLite is final.
type LightClientBlock struct {
	PrevBlockHash      Hash
	NextBlockInnerHash Hash
	InnerLite          BlockHeaderInnerLite
	InnerRestHash      Hash
	NextBPs            []ValidatorStake // nil if the epoch's producers are not included
	ApprovalsAfterNext []Signature      // signatures by approver; empty: the approver has not approved
}

// Hash returns the block's hash, by the formula of a full header's hash.
func (l *LightClientBlock) Hash() Hash {
	return CombineHash(CombineHash(HashBorsh(&l.InnerLite), l.InnerRestHash), l.PrevBlockHash)
}

// LiteHeader is the lite view of a header, from which its hash can be computed (nearcore
// LightClientBlockLiteView).
type LiteHeader struct {
	PrevBlockHash Hash
	InnerRestHash Hash
	InnerLite     BlockHeaderInnerLite
}

// Lite returns h's lite view.
func (h *BlockHeader) Lite() LiteHeader {
	return LiteHeader{PrevBlockHash: h.PrevHash, InnerRestHash: h.InnerRestHash(), InnerLite: h.BlockHeaderInnerLite}
}

// AppendBorsh appends our storage form: the fields in order, NextBPs as an Option.
func (l *LightClientBlock) AppendBorsh(b []byte) []byte {
	b = append(append(b, l.PrevBlockHash[:]...), l.NextBlockInnerHash[:]...)
	b = append(l.InnerLite.AppendBorsh(b), l.InnerRestHash[:]...)
	b = borsh.AppendBool(b, l.NextBPs != nil)
	if l.NextBPs != nil {
		b = AppendValidatorStakes(b, l.NextBPs)
	}
	return AppendOptionSignatures(b, l.ApprovalsAfterNext)
}

// DecodeBorsh reads our storage form.
func (l *LightClientBlock) DecodeBorsh(r *borsh.Reader) {
	l.PrevBlockHash, l.NextBlockInnerHash = ReadHash(r), ReadHash(r)
	l.InnerLite.DecodeBorsh(r)
	l.InnerRestHash = ReadHash(r)
	if r.Option() {
		if l.NextBPs = ReadValidatorStakes(r); l.NextBPs == nil {
			l.NextBPs = []ValidatorStake{} // the list is included but empty
		}
	}
	l.ApprovalsAfterNext = ReadOptionSignatures(r)
}
