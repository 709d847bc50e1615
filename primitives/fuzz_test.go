package primitives

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// codec is a value that reads and writes itself.
type codec interface {
	borsh.Appender
	borsh.Decoder
}

// arrives fuzzes the decoder of untrusted input. Every input is refused, or is the canonical
// encoding of its value (except for the order of a state init), and allocations stay within a
// multiple of the input, whatever lengths it claims.
func arrives[T any, P interface {
	*T
	codec
}](f *testing.F, seeds ...P) {
	for _, s := range seeds {
		raw := s.AppendBorsh(nil)
		f.Add(raw)
		if back := P(new(T)); borsh.Unmarshal(raw, back) != nil {
			f.Fatalf("%T: seed %x does not decode: %v", back, raw, borsh.Unmarshal(raw, back))
		}
		f.Add(raw[:len(raw)/2])
		for i := 0; i+4 <= len(raw); i += 7 { // false lengths
			lie := bytes.Clone(raw)
			copy(lie[i:], "\xff\xff\xff\x7f")
			f.Add(lie)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		v := P(new(T))
		err := borsh.Unmarshal(in, v)
		runtime.ReadMemStats(&after)
		// Items of a few bytes become structs of some hundred bytes; errors quote at most an
		// account id.
		if used, most := after.TotalAlloc-before.TotalAlloc, uint64(256*len(in)+64<<10); used > most {
			t.Errorf("decoding %d bytes allocated %d, want at most %d", len(in), used, most)
		}
		if err != nil {
			return
		}
		got := v.AppendBorsh(nil)
		if bytes.Equal(got, in) {
			return
		}
		r, again := borsh.NewReader(in), P(new(T))
		again.DecodeBorsh(r)
		if again = P(new(T)); !r.Loose() || borsh.Unmarshal(got, again) != nil || !bytes.Equal(again.AppendBorsh(nil), got) {
			t.Errorf("decode then encode: %x became %x", in, got)
		}
	})
}

func FuzzSignedTransaction(f *testing.F) {
	v1 := classicTransaction()
	v1.Version, v1.NonceMode = TransactionV1, NonceStrict
	v1.Nonce = TransactionNonce{Nonce: 1, Index: 3, HasIndex: true}
	v1.Actions = allActions()
	arrives(f, NewSignedTransaction(classicTransaction(), ZeroED25519Signature), NewSignedTransaction(v1, ZeroED25519Signature))
}

func FuzzReceipt(f *testing.F)       { arrives(f, sampleReceipts()...) }
func FuzzStoredReceipt(f *testing.F) { arrives(f, sampleStored()...) }
func FuzzBlock(f *testing.F)         { arrives(f, sampleBlocks()...) }
func FuzzBlockHeader(f *testing.F)   { arrives(f, sampleHeaders()...) }
func FuzzChunk(f *testing.F)         { arrives(f, sampleChunk()) }
func FuzzChunkHeader(f *testing.F)   { arrives(f, append(sampleChunkHeaders(), genesisChunkHeader())...) }
func FuzzChunkBody(f *testing.F)     { arrives(f, &sampleChunk().ChunkBody) }
func FuzzApproval(f *testing.F) {
	arrives(f, &Approval{Inner: NewApprovalInner(Hash{1}, 4, 5), Target: 5, Signature: ZeroED25519Signature, AccountID: "test"},
		&Approval{Inner: NewApprovalInner(Hash{1}, 4, 6), Target: 6, Signature: ZeroED25519Signature, AccountID: "test"})
}
func FuzzChunkEndorsement(f *testing.F) {
	e := ChunkEndorsement{ChunkHash: Hash{7}, Signature: ZeroED25519Signature, MetadataSignature: ZeroED25519Signature,
		Metadata: ChunkEndorsementMetadata{AccountID: "test", ShardID: 1, EpochID: Hash{2}, HeightCreated: 9}}
	other, none := e, e
	other.Differentiator, none.Differentiator = new(string), new(string)
	*other.Differentiator = "else"
	arrives(f, &e, &other, &none)
}
func FuzzOptimisticBlock(f *testing.F) {
	arrives(f, &OptimisticBlock{Height: 3, Timestamp: 4, RandomValue: Hash{5}, Signature: ZeroED25519Signature})
}
func FuzzAccount(f *testing.F) {
	arrives(f, &Account{Version: AccountV1, Amount: NEAR(1), StorageUsage: 182},
		&Account{Version: AccountV1, Contract: AccountContract{Kind: ContractLocal, Hash: Hash{1}}},
		&Account{Version: AccountV2, Contract: AccountContract{Kind: ContractGlobalAccount, Account: "test.near"}},
		&Account{Version: AccountV2, Amount: MaxBalance, Contract: AccountContract{Kind: ContractLocal}},
		&Account{Version: AccountV1, State: AccountUninitialized, Amount: NEAR(1), StorageUsage: 100, BootstrapNonce: 7_000_000})
}

