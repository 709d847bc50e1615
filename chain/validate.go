package chain

import (
	"bytes"

	"github.com/troupe-chain/troupe/primitives"
)

// AcceptableTimeDifference is the maximum time in ns by which a block's timestamp may exceed this
// node's clock.
const AcceptableTimeDifference = 120 * 1_000_000_000

// Approver is an account that may approve a block: a block producer of the block's epoch or, near
// the end of that epoch, of the next epoch. A header has one approval slot for each approver.
type Approver struct {
	AccountID primitives.AccountID
	PublicKey primitives.PublicKey
	StakeThis primitives.Balance // stake in the block's epoch; 0: the account is no block producer of that epoch
	StakeNext primitives.Balance // stake in the next epoch; 0: the account is no block producer of that epoch
}

// ValidationContext is the data for validating a block. The BlockFacts are the values that the
// header fields must have.
type ValidationContext struct {
	BlockFacts
	Parent       *primitives.BlockHeader
	PrevRandom   primitives.Hash      // the parent's random value
	Producer     primitives.PublicKey // key of the producer that is selected for the block's height
	Approvers    []Approver
	ShardIDs     []primitives.ShardID // ids in the layout of the block's epoch, by shard index
	PrevChunks   []*primitives.ChunkHeader
	ChunkSigners []primitives.PublicKey // by shard index: keys of the producers of chunks at the parent's height + 1
	// Assigned are the validators of each new chunk, by shard index. The validators are drawn for
	// the chunk's height_created.
	Assigned [][]Assigned
	// Late sets Assigned. ValidateBlock calls Late after all other checks have passed, because
	// drawing validators costs more than the other checks. A malicious producer can force a draw by
	// its choice of height_created. A nil Late means that Assigned is set already.
	Late      func() error
	Now       uint64            // ns since 1970; 0: the timestamp is not checked
	MaxHeight primitives.Height // maximum height of the block; 0: no limit
	Verify    func(sig primitives.Signature, data []byte, key primitives.PublicKey) bool
	// VRF verifies the random value. nil means primitives.VerifyVRF.
	VRF func(key primitives.PublicKey, input []byte, value *[32]byte, proof *[64]byte) bool
	// Produced says that this node produced the block. In that case signatures, approvals, finality
	// and endorsements are not checked.
	Produced bool
	// HeadersOnly says that only the chunk headers of the block's body are known (see
	// ValidateView).
	HeadersOnly bool
}

// ValidateOrigin checks a block without the state of its parent: its form, that the producer signed
// it with this body, and that enough approvers approved a block of this height on this parent.
// Copies of a block have the same hash, but only one of these copies can pass. The body may be
// long, so ValidateOrigin hashes it last: a malicious producer can sign any number of headers but
// gets approvals for few. Errors: Invalid.
func ValidateOrigin(b *primitives.Block, producer primitives.PublicKey, shards int, approvers []Approver,
	verify func(primitives.Signature, []byte, primitives.PublicKey) bool) error {
	if err := validateSigned(b, producer, shards, verify); err != nil {
		return err
	}
	if !Voted(b.Header, approvers, verify) {
		return NotEnoughApprovals
	}
	if b.Body.Hash() != b.Header.BlockBodyHash {
		return InvalidBodyHash
	}
	return nil
}

// validateVersion accepts the header versions 5 to 7 (nearcore chain.rs validate_header). With V5 a
// block cannot split a shard. The additional fields of V7 are not used. Header versions below 5
// have no endorsement bitmaps, and V8 is only for Spice.
func validateVersion(h *primitives.BlockHeader) error {
	if h.Version < primitives.HeaderV5 || h.Version > primitives.HeaderV7 {
		return invalidf(InvalidHeaderVersion, "header version %d", h.Version)
	}
	return nil
}

// headerV7Rejected is the protocol version (RejectBlockHeaderV7BeforeSpice) from which V7 headers
// are invalid. Only the release numbering has this version.
const headerV7Rejected primitives.ProtocolVersion = 87

