package verify

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

const (
	alice primitives.AccountID = "alice.near"
	bob   primitives.AccountID = "bob.near"
)

var (
	pv86   = parameters.MustGet(parameters.June(86))
	key    = primitives.SecretKeyFromSeed(primitives.ED25519, "alice.near")
	price  = primitives.Yocto(100_000_000)
	oneN   = primitives.NEAR(1)
	milli  = primitives.MustParseBalance("1000000000000000000000")
	gasKey = primitives.MustParseBalance("10000000000000000000000") // 0.01 N
)

// at84 is 86's configuration under a version that has none of the features of 85.
func at84() *parameters.RuntimeConfig {
	c := *pv86
	c.Version = parameters.June(84)
	return &c
}

func transfer(amount primitives.Balance) []primitives.Action {
	return []primitives.Action{&primitives.Transfer{Deposit: amount}}
}

func call(method string, deposit primitives.Balance) []primitives.Action {
	return []primitives.Action{&primitives.FunctionCall{Method: method, Args: []byte("abc"), Gas: 10_000_000_000, Deposit: deposit}}
}

// plainTx is a V0 transaction from alice to bob.
func plainTx(nonce primitives.Nonce, actions []primitives.Action) primitives.Transaction {
	return primitives.Transaction{
		SignerID: alice, PublicKey: key.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: nonce}, ReceiverID: bob, Actions: actions,
	}
}

// indexTx returns a V1 transaction that uses the nonce at the given index of a gas key.
func indexTx(nonce primitives.Nonce, index uint16, actions []primitives.Action) primitives.Transaction {
	tx := plainTx(nonce, actions)
	tx.Version = primitives.TransactionV1
	tx.Nonce.HasIndex, tx.Nonce.Index = true, index
	return tx
}

func sign(tx primitives.Transaction) *primitives.SignedTransaction {
	h := tx.Hash()
	return primitives.NewSignedTransaction(tx, key.Sign(h[:]))
}

func account(amount primitives.Balance) *primitives.Account {
	return &primitives.Account{Version: primitives.AccountV1, Amount: amount, StorageUsage: 182}
}

func jsonOf(e *primitives.InvalidTxError) string {
	if e == nil {
		return "ok"
	}
	return string(e.AppendJSON(nil))
}