func FuzzUniversalStateInit(f *testing.F) { arrives(f, contractInit(), keyOnlyInit()) }
func FuzzAccessKey(f *testing.F) {
	allowance, call := NEAR(1), &FunctionCallPermission{ReceiverID: "any", MethodNames: []string{"a", ""}}
	arrives(f, &AccessKey{Nonce: 1}, &AccessKey{FunctionCall: call}, &AccessKey{GasKey: &GasKeyInfo{NumNonces: 3}},
		&AccessKey{GasKey: &GasKeyInfo{Balance: NEAR(2)}, FunctionCall: &FunctionCallPermission{Allowance: &allowance}})
}
func FuzzOutcome(f *testing.F) {
	arrives(f, &OutcomeWithID{ID: Hash{1}, Outcome: Outcome{
		Logs: []string{"a", "\xff"}, ReceiptIDs: []Hash{{2}}, GasBurnt: 3, TokensBurnt: NEAR(1), ExecutorID: "alice",
		Status: ExecutionStatus{Kind: StatusFailure, Failure: []byte(`{"x":1}`)},
		Metadata: ExecutionMetadata{Version: 4, Profile: []CostEntry{{"ACTION_COST", "TRANSFER", 1}},
			Contracts: []AccountContract{{}, {Kind: ContractLocal, Hash: Hash{7}}}},
	}}, &OutcomeWithID{Outcome: Outcome{ExecutorID: "alice", Status: ExecutionStatus{Kind: StatusSuccessValue, Value: []byte{}}}})
}
func FuzzLightClientBlock(f *testing.F) {
	h := sampleBlock().Header
	arrives(f, &LightClientBlock{InnerLite: h.BlockHeaderInnerLite, ApprovalsAfterNext: h.Approvals},
		&LightClientBlock{InnerLite: h.BlockHeaderInnerLite, NextBPs: h.PrevValidatorProposals, ApprovalsAfterNext: h.Approvals})
}

// FuzzReconstruct: damaged parts of a chunk decode to its body or an error, never a panic, and a
// decoded body encodes to the same parts.
func FuzzReconstruct(f *testing.F) {
	f.Add([]byte("a chunk's body"), uint8(4), uint8(12), uint64(0x0ff0), uint64(14))
	f.Add([]byte{}, uint8(1), uint8(2), uint64(1), uint64(1)<<40)
	f.Fuzz(func(t *testing.T, body []byte, data, total uint8, have, length uint64) {
		rs, err := NewReedSolomon(int(data), int(total))
		if err != nil {
			return
		}
		parts, err := rs.Encode(body)
		if err != nil {
			return
		}
		n := 0
		for i := range parts {
			if have>>(i%64)&1 == 0 {
				parts[i] = nil
			} else {
				n++
			}
		}
		got, err := rs.Decode(parts, length)
		switch {
		case err == nil && n < int(data):
			t.Errorf("%d of %d data parts gave a body", n, data)
		case err == nil && uint64(len(got)) != length:
			t.Errorf("%d bytes check back, want %d", len(got), length)
		case err != nil && n >= int(data) && length == uint64(len(body)):
			t.Errorf("%d parts of %d are not enough: %v", n, data, err)
		case err == nil && length == uint64(len(body)) && !bytes.Equal(got, body):
			t.Errorf("body = %x, want %x", got, body)
		}
	})
}

// allActions has one of each action, delegates included.
func allActions() []Action {
	inner := []Action{&Transfer{Deposit: NEAR(3)}}
	return append(classicTransaction().Actions,
		&DeployGlobalContract{Code: []byte{1}, Mode: GlobalByAccountID},
		&UseGlobalContract{ID: GlobalContractID{Account: "test.near"}},
		&UseGlobalContract{ID: GlobalContractID{Hash: Hash{3}}},
		&DeterministicStateInit{Init: StateInit{Code: GlobalContractID{Hash: Hash{3}}, Data: []StateEntry{{[]byte("a"), []byte("1")}, {[]byte("b"), nil}}}},
		&UniversalStateInit{Init: contractInit().Encode(), Deposit: NEAR(1)},
		&UniversalStateInit{Init: RawStateInit{9, 9}},
		&TransferToGasKey{PublicKey: ZeroED25519Key, Deposit: NEAR(1)},
		&WithdrawFromGasKey{PublicKey: ZeroED25519Key, Amount: NEAR(1)},
		&AddKey{PublicKey: ZeroED25519Key, AccessKey: AccessKey{GasKey: &GasKeyInfo{NumNonces: 2}}},
		&Delegate{Action: DelegateAction{SenderID: "aaa", ReceiverID: "bbb", Actions: inner, PublicKey: ZeroED25519Key}, Signature: ZeroED25519Signature},
		&DelegateV2{Action: DelegateActionV2{SenderID: "aaa", ReceiverID: "bbb", Actions: inner, PublicKey: ZeroED25519Key}, Signature: ZeroED25519Signature})
}

