package verify

import (
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// charge runs Charge at height 10 for a signer with an ordinary key.
func charge(t *testing.T, tx primitives.Transaction, s Signer, height primitives.Height) Verdict {
	t.Helper()
	cost, err := Cost(pv86, &tx, price)
	if err != nil {
		t.Fatal(err)
	}
	return Charge(pv86, &tx, &cost, s, height)
}

func functionCallKey(allowance *primitives.Balance, methods ...string) *primitives.AccessKey {
	return &primitives.AccessKey{FunctionCall: &primitives.FunctionCallPermission{
		Allowance: allowance, ReceiverID: string(bob), MethodNames: methods,
	}}
}

func TestInvalidChargeIsRefused(t *testing.T) {
	t.Parallel()
	full := &primitives.AccessKey{Nonce: 5}
	hundred := primitives.Yocto(100)
	large := account(oneN)
	large.StorageUsage = 200_000 // 2 N
	for _, c := range []struct {
		name   string
		tx     primitives.Transaction
		signer Signer
		height primitives.Height
		want   string
	}{
		{"nonce equal", plainTx(5, transfer(milli)), Signer{Account: account(oneN), Key: full}, 10,
			`{"InvalidNonce":{"ak_nonce":5,"tx_nonce":5}}`},
		{"nonce too large", plainTx(10_000_000, transfer(milli)), Signer{Account: account(oneN), Key: full}, 10,
			`{"NonceTooLarge":{"tx_nonce":10000000,"upper_bound":10000000}}`},
		{"nonce just below the bound", plainTx(9_999_999, transfer(milli)), Signer{Account: account(oneN), Key: full}, 10, "ok"},
		{"bound saturates", plainTx(^primitives.Nonce(0), transfer(milli)), Signer{Account: account(oneN), Key: full}, 1 << 60,
			`{"NonceTooLarge":{"tx_nonce":18446744073709551615,"upper_bound":18446744073709551615}}`},
		{"balance", plainTx(6, transfer(oneN)), Signer{Account: account(oneN), Key: full}, 10,
			`{"NotEnoughBalance":{"balance":"1000000000000000000000000","cost":"1000245500818750000000000","signer_id":"alice.near"}}`},
		{"storage", plainTx(6, transfer(milli)), Signer{Account: large, Key: full}, 10,
			`{"LackBalanceForState":{"amount":"1001245500818750000000000","signer_id":"alice.near"}}`},
		{"allowance", plainTx(6, call("m", primitives.Balance{})), Signer{Account: account(oneN), Key: functionCallKey(&hundred)}, 10,
			fmt.Sprintf(`{"InvalidAccessKeyError":{"NotEnoughAllowance":{"account_id":"alice.near","allowance":"100","cost":"%s","public_key":"%s"}}}`,
				callCost(t), key.PublicKey())},
		{"many actions", plainTx(6, append(call("m", primitives.Balance{}), call("m", primitives.Balance{})...)),
			Signer{Account: account(oneN), Key: functionCallKey(nil)}, 10, `{"InvalidAccessKeyError":"RequiresFullAccess"}`},
		{"no action", plainTx(6, nil), Signer{Account: account(oneN), Key: functionCallKey(nil)}, 10,
			`{"InvalidAccessKeyError":"RequiresFullAccess"}`},
		{"no call", plainTx(6, []primitives.Action{&primitives.CreateAccount{}}), Signer{Account: account(oneN), Key: functionCallKey(nil)}, 10,
			`{"InvalidAccessKeyError":"RequiresFullAccess"}`},
		{"deposit", plainTx(6, call("m", primitives.Yocto(1))), Signer{Account: account(oneN), Key: functionCallKey(nil)}, 10,
			`{"InvalidAccessKeyError":"DepositWithFunctionCall"}`},
		{"receiver", toEve(plainTx(6, call("m", primitives.Balance{}))), Signer{Account: account(oneN), Key: functionCallKey(nil)}, 10,
			`{"InvalidAccessKeyError":{"ReceiverMismatch":{"ak_receiver":"bob.near","tx_receiver":"eve.near"}}}`},
		{"method", plainTx(6, call("m", primitives.Balance{})), Signer{Account: account(oneN), Key: functionCallKey(nil, "not_m", "n")}, 10,
			`{"InvalidAccessKeyError":{"MethodNameMismatch":{"method_name":"m"}}}`},
		{"method listed", plainTx(6, call("m", primitives.Balance{})), Signer{Account: account(oneN), Key: functionCallKey(nil, "n", "m")}, 10, "ok"},
		{"any method", plainTx(6, call("m", primitives.Balance{})), Signer{Account: account(oneN), Key: functionCallKey(nil)}, 10, "ok"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := charge(t, c.tx, c.signer, c.height)
			if got := jsonOf(v.Err); got != c.want || v.Charged != (c.want == "ok") {
				t.Errorf("got %s, charged %v, want %s", got, v.Charged, c.want)
			}
		})
	}
}

