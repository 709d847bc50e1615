package primitives

// LightClientBlock is what next_light_client_block answers (nearcore LightClientBlockView): enough to verify that the
// block of InnerLite is final.
type LightClientBlock struct {
	PrevBlockHash      Hash
	NextBlockInnerHash Hash
	InnerLite          BlockHeaderInnerLite
	InnerRestHash      Hash
	NextBPs            []ValidatorStake // nil when not given
	ApprovalsAfterNext []Signature      // empty string: none
}

// Hash returns the block's hash, by the same formula as a whole header's.
func (l *LightClientBlock) Hash() Hash {
	return CombineHash(CombineHash(HashBorsh(&l.InnerLite), l.InnerRestHash), l.PrevBlockHash)
}

// LiteHeader is the lite view of a header, from which its hash can be computed (nearcore LightClientBlockLiteView).
type LiteHeader struct {
	PrevBlockHash Hash
	InnerRestHash Hash
	InnerLite     BlockHeaderInnerLite
}

// Lite returns h's lite view.
func (h *BlockHeader) Lite() LiteHeader {
	return LiteHeader{PrevBlockHash: h.PrevHash, InnerRestHash: h.InnerRestHash(), InnerLite: h.BlockHeaderInnerLite}
}