// validateSigned checks the form of a block and the producer's signature.
func validateSigned(b *primitives.Block, producer primitives.PublicKey, shards int,
	verify func(primitives.Signature, []byte, primitives.PublicKey) bool) error {
	h := b.Header
	if err := validateVersion(h); err != nil {
		return err
	}
	if len(h.ChunkMask) != shards || len(b.Body.Chunks) != shards {
		return InvalidNumberOfChunkHeaders
	}
	for _, c := range b.Body.Chunks {
		if c.Version == primitives.ChunkInnerV1 {
			return invalidf(InvalidChunk, "the chunk of shard %d has a header of version 1", c.ShardID)
		}
	}
	hash := h.Hash()
	if !verify(h.Signature, hash[:], producer) {
		return invalidf(InvalidSignature, "it is not by the block's producer")
	}
	return nil
}

// ValidateBlock checks everything about a block that does not need the contents of its chunks
// (nearcore chain.rs validate_header, validate_block, preprocess_block). The error is the first
// rule that the block breaks.
func ValidateBlock(b *primitives.Block, j *ValidationContext) error {
	checks := []func(*primitives.Block, *ValidationContext) error{validateIdentity, validateHeader}
	if !j.Produced {
		checks = append(checks, validateVotes)
	}
	if !j.HeadersOnly {
		checks = append(checks, validateRandomness)
	}
	checks = append(checks, validateBody, validateChunkHeaders, validateEconomics, gather)
	switch {
	case j.HeadersOnly:
		checks = append(checks, validateBits)
	case !j.Produced:
		checks = append(checks, validateEndorsements)
	}
	for _, check := range checks {
		if err := check(b, j); err != nil {
			return err
		}
	}
	return nil
}

// gather calls ValidationContext.Late, if set.
func gather(_ *primitives.Block, j *ValidationContext) error {
	if j.Late == nil {
		return nil
	}
	return j.Late()
}

// ValidateHeader checks a header without its body and without state (nearcore chain.rs
// validate_header). Until the body arrives and is validated, the node trusts the producer and the
// approvers of the following blocks in everything that ValidateHeader does not check.
func ValidateHeader(h *primitives.BlockHeader, j *ValidationContext) error {
	if err := validateVersion(h); err != nil {
		return err
	}
	if h.PrevHash != j.Parent.Hash() {
		return InvalidPrevBlock
	}
	hash := h.Hash()
	if !j.Verify(h.Signature, hash[:], j.Producer) {
		return invalidf(InvalidSignature, "it is not by the block's producer")
	}
	if err := validateFields(h, j); err != nil {
		return err
	}
	if err := validateHeaderBits(h); err != nil {
		return err
	}
	return validateHeaderVotes(h, j)
}

// validateBits checks the lengths of the endorsement bitmaps of new chunks. validateBits replaces
// the check of the endorsements when the endorsements are unknown.
func validateBits(b *primitives.Block, j *ValidationContext) error {
	if err := validateHeaderBits(b.Header); err != nil {
		return err
	}
	for i, bits := range b.Header.ChunkEndorsements {
		if len(bits) > 0 && len(bits) != (len(j.Assigned[i])+7)/8 {
			return invalidf(InvalidEndorsementBitmap, "shard index %d", i)
		}
	}
	return nil
}

// validateHeaderBits checks that exactly the new chunks have an endorsement bitmap (nearcore
// validate_chunk_endorsements_in_header). The signatures are checked with the body. Only at that
// time does the node know for which validators the bits stand.
func validateHeaderBits(h *primitives.BlockHeader) error {
	if len(h.ChunkEndorsements) != len(h.ChunkMask) {
		return InvalidEndorsementBitmap
	}
	for i, bits := range h.ChunkEndorsements {
		if h.ChunkMask[i] != (len(bits) > 0) {
			return invalidf(InvalidEndorsementBitmap, "shard index %d", i)
		}
	}
	return nil
}

