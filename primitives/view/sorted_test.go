package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// checkAscending fails unless in is one JSON value whose objects all have ascending keys.
func checkAscending(t *testing.T, in []byte) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(in))
	d.UseNumber()
	var walk func() error
	walk = func() error {
		token, err := d.Token()
		if err != nil {
			return err
		}
		open, ok := token.(json.Delim)
		if !ok {
			return nil
		}
		last := ""
		for n := 0; d.More(); n++ {
			if open == '{' {
				key, err := d.Token()
				if err != nil {
					return err
				}
				if n > 0 && key.(string) <= last {
					return fmt.Errorf("key %q after %q", key, last)
				}
				last = key.(string)
			}
			if err := walk(); err != nil {
				return err
			}
		}
		_, err = d.Token()
		return err
	}
	if err := walk(); err != nil || d.More() || d.InputOffset() != int64(len(in)) {
		t.Errorf("%v in %s", err, in)
	}
}

// What recordings contain little of.
var (
	testKey    = primitives.MustParsePublicKey("ed25519:AKeZjvncdbb6M2CCJxnmdmusNq2S4Fhj64n4jATQH8wr")
	testHash   = primitives.HashBytes([]byte("test"))
	testAt     = At{7, testHash}
	near1      = primitives.NEAR(1)
	limited    = &primitives.FunctionCallPermission{Allowance: &near1, ReceiverID: "b.near", MethodNames: []string{"x\n"}}
	gasKey     = &primitives.GasKeyInfo{Balance: near1, NumNonces: 3}
	testDetail = primitives.StateInit{Code: primitives.GlobalContractID{Hash: testHash},
		Data: []primitives.StateEntry{{Key: []byte{0xfb}, Value: nil}, {Key: []byte("a"), Value: []byte("b")}}}
	allActions = []primitives.Action{
		&primitives.CreateAccount{}, &primitives.DeployContract{Code: []byte("code")},
		&primitives.FunctionCall{Method: "m", Args: []byte("{}"), Gas: 5, Deposit: near1}, &primitives.Transfer{Deposit: near1},
		&primitives.Stake{Stake: near1, PublicKey: testKey}, &primitives.AddKey{PublicKey: testKey},
		&primitives.AddKey{PublicKey: testKey, AccessKey: primitives.AccessKey{FunctionCall: limited}},
		&primitives.AddKey{PublicKey: testKey, AccessKey: primitives.AccessKey{GasKey: gasKey}},
		&primitives.AddKey{PublicKey: testKey, AccessKey: primitives.AccessKey{FunctionCall: limited, GasKey: gasKey}},
		&primitives.DeleteKey{PublicKey: testKey}, &primitives.DeleteAccount{Beneficiary: "b.near"},
		&primitives.DeployGlobalContract{Code: []byte("c")}, &primitives.DeployGlobalContract{Code: []byte("c"), Mode: primitives.GlobalByAccountID},
		&primitives.UseGlobalContract{ID: primitives.GlobalContractID{Account: "b.near"}},
		&primitives.UseGlobalContract{ID: primitives.GlobalContractID{Hash: testHash}},
		&primitives.DeterministicStateInit{Init: testDetail, Deposit: near1},
		&primitives.TransferToGasKey{PublicKey: testKey, Deposit: near1}, &primitives.WithdrawFromGasKey{PublicKey: testKey, Amount: near1},
	}
)

// withDelegates returns every action, and delegate actions that contain every action that they may.
func withDelegates() []primitives.Action {
	v1 := &primitives.Delegate{Signature: primitives.ZeroED25519Signature, Action: primitives.DelegateAction{
		SenderID: "a.near", ReceiverID: "b.near", Actions: allActions, PublicKey: testKey}}
	v2 := &primitives.DelegateV2{Signature: primitives.ZeroED25519Signature, Action: primitives.DelegateActionV2{
		SenderID: "a.near", ReceiverID: "b.near", Actions: allActions, PublicKey: testKey}}
	indexed := *v2
	indexed.Action.Nonce = primitives.TransactionNonce{Nonce: 3, Index: 1, HasIndex: true}
	return append(append([]primitives.Action(nil), allActions...), v1, v2, &indexed)
}