func toEve(tx primitives.Transaction) primitives.Transaction {
	tx.ReceiverID = "eve.near"
	return tx
}

func callCost(t *testing.T) primitives.Balance {
	tx := plainTx(6, call("m", primitives.Balance{}))
	cost, err := Cost(pv86, &tx, price)
	if err != nil {
		t.Fatal(err)
	}
	return cost.TotalCost
}

// TestPlainTransferIsChargedItsCost: a transfer to another account at price 10^8.
func TestPlainTransferIsChargedItsCost(t *testing.T) {
	t.Parallel()
	allowance := oneN
	k := functionCallKey(&allowance)
	a := account(oneN)
	tx := plainTx(7, call("m", primitives.Balance{}))
	v := charge(t, tx, Signer{Account: a, Key: k}, 10)
	if v.Err != nil {
		t.Fatal(v.Err)
	}
	want, _ := oneN.Sub(callCost(t))
	shared := k.FunctionCall
	v.Charges.Apply(a, k)
	if a.Amount != want || *k.FunctionCall.Allowance != want || k.Nonce != 7 {
		t.Errorf("amount %v, allowance %v, nonce %d, want %v twice and 7", a.Amount, k.FunctionCall.Allowance, k.Nonce, want)
	}
	if *shared.Allowance != oneN {
		t.Errorf("Apply changed the permission it was given")
	}

	v = charge(t, plainTx(6, transfer(milli)), Signer{Account: account(oneN), Key: &primitives.AccessKey{Nonce: 5}}, 10)
	if got, want := v.Charges.GasBurnt, primitives.Gas(223_182_562_500); got != want {
		t.Errorf("gas burnt = %d, want %d", got, want)
	}
	if got, want := v.Charges.GasRemaining, primitives.Gas(223_182_562_500); got != want {
		t.Errorf("gas remaining = %d, want %d", got, want)
	}
	if got, want := v.Charges.BurntAmount.String(), "22318256250000000000"; got != want {
		t.Errorf("burnt amount = %s, want %s", got, want)
	}
	if got, want := v.Charges.ReceiptGasPrice.String(), "1000000000"; got != want {
		t.Errorf("receipt gas price = %s, want %s", got, want)
	}
	if got, want := v.Charges.Amount.String(), "998754499181250000000000"; got != want {
		t.Errorf("amount = %s, want %s", got, want)
	}
}