func sampleReceipts() []*Receipt {
	body := func() *ActionReceipt {
		return &ActionReceipt{SignerID: "alice", SignerPublicKey: ZeroED25519Key, GasPrice: Yocto(5), InputDataIDs: []Hash{{1}},
			OutputDataReceivers: []DataReceiver{{Hash{2}, "bob"}}, Actions: []Action{&Transfer{}}}
	}
	v2, yield := body(), body()
	v2.V2, v2.RefundTo, yield.Yield = true, "carol", true
	var out []*Receipt
	for _, b := range []ReceiptBody{body(), v2, yield, &DataReceipt{DataID: Hash{3}}, &DataReceipt{Data: []byte("x"), Resume: true},
		&GlobalContractDistribution{ID: GlobalContractID{Account: "aa"}, TargetShard: 4},
		&GlobalContractDistribution{ID: GlobalContractID{Hash: Hash{5}}, AlreadyDelivered: []ShardID{1, 2}, Code: []byte{0}, V2: true, Nonce: 6}} {
		out = append(out, &Receipt{PredecessorID: "alice", ReceiverID: "bob", ID: Hash{9}, Body: b})
	}
	return out
}

func sampleStored() []*StoredReceipt {
	x := sampleReceipts()[0]
	return []*StoredReceipt{{Receipt: *x}, {Receipt: *x, HasMetadata: true, Metadata: ReceiptMetadata{1, 2}}, {Receipt: *x, HasMetadata: true, Ungrouped: true}}
}

func sampleChunkHeaders() []*ChunkHeader {
	h := ChunkHeader{ChunkHeaderInner: ChunkHeaderInner{Version: ChunkInnerV5, HeightCreated: 7, ShardID: 1,
		PrevValidatorProposals: []ValidatorStake{{"test", ZeroED25519Key, NEAR(1)}}, BandwidthRequests: []BandwidthRequest{{ToShard: 2}},
		ProposedSplit: &TrieSplit{Boundary: "mm", LeftMemory: 1, RightMemory: 2}}, HeightIncluded: 7, Signature: ZeroED25519Signature}
	old := h
	old.Version, old.ProposedSplit = ChunkInnerV4, nil
	return []*ChunkHeader{&h, &old}
}

// genesisChunkHeader has the version of the public networks' genesis.
func genesisChunkHeader() *ChunkHeader {
	return &ChunkHeader{ChunkHeaderInner: ChunkHeaderInner{Version: ChunkInnerV1, PrevStateRoot: Hash{1}, HeightCreated: 7, GasLimit: 8,
		PrevValidatorProposals: []ValidatorStake{{"test", ZeroED25519Key, NEAR(1)}}}, HeightIncluded: 7, Signature: ZeroED25519Signature}
}

func sampleChunk() *Chunk {
	h := sampleChunkHeaders()[0]
	return &Chunk{Hash: h.ChunkHash(), Header: *h, ChunkBody: ChunkBody{
		Transactions: []*SignedTransaction{NewSignedTransaction(classicTransaction(), ZeroED25519Signature)}, PrevOutgoingReceipts: sampleReceipts()}}
}

func sampleBlock() *Block {
	b := &Block{Body: BlockBody{Chunks: sampleChunkHeaders(), ChunkEndorsements: [][]Signature{{"", ZeroED25519Signature}, nil}}}
	b.Header = &BlockHeader{Version: HeaderV6, PrevHash: Hash{1}, Signature: ZeroED25519Signature,
		BlockHeaderInnerLite: BlockHeaderInnerLite{Height: 7, Timestamp: 8},
		BlockHeaderInnerRest: BlockHeaderInnerRest{BlockBodyHash: b.Body.Hash(), ChunkMask: []bool{true, false}, EpochSyncDataHash: &Hash{2},
			PrevValidatorProposals: []ValidatorStake{{"test", ZeroED25519Key, NEAR(1)}}, Approvals: []Signature{"", ZeroED25519Signature},
			ChunkEndorsements: [][]byte{{1}, {}}, ShardSplit: &ShardSplit{ShardID: 1, Boundary: "mm"}}}
	b.Header.Init()
	return b
}

