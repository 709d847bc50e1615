package primitives

import (
	"bytes"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// classicTransaction is nearcore's create_transaction_v0: the eight classic actions
// (core/primitives/src/transaction.rs:820).
func classicTransaction() Transaction {
	key := MustParsePublicKey("22skMptHjFWNyuEWY22ftn2AbLPSYpmYwGJRGwpNHbTV")
	return Transaction{
		SignerID: "test.near", PublicKey: key, Nonce: TransactionNonce{Nonce: 1}, ReceiverID: "123",
		Actions: []Action{
			&CreateAccount{},
			&DeployContract{Code: []byte{1, 2, 3}},
			&FunctionCall{Method: "qqq", Args: []byte{1, 2, 3}, Gas: 1000, Deposit: Yocto(1_000_000)},
			&Transfer{Deposit: Yocto(123)},
			&Stake{Stake: Yocto(1_000_000), PublicKey: key},
			&AddKey{PublicKey: key, AccessKey: AccessKey{FunctionCall: &FunctionCallPermission{ReceiverID: "zzz", MethodNames: []string{"www"}}}},
			&DeleteKey{PublicKey: key},
			&DeleteAccount{Beneficiary: "123"},
		},
	}
}

// TestTransactionVectorA13 compares with nearcore's literals: hash of a transaction of the eight
// classic actions.
func TestTransactionVectorA13(t *testing.T) {
	t.Parallel()
	tx := classicTransaction()
	if got, want := tx.Hash().String(), "4GXvjMFN6wSxnU9jEVT8HbXP5Yk6yELX9faRSKp6n9fX"; got != want {
		t.Errorf("V0: hash %s, want %s", got, want)
	}
	tx.Version = TransactionV1 // part B of the vectors
	raw := borsh.Marshal(&tx)
	if got, want := tx.Hash().String(), "2ozf7GmBqNqmezYzpXSsmZZuE5qE7BJL9vNAV64SuU3R"; got != want || len(raw) != 319 {
		t.Errorf("V1: hash %s, %d bytes, want %s, 319", got, len(raw), want)
	}
	for _, v := range []TransactionVersion{TransactionV0, TransactionV1} {
		tx.Version = v
		raw := borsh.Marshal(&tx)
		var back Transaction
		if err := borsh.Unmarshal(raw, &back); err != nil || !bytes.Equal(borsh.Marshal(&back), raw) || back.Version != v {
			t.Errorf("V%d does not survive encoding: %v", v, err)
		}
	}
}

// TestOutcomeHashVectorA15 compares with nearcore's literals: hashes of an outcome.
func TestOutcomeHashVectorA15(t *testing.T) {
	t.Parallel()
	o := OutcomeWithID{ID: Hash(bytes.Repeat([]byte{42}, 32)), Outcome: Outcome{
		Logs: []string{"123", "321"}, GasBurnt: 123, TokensBurnt: Yocto(1_234_000), ExecutorID: "alice",
		Status: ExecutionStatus{Kind: StatusSuccessValue, Value: []byte{123}},
	}}
	second, err := ParseHash("5JQs5ekQqKudMmYejuccbtEu1bzhQPXa92Zm4HdV64dQ")
	if err != nil {
		t.Fatal(err)
	}
	want := []Hash{o.ID, second, HashBytes([]byte("123")), HashBytes([]byte("321"))}
	if got := o.Hashes(); !slices.Equal(got, want) {
		t.Errorf("hashes = %v, want %v", got, want)
	}
	if got, want := o.LeafHash(), HashBytes(AppendHashes(nil, want)); got != want {
		t.Errorf("leaf = %v, want %v", got, want)
	}
}

func mustHash(t *testing.T, text string) Hash {
	t.Helper()
	h, err := ParseHash(text)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestOutcomeProofVectorA16 proves the outcomes of a transaction of testnet with the recorded
// paths; A17 is the refund among them.
func TestOutcomeProofVectorA16(t *testing.T) {
	t.Parallel()
	tx := OutcomeWithID{ID: mustHash(t, "GMUCDLHFJVvmZYXmPf9QeUVAt9r9hXcQP1yL5emPFnvx"), Outcome: Outcome{
		ExecutorID: "btc-client.testnet", GasBurnt: 308276385598, TokensBurnt: MustParseBalance("30827638559800000000"),
	}}
	tx.ReceiptIDs = []Hash{mustHash(t, "e2XGEosf843XMiCJHvZufvHKyw419ZYibDBdVJQr9cB")}
	tx.Status = ExecutionStatus{Kind: StatusSuccessReceiptID, ReceiptID: tx.ReceiptIDs[0]}
	receipt := OutcomeWithID{ID: tx.ReceiptIDs[0], Outcome: Outcome{
		ExecutorID: "btc-client.testnet", GasBurnt: 2906160054161, TokensBurnt: MustParseBalance("290616005416100000000"),
		Logs:       []string{"Block hash: 0000000000000000ee617846a3e081ae2f30091451442e1b5fb027d8eba09b3a", "Saving to mainchain"},
		ReceiptIDs: []Hash{mustHash(t, "8ZD92cLpoCEU46hPGFfk3VqZpU8s6DoQhZ4pCMqWwDT6")},
		Status:     ExecutionStatus{Kind: StatusSuccessValue},
	}}
	leaves := [2]Hash{mustHash(t, "BoQHueiPH9e4C7fkxouV4tFpGZ4hK5fJhKQnPBWwPazS"), mustHash(t, "HDgWEk2okmDdAFAVf6ffxGBH6F6vdLM1X3H5Fmaafe4S")}
	if got := [2]Hash{tx.LeafHash(), receipt.LeafHash()}; got != leaves {
		t.Errorf("leaves = %v, want %v", got, leaves)
	}
	up := MerklePathItem{Hash: mustHash(t, "Ayxj8iVFTJMzZa7estoTtuBKJaUNhoipaaM7WmTjkkiS"), Direction: Right}
	root := mustHash(t, "DYm1Yqs94WgSDRUPNYfHWsoQ6rDRYBEiXdwRCRTJsVp1")
	for i, path := range []MerklePath{{{leaves[1], Right}, up}, {{leaves[0], Left}, up}} {
		if got := path.Root(leaves[i]); got != root {
			t.Errorf("proof %d leads to %v, want %v", i, got, root)
		}
	}
}

// TestRefundProofVectorA17: the refund of A16 burnt gas but no tokens; its leaf is part of another
// block.
func TestRefundProofVectorA17(t *testing.T) {
	t.Parallel()
	refund := OutcomeWithID{ID: mustHash(t, "8ZD92cLpoCEU46hPGFfk3VqZpU8s6DoQhZ4pCMqWwDT6"), Outcome: Outcome{
		ExecutorID: "btc-client.testnet", GasBurnt: 223182562500, Status: ExecutionStatus{Kind: StatusSuccessValue},
	}}
	path := MerklePath{{mustHash(t, "8yEwg14D2GyyLNnJMxdSLDJKyrKShMAL3zTnf9YpQyPW"), Right}, {mustHash(t, "2UK7BfpHf9fCCsvmfHktDfz6Rh8sFihhN6cuTU3R4BBA"), Right}}
	if !path.VerifyAt(path.Root(refund.LeafHash()), refund.LeafHash(), 0, 3) || refund.TokensBurnt != (Balance{}) {
		t.Errorf("the refund's proof is invalid")
	}
}

// TestDelegateVectorA44 compares with nearcore's literals: bytes of a delegate action.
func TestDelegateVectorA44(t *testing.T) {
	t.Parallel()
	const want = "0803000000616161030000006262620100000000010000000000000002000000000000" +
		"0000000000000000000000000000000000000000000000000000000000000000000000" +
		"0000000000000000000000000000000000000000000000000000000000000000000000" +
		"0000000000000000000000000000000000000000000000000000000000"
	a := &Delegate{
		Action: DelegateAction{
			SenderID: "aaa", ReceiverID: "bbb", Actions: []Action{&CreateAccount{}}, Nonce: 1, MaxBlockHeight: 2, PublicKey: ZeroED25519Key,
		},
		Signature: ZeroED25519Signature,
	}
	raw := AppendAction(nil, a)
	if got := hex.EncodeToString(raw); got != want {
		t.Errorf("encoding = %s, want %s", got, want)
	}
	r := borsh.NewReader(raw)
	if back := ReadAction(r); r.Close() != nil || !bytes.Equal(AppendAction(nil, back), raw) {
		t.Errorf("does not come back: %v", r.Err())
	}
	// part B
	if got, want := a.Action.SignedHash().String(), "Hk4KS6bWuycytBdnm4kZ5hAFZBmGYMwCXPBLYNJJmgwe"; got != want {
		t.Errorf("signed hash = %s, want %s", got, want)
	}
	// A delegate action within a delegate action is refused by the decoder.
	nested := AppendAction(nil, &Delegate{Action: DelegateAction{SenderID: "aaa", ReceiverID: "bbb", Actions: []Action{a}, PublicKey: ZeroED25519Key}, Signature: ZeroED25519Signature})
	if r := borsh.NewReader(nested); ReadAction(r) != nil || r.Err() == nil {
		t.Error("a nested delegate action was read")
	}
}

// TestDelegateV2VectorA67: the signed content of a delegate action (nearcore
// core/primitives/src/action/delegate.rs:453, 490, 510).
func TestDelegateV2VectorA67(t *testing.T) {
	t.Parallel()
	key := SecretKeyFromSeed(ED25519, "alice.near")
	action := DelegateActionV2{
		SenderID: "alice.near", ReceiverID: "bob.near", Nonce: TransactionNonce{Nonce: 1, Index: 3, HasIndex: true},
		MaxBlockHeight: 1000, PublicKey: key.PublicKey(),
	}
	verifies := func(a *DelegateActionV2, sig Signature) bool {
		h := a.SignedHash()
		return sig.Verify(h[:], a.PublicKey)
	}
	hash := action.SignedHash()
	sig := key.Sign(hash[:])
	if !verifies(&action, sig) {
		t.Error("the signature of index 3 does not verify")
	}
	forged := action
	forged.Nonce.Index = 4
	if verifies(&forged, sig) {
		t.Error("a signature of index 3 verifies for index 4")
	}
	v1 := HashBytes(action.AppendBorsh(append(borsh.AppendUint32(nil, delegateDiscriminant), 0)))
	if verifies(&action, key.Sign(v1[:])) {
		t.Error("a signature under the discriminant of V1 verifies for V2")
	}
	for _, nested := range []Action{
		&Delegate{Action: DelegateAction{SenderID: "aaa", ReceiverID: "bbb", PublicKey: ZeroED25519Key}, Signature: ZeroED25519Signature},
		&DelegateV2{Action: DelegateActionV2{SenderID: "aaa", ReceiverID: "bbb", PublicKey: ZeroED25519Key}, Signature: ZeroED25519Signature},
	} {
		raw := AppendAction(nil, nested)
		if raw[0] != 8 && raw[0] != 14 {
			t.Errorf("%T has tag %d", nested, raw[0])
		}
		for _, outer := range []Action{
			&Delegate{Action: DelegateAction{SenderID: "aaa", ReceiverID: "bbb", Actions: []Action{nested}, PublicKey: ZeroED25519Key}, Signature: ZeroED25519Signature},
			&DelegateV2{Action: DelegateActionV2{SenderID: "aaa", ReceiverID: "bbb", Actions: []Action{nested}, PublicKey: ZeroED25519Key}, Signature: ZeroED25519Signature},
		} {
			if r := borsh.NewReader(AppendAction(nil, outer)); ReadAction(r) != nil || r.Err() == nil {
				t.Errorf("%T in %T was read", nested, outer)
			}
		}
	}
}

// TestSampleHashesVectorB has the formula samples of the vectors' part B that this package can
// compute.
func TestSampleHashesVectorB(t *testing.T) {
	t.Parallel()
	v1 := classicTransaction()
	v1.Version, v1.NonceMode, v1.Nonce = TransactionV1, NonceStrict, TransactionNonce{Nonce: 1, Index: 3, HasIndex: true}
	v2 := func(n TransactionNonce) Hash {
		d := DelegateActionV2{SenderID: "aaa", ReceiverID: "bbb", Actions: []Action{&CreateAccount{}}, Nonce: n, MaxBlockHeight: 2, PublicKey: ZeroED25519Key}
		return d.SignedHash()
	}
	receipt := &Receipt{PredecessorID: "predecessor_id", ReceiverID: "receiver_id", Body: &ActionReceipt{
		SignerID: "signer_id", SignerPublicKey: ZeroED25519Key, Actions: []Action{&Transfer{}},
	}}
	base := HashBytes([]byte("atata"))
	for _, tt := range []struct {
		name string
		got  Hash
		want string
	}{
		{"Transaction V1, nonce 1 index 3, strict", v1.Hash(), "H7SFBLVUTzHakr8TXaEsZZKMRoau2uxZdLhvLtETpB3g"},
		{"DelegateActionV2, nonce 1", v2(TransactionNonce{Nonce: 1}), "AfVZV1ZnpPp2Fb7okMkbyH2QXpR46SryG1HpD1J4oxJm"},
		{"DelegateActionV2, nonce 1 index 3", v2(TransactionNonce{Nonce: 1, Index: 3, HasIndex: true}), "97UpEYoLoBD8Rf4A29XLUEwhDeLE6fbN7zzfGMhbyTHL"},
		{"Receipt of receipt.rs:1141", HashBorsh(receipt), "CVYXipdU5hGAq3EkRmqsyeFVQch4SvQa2QW1XJD7sPum"},
		{"id of salt 3", ReceiptIDFromReceipt(base, 123456789, 3), "G25Q9XjAtEB9rEqKc7CtdHHMdWCv6d4X5nZFJioyGTZ2"},
		{"action hash of index 0", ActionHash(base, 123456789, 0), "9CFeAwvPwWEDDunSq2e27sCjQ74TNjXTzmSKwQGvManL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.got.String(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	if got := len(receipt.AppendBorsh(nil)); got != 157 {
		t.Errorf("the receipt takes %d bytes, want 157", got)
	}
}