func TestJSONKeysAreAscending(t *testing.T) {
	t.Parallel()
	stakes := []primitives.ValidatorStake{{AccountID: "a.near", PublicKey: testKey, Stake: near1}}
	path := primitives.MerklePath{{Hash: testHash}, {Hash: testHash, Direction: primitives.Right}}
	header := (&primitives.BlockHeader{Version: primitives.HeaderV6, BlockHeaderInnerRest: primitives.BlockHeaderInnerRest{
		Approvals: []primitives.Signature{"", primitives.ZeroED25519Signature}, EpochSyncDataHash: &testHash, ChunkMask: []bool{true, false},
		ChunkEndorsements: [][]byte{{1, 255}, {}}, ShardSplit: &primitives.ShardSplit{ShardID: 3, Boundary: "m.near"},
		PrevValidatorProposals: stakes}, Signature: primitives.ZeroED25519Signature}).Init()
	seventh := *header
	seventh.Version, seventh.EndorsementStats = primitives.HeaderV7, []primitives.EndorsementStats{{Produced: 1, Expected: 2}, {}}
	old := (&primitives.BlockHeader{Version: primitives.HeaderV1, Signature: primitives.ZeroED25519Signature}).Init()
	chunk := &primitives.ChunkHeader{Signature: primitives.ZeroED25519Signature, ChunkHeaderInner: primitives.ChunkHeaderInner{
		Version: primitives.ChunkInnerV5, BandwidthRequests: []primitives.BandwidthRequest{{ToShard: 1}},
		ProposedSplit: &primitives.TrieSplit{Boundary: "m.near"}, PrevValidatorProposals: stakes}}
	oldChunk := &primitives.ChunkHeader{Signature: primitives.ZeroED25519Signature}
	outcome := OutcomeProof{BlockHash: testHash, Proof: path}
	outcome.Outcome = primitives.Outcome{Logs: []string{"\"\\\n"}, ReceiptIDs: []primitives.Hash{testHash}, ExecutorID: "a.near",
		Status: primitives.ExecutionStatus{Kind: primitives.StatusSuccessReceiptID},
		Metadata: primitives.ExecutionMetadata{Version: 4, Profile: []primitives.CostEntry{{Category: "ACTION_COST", Cost: "X", Gas: 3}},
			Contracts: []primitives.AccountContract{{}, {Kind: primitives.ContractLocal}, {Kind: primitives.ContractGlobalHash},
				{Kind: primitives.ContractGlobalAccount, Account: "b.near"}}}}
	signed := primitives.NewSignedTransaction(primitives.Transaction{Version: primitives.TransactionV1, SignerID: "a.near", ReceiverID: "b.near",
		PublicKey: testKey, Actions: withDelegates(), NonceMode: primitives.NonceStrict,
		Nonce: primitives.TransactionNonce{Nonce: 1, Index: 2, HasIndex: true}}, primitives.ZeroED25519Signature)
	receipts := []*primitives.Receipt{
		{PredecessorID: "a.near", ReceiverID: "b.near", Body: &primitives.ActionReceipt{SignerID: "a.near", SignerPublicKey: testKey,
			OutputDataReceivers: []primitives.DataReceiver{{ReceiverID: "c.near"}}, InputDataIDs: []primitives.Hash{testHash},
			Actions: withDelegates(), RefundTo: "d.near", Yield: true}},
		{PredecessorID: "a.near", ReceiverID: "b.near", Body: &primitives.DataReceipt{}},
		{PredecessorID: "a.near", ReceiverID: "b.near", Body: &primitives.DataReceipt{Data: []byte{}, Resume: true}},
		{PredecessorID: "a.near", ReceiverID: "system", Body: &primitives.GlobalContractDistribution{V2: true,
			ID: primitives.GlobalContractID{Account: "b.near"}, AlreadyDelivered: []primitives.ShardID{1, 2}, Code: []byte("x")}},
	}
	final := FinalOutcome{Level: LevelFinal, Status: FinalStatus{Kind: FinalSuccessValue}, Transaction: signed, Outcome: outcome,
		Outcomes: []OutcomeProof{outcome}, Receipts: receipts}
	var changes []Change
	for kind := range DataChange + 1 {
		for _, deletion := range []bool{false, true} {
			changes = append(changes, Change{Cause: primitives.StateChangeCause{Kind: primitives.CauseKind(2 + kind)}, Kind: kind,
				Deletion: deletion, AccountID: "a.near", Handle: testKey.Handle(), AccessKey: primitives.AccessKey{GasKey: gasKey}})
		}
	}
	kickouts := []Kickout{}
	for kind := range KickoutProtocolVersionTooOld + 1 {
		kickouts = append(kickouts, Kickout{AccountID: "a.near", Kind: kind})
	}
	account := &primitives.Account{Contract: primitives.AccountContract{Kind: primitives.ContractGlobalAccount, Account: "b.near"}}
	layout, err := primitives.MultiShardLayout(4)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]byte{
		"block":       AppendBlock(nil, "a.near", &primitives.Block{Header: header, Body: primitives.BlockBody{Chunks: []*primitives.ChunkHeader{chunk, oldChunk}}}),
		"old header":  AppendBlockHeader(nil, old),
		"header V7":   AppendBlockHeader(nil, seventh.Init()),
		"chunk":       AppendChunk(nil, "a.near", &primitives.Chunk{Header: *chunk, ChunkBody: primitives.ChunkBody{Transactions: []*primitives.SignedTransaction{signed}, PrevOutgoingReceipts: receipts}}),
		"light block": AppendLightClientBlock(nil, &primitives.LightClientBlock{NextBPs: stakes, ApprovalsAfterNext: []primitives.Signature{""}}),
		"light proof": AppendLightClientProof(nil, &LightClientProof{Outcome: outcome, OutcomeRootProof: path, BlockProof: path}),
		"tx":          AppendFinalOutcome(nil, &final, false),
		"tx status":   AppendFinalOutcome(nil, &final, true),
		"level alone": AppendFinalOutcome(nil, &FinalOutcome{Level: LevelIncluded}, true),
		"account":     AppendQueryAccount(nil, account, &testAt),
		"key":         AppendQueryAccessKey(nil, &primitives.AccessKey{FunctionCall: limited, GasKey: gasKey}, &testAt),
		"keys":        AppendQueryAccessKeyList(nil, []KeyInfo{{Handle: testKey.Handle()}}, true, &testAt),
		"nonces":      AppendQueryGasKeyNonces(nil, []primitives.Nonce{1, 2}, &testAt),
		"state":       AppendQueryState(nil, &StatePage{Items: []StateItem{{[]byte("k"), []byte("v")}}, Proof: [][]byte{{1}}, LastKey: []byte("k")}, &testAt),
		"code":        AppendQueryCode(nil, []byte("x"), &testHash, &testAt),
		"call":        AppendQueryCall(nil, []byte{1, 2}, []string{"log"}, &testAt),
		"error":       AppendQueryError(nil, "text", nil, &testAt),
		"changes":     AppendChanges(nil, &testHash, changes),
		"effects":     AppendEffects(nil, &testHash, []Effect{{AccountChange, "a.near"}, {DataChange, "b.near"}}),
		"validators": AppendValidators(nil, &Validators{Current: []CurrentValidator{{PublicKey: testKey}}, Next: []NextValidator{{PublicKey: testKey}},
			Proposals: stakes, PrevKickouts: kickouts, PrevRewards: []Reward{{"a.near", near1}, {"b.near", near1}}}),
		"status":  AppendNodeStatus(nil, &Status{Validators: []primitives.AccountID{"a.near"}, NodePublicKey: testKey, RPCAddr: "x", Upgrade: &Upgrade{Height: 1, Version: 89}}, Sorted),
		"network": AppendNetworkInfo(nil, &NetworkInfo{ActivePeers: []Peer{{ID: testKey}}, KnownProducers: []KnownProducer{{PeerID: testKey}}}, Sorted),
		"config":  AppendProtocolConfig(nil, &ProtocolConfig{RuntimeConfig: raw("{}"), ShardLayout: layout}),
		"sorted":  AppendSorted(nil, []byte(` { "b" : [ {"z":1.50,"a":"é\n"} , null ] , "a" : 1e5 } `)),
	} {
		t.Run(name, func(t *testing.T) { checkAscending(t, got) })
	}
}

