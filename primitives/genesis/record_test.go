package genesis

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

var (
	edKey  = primitives.SecretKeyFromSeed(primitives.ED25519, "test").PublicKey()
	pqKey  = primitives.SecretKeyFromSeed(primitives.MLDSA65, "test").PublicKey()
	allow  = primitives.NEAR(1)
	fcPerm = &primitives.FunctionCallPermission{Allowance: &allow, ReceiverID: "not valid!", MethodNames: []string{"a", "b\n"}}
)

// everyAction has one of each kind.
func everyAction() []primitives.Action {
	inner := []primitives.Action{&primitives.CreateAccount{}, &primitives.Transfer{Deposit: primitives.Yocto(3)}}
	d1 := primitives.DelegateAction{SenderID: "a.near", ReceiverID: "b.near", Actions: inner, Nonce: 4, MaxBlockHeight: 5, PublicKey: edKey}
	d2 := primitives.DelegateActionV2{SenderID: "a.near", ReceiverID: "b.near", Actions: inner, MaxBlockHeight: 5, PublicKey: edKey,
		Nonce: primitives.TransactionNonce{Nonce: 6, HasIndex: true, Index: 7}}
	d3 := d2
	d3.Nonce = primitives.TransactionNonce{Nonce: 8}
	return []primitives.Action{
		&primitives.CreateAccount{},
		&primitives.DeployContract{Code: []byte{1, 2, 3}},
		&primitives.FunctionCall{Method: "m", Args: []byte("{}"), Gas: 9, Deposit: allow},
		&primitives.Transfer{Deposit: allow},
		&primitives.Stake{Stake: allow, PublicKey: edKey},
		&primitives.AddKey{PublicKey: pqKey, AccessKey: primitives.AccessKey{Nonce: 1, FunctionCall: fcPerm}},
		&primitives.DeleteKey{PublicKey: edKey},
		&primitives.DeleteAccount{Beneficiary: "b.near"},
		&primitives.Delegate{Action: d1, Signature: primitives.ZeroED25519Signature},
		&primitives.DeployGlobalContract{Code: []byte{4}, Mode: primitives.GlobalByAccountID},
		&primitives.UseGlobalContract{ID: primitives.GlobalContractID{Account: "g.near"}},
		&primitives.DeterministicStateInit{Deposit: allow, Init: primitives.StateInit{
			Code: primitives.GlobalContractID{Hash: primitives.Hash{1}},
			Data: []primitives.StateEntry{{Key: []byte("a"), Value: []byte("1")}, {Key: []byte("b"), Value: []byte{}}}}},
		&primitives.TransferToGasKey{PublicKey: edKey, Deposit: allow},
		&primitives.WithdrawFromGasKey{PublicKey: edKey, Amount: allow},
		&primitives.DelegateV2{Action: d2, Signature: primitives.ZeroED25519Signature},
		&primitives.DelegateV2{Action: d3, Signature: primitives.ZeroED25519Signature},
	}
}

func everyReceipt() []*primitives.Receipt {
	action := func(v2, yield bool, refundTo primitives.AccountID) *primitives.ActionReceipt {
		return &primitives.ActionReceipt{SignerID: "s.near", SignerPublicKey: edKey, GasPrice: allow, V2: v2, Yield: yield, RefundTo: refundTo,
			OutputDataReceivers: []primitives.DataReceiver{{DataID: primitives.Hash{2}, ReceiverID: "r.near"}},
			InputDataIDs:        []primitives.Hash{{3}, {4}}, Actions: everyAction()}
	}
	bodies := []primitives.ReceiptBody{
		action(false, false, ""), action(true, false, ""), action(true, false, "x.near"), action(false, true, ""), action(true, true, "x.near"),
		&primitives.DataReceipt{DataID: primitives.Hash{5}, Data: []byte("d")}, &primitives.DataReceipt{DataID: primitives.Hash{5}, Resume: true},
		&primitives.GlobalContractDistribution{ID: primitives.GlobalContractID{Hash: primitives.Hash{6}}, TargetShard: 7, AlreadyDelivered: []primitives.ShardID{1, 2}, Code: []byte{9}},
		&primitives.GlobalContractDistribution{ID: primitives.GlobalContractID{Account: "g.near"}, Code: []byte{}, V2: true, Nonce: 3},
	}
	var out []*primitives.Receipt
	for _, b := range bodies {
		out = append(out, &primitives.Receipt{PredecessorID: "p.near", ReceiverID: "r.near", ID: primitives.Hash{8}, Body: b})
	}
	return out
}