func validateIdentity(b *primitives.Block, j *ValidationContext) error {
	h := b.Header
	if err := validateVersion(h); err != nil {
		return err
	}
	if h.PrevHash != j.Parent.Hash() {
		return InvalidPrevBlock
	}
	if !j.HeadersOnly && b.Body.Hash() != h.BlockBodyHash {
		return InvalidBodyHash
	}
	hash := h.Hash()
	if !j.Produced && !j.Verify(h.Signature, hash[:], j.Producer) {
		return invalidf(InvalidSignature, "it is not by the block's producer")
	}
	return nil
}

func validateHeader(b *primitives.Block, j *ValidationContext) error {
	if len(b.Body.Chunks) != len(j.ShardIDs) {
		return InvalidNumberOfChunkHeaders
	}
	return validateFields(b.Header, j)
}

func validateFields(h *primitives.BlockHeader, j *ValidationContext) error {
	p := j.Parent
	if len(h.ChunkMask) != len(j.ShardIDs) {
		return InvalidNumberOfChunkHeaders
	}
	switch {
	case h.Height <= p.Height:
		return invalidf(InvalidBlockHeight, "height %d on a parent of height %d", h.Height, p.Height)
	case j.MaxHeight != 0 && h.Height > j.MaxHeight:
		return invalidf(InvalidBlockHeight, "height %d on a parent of height %d: %w, at most %d is allowed", h.Height,
			p.Height, ErrHeightAhead, j.MaxHeight)
	case j.Now != 0 && h.Timestamp > j.Now+AcceptableTimeDifference:
		return InvalidBlockFutureTime
	case h.EpochID != j.EpochID || h.NextEpochID != j.NextEpochID:
		return InvalidEpochHash
	case h.LatestProtocolVersion < j.Version:
		return invalidf(InvalidProtocolVersion, "version %d in an epoch of version %d", h.LatestProtocolVersion, j.Version)
	case h.Version == primitives.HeaderV7 && j.Version >= headerV7Rejected:
		return invalidf(InvalidProtocolVersion, "header version 7 in an epoch of version %d", j.Version)
	case h.NextBPHash != j.NextBPHash:
		return InvalidNextBPHash
	case h.PrevHeight != p.Height:
		return InvalidPrevHeight
	case h.Timestamp <= p.Timestamp:
		return InvalidBlockPastTime
	}
	return nil
}

func validateVotes(b *primitives.Block, j *ValidationContext) error {
	return validateHeaderVotes(b.Header, j)
}

func validateHeaderVotes(h *primitives.BlockHeader, j *ValidationContext) error {
	p := j.Parent
	if len(h.Approvals) > len(j.Approvers) {
		return InvalidApprovals
	}
	inner := primitives.NewApprovalInner(p.Hash(), p.Height, h.Height)
	message := inner.SignedBytes(h.Height)
	for i, sig := range h.Approvals {
		if sig != "" && !j.Verify(sig, message, j.Approvers[i].PublicKey) {
			return invalidf(InvalidApprovals, "the signature of %s does not verify", j.Approvers[i].AccountID)
		}
	}
	if !ApprovedEnough(j.Approvers, func(i int) bool { return i < len(h.Approvals) && h.Approvals[i] != "" }) {
		return NotEnoughApprovals
	}
	switch {
	case h.LastDSFinalBlock != LastDSFinal(p, h.Height) || h.LastFinalBlock != LastFinal(p, h.Height):
		return InvalidFinalityInfo
	case h.BlockMerkleRoot != j.BlockMerkleRoot:
		return InvalidBlockMerkleRoot
	case h.BlockOrdinal != j.BlockOrdinal:
		return InvalidBlockOrdinal
	case (h.EpochSyncDataHash == nil) != (j.EpochSyncDataHash == nil),
		h.EpochSyncDataHash != nil && *h.EpochSyncDataHash != *j.EpochSyncDataHash:
		return InvalidEpochSyncDataHash
	}
	return nil
}