// raw is JSON that appends itself.
type raw string

func (r raw) AppendJSON(b []byte) []byte { return append(b, r...) }

func TestAppendSortedSortsKeys(t *testing.T) {
	t.Parallel()
	got := string(AppendSorted(nil, []byte(` { "b" : [ {"z":1.50,"a":"\u00e9"} , null ] , "a" : 18446744073709551616 } `)))
	if want := `{"a":18446744073709551616,"b":[{"a":"\u00e9","z":1.50},null]}`; got != want {
		t.Errorf("sorted = %s, want %s", got, want)
	}
}

func TestTimesHaveNeardsDigits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ns           uint64
		iso, genesis string
	}{
		{0, "1970-01-01T00:00:00.000000000Z", "1970-01-01T00:00:00Z"},
		{1795232329482108471, "2026-11-21T03:38:49.482108471Z", "2026-11-21T03:38:49.482108471Z"},
		{951_782_399_000_000_000, "2000-02-28T23:59:59.000000000Z", "2000-02-28T23:59:59Z"},
		{951_868_799_120_000_000, "2000-02-29T23:59:59.120000000Z", "2000-02-29T23:59:59.120Z"},
		{4_107_542_400_000_001_000, "2100-03-01T00:00:00.000001000Z", "2100-03-01T00:00:00.000001Z"},
		{1<<64 - 1, "2554-07-21T23:34:33.709551615Z", "2554-07-21T23:34:33.709551615Z"},
	} {
		if got := strings.Trim(string(AppendTime(nil, c.ns)), `"`); got != c.iso {
			t.Errorf("time %d = %s, want %s", c.ns, got, c.iso)
		}
		if got := strings.Trim(string(AppendGenesisTime(nil, c.ns)), `"`); got != c.genesis {
			t.Errorf("genesis time %d = %s, want %s", c.ns, got, c.genesis)
		}
	}
}

// TestInnerActionsAreRaw has the forms that differ between views and the actions inside delegate
// actions.
func TestInnerActionsAreRaw(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		action primitives.Action
		view   string
		raw    string
	}{
		{&primitives.CreateAccount{}, `"CreateAccount"`, `{"CreateAccount":{}}`},
		{&primitives.DeployContract{Code: []byte("code")}, `{"DeployContract":{"code":"VpTQii5T/8rgwxA+Wtb2B2q9lg6x+KVldwQLwQKPcCs="}}`, `{"DeployContract":{"code":"Y29kZQ=="}}`},
		{&primitives.UseGlobalContract{ID: primitives.GlobalContractID{Account: "b.near"}}, `{"UseGlobalContractByAccountId":{"account_id":"b.near"}}`,
			`{"UseGlobalContract":{"contract_identifier":{"account_id":"b.near"}}}`},
	} {
		got := string(AppendAction(nil, c.action))
		if c.view != got {
			t.Errorf("view = %s, want %s", got, c.view)
		}
		if got := string(sortedOrder.rawAction(nil, &c.action)); got != c.raw {
			t.Errorf("raw = %s, want %s", got, c.raw)
		}
	}
}
