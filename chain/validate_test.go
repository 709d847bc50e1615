package chain

import (
	"bytes"
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

func key(name string) primitives.SecretKey {
	return primitives.SecretKeyFromSeed(primitives.ED25519, name)
}

// validCase is a valid block 1 on a genesis with two shards, and its ValidationContext. There are five
// approvers, of which "a" is the block's producer, and three validators per shard.
type validCase struct {
	block  *primitives.Block
	j      *ValidationContext
	chunks []*primitives.Chunk
	extras []*ChunkExtra
	layout primitives.ShardLayout
	coding *primitives.ReedSolomon
}

func near(v uint64) primitives.Balance { return primitives.NEAR(v) }

func newValidCase(t *testing.T) *validCase {
	t.Helper()
	layout, err := primitives.MultiShardLayout(2)
	if err != nil {
		t.Fatal(err)
	}
	coding, err := primitives.NewReedSolomon(1, 3)
	if err != nil {
		t.Fatal(err)
	}
	ids := layout.ShardIDs()
	roots := []primitives.Hash{{1}, {2}}
	genesis, _, err := Genesis(&GenesisInput{
		Version: 86, Time: 1000, GasLimit: 1000, MinGasPrice: primitives.Yocto(100), TotalSupply: near(1000), ShardIDs: ids,
		StateRoots: roots, Congestion: make([]primitives.CongestionInfo, 2),
		BlockProducers: []primitives.ValidatorStake{{AccountID: "a", PublicKey: key("a").PublicKey(), Stake: near(1)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &validCase{layout: layout, coding: coding}
	sync := primitives.Hash{9}
	facts := BlockFacts{
		EpochID: primitives.EpochID{}, NextEpochID: genesis.Hash(), NextBPHash: genesis.Header.NextBPHash,
		BlockMerkleRoot: genesis.Hash(), BlockOrdinal: 2, EpochSyncDataHash: &sync, Minted: primitives.Yocto(7), Version: 86,
		Pricing: epoch.GasPriceRules{Min: primitives.Yocto(100), Max: primitives.Yocto(2000), AdjustmentRate: epoch.Ratio{Num: 1, Den: 100}},
	}
	r.j = &ValidationContext{
		BlockFacts: facts, Parent: genesis.Header, PrevRandom: genesis.Header.RandomValue, Producer: key("a").PublicKey(),
		ShardIDs: ids, PrevChunks: genesis.Body.Chunks, Now: 2000, MaxHeight: 10,
		Verify: func(s primitives.Signature, data []byte, k primitives.PublicKey) bool { return s.Verify(data, k) },
	}
	in := &BlockInput{BlockFacts: facts, Parent: genesis.Header, Height: 1, Timestamp: 1500, Vote: 86}
	inner := primitives.NewApprovalInner(genesis.Hash(), 0, 1)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		r.j.Approvers = append(r.j.Approvers, Approver{
			AccountID: primitives.AccountID(name + name), PublicKey: key(name).PublicKey(), StakeThis: near(10), StakeNext: near(10),
		})
		in.Approvals = append(in.Approvals, key(name).Sign(inner.SignedBytes(1)))
	}
	in.Approvals[4] = "" // four of five approvals are enough
	for i, id := range ids {
		x := &ChunkExtra{StateRoot: primitives.Hash{3, byte(i)}, OutcomeRoot: primitives.Hash{4}, GasUsed: 600, GasLimit: 1000,
			BalanceBurnt: primitives.Yocto(3), Proposals: []primitives.ValidatorStake{{AccountID: "bb", PublicKey: key("b").PublicKey(), Stake: near(5)}}}
		c, _, err := BuildChunk(&ChunkInput{PrevBlock: genesis.Hash(), Height: 1, ShardID: id, Extra: x, Layout: layout, Coding: coding}, key("p"))
		if err != nil {
			t.Fatal(err)
		}
		c.Header.HeightIncluded = 1
		r.chunks, r.extras, in.Chunks = append(r.chunks, c), append(r.extras, x), append(in.Chunks, &c.Header)
		r.j.ChunkSigners = append(r.j.ChunkSigners, key("p").PublicKey())
		var validators []Assigned
		var signed []primitives.Signature
		for _, name := range []string{"a", "b", "c"} {
			validators = append(validators, Assigned{AccountID: primitives.AccountID(name + name), PublicKey: key(name).PublicKey(), Stake: near(10)})
			signed = append(signed, key(name).Sign(primitives.ChunkEndorsementBytes(c.Hash)))
		}
		r.j.Assigned, in.ChunkEndorsements = append(r.j.Assigned, validators), append(in.ChunkEndorsements, signed)
	}
	if in.VRFValue, in.VRFProof, err = key("a").ProveVRF(genesis.Header.RandomValue[:]); err != nil {
		t.Fatal(err)
	}
	if r.block, err = BuildBlock(in); err != nil {
		t.Fatal(err)
	}
	SignBlock(r.block, key("a"))
	return r
}

// seal makes the block consistent after a change of the body or header: it sets the body hash,
// computes the block hash and signs it.
func (r *validCase) seal() {
	h := r.block.Header
	h.BlockBodyHash = r.block.Body.Hash()
	h.Init()
	SignBlock(r.block, key("a"))
}

// reroot computes again the header fields that follow from the chunks.
func (r *validCase) reroot() {
	h, roots := r.block.Header, ComputeRoots(r.block.Body.Chunks, 1)
	h.PrevStateRoot, h.PrevOutcomeRoot, h.ChunkHeadersRoot = roots.PrevStateRoot, roots.PrevOutcomeRoot, roots.ChunkHeaders
	h.PrevChunkOutgoingReceiptsRoot, h.ChunkTxRoot = roots.PrevOutgoingReceipts, roots.ChunkTx
	h.PrevValidatorProposals, h.ChunkMask = roots.PrevValidatorProposal, roots.Mask
}

// resign signs a chunk header after a change, and renews its endorsements.
func (r *validCase) resign(i int) {
	c := r.block.Body.Chunks[i]
	hash := c.ChunkHash()
	c.Signature = key("p").Sign(hash[:])
	for k, name := range []string{"a", "b", "c"} {
		r.block.Body.ChunkEndorsements[i][k] = key(name).Sign(primitives.ChunkEndorsementBytes(hash))
	}
	r.reroot()
}

// miss replaces the block's chunk of a shard by the parent's.
func (r *validCase) miss(i int) {
	r.block.Body.Chunks[i], r.block.Body.ChunkEndorsements[i] = r.j.PrevChunks[i], nil
	h := r.block.Header
	h.ChunkEndorsements = EndorsementBitmaps(r.block.Body.ChunkEndorsements)
	r.reroot()
	h.NextGasPrice, h.TotalSupply, _ = nextEconomics(&r.j.BlockFacts, r.j.Parent, r.block.Body.Chunks, 1)
}

func TestValidateBlockAcceptsUnusualBlocks(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(r *validCase){
		"whole":                                func(*validCase) {},
		"a chunk is missing":                   func(r *validCase) { r.miss(0) },
		"both chunks are missing":              func(r *validCase) { r.miss(0); r.miss(1) },
		"no clock, no bound":                   func(r *validCase) { r.j.Now, r.j.MaxHeight = 0, 0 },
		"V7 before 87":                         func(r *validCase) { r.block.Header.Version = primitives.HeaderV7 },
		"a later vote":                         func(r *validCase) { r.block.Header.LatestProtocolVersion = 99 },
		"approvers at the end may be left out": func(r *validCase) { r.block.Header.Approvals = r.block.Header.Approvals[:4] },
		"no stake in the next epoch": func(r *validCase) {
			for i := range r.j.Approvers {
				r.j.Approvers[i].StakeNext = primitives.Balance{}
			}
		},
		"the time is as late as it may be": func(r *validCase) { r.j.Now, r.block.Header.Timestamp = 2000, 2000+AcceptableTimeDifference },
		"chunk of inner version 4": func(r *validCase) {
			r.block.Body.Chunks[0].Version = primitives.ChunkInnerV4
			r.resign(0)
		},
		"a chunk of another height": func(r *validCase) {
			r.block.Body.Chunks[0].HeightCreated = 2
			r.resign(0)
		},
		"an own block needs no approvals": func(r *validCase) { r.j.Produced, r.block.Header.Approvals = true, nil },
	} {
		t.Run(name, func(t *testing.T) {
			r := newValidCase(t)
			change(r)
			r.seal()
			if err := ValidateBlock(r.block, r.j); err != nil {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestHeightFarAheadHasItsOwnError: the error for a height too far above the head differs from that
// for a height that is not above the parent's: only the former block may become valid later.
func TestHeightFarAheadHasItsOwnError(t *testing.T) {
	t.Parallel()
	for height, ahead := range map[primitives.Height]bool{0: false, 5: true} {
		r := newValidCase(t)
		r.j.MaxHeight, r.block.Header.Height = 4, height
		r.seal()
		if err := ValidateBlock(r.block, r.j); !errors.Is(err, InvalidBlockHeight) || errors.Is(err, ErrHeightAhead) != ahead {
			t.Errorf("height %d: %v", height, err)
		}
	}
}

// TestValidateBlockRefusesEachBrokenRule breaks each rule alone, in a block that is otherwise
// consistent.
func TestValidateBlockRefusesEachBrokenRule(t *testing.T) {
	t.Parallel()
	h := func(r *validCase) *primitives.BlockHeader { return r.block.Header }
	other := primitives.Hash{0xff}
	for name, tt := range map[string]struct {
		want   Invalid
		change func(r *validCase)
		after  func(r *validCase) // applied after the block was signed
	}{
		"an old header":       {want: InvalidHeaderVersion, change: func(r *validCase) { h(r).Version = primitives.HeaderV1 }},
		"another parent":      {want: InvalidPrevBlock, change: func(r *validCase) { h(r).PrevHash = other }},
		"another body":        {want: InvalidBodyHash, after: func(r *validCase) { r.block.Body.VRFProof[0]++ }},
		"another signer":      {want: InvalidSignature, after: func(r *validCase) { SignBlock(r.block, key("b")) }},
		"too few mask bits":   {want: InvalidNumberOfChunkHeaders, change: func(r *validCase) { h(r).ChunkMask = h(r).ChunkMask[:1] }},
		"too few chunks":      {want: InvalidNumberOfChunkHeaders, change: func(r *validCase) { r.block.Body.Chunks = r.block.Body.Chunks[:1] }},
		"too many chunks":     {want: InvalidNumberOfChunkHeaders, change: func(r *validCase) { b := &r.block.Body; b.Chunks = append(b.Chunks, b.Chunks[0]) }},
		"the parent's height": {want: InvalidBlockHeight, change: func(r *validCase) { h(r).Height = 0 }},
		"too high":            {want: InvalidBlockHeight, change: func(r *validCase) { r.j.MaxHeight = 4; h(r).Height = 5 }},
		"from the future":     {want: InvalidBlockFutureTime, change: func(r *validCase) { h(r).Timestamp = r.j.Now + AcceptableTimeDifference + 1 }},
		"the parent's time":   {want: InvalidBlockPastTime, change: func(r *validCase) { h(r).Timestamp = r.j.Parent.Timestamp }},
		"another epoch":       {want: InvalidEpochHash, change: func(r *validCase) { h(r).EpochID = other }},
		"another next epoch":  {want: InvalidEpochHash, change: func(r *validCase) { h(r).NextEpochID = other }},
		"a header of Spice":   {want: InvalidHeaderVersion, change: func(r *validCase) { h(r).Version = primitives.HeaderV8 }},
		"V7 since 87": {want: InvalidProtocolVersion, change: func(r *validCase) {
			h(r).Version, h(r).LatestProtocolVersion, r.j.Version = primitives.HeaderV7, 87, 87
		}},
		"an old node":          {want: InvalidProtocolVersion, change: func(r *validCase) { h(r).LatestProtocolVersion = 85 }},
		"other next producers": {want: InvalidNextBPHash, change: func(r *validCase) { h(r).NextBPHash = other }},
		"prev_height":          {want: InvalidPrevHeight, change: func(r *validCase) { h(r).PrevHeight = 5 }},
		"too many approvals":   {want: InvalidApprovals, change: func(r *validCase) { h(r).Approvals = append(h(r).Approvals, "") }},
		"approvals swapped":    {want: InvalidApprovals, change: func(r *validCase) { a := h(r).Approvals; a[0], a[1] = a[1], a[0] }},
		"approval of a skip": {want: InvalidApprovals, change: func(r *validCase) {
			in := primitives.NewApprovalInner(h(r).PrevHash, 0, 2)
			h(r).Approvals[0] = key("a").Sign(in.SignedBytes(1))
		}},
		"three fifths":          {want: NotEnoughApprovals, change: func(r *validCase) { h(r).Approvals[3] = "" }},
		"little stake tomorrow": {want: NotEnoughApprovals, change: func(r *validCase) { r.j.Approvers[4].StakeNext = near(100) }},
		"no approvals at all":   {want: NotEnoughApprovals, change: func(r *validCase) { h(r).Approvals = nil }},
		"last final":            {want: InvalidFinalityInfo, change: func(r *validCase) { h(r).LastFinalBlock = other }},
		"last doomslug final":   {want: InvalidFinalityInfo, change: func(r *validCase) { h(r).LastDSFinalBlock = other }},
		"block merkle root":     {want: InvalidBlockMerkleRoot, change: func(r *validCase) { h(r).BlockMerkleRoot = other }},
		"ordinal (A66)":         {want: InvalidBlockOrdinal, change: func(r *validCase) { h(r).BlockOrdinal += 1000 }},
		"epoch sync (A66)":      {want: InvalidEpochSyncDataHash, change: func(r *validCase) { h(r).EpochSyncDataHash = &other }},
		"no epoch sync":         {want: InvalidEpochSyncDataHash, change: func(r *validCase) { h(r).EpochSyncDataHash = nil }},
		"epoch sync uncalled":   {want: InvalidEpochSyncDataHash, change: func(r *validCase) { r.j.EpochSyncDataHash = nil }},
		"VRF proof":             {want: InvalidRandomness, change: func(r *validCase) { r.block.Body.VRFProof[1] ^= 1 }},
		"VRF of another seed":   {want: InvalidRandomness, change: func(r *validCase) { r.j.PrevRandom = other }},
		"random value":          {want: InvalidRandomness, change: func(r *validCase) { h(r).RandomValue = other }},
		"state root":            {want: InvalidStateRoot, change: func(r *validCase) { h(r).PrevStateRoot = other }},
		"outcome root":          {want: InvalidOutcomesProof, change: func(r *validCase) { h(r).PrevOutcomeRoot = other }},
		"receipts root":         {want: InvalidReceiptsProof, change: func(r *validCase) { h(r).PrevChunkOutgoingReceiptsRoot = other }},
		"headers root":          {want: InvalidChunkHeadersRoot, change: func(r *validCase) { h(r).ChunkHeadersRoot = other }},
		"tx root":               {want: InvalidTxRoot, change: func(r *validCase) { h(r).ChunkTxRoot = other }},
		"proposals":             {want: InvalidValidatorProposals, change: func(r *validCase) { h(r).PrevValidatorProposals = h(r).PrevValidatorProposals[1:] }},
		"mask":                  {want: InvalidChunkMask, change: func(r *validCase) { h(r).ChunkMask = []bool{true, false} }},
		"gas price":             {want: InvalidGasPrice, change: func(r *validCase) { h(r).NextGasPrice = primitives.Yocto(99) }},
		"supply":                {want: InvalidTotalSupply, change: func(r *validCase) { h(r).TotalSupply = near(1000) }},
		"a split":               {want: InvalidShardSplit, change: func(r *validCase) { h(r).ShardSplit = &primitives.ShardSplit{Boundary: "aa"} }},
		"no split":              {want: InvalidShardSplit, change: func(r *validCase) { r.j.ShardSplit = &primitives.ShardSplit{Boundary: "aa"} }},
		"more burnt than is": {want: ArithmeticOverflow, change: func(r *validCase) {
			r.block.Body.Chunks[0].PrevBalanceBurnt = primitives.MaxBalance
			r.resign(0)
		}},
		"gas beyond 64 bits": {want: ArithmeticOverflow, change: func(r *validCase) {
			r.block.Body.Chunks[0].PrevGasUsed = ^primitives.Gas(0)
			r.resign(0)
		}},
		"a chunk of another shard": {want: InvalidShardID, change: func(r *validCase) { r.block.Body.Chunks[0].ShardID = 77; r.resign(0) }},
		"a chunk on another block": {want: InvalidChunk, change: func(r *validCase) { r.block.Body.Chunks[0].PrevBlockHash = other; r.resign(0) }},
		"a chunk of another producer": {want: InvalidChunk, change: func(r *validCase) {
			c := r.block.Body.Chunks[0]
			hash := c.ChunkHash()
			c.Signature = key("q").Sign(hash[:])
		}},
		"an old chunk that never was": {want: InvalidChunk, change: func(r *validCase) {
			r.miss(0)
			old := *r.block.Body.Chunks[0]
			old.PrevStateRoot = other
			r.block.Body.Chunks[0] = &old
			r.reroot()
		}},
		"an old chunk of another height": {want: InvalidChunk, change: func(r *validCase) {
			r.miss(0)
			old := *r.block.Body.Chunks[0]
			old.HeightIncluded = 2
			r.block.Body.Chunks[0] = &old
			r.reroot()
		}},
		"an old chunk, endorsed": {want: InvalidChunkEndorsement, change: func(r *validCase) {
			sigs := r.block.Body.ChunkEndorsements[0]
			r.miss(0)
			r.block.Body.ChunkEndorsements[0] = sigs
			h(r).ChunkEndorsements = EndorsementBitmaps(r.block.Body.ChunkEndorsements)
		}},
		"endorsements of one shard": {want: InvalidChunkEndorsement, change: func(r *validCase) { b := &r.block.Body; b.ChunkEndorsements = b.ChunkEndorsements[:1] }},
		"bits of one shard":         {want: InvalidEndorsementBitmap, change: func(r *validCase) { h(r).ChunkEndorsements = h(r).ChunkEndorsements[:1] }},
		"other bits":                {want: InvalidEndorsementBitmap, change: func(r *validCase) { h(r).ChunkEndorsements[0][0] = 3 }},
		"bits beyond the last":      {want: InvalidEndorsementBitmap, change: func(r *validCase) { h(r).ChunkEndorsements[0][0] |= 8 }},
		"endorsements of strangers": {want: InvalidChunkEndorsement, change: func(r *validCase) {
			b := &r.block.Body
			b.ChunkEndorsements[0] = append(b.ChunkEndorsements[0], b.ChunkEndorsements[0][0])
			h(r).ChunkEndorsements = EndorsementBitmaps(b.ChunkEndorsements)
		}},
		"an endorsement of another chunk": {want: InvalidChunkEndorsement, change: func(r *validCase) {
			r.block.Body.ChunkEndorsements[0][1] = key("b").Sign(primitives.ChunkEndorsementBytes(other))
		}},
		"two of three endorse": {want: InvalidChunkEndorsement, change: func(r *validCase) {
			b := &r.block.Body
			b.ChunkEndorsements[1][2] = ""
			h(r).ChunkEndorsements = EndorsementBitmaps(b.ChunkEndorsements)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newValidCase(t)
			if tt.change != nil {
				tt.change(r)
			}
			r.seal()
			if tt.after != nil {
				tt.after(r)
			}
			drawn, assigned := false, r.j.Assigned
			r.j.Assigned, r.j.Late = nil, func() error { drawn, r.j.Assigned = true, assigned; return nil }
			err := ValidateBlock(r.block, r.j)
			if !errors.Is(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
			if want := errors.Is(err, InvalidChunkEndorsement) || errors.Is(err, InvalidEndorsementBitmap); drawn != want {
				t.Errorf("its chunks' validators are drawn: %v", drawn)
			}
		})
	}
}

func TestValidateChunkRefusesEachChangedField(t *testing.T) {
	t.Parallel()
	receipt := &primitives.Receipt{PredecessorID: "aa", ReceiverID: "bb", Body: &primitives.DataReceipt{}}
	tx := primitives.NewSignedTransaction(primitives.Transaction{SignerID: "aa", PublicKey: primitives.ZeroED25519Key, ReceiverID: "bb"}, primitives.ZeroED25519Signature)
	type in struct {
		c        *primitives.Chunk
		x        *ChunkExtra
		outgoing []*primitives.Receipt
	}
	h := func(i *in) *primitives.ChunkHeader { return &i.c.Header }
	other := primitives.Hash{0xff}
	for name, tt := range map[string]struct {
		want   Invalid
		change func(*in)
	}{
		"whole":              {"", func(*in) {}},
		"hash":               {InvalidChunk, func(i *in) { i.c.Hash = other }},
		"state root":         {InvalidStateRoot, func(i *in) { h(i).PrevStateRoot = other }},
		"outcome root":       {InvalidOutcomesProof, func(i *in) { h(i).PrevOutcomeRoot = other }},
		"proposals":          {InvalidValidatorProposals, func(i *in) { h(i).PrevValidatorProposals = nil }},
		"gas limit":          {InvalidGasLimit, func(i *in) { h(i).GasLimit++ }},
		"gas used":           {InvalidGasUsed, func(i *in) { h(i).PrevGasUsed++ }},
		"burnt":              {InvalidBalanceBurnt, func(i *in) { h(i).PrevBalanceBurnt = near(1) }},
		"receipts root":      {InvalidReceiptsProof, func(i *in) { h(i).PrevOutgoingReceiptsRoot = other }},
		"other receipts":     {InvalidReceiptsProof, func(i *in) { i.outgoing = nil }},
		"congestion":         {InvalidCongestionInfo, func(i *in) { h(i).CongestionInfo.AllowedShard++ }},
		"bandwidth requests": {InvalidBandwidthRequests, func(i *in) { h(i).BandwidthRequests = []primitives.BandwidthRequest{{}} }},
		"split":              {InvalidShardSplit, func(i *in) { h(i).ProposedSplit = nil }},
		"another split":      {InvalidShardSplit, func(i *in) { h(i).ProposedSplit = &primitives.TrieSplit{Boundary: "mm", LeftMemory: 2} }},
		"tx root":            {InvalidTxRoot, func(i *in) { h(i).TxRoot = other }},
		"other transactions": {InvalidTxRoot, func(i *in) { i.c.Transactions = nil }},
		"parts' root":        {InvalidEncodedMerkleRoot, func(i *in) { h(i).EncodedMerkleRoot = other }},
		"encoded length":     {InvalidEncodedMerkleRoot, func(i *in) { h(i).EncodedLength++ }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newValidCase(t)
			x := *r.extras[0]
			x.ProposedSplit = &primitives.TrieSplit{Boundary: "mm"}
			i := &in{x: &x, outgoing: []*primitives.Receipt{receipt}}
			var err error
			i.c, _, err = BuildChunk(&ChunkInput{PrevBlock: r.j.Parent.Hash(), Height: 1, Extra: &x, Outgoing: i.outgoing,
				Transactions: []*primitives.SignedTransaction{tx}, Layout: r.layout, Coding: r.coding}, key("p"))
			if err != nil {
				t.Fatal(err)
			}
			was := i.c.Hash
			if tt.change(i); i.c.Hash == was {
				i.c.Hash = h(i).ChunkHash()
			}
			err = ValidateChunk(i.c, i.x, i.outgoing, r.layout, r.coding)
			if tt.want == "" && err != nil || tt.want != "" && !errors.Is(err, tt.want) {
				t.Errorf("error = %v, want %q", err, tt.want)
			}
		})
	}
}

// TestEndorsedEnoughCountsStake: the threshold floor(2*total/3)+1 counts stake, not validators
// (nearcore chunk_endorsement.rs).
func TestEndorsedEnoughCountsStake(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		stakes []uint64
		signed string
		want   bool
	}{
		{[]uint64{1}, "x", true}, {[]uint64{1}, ".", false},
		{[]uint64{1, 1, 1}, "xx.", false}, {[]uint64{1, 1, 1}, "xxx", true},
		{[]uint64{1, 1, 1, 1}, "xxx.", true}, {[]uint64{1, 1, 1, 1}, "xx..", false},
		{[]uint64{100, 1, 1}, "x..", true}, {[]uint64{100, 1, 1}, ".xx", false},
		{[]uint64{2, 3, 5}, ".xx", true},                // 8 > floor(20/3)
		{[]uint64{67, 33}, "x.", true},                  // 67 > 66
		{[]uint64{66, 34}, "x.", false},                 // 66 = floor(200/3)
		{nil, "", false}, {[]uint64{0, 0}, "xx", false}, // stake 0 never exceeds the threshold
	} {
		var assigned []Assigned
		for _, s := range tt.stakes {
			assigned = append(assigned, Assigned{Stake: primitives.Yocto(s)})
		}
		if got := EndorsedEnough(assigned, func(i int) bool { return tt.signed[i] == 'x' }); got != tt.want {
			t.Errorf("stakes %v, %q: %v, want %v", tt.stakes, tt.signed, got, tt.want)
		}
	}
	// For all small numbers: have > floor(2*total/3).
	for total := uint64(0); total < 200; total++ {
		for have := uint64(0); have <= total; have++ {
			if got, want := OverTwoThirds(primitives.Yocto(have), primitives.Yocto(total)), have > 2*total/3; got != want {
				t.Errorf("%d of %d: %v, want %v", have, total, got, want)
			}
		}
	}
	if !OverTwoThirds(primitives.MaxBalance, primitives.MaxBalance) {
		t.Error("all of the greatest stake is not enough")
	}
}

// TestEndorsementBitmapsStartAtLowestBit: bit i, the lowest first, stands for validator i (nearcore
// ChunkEndorsementsBitmap). A chunk that is not new has an empty bitmap.
func TestEndorsementBitmapsStartAtLowestBit(t *testing.T) {
	t.Parallel()
	s := primitives.ZeroED25519Signature
	got := EndorsementBitmaps([][]primitives.Signature{{s, "", s}, nil, {"", "", "", "", "", "", "", "", s}, {""}})
	for i, want := range []string{"\x05", "", "\x00\x01", "\x00"} {
		if string(got[i]) != want {
			t.Errorf("bits of shard %d = %x, want %x", i, got[i], want)
		}
	}
}

// FuzzChunkExtra: the decoder refuses any input that is not the one encoding of a ChunkExtra.
func FuzzChunkExtra(f *testing.F) {
	x := ChunkExtra{StateRoot: primitives.Hash{1}, GasUsed: 2, GasLimit: 3, BalanceBurnt: primitives.Yocto(4),
		Proposals:         []primitives.ValidatorStake{{AccountID: "aa", PublicKey: primitives.ZeroED25519Key, Stake: primitives.Yocto(5)}},
		BandwidthRequests: []primitives.BandwidthRequest{{ToShard: 6, Bitmap: [5]byte{7}}}, ProposedSplit: &primitives.TrieSplit{Boundary: "bb"}}
	f.Add(x.AppendBorsh(nil))
	f.Add((&ChunkExtra{}).AppendBorsh(nil))
	f.Fuzz(func(t *testing.T, in []byte) {
		var x ChunkExtra
		if borsh.Unmarshal(in, &x) == nil && !bytes.Equal(x.AppendBorsh(nil), in) {
			t.Errorf("decode then encode: %x became %x", in, x.AppendBorsh(nil))
		}
	})
}