// TestStrictNonceIsCheckedAsInVectorA69: nearcore runtime/runtime/src/verifier.rs:2484-2715: strict
// nonces against a stored 5 and 2^64-1.
func TestStrictNonceIsCheckedAsInVectorA69(t *testing.T) {
	t.Parallel()
	const top = ^primitives.Nonce(0)
	for _, c := range []struct {
		stored, nonce primitives.Nonce
		mode          primitives.NonceMode
		want          string
	}{
		{5, 6, primitives.NonceStrict, "ok"},
		{5, 7, primitives.NonceStrict, `{"InvalidNonce":{"ak_nonce":5,"tx_nonce":7}}`},
		{5, 5, primitives.NonceStrict, `{"InvalidNonce":{"ak_nonce":5,"tx_nonce":5}}`},
		{5, 3, primitives.NonceStrict, `{"InvalidNonce":{"ak_nonce":5,"tx_nonce":3}}`},
		{5, 7, primitives.NonceMonotonic, "ok"},
		{top, top, primitives.NonceStrict, `{"InvalidNonce":{"ak_nonce":18446744073709551615,"tx_nonce":18446744073709551615}}`},
		{top, 0, primitives.NonceStrict, `{"InvalidNonce":{"ak_nonce":18446744073709551615,"tx_nonce":0}}`},
		{top - 1, top, primitives.NonceStrict, "ok"},
	} {
		tx := plainTx(c.nonce, transfer(milli))
		tx.Version, tx.NonceMode = primitives.TransactionV1, c.mode
		v := charge(t, tx, Signer{Account: account(oneN), Key: &primitives.AccessKey{Nonce: c.stored}}, AnyHeight)
		if got := jsonOf(v.Err); got != c.want {
			t.Errorf("stored %d, tx %d, mode %d: got %s, want %s", c.stored, c.nonce, c.mode, got, c.want)
		}
		// The same rule applies to nonces of gas keys.
		idx := indexTx(c.nonce, 1, transfer(milli))
		idx.NonceMode = c.mode
		v = charge(t, idx, gasSigner(oneN, gasKey, 2, &c.stored, nil), AnyHeight)
		if got := jsonOf(v.Err); got != c.want {
			t.Errorf("row %d, tx %d, mode %d: got %s, want %s", c.stored, c.nonce, c.mode, got, c.want)
		}
	}
	strict := plainTx(6, transfer(milli))
	// A nonce mode in an older transaction version cannot be encoded, but the check covers it.
	strict.NonceMode = primitives.NonceStrict
	if got := jsonOf(Transaction(at84(), sign(strict), Checked)); got != `"InvalidTransactionVersion"` {
		t.Errorf("strict before 85: got %s, want InvalidTransactionVersion", got)
	}
}

func gasSigner(amount, balance primitives.Balance, nonces uint16, row *primitives.Nonce, p *primitives.FunctionCallPermission) Signer {
	return Signer{Account: account(amount), RowNonce: row,
		Key: &primitives.AccessKey{FunctionCall: p, GasKey: &primitives.GasKeyInfo{Balance: balance, NumNonces: nonces}}}
}