func TestInvalidTransactionIsRefused(t *testing.T) {
	t.Parallel()
	big := []primitives.Action{&primitives.DeployContract{Code: make([]byte, 1_572_864)}}
	other := sign(plainTx(1, transfer(oneN)))
	size := len(borsh.Marshal(sign(plainTx(1, big))))
	for _, c := range []struct {
		name      string
		config    *parameters.RuntimeConfig
		tx        *primitives.SignedTransaction
		signature SignatureFunc
		want      string
	}{
		{"good", pv86, sign(plainTx(1, transfer(oneN))), CheckSignature, "ok"},
		{"empty", pv86, sign(plainTx(1, nil)), CheckSignature, "ok"},
		{"wrong signature", pv86, primitives.NewSignedTransaction(plainTx(2, nil), other.Signature), CheckSignature, `"InvalidSignature"`},
		{"wrong signature, checked before", pv86, primitives.NewSignedTransaction(plainTx(2, nil), other.Signature), Checked, "ok"},
		{"bad action", pv86, sign(plainTx(1, []primitives.Action{&primitives.FunctionCall{Method: "m"}})), CheckSignature,
			`{"ActionsValidation":"FunctionCallZeroAttachedGas"}`},
		{"too large", pv86, sign(plainTx(1, big)), CheckSignature,
			fmt.Sprintf(`{"TransactionSizeExceeded":{"limit":1572864,"size":%d}}`, size)},
		{"V1 before gas keys", at84(), sign(indexTx(1, 0, nil)), CheckSignature, `"InvalidTransactionVersion"`},
		{"V0 before gas keys", at84(), sign(plainTx(1, nil)), CheckSignature, "ok"},
		{"V1", pv86, sign(indexTx(1, 0, nil)), CheckSignature, "ok"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := jsonOf(Transaction(c.config, c.tx, c.signature)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestTransactionSizeCountsSignature: a size equal to the limit is accepted: the signature counts
// (trap 18).
func TestTransactionSizeCountsSignature(t *testing.T) {
	t.Parallel()
	deploy := func(n int) *primitives.SignedTransaction {
		return sign(plainTx(1, []primitives.Action{&primitives.DeployContract{Code: make([]byte, n)}}))
	}
	limit := int(pv86.Wasm.Limits.MaxTransactionSize)
	n := limit - deploy(0).Size()
	if got := jsonOf(Transaction(pv86, deploy(n), CheckSignature)); got != "ok" {
		t.Errorf("size %d: got %s, want ok", limit, got)
	}
	if got, want := jsonOf(Transaction(pv86, deploy(n+1), CheckSignature)), `{"TransactionSizeExceeded":{"limit":1572864,"size":1572865}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestMalformedTransactionIsRefusedVectorA14: nearcore core/primitives/src/transaction.rs:932, 946,
// 960.
func TestMalformedTransactionIsRefusedVectorA14(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   []byte
		want string
	}{
		{append([]byte{10, 0, 0, 0}, make([]byte, 10)...), "the Account ID contains an invalid character"},
		{append([]byte{100, 0, 0, 0}, strings.Repeat("a", 100)...), "the Account ID is too long"},
		{[]byte{2, 5, 0, 0, 0, 0, 0, 0}, "invalid transaction version tag: 2"},
	} {
		var tx primitives.Transaction
		if err := borsh.Unmarshal(c.in, &tx); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%x: got %v, want %q", c.in, err, c.want)
		}
	}
}

// TestMLDSAIsRefusedAt84VectorA68: nearcore core/primitives/src/transaction.rs:1069-1158,
// 1176-1207: ML-DSA-65 as signer, in AddKey and inside Delegate.
func TestMLDSAIsRefusedAt84VectorA68(t *testing.T) {
	t.Parallel()
	pq := primitives.SecretKeyFromSeed(primitives.MLDSA65, "victim")
	signedBy := func(k primitives.SecretKey, actions ...primitives.Action) *primitives.SignedTransaction {
		tx := plainTx(1, actions)
		tx.PublicKey = k.PublicKey()
		h := tx.Hash()
		return primitives.NewSignedTransaction(tx, k.Sign(h[:]))
	}
	add := &primitives.AddKey{PublicKey: pq.PublicKey()}
	d := primitives.DelegateAction{SenderID: bob, ReceiverID: alice, Actions: []primitives.Action{add}, PublicKey: key.PublicKey()}
	h := d.SignedHash()
	delegate := &primitives.Delegate{Action: d, Signature: key.Sign(h[:])}
	for name, tx := range map[string]*primitives.SignedTransaction{
		"signer": signedBy(pq), "AddKey": signedBy(key, add), "Delegate": signedBy(key, delegate),
	} {
		t.Run(name, func(t *testing.T) {
			if got := jsonOf(Transaction(pv86, tx, CheckSignature)); got != "ok" {
				t.Errorf("%s at 86: got %s, want ok", name, got)
			}
			if versionAllowed(at84(), tx) {
				t.Errorf("%s at 84: allowed, want InvalidTransactionVersion", name)
			}
			if got, want := tx.Size(), len(borsh.Marshal(tx)); got != want {
				t.Errorf("size = %d, want %d", got, want)
			}
		})
	}
	if got := jsonOf(Transaction(at84(), signedBy(pq), CheckSignature)); got != `"InvalidTransactionVersion"` {
		t.Errorf("signer at 84: got %s, want InvalidTransactionVersion", got)
	}
	// Receipts that contracts create are checked separately.
	want := `{"ActionsValidation":{"UnsupportedProtocolFeature":{"protocol_feature":"PostQuantumSignatures","version":84}}}`
	if got := jsonOf(Transaction(at84(), signedBy(key, add), CheckSignature)); got != want {
		t.Errorf("AddKey at 84: got %s, want %s", got, want)
	}
}

func TestMissingSignerIsRefused(t *testing.T) {
	t.Parallel()
	tx := plainTx(1, nil)
	notFound := fmt.Sprintf(`{"InvalidAccessKeyError":{"AccessKeyNotFound":{"account_id":"alice.near","public_key":"%s"}}}`, key.PublicKey())
	for _, c := range []struct {
		s    Signer
		at   Place
		want string
	}{
		{Signer{}, InChunk, `{"InvalidSignerId":{"signer_id":"alice.near"}}`},
		{Signer{}, AtSubmission, `{"SignerDoesNotExist":{"signer_id":"alice.near"}}`},
		{Signer{Account: account(oneN)}, InChunk, notFound},
		{Signer{Account: account(oneN)}, AtSubmission, notFound},
		{Signer{Account: account(oneN), Key: &primitives.AccessKey{}}, InChunk, "ok"},
	} {
		if got := jsonOf(MissingSigner(pv86, &tx, c.s, c.at)); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestCanChargeRefusesWhatCannotBePaid(t *testing.T) {
	t.Parallel()
	good := Signer{Account: account(oneN), Key: &primitives.AccessKey{}}
	tx := plainTx(^primitives.Nonce(0), transfer(milli)) // no upper bound at submission
	if got := jsonOf(CanCharge(pv86, &tx, price, good)); got != "ok" {
		t.Errorf("got %s, want ok", got)
	}
	over := plainTx(1, transfer(primitives.MaxBalance))
	if got := jsonOf(CanCharge(pv86, &over, price, Signer{})); got != `"CostOverflow"` {
		t.Errorf("got %s, want CostOverflow", got)
	}
	if got := jsonOf(CanCharge(pv86, &tx, price, Signer{})); got != `{"SignerDoesNotExist":{"signer_id":"alice.near"}}` {
		t.Errorf("got %s, want SignerDoesNotExist", got)
	}
	row := primitives.Nonce(0)
	poor := Signer{Account: account(primitives.Yocto(1)), RowNonce: &row,
		Key: &primitives.AccessKey{GasKey: &primitives.GasKeyInfo{Balance: gasKey, NumNonces: 1}}}
	idx := indexTx(1, 0, transfer(oneN))
	want := `{"NotEnoughBalanceForDeposit":{"balance":"1","cost":"1000000000000000000000000","reason":"NotEnoughBalance","signer_id":"alice.near"}}`
	if got := jsonOf(CanCharge(pv86, &idx, price, poor)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestValidityPeriodAndForkAreChecked(t *testing.T) {
	t.Parallel()
	yes, no := func() bool { return true }, func() bool { return false }
	for _, c := range []struct {
		known              bool
		base, prev, period primitives.Height
		ancestor           func() bool
		want               string
	}{
		{true, 10, 110, 100, yes, "ok"},
		{true, 10, 111, 100, yes, `"Expired"`},
		{true, 10, 111, 100, no, `"Expired"`},
		{false, 10, 10, 100, yes, `"Expired"`},
		{true, 10, 10, 100, yes, "ok"},
		{true, 11, 10, 100, yes, `"InvalidChain"`},
		{true, 10, 20, 100, no, `"InvalidChain"`},
		{true, ^primitives.Height(0), 5, ^primitives.Height(0), yes, `"InvalidChain"`},
		{true, 1, ^primitives.Height(0), ^primitives.Height(0), yes, "ok"},
	} {
		if got := jsonOf(Validity(c.known, c.base, c.prev, c.period, c.ancestor)); got != c.want {
			t.Errorf("Validity(%v, %d, %d, %d) = %s, want %s", c.known, c.base, c.prev, c.period, got, c.want)
		}
	}
}

// TestSmallAccountNeedsNoStorageStake: nearcore verifier.rs:1009: an account of n full and m
// function call keys needs no balance up to 770 bytes.
func TestSmallAccountNeedsNoStorageStake(t *testing.T) {
	t.Parallel()
	perByte := pv86.Fees.StorageAmountPerByte
	for _, c := range []struct {
		usage   uint64
		amount  primitives.Balance
		locked  primitives.Balance
		missing primitives.Balance
	}{
		{770, primitives.Balance{}, primitives.Balance{}, primitives.Balance{}},
		{771, primitives.Balance{}, primitives.Balance{}, mul(perByte, 771)},
		{771, mul(perByte, 700), mul(perByte, 70), perByte},
		{771, mul(perByte, 700), mul(perByte, 71), primitives.Balance{}},
	} {
		a := &primitives.Account{StorageUsage: c.usage, Locked: c.locked, Amount: primitives.NEAR(5)}
		if got, err := StorageStake(pv86, a, c.amount); got != c.missing || err != nil {
			t.Errorf("usage %d: got %v, %v, want %v", c.usage, got, err, c.missing)
		}
	}
	if _, err := StorageStake(pv86, &primitives.Account{StorageUsage: ^uint64(0), Locked: primitives.MaxBalance}, oneN); err == nil {
		t.Errorf("overflow: no error")
	}
}

func mul(b primitives.Balance, n uint64) primitives.Balance {
	v, _ := b.Mul64(n)
	return v
}

func TestInconsistentAccountIsStorageError(t *testing.T) {
	t.Parallel()
	a := account(oneN)
	a.Locked = primitives.MaxBalance
	tx := plainTx(1, transfer(primitives.Yocto(1)))
	err := CanCharge(pv86, &tx, price, Signer{Account: a, Key: &primitives.AccessKey{}})
	if err == nil || err.Tag != primitives.TxStorageError || !reflect.DeepEqual(err.Storage.Tag, primitives.StorageInconsistentState) {
		t.Errorf("got %s, want a StorageError", jsonOf(err))
	}
}