// TestClaimedLengthAllocatesNothing: a claimed length without content allocates nothing.
func TestClaimedLengthAllocatesNothing(t *testing.T) {
	for _, in := range [][]byte{{0xff, 0xff, 0xff, 0xff}, {0, 0, 0, 0x7f}, {0, 0, 0, 0x10, 0, 0}} {
		for name, read := range map[string]func(*borsh.Reader){
			"transactions": func(r *borsh.Reader) { ReadTransactions(r) },
			"receipts":     func(r *borsh.Reader) { ReadReceipts(r) },
			"actions":      func(r *borsh.Reader) { ReadActions(r) },
			"headers":      func(r *borsh.Reader) { ReadChunkHeaders(r) },
			"hashes":       func(r *borsh.Reader) { ReadHashes(r) },
			"stakes":       func(r *borsh.Reader) { ReadValidatorStakes(r) },
			"signatures":   func(r *borsh.Reader) { ReadOptionSignatures(r) },
			"byte strings": func(r *borsh.Reader) { ReadByteStrings(r) },
			"bytes":        func(r *borsh.Reader) { r.BytesCopy() },
			"string":       func(r *borsh.Reader) { _ = r.String() },
			"numbers":      func(r *borsh.Reader) { r.Uint64s() },
		} {
			var r *borsh.Reader
			allocs := testing.AllocsPerRun(3, func() { r = borsh.NewReader(in); read(r) })
			if r.Err() == nil || allocs > 3 {
				t.Errorf("%s of %x: %v after %v allocations, want a refusal after at most 3", name, in, r.Err(), allocs)
			}
		}
	}
}

// TestMinimumSizesFitRealItems: the minimum sizes that counts are checked against do not exceed
// those of real items.
func TestMinimumSizesFitRealItems(t *testing.T) {
	t.Parallel()
	g := &Receipt{PredecessorID: "aa", ReceiverID: "bb", Body: &GlobalContractDistribution{ID: GlobalContractID{Account: "cc"}}}
	d := &Receipt{PredecessorID: "aa", ReceiverID: "bb", Body: &DataReceipt{}}
	tx := NewSignedTransaction(Transaction{SignerID: "aa", PublicKey: ZeroED25519Key, ReceiverID: "bb"}, ZeroED25519Signature)
	h := &ChunkHeader{ChunkHeaderInner: ChunkHeaderInner{Version: ChunkInnerV4}, Signature: ZeroED25519Signature}
	for name, tt := range map[string]struct {
		raw  []byte
		read func(*borsh.Reader) int
	}{
		"receipts":     {AppendReceipts(nil, []*Receipt{g, g, d}), func(r *borsh.Reader) int { return len(ReadReceipts(r)) }},
		"transactions": {AppendTransactions(nil, []*SignedTransaction{tx, tx, tx}), func(r *borsh.Reader) int { return len(ReadTransactions(r)) }},
		"headers":      {AppendChunkHeaders(nil, []*ChunkHeader{h, h, h}), func(r *borsh.Reader) int { return len(ReadChunkHeaders(r)) }},
		"stakes": {AppendValidatorStakes(nil, make([]ValidatorStake, 0)), func(r *borsh.Reader) int {
			return 3 + len(ReadValidatorStakes(r))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := borsh.NewReader(tt.raw)
			if got := tt.read(r); got != 3 || r.Close() != nil {
				t.Errorf("%d items, %v, want 3", got, r.Err())
			}
		})
	}
}

// TestDecodersSurviveDamagedBytes feeds every decoder damaged encodings; the fuzz targets go
// deeper.
func TestDecodersSurviveDamagedBytes(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	values := []codec{NewSignedTransaction(classicTransaction(), ZeroED25519Signature), sampleBlock(), sampleChunk()}
	for _, x := range sampleReceipts() {
		values = append(values, x)
	}
	fresh := func(v codec) codec {
		switch v.(type) {
		case *SignedTransaction:
			return new(SignedTransaction)
		case *Block:
			return new(Block)
		case *Chunk:
			return new(Chunk)
		}
		return new(Receipt)
	}
	for _, v := range values {
		raw := v.AppendBorsh(nil)
		for range 2000 {
			in := bytes.Clone(raw)[:len(raw)-rng.IntN(2)*rng.IntN(len(raw))]
			for range 1 + rng.IntN(3) {
				if len(in) > 0 {
					in[rng.IntN(len(in))] = byte(rng.Uint32())
				}
			}
			back := fresh(v)
			if borsh.Unmarshal(in, back) == nil && !bytes.Equal(back.AppendBorsh(nil), in) {
				t.Fatalf("%T: %x became %x", v, in, back.AppendBorsh(nil))
			}
		}
	}
}

// FuzzReceiptProof decodes proofs of a chunk's receipts.
func FuzzReceiptProof(f *testing.F) {
	to := &Receipt{PredecessorID: "system", ReceiverID: "a.near", Body: &ActionReceipt{SignerID: "a.near", SignerPublicKey: ZeroED25519Key}}
	arrives(f, &ReceiptProof{From: 1, To: 2}, &ReceiptProof{Receipts: []*Receipt{to, to}, From: 3, To: 4, Proof: MerklePath{{Hash{1}, Left}, {Hash{2}, Right}}})
}