// Voted returns whether the header contains enough valid approvals (ApprovedEnough) of a block of
// its height on its parent. approvers may be the approvers of the block's epoch only.
func Voted(h *primitives.BlockHeader, approvers []Approver,
	verify func(primitives.Signature, []byte, primitives.PublicKey) bool) bool {
	approved := func(i int) bool { return i < len(h.Approvals) && h.Approvals[i] != "" }
	if !ApprovedEnough(approvers, approved) { // checked before any signature is verified
		return false
	}
	inner := primitives.NewApprovalInner(h.PrevHash, h.PrevHeight, h.Height)
	message := inner.SignedBytes(h.Height)
	for i := range approvers {
		if approved(i) && !verify(h.Approvals[i], message, approvers[i].PublicKey) {
			return false
		}
	}
	return true
}

// ApprovedEnough returns whether the approvers for which approved is true hold more than two thirds
// of the stake of this epoch, and also of the stake of the next epoch. An epoch whose total stake
// is 0 needs no approval (nearcore doomslug.rs:584).
func ApprovedEnough(approvers []Approver, approved func(i int) bool) bool {
	var have, total [2]primitives.Balance
	for i := range approvers {
		for e, stake := range [...]primitives.Balance{approvers[i].StakeThis, approvers[i].StakeNext} {
			total[e] = total[e].SaturatingAdd(stake)
			if approved(i) {
				have[e] = have[e].SaturatingAdd(stake)
			}
		}
	}
	for e := range total {
		if t := twoThirds(total[e]); !t.IsZero() && have[e].Cmp(t) <= 0 {
			return false
		}
	}
	return true
}

func validateRandomness(b *primitives.Block, j *ValidationContext) error {
	verify := j.VRF
	if verify == nil {
		verify = primitives.VerifyVRF
	}
	if !j.Produced && !verify(j.Producer, j.PrevRandom[:], &b.Body.VRFValue, &b.Body.VRFProof) {
		return invalidf(InvalidRandomness, "the VRF proof does not verify")
	}
	if b.Header.RandomValue != primitives.HashBytes(b.Body.VRFValue[:]) {
		return invalidf(InvalidRandomness, "the random value does not follow from the VRF proof")
	}
	return nil
}

func validateBody(b *primitives.Block, _ *ValidationContext) error {
	h := b.Header
	r := ComputeRoots(b.Body.Chunks, h.Height)
	switch {
	case r.PrevStateRoot != h.PrevStateRoot:
		return InvalidStateRoot
	case r.PrevOutgoingReceipts != h.PrevChunkOutgoingReceiptsRoot:
		return InvalidReceiptsProof
	case r.ChunkHeaders != h.ChunkHeadersRoot:
		return InvalidChunkHeadersRoot
	case r.ChunkTx != h.ChunkTxRoot:
		return InvalidTxRoot
	case r.PrevOutcomeRoot != h.PrevOutcomeRoot:
		return InvalidOutcomesProof
	case !bytes.Equal(primitives.AppendValidatorStakes(nil, r.PrevValidatorProposal),
		primitives.AppendValidatorStakes(nil, h.PrevValidatorProposals)):
		return InvalidValidatorProposals
	}
	for i := range r.Mask {
		if r.Mask[i] != h.ChunkMask[i] {
			return InvalidChunkMask
		}
	}
	return nil
}

// validateChunkHeaders checks the chunk headers of a block. The previous block of a new chunk must
// be the block's parent, and the chunk's producer must have signed the header. A header that is not
// new must equal the shard's header in the parent. height_created is not checked; neard uses it
// only to select the chunk's validators (chain.rs validate_block_impl).
func validateChunkHeaders(b *primitives.Block, j *ValidationContext) error {
	for i, c := range b.Body.Chunks {
		if c.HeightIncluded != b.Header.Height {
			prev := j.PrevChunks[i]
			if c.HeightIncluded != prev.HeightIncluded || c.ChunkHash() != prev.ChunkHash() || c.Signature != prev.Signature {
				return invalidf(InvalidChunk, "at shard index %d: %w", i, ErrRepeatedChunk)
			}
			continue
		}
		switch {
		case c.ShardID != j.ShardIDs[i]:
			return invalidf(InvalidShardID, "shard %d at index %d", c.ShardID, i)
		case c.PrevBlockHash != b.Header.PrevHash:
			return invalidf(InvalidChunk, "the chunk of shard %d builds on another block", c.ShardID)
		}
		hash := c.ChunkHash()
		if !j.Produced && !j.Verify(c.Signature, hash[:], j.ChunkSigners[i]) {
			return invalidf(InvalidChunk, "the chunk of shard %d is not signed by its producer", c.ShardID)
		}
	}
	return nil
}