// TestGasKeyChargeMatchesVectorA70: nearcore runtime/runtime/src/verifier.rs:1953-2480.
func TestGasKeyChargeMatchesVectorA70(t *testing.T) {
	t.Parallel()
	row := primitives.Nonce(14_000_000)
	gasCost := "245500818750000000000" // of a transfer to another account
	notFound := fmt.Sprintf(`{"InvalidAccessKeyError":{"AccessKeyNotFound":{"account_id":"alice.near","public_key":"%s"}}}`, key.PublicKey())
	perm := &primitives.FunctionCallPermission{ReceiverID: string(bob), MethodNames: []string{"m"}}
	for _, c := range []struct {
		name    string
		tx      primitives.Transaction
		signer  Signer
		want    string
		charged bool
	}{
		{"full access", indexTx(row+1, 2, transfer(milli)), gasSigner(oneN, gasKey, 5, &row, nil), "ok", true},
		{"function call", indexTx(row+1, 0, call("m", primitives.Balance{})), gasSigner(oneN, gasKey, 3, &row, perm), "ok", true},
		{"permission", indexTx(row+1, 0, transfer(milli)), gasSigner(oneN, gasKey, 3, &row, perm),
			`{"InvalidAccessKeyError":"RequiresFullAccess"}`, false},
		{"no index", plainTx(row+1, transfer(milli)), gasSigner(oneN, gasKey, 3, nil, nil),
			`{"InvalidNonceIndex":{"num_nonces":3,"tx_nonce_index":null}}`, false},
		{"no row", indexTx(row+1, 5, transfer(milli)), gasSigner(oneN, gasKey, 3, nil, nil),
			`{"InvalidNonceIndex":{"num_nonces":3,"tx_nonce_index":5}}`, false},
		{"index out of range", indexTx(row+1, 5, transfer(milli)), gasSigner(oneN, gasKey, 3, &row, nil),
			`{"InvalidNonceIndex":{"num_nonces":3,"tx_nonce_index":5}}`, false},
		{"ordinary key", indexTx(row+1, 0, transfer(milli)), Signer{Account: account(oneN), Key: &primitives.AccessKey{}},
			`{"InvalidNonceIndex":{"num_nonces":0,"tx_nonce_index":0}}`, false},
		{"ordinary key with a row", indexTx(row+1, 0, transfer(milli)), Signer{Account: account(oneN), Key: &primitives.AccessKey{}, RowNonce: &row},
			notFound, false},
		{"nonce", indexTx(row, 0, transfer(milli)), gasSigner(oneN, gasKey, 3, &row, nil),
			`{"InvalidNonce":{"ak_nonce":14000000,"tx_nonce":14000000}}`, false},
		{"nonce too large", indexTx(15_000_000, 0, transfer(milli)), gasSigner(oneN, gasKey, 3, &row, nil),
			`{"NonceTooLarge":{"tx_nonce":15000000,"upper_bound":15000000}}`, false},
		{"gas", indexTx(row+1, 0, transfer(milli)), gasSigner(oneN, primitives.Yocto(7), 3, &row, nil),
			`{"NotEnoughGasKeyBalance":{"balance":"7","cost":"` + gasCost + `","signer_id":"alice.near"}}`, false},
		{"deposit", indexTx(row+1, 0, transfer(oneN)), gasSigner(primitives.Yocto(1), gasKey, 3, &row, nil),
			`{"NotEnoughBalanceForDeposit":{"balance":"1","cost":"1000000000000000000000000","reason":"NotEnoughBalance","signer_id":"alice.near"}}`, true},
		{"storage", indexTx(row+1, 0, transfer(milli)), large(gasSigner(oneN, gasKey, 3, &row, nil)),
			`{"NotEnoughBalanceForDeposit":{"balance":"999000000000000000000000","cost":"1001000000000000000000000","reason":"LackBalanceForState","signer_id":"alice.near"}}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := charge(t, c.tx, c.signer, 15)
			if got := jsonOf(v.Err); got != c.want || v.Charged != c.charged {
				t.Errorf("got %s, charged %v, want %s, %v", got, v.Charged, c.want, c.charged)
			}
			if !v.Charged {
				return
			}
			a, k := *c.signer.Account, *c.signer.Key
			v.Charges.Apply(&a, &k)
			cost, _ := Cost(pv86, &c.tx, price)
			wantAmount, _ := c.signer.Account.Amount.Sub(cost.DepositCost)
			wantKey, _ := gasKey.Sub(cost.GasCost)
			if v.Err != nil { // only the conversion is paid for
				wantAmount = c.signer.Account.Amount
				wantKey, _ = gasKey.Sub(cost.BurntAmount)
			}
			if a.Amount != wantAmount || k.GasKey.Balance != wantKey || k.Nonce != 0 {
				t.Errorf("amount %v, key %v, nonce %d, want %v, %v, 0", a.Amount, k.GasKey.Balance, k.Nonce, wantAmount, wantKey)
			}
			if v.Charges.Nonce != c.tx.Nonce.Nonce || v.Charges.NonceIndex != c.tx.Nonce.Index {
				t.Errorf("row %d = %d, want %d = %d", v.Charges.NonceIndex, v.Charges.Nonce, c.tx.Nonce.Index, c.tx.Nonce.Nonce)
			}
			if c.signer.Key.GasKey.Balance != gasKey {
				t.Error("Apply changed the key it was given")
			}
		})
	}
}

func large(s Signer) Signer {
	s.Account.StorageUsage = 200_000 // 2 N
	return s
}