func everyRecord() []Record {
	code := primitives.AccountContract{Kind: primitives.ContractLocal, Hash: primitives.Hash{7}}
	gas := &primitives.GasKeyInfo{Balance: allow, NumNonces: 3}
	account := func(v primitives.AccountVersion, c primitives.AccountContract) Record {
		return &AccountRecord{"a.near", primitives.Account{Version: v, Amount: allow, Locked: primitives.Yocto(1), StorageUsage: 5, Contract: c}}
	}
	key := func(k primitives.AccessKey) Record { return &AccessKeyRecord{"a.near", pqKey.Handle(), k} }
	out := []Record{
		account(primitives.AccountV1, primitives.AccountContract{}), account(primitives.AccountV1, code),
		account(primitives.AccountV2, primitives.AccountContract{}), account(primitives.AccountV2, code),
		account(primitives.AccountV2, primitives.AccountContract{Kind: primitives.ContractGlobalHash, Hash: primitives.Hash{1}}),
		account(primitives.AccountV2, primitives.AccountContract{Kind: primitives.ContractGlobalAccount, Account: "g.near"}),
		key(primitives.AccessKey{Nonce: 5}), key(primitives.AccessKey{FunctionCall: fcPerm}), key(primitives.AccessKey{GasKey: gas}),
		key(primitives.AccessKey{GasKey: gas, FunctionCall: &primitives.FunctionCallPermission{ReceiverID: "b.near"}}),
		&DataRecord{"a.near", []byte("key"), []byte{}}, &ContractRecord{"a.near", []byte{0, 1}},
		&GasKeyNonceRecord{"a.near", edKey.Handle(), 3, 14_000_000},
		&ReceivedDataRecord{"a.near", primitives.Hash{1}, nil}, &ReceivedDataRecord{"a.near", primitives.Hash{1}, []byte{}},
	}
	for _, x := range everyReceipt() {
		out = append(out, &PostponedReceiptRecord{x}, &DelayedReceiptRecord{x})
	}
	return out
}

func TestEveryRecordSurvivesEncoding(t *testing.T) {
	t.Parallel()
	for _, r := range everyRecord() {
		b := AppendRecord(nil, r)
		got, err := ParseRecord(b)
		if err != nil {
			t.Errorf("%s: %v", b, err)
		} else if !reflect.DeepEqual(got, r) {
			t.Errorf("%.300s: got %+v, want %+v", b, got, r)
		}
		if r.Owner() != "a.near" && r.Owner() != "r.near" {
			t.Errorf("%T: owner %s", r, r.Owner())
		}
	}
	all := everyRecord()
	for _, r := range everyRemoval() {
		b := AppendRecord(nil, r)
		if got, err := ParseRecord(b); err == nil {
			t.Errorf("%s is read as a record: %+v", b, got)
		}
		all = append(all, r)
	}
	if got, err := ParsePatch(AppendRecords(nil, all)); err != nil || !reflect.DeepEqual(got, all) {
		t.Errorf("all records: %v", err)
	}
}