func validateEconomics(b *primitives.Block, j *ValidationContext) error {
	h := b.Header
	price, supply, err := nextEconomics(&j.BlockFacts, j.Parent, b.Body.Chunks, h.Height)
	switch {
	case err != nil:
		return err
	case price != h.NextGasPrice:
		return InvalidGasPrice
	case supply != h.TotalSupply:
		return InvalidTotalSupply
	}
	if (h.ShardSplit == nil) != (j.ShardSplit == nil) || h.ShardSplit != nil && *h.ShardSplit != *j.ShardSplit {
		return InvalidShardSplit
	}
	return nil
}

func validateEndorsements(b *primitives.Block, j *ValidationContext) error {
	h := b.Header
	if len(b.Body.ChunkEndorsements) != len(b.Body.Chunks) {
		return InvalidChunkEndorsement
	}
	if len(h.ChunkEndorsements) != len(b.Body.Chunks) {
		return InvalidEndorsementBitmap
	}
	for i, bits := range EndorsementBitmaps(b.Body.ChunkEndorsements) {
		if !bytes.Equal(bits, h.ChunkEndorsements[i]) {
			return invalidf(InvalidEndorsementBitmap, "shard index %d", i)
		}
	}
	for i, c := range b.Body.Chunks {
		sigs := b.Body.ChunkEndorsements[i]
		if c.HeightIncluded != h.Height {
			if len(sigs) != 0 {
				return invalidf(InvalidChunkEndorsement, "there are signatures for the repeated chunk of shard %d", c.ShardID)
			}
			continue
		}
		if len(sigs) != len(j.Assigned[i]) {
			return invalidf(InvalidChunkEndorsement, "%d signatures for %d validators in shard %d", len(sigs),
				len(j.Assigned[i]), c.ShardID)
		}
		message := primitives.ChunkEndorsementBytes(c.ChunkHash())
		for k, sig := range sigs {
			if sig != "" && !j.Verify(sig, message, j.Assigned[i][k].PublicKey) {
				return invalidf(InvalidChunkEndorsement, "the signature of %s in shard %d does not verify", j.Assigned[i][k].AccountID, c.ShardID)
			}
		}
		if !EndorsedEnough(j.Assigned[i], func(k int) bool { return sigs[k] != "" }) {
			return invalidf(InvalidChunkEndorsement, "the endorsements in shard %d have too little stake", c.ShardID)
		}
	}
	return nil
}

// ValidateBody checks a chunk without state: the hash, and that the transactions match the header's
// tx_root. ValidateBody does not check receipts. Errors: InvalidChunk, InvalidTxRoot.
func ValidateBody(c *primitives.Chunk) error {
	switch {
	case c.Hash != c.Header.ChunkHash():
		return invalidf(InvalidChunk, "the hash does not match")
	case c.Header.TxRoot != TxRoot(c.Transactions):
		return InvalidTxRoot
	}
	return nil
}

// ValidateChunk compares a received chunk with the results of this node (nearcore
// chain/chain/src/validate.rs:133). ValidateChunk compares the header with extra (the shard's chunk
// extra after the parent), the transactions with tx_root, and the receipts with outgoing.
// ValidateChunk encodes the body again to check the encoded root. If c.Whole is set, the body is
// known to encode to that root; then ValidateChunk encodes again only if the body's receipts differ
// from outgoing. Errors: Invalid.
func ValidateChunk(c *primitives.Chunk, extra *ChunkExtra, outgoing []*primitives.Receipt,
	layout primitives.ShardLayout, rs *primitives.ReedSolomon) error {
	coded, err := ValidateUncodedChunk(c, extra, outgoing, layout)
	if coded || err != nil {
		return err
	}
	return ValidateCoding(c, outgoing, rs)
}

// ValidateUncodedChunk is ValidateChunk without ValidateCoding. coded means that ValidateCoding is
// not needed, because the body was decoded from parts that have the root in the header.
func ValidateUncodedChunk(c *primitives.Chunk, extra *ChunkExtra, outgoing []*primitives.Receipt,
	layout primitives.ShardLayout) (coded bool, err error) {
	hash := c.Header.ChunkHash()
	if c.Hash != hash {
		return false, invalidf(InvalidChunk, "the hash does not match")
	}
	coded = c.Whole == hash && primitives.SameReceipts(c.PrevOutgoingReceipts, outgoing)
	return coded, validateChunk(c, extra, outgoing, layout, coded)
}

// ValidateCoding validates that the transactions of c and the outgoing receipts encode to the root
// and length in the header (nearcore chain/chain/src/validate.rs
// validate_chunk_with_encoded_merkle_root).
func ValidateCoding(c *primitives.Chunk, outgoing []*primitives.Receipt, rs *primitives.ReedSolomon) error {
	h := &c.Header
	enc, err := EncodeBody(&primitives.ChunkBody{Transactions: c.Transactions, PrevOutgoingReceipts: outgoing}, rs)
	if err != nil || enc.Root != h.EncodedMerkleRoot || enc.Length != h.EncodedLength {
		return InvalidEncodedMerkleRoot
	}
	return nil
}

// ValidateChunkAgain does the same as ValidateChunk for a chunk header that passed ValidateChunk
// before with the same outgoing receipts. Of the body, ValidateChunkAgain only compares the
// transactions with the header.
func ValidateChunkAgain(c *primitives.Chunk, extra *ChunkExtra) error {
	if c.Hash != c.Header.ChunkHash() {
		return invalidf(InvalidChunk, "the hash does not match")
	}
	return validateChunk(c, extra, nil, primitives.ShardLayout{}, true)
}

// validateChunk does the work of ValidateUncodedChunk. coded says that the receipts and transactions are
// known to encode to the root and length in the header.
func validateChunk(c *primitives.Chunk, extra *ChunkExtra, outgoing []*primitives.Receipt,
	layout primitives.ShardLayout, coded bool) error {
	h := &c.Header
	switch {
	case h.PrevStateRoot != extra.StateRoot:
		return InvalidStateRoot
	case h.PrevOutcomeRoot != extra.OutcomeRoot:
		return InvalidOutcomesProof
	case !bytes.Equal(primitives.AppendValidatorStakes(nil, h.PrevValidatorProposals),
		primitives.AppendValidatorStakes(nil, extra.Proposals)):
		return InvalidValidatorProposals
	case h.GasLimit != extra.GasLimit:
		return InvalidGasLimit
	case h.PrevGasUsed != extra.GasUsed:
		return InvalidGasUsed
	case h.PrevBalanceBurnt != extra.BalanceBurnt:
		return InvalidBalanceBurnt
	case !coded && !sendsThose(h, outgoing, layout):
		return InvalidReceiptsProof
	case h.CongestionInfo != extra.CongestionInfo:
		return InvalidCongestionInfo
	case !bytes.Equal(primitives.AppendBandwidthRequests(nil, h.BandwidthRequests),
		primitives.AppendBandwidthRequests(nil, extra.BandwidthRequests)):
		return InvalidBandwidthRequests
	case (h.ProposedSplit == nil) != (extra.ProposedSplit == nil),
		h.ProposedSplit != nil && *h.ProposedSplit != *extra.ProposedSplit:
		return InvalidShardSplit
	case h.TxRoot != TxRoot(c.Transactions):
		return InvalidTxRoot
	}
	return nil
}

// sendsThose returns whether the header's prev_outgoing_receipts_root is the root of outgoing.
func sendsThose(h *primitives.ChunkHeader, outgoing []*primitives.Receipt, layout primitives.ShardLayout) bool {
	root, _ := OutgoingReceiptsRoot(outgoing, layout)
	return root == h.PrevOutgoingReceiptsRoot
}