func everyRemoval() []Record {
	return []Record{
		&Removal{&AccountRecord{AccountID: "a.near"}}, &Removal{&DataRecord{AccountID: "a.near", Key: []byte("k")}},
		&Removal{&ContractRecord{AccountID: "a.near"}}, &Removal{&AccessKeyRecord{AccountID: "a.near", PublicKey: edKey.Handle()}},
		&Removal{&GasKeyNonceRecord{AccountID: "a.near", PublicKey: edKey.Handle(), Index: 1}},
	}
}

// TestRecordJSONHasLiteralForms: a gas key's array, a sandbox patch without version, serde's enums.
func TestRecordJSONHasLiteralForms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{`{"Account":{"account_id":"a.near","account":{"amount":"1","locked":"0","code_hash":"11111111111111111111111111111111","storage_usage":182,"block_hash":"x"}}}`,
			`{"Account":{"account_id":"a.near","account":{"amount":"1","locked":"0","code_hash":"11111111111111111111111111111111","storage_usage":182,"version":"V1"}}}`},
		{`{"AccessKey":{"account_id":"a.near","public_key":"ed25519:DcA2MzgpJbrUATQLLceocVckhhAqrkingax4oJ9kZ847","access_key":{"nonce":0,"permission":{"GasKeyFunctionCall":[{"balance":"5","num_nonces":2},{"allowance":null,"receiver_id":"b","method_names":[]}]}}}}`, ""},
		{`{"AccessKey":{"account_id":"a.near","public_key":"DcA2MzgpJbrUATQLLceocVckhhAqrkingax4oJ9kZ847","access_key":{"nonce":0,"permission":{"FullAccess":null}}}}`,
			`{"AccessKey":{"account_id":"a.near","public_key":"ed25519:DcA2MzgpJbrUATQLLceocVckhhAqrkingax4oJ9kZ847","access_key":{"nonce":0,"permission":"FullAccess"}}}`},
		{`{"Data":{"account_id":"a.near","data_key":"U1RBVEU=","value":"DQAAAA=="}}`, ""},
		{`{"GasKeyNonce":{"account_id":"a.near","public_key":"ed25519:DcA2MzgpJbrUATQLLceocVckhhAqrkingax4oJ9kZ847","index":1,"nonce":2}}`, ""},
	} {
		want := c.want
		if want == "" {
			want = c.in
		}
		r, err := ParseRecord([]byte(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
		} else if got := string(AppendRecord(nil, r)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestInvalidRecordIsRefused(t *testing.T) {
	t.Parallel()
	account := func(rest string) string {
		return `{"Account":{"account_id":"a.near","account":{"amount":"1","locked":"0","storage_usage":1,` + rest + `}}}`
	}
	const code = `"code_hash":"11111111111111111111111111111113"`
	for _, c := range []struct{ in, want string }{
		{account(code + `,"global_contract_hash":"11111111111111111111111111111112"`), "can't contain both a local and global contract"},
		{account(`"code_hash":"11111111111111111111111111111111","global_contract_hash":"11111111111111111111111111111112","global_contract_account_id":"g.near"`), "both types of global contracts"},
		{account(`"version":"V1"`), "missing field `code_hash`"},
		{account(`"code_hash":"111"`), "not a base58-encoded 256-bit hash: 3 bytes"},
		{`{"Account":{"account_id":"a.near"}}`, "missing field `account`"},
		{`{"Account":{"account_id":"a.near","account_id":"a.near"}}`, "duplicate field"},
		{`{"Data":{"account_id":"a.near","data_key":"!","value":""}}`, "Invalid byte 33, offset 0."},
		{`{"Data":{"account_id":"a.near","data_key":"AA\n==","value":""}}`, "Encoded text cannot have a 6-bit remainder."},
		{`{"AccessKey":{"account_id":"a.near","public_key":"ed25519:1","access_key":{"nonce":0,"permission":"FullAccess"}}}`, "AccessKey.public_key: invalid key length"},
		{`{"GasKeyNonce":{"account_id":"a.near","public_key":"ed25519:DcA2MzgpJbrUATQLLceocVckhhAqrkingax4oJ9kZ847","index":65536,"nonce":2}}`, "expected u16"},
		{`{"A":1,"B":2}`, "unknown variant `A`"},
		{`{"Data":{"account_id":"a.near","data_key":"","value":""},"Data":{}}`, "single key"},
		{`[]`, "invalid type: sequence, expected string or map"},
		{`{"PostponedReceipt":{"predecessor_id":"a.near","receiver_id":"b.near","receipt_id":"11111111111111111111111111111111","receipt":{"Action":{}}}}`,
			"PostponedReceipt.receipt.Action: missing field `signer_id`"},
		{`{"PostponedReceipt":{"predecessor_id":"a.near","receiver_id":"b.near","receipt_id":"11111111111111111111111111111111","receipt":{"Data":{"data_id":"11111111111111111111111111111111"}}}} x`,
			"after the end"},
	} {
		if r, err := ParseRecord([]byte(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, %v, want %q", c.in, r, err, c.want)
		}
	}
	nested := `{"DelayedReceipt":{"predecessor_id":"a.near","receiver_id":"b.near","receipt_id":"11111111111111111111111111111111","receipt":{"Action":{"actions":[{"Delegate":{"signature":"x","delegate_action":{"actions":[{"Delegate":{}}]}}}]}}}}`
	if _, err := ParseRecord([]byte(strings.Replace(nested, `"signature":"x",`, "", 1))); err == nil || !strings.Contains(err.Error(), "a delegate action holds another") {
		t.Errorf("nested delegates: %v", err)
	}
}

// TestRecordsTakeBase64WithAnyPadding: every field of bytes accepts what neard accepts, and refuses
// the rest in neard's words.
func TestRecordsTakeBase64WithAnyPadding(t *testing.T) {
	t.Parallel()
	const hash = "11111111111111111111111111111111"
	for _, form := range []string{
		`{"Data":{"account_id":"a.near","data_key":%s,"value":""}}`, `{"Data":{"account_id":"a.near","data_key":"","value":%s}}`,
		`{"Contract":{"account_id":"a.near","code":%s}}`, `{"ReceivedData":{"account_id":"a.near","data_id":"` + hash + `","data":%s}}`,
	} {
		for _, x := range []struct{ in, want, fault string }{
			{`"aw"`, "k", ""}, {`"aw="`, "k", ""}, {`"aw=="`, "k", ""}, {`"YWI"`, "ab", ""}, {`"YWI="`, "ab", ""}, {`"YWJj"`, "abc", ""}, {`""`, "", ""},
			{`"az"`, "", "Invalid last symbol 122, offset 1."}, {`"YWJ"`, "", "Invalid last symbol 74, offset 2."}, {`"a"`, "", "Encoded text cannot have a 6-bit remainder."},
			{`"aw==="`, "", "Encoded text cannot have a 6-bit remainder."}, {`"!"`, "", "Invalid byte 33, offset 0."}, {`"a==="`, "", "Invalid byte 61, offset 1."},
			{`{}`, "", "invalid type: map, expected a base64 encoded string"}, {`5`, "", "invalid type: integer `5`, expected a base64 encoded string"},
		} {
			list, err := ParsePatch(fmt.Appendf(nil, "["+form+"]", x.in))
			if x.fault != "" {
				if err == nil || !strings.HasSuffix(err.Error(), x.fault) {
					t.Errorf(form+": %v, want %s", x.in, err, x.fault)
				}
				continue
			}
			if err != nil {
				t.Errorf(form+": %v", x.in, err)
				continue
			}
			var got string
			switch r := list[0].(type) {
			case *DataRecord:
				got = string(r.Key) + string(r.Value)
			case *ContractRecord:
				got = string(r.Code)
			case *ReceivedDataRecord:
				got = string(r.Data)
			}
			if got != x.want {
				t.Errorf(form+": %q, want %q", x.in, got, x.want)
			}
		}
	}
}

func FuzzRecord(f *testing.F) {
	for _, r := range everyRecord() {
		f.Add(AppendRecord(nil, r))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := ParseRecord(in)
		if err != nil {
			return
		}
		b := AppendRecord(nil, r)
		again, err := ParseRecord(b)
		if err != nil {
			t.Fatalf("%q became %q: %v", in, b, err)
		}
		if c := AppendRecord(nil, again); !bytes.Equal(c, b) {
			t.Errorf("%q became %q, then %q", in, b, c)
		}
	})
}

func FuzzGenesis(f *testing.F) {
	for _, name := range []string{"init-plain.json", "localnet.json", "dump-state.json.gz"} {
		f.Add(read(f, name))
	}
	f.Add([]byte(minimal))
	f.Fuzz(func(t *testing.T, in []byte) {
		g, err := Parse(in)
		if err != nil {
			return
		}
		_ = g.Validate()
		b := write(t, g)
		again, err := Parse(b)
		if err != nil {
			t.Fatalf("%q became %q: %v", in, b, err)
		}
		if c := write(t, again); !bytes.Equal(c, b) {
			t.Errorf("%q became %q, then %q", in, b, c)
		}
		AppendView(nil, &g.Config)
	})
}

// TestUninitializedAccountNeedsNonce has the JSON of near-primitives-core 0.38.0 src/account.rs
// uninitialized_account_serde_serialization, and what its tests refuse.
func TestUninitializedAccountNeedsNonce(t *testing.T) {
	t.Parallel()
	const text = `{"amount":"100","locked":"0","code_hash":"11111111111111111111111111111111","storage_usage":300,"version":"V1",` +
		`"state":"uninitialized","bootstrap_nonce":7000000}`
	record := func(account string) string { return `{"Account":{"account_id":"aa","account":` + account + `}}` }
	a := primitives.NewUninitializedAccount(primitives.Yocto(100), 300, 7_000_000)
	if got := string(AppendRecord(nil, &AccountRecord{"aa", a})); got != record(text) {
		t.Errorf("got %s, want %s", got, record(text))
	}
	if r, err := ParseRecord([]byte(record(text))); err != nil || r.(*AccountRecord).Account != a {
		t.Errorf("read %+v, %v", r, err)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"no nonce":           {`,"bootstrap_nonce":7000000`, ``, "an uninitialized account must carry a bootstrap nonce"},
		"null for a nonce":   {`7000000`, `null`, "an uninitialized account must carry a bootstrap nonce"},
		"a nonce of 0":       {`7000000`, `0`, ""},
		"initialized, nonce": {`uninitialized`, `initialized`, "an initialized account can't have a bootstrap nonce"},
		"initialized":        {`"uninitialized","bootstrap_nonce":7000000`, `"initialized"`, ""},
		"version":            {`"V1"`, `"V2"`, "an uninitialized account must be version V1"},
		"locked":             {`"locked":"0"`, `"locked":"1"`, "an uninitialized account can't have locked balance"},
		"code":               {`11111111111111111111111111111111`, `11111111111111111111111111111112`, "an uninitialized account can't have a contract"},
		"global code": {`"state"`, `"global_contract_hash":"11111111111111111111111111111112","state"`,
			"an uninitialized account can't have a contract"},
		"global code by account": {`"state"`, `"global_contract_account_id":"test.near","state"`, "an uninitialized account can't have a contract"},
		"another state":          {`uninitialized`, `frozen`, "unknown variant `frozen`, expected `initialized` or `uninitialized`"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseRecord([]byte(record(strings.Replace(text, c.old, c.new, 1))))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	// An initialized account shows neither member.
	a.Initialize()
	if got := string(AppendRecord(nil, &AccountRecord{"aa", a})); strings.Contains(got, "state") || strings.Contains(got, "nonce") {
		t.Errorf("initialized: %s", got)
	}
}
