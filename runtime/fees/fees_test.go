package fees

import (
	"errors"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

var june86 = parameters.MustGet(parameters.June(86))

// Keys of the three schemes; only their lengths matter here.
var (
	edKey   = primitives.ZeroED25519Key
	secpKey = primitives.PublicKey("\x01" + strings.Repeat("k", 64))
	pqKey   = primitives.PublicKey("\x02" + strings.Repeat("k", 1952))
)

const (
	alice       primitives.AccountID = "alice.near"
	bob         primitives.AccountID = "bob.near"
	nearImplied primitives.AccountID = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	ethImplied  primitives.AccountID = "0x00112233445566778899aabbccddeeff00112233"
	determined  primitives.AccountID = "0s00112233445566778899aabbccddeeff00112233"
)

func transferOf(n uint64) *primitives.Transfer {
	return &primitives.Transfer{Deposit: primitives.Yocto(n)}
}

func gasKeyAction(nonces uint16, perm *primitives.FunctionCallPermission, key primitives.PublicKey) *primitives.AddKey {
	return &primitives.AddKey{PublicKey: key, AccessKey: primitives.AccessKey{
		FunctionCall: perm, GasKey: &primitives.GasKeyInfo{NumNonces: nonces},
	}}
}

// TestActionFeesMatchTable checks the fees of each action against a table written out here a second
// time.
func TestActionFeesMatchTable(t *testing.T) {
	t.Parallel()
	const create, fullKey = 500_000_000_000, 101_765_125_000
	perm := &primitives.FunctionCallPermission{ReceiverID: "c", MethodNames: []string{"ab", "cde"}} // 7 bytes with ends
	init := primitives.StateInit{Data: []primitives.StateEntry{{Key: []byte("k"), Value: []byte("vw")}, {Key: []byte("l")}}}
	tests := []struct {
		name             string
		a                primitives.Action
		to               primitives.AccountID
		self, other, run primitives.Gas
		compute          parameters.Compute // of run; 0: as gas
	}{
		{"create", &primitives.CreateAccount{}, bob, create, create, 7_200_000_000_000, 0},
		{"deploy", &primitives.DeployContract{Code: make([]byte, 10)}, bob,
			184_765_750_000 + 10*6_812_999, 184_765_750_000 + 10*47_683_715, 184_765_750_000 + 10*64_572_944,
			20_000_000_000_000 + 10*250_000_000},
		{"call", &primitives.FunctionCall{Method: "abc", Args: make([]byte, 4), Gas: 5}, bob,
			200_000_000_000 + 7*2_235_934, 200_000_000_000 + 7*47_683_715, 780_000_000_000 + 7*2_235_934, 0},
		{"transfer", transferOf(1), bob, 115_123_062_500, 115_123_062_500, 115_123_062_500, 0},
		{"transfer near", transferOf(1), nearImplied,
			115_123_062_500 + create + fullKey, 115_123_062_500 + create + fullKey, 115_123_062_500 + 7_200_000_000_000 + fullKey, 0},
		{"transfer eth", transferOf(1), ethImplied,
			115_123_062_500 + create, 115_123_062_500 + create, 115_123_062_500 + 7_200_000_000_000, 0},
		{"transfer 0s", transferOf(1), determined,
			115_123_062_500 + create, 115_123_062_500 + create, 115_123_062_500 + 7_200_000_000_000, 0},
		{"stake", &primitives.Stake{PublicKey: edKey}, bob, 141_715_687_500, 141_715_687_500, 102_217_625_000, 0},
		{"full key", &primitives.AddKey{PublicKey: edKey}, bob, fullKey, fullKey, fullKey, 0},
		{"call key", &primitives.AddKey{PublicKey: edKey, AccessKey: primitives.AccessKey{FunctionCall: perm}}, bob,
			102_217_625_000 + 7*1_925_331, 102_217_625_000 + 7*47_683_715, 102_217_625_000 + 7*1_925_331, 0},
		{"gas key", gasKeyAction(3, nil, edKey), bob,
			fullKey + 18*59_357_464, fullKey + 18*59_357_464, fullKey + 3*(64_196_736_000+(8+2+33+2+8)*101_435_400), 0},
		{"pq gas key", gasKeyAction(1, nil, pqKey), bob,
			fullKey + 18*59_357_464, fullKey + 18*59_357_464, fullKey + 64_196_736_000 + (8+2+33+2+8)*101_435_400, 0},
		{"call gas key", gasKeyAction(2, perm, secpKey), bob,
			102_217_625_000 + 7*1_925_331 + 18*59_357_464, 102_217_625_000 + 7*47_683_715 + 18*59_357_464,
			102_217_625_000 + 7*1_925_331 + 2*(64_196_736_000+(8+2+65+2+8)*101_435_400), 0},
		{"delete key", &primitives.DeleteKey{PublicKey: edKey}, bob, 94_946_625_000, 94_946_625_000, 94_946_625_000, 0},
		{"delete account", &primitives.DeleteAccount{Beneficiary: bob}, bob, 147_489_000_000, 147_489_000_000, 147_489_000_000, 0},
		{"global deploy", &primitives.DeployGlobalContract{Code: make([]byte, 10)}, bob,
			184_765_750_000 + 10*6_812_999, 184_765_750_000 + 10*47_683_715, 184_765_750_000 + 10*70_000_000, 0},
		{"use by hash", &primitives.UseGlobalContract{}, bob,
			184_765_750_000 + 32*6_812_999, 184_765_750_000 + 32*47_683_715, 184_765_750_000 + 32*64_572_944, 0},
		{"use by name", &primitives.UseGlobalContract{ID: primitives.GlobalContractID{Account: alice}}, bob,
			184_765_750_000 + 10*6_812_999, 184_765_750_000 + 10*47_683_715, 184_765_750_000 + 10*64_572_944, 0},
		{"state init", &primitives.DeterministicStateInit{Init: init}, determined,
			500_000_000_000 + 4*72_000_000, 500_000_000_000 + 4*72_000_000,
			7_430_000_000_000 + 2*200_000_000_000 + 4*70_000_000, 0},
		{"to gas key", &primitives.TransferToGasKey{PublicKey: edKey}, bob,
			115_123_062_500 + 33*59_357_464, 115_123_062_500 + 33*59_357_464, 235_676_644_250 + (8+2+33+27)*101_435_400, 0},
		{"from pq gas key", &primitives.WithdrawFromGasKey{PublicKey: pqKey}, bob,
			115_123_062_500 + 33*59_357_464, 115_123_062_500 + 33*59_357_464, 235_676_644_250 + (8+2+33+27)*101_435_400, 0},
		{"delegate", &primitives.Delegate{Action: primitives.DelegateAction{SenderID: bob, ReceiverID: nearImplied,
			Actions: []primitives.Action{transferOf(1)}, PublicKey: edKey}}, bob,
			200_000_000_000 + 115_123_062_500 + create + fullKey, 200_000_000_000 + 115_123_062_500 + create + fullKey,
			200_000_000_000, 0},
		{"delegate v2", &primitives.DelegateV2{Action: primitives.DelegateActionV2{SenderID: bob, ReceiverID: alice,
			Actions: []primitives.Action{&primitives.DeployContract{Code: make([]byte, 2)}}, PublicKey: edKey}}, bob,
			200_000_000_000 + 184_765_750_000 + 2*6_812_999, 200_000_000_000 + 184_765_750_000 + 2*47_683_715, 200_000_000_000, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			self, err1 := Send(june86, true, tt.a, tt.to)
			other, err2 := Send(june86, false, tt.a, tt.to)
			run, err3 := Exec(june86, tt.a, tt.to)
			if err := errors.Join(err1, err2, err3); err != nil {
				t.Fatal(err)
			}
			want := parameters.GasCost(tt.run)
			if tt.compute != 0 {
				want.Compute = tt.compute
			}
			if self != parameters.GasCost(tt.self) || other != parameters.GasCost(tt.other) || run != want {
				t.Errorf("self %v, other %v, exec %v, want %v, %v, %v", self, other, run, tt.self, tt.other, want)
			}
		})
	}
}

func TestEthImplicitTransferIsPlainWithoutRule(t *testing.T) {
	t.Parallel()
	c := *june86
	c.Wasm.EthImplicitAccounts = false
	if got, err := Exec(&c, transferOf(1), ethImplied); got != parameters.GasCost(115_123_062_500) || err != nil {
		t.Errorf("Exec = %v, %v, want a plain transfer", got, err)
	}
}

// delegateOf returns a delegate action of version 1 or 2 with the given inner key, from bob to alice.
func delegateOf(version int, key primitives.PublicKey, actions ...primitives.Action) primitives.Action {
	if version == 1 {
		return &primitives.Delegate{Action: primitives.DelegateAction{SenderID: bob, ReceiverID: alice, Actions: actions, PublicKey: key}}
	}
	return &primitives.DelegateV2{Action: primitives.DelegateActionV2{SenderID: bob, ReceiverID: alice, Actions: actions, PublicKey: key}}
}

func TestTotalsIncludeDelegatedActions(t *testing.T) {
	t.Parallel()
	actions := []primitives.Action{
		&primitives.FunctionCall{Method: "m", Gas: 1000, Deposit: primitives.Yocto(5)},
		transferOf(7),
		delegateOf(1, edKey, &primitives.FunctionCall{Gas: 30, Deposit: primitives.Yocto(11)}, transferOf(13)),
		delegateOf(2, edKey, &primitives.TransferToGasKey{PublicKey: edKey, Deposit: primitives.Yocto(17)}),
		&primitives.DeterministicStateInit{Deposit: primitives.Yocto(19)},
		// Takes nothing from the sender.
		&primitives.WithdrawFromGasKey{PublicKey: edKey, Amount: primitives.Yocto(1000)},
	}
	if got, err := TotalDeposit(actions); got != primitives.Yocto(72) || err != nil {
		t.Errorf("TotalDeposit = %v, %v, want 72", got, err)
	}
	if got, err := PrepaidGas(actions); got != 1030 || err != nil {
		t.Errorf("PrepaidGas = %v, %v, want 1030", got, err)
	}
	toGasKeySend := primitives.Gas(115_123_062_500 + 33*59_357_464)
	if got, err := PrepaidSend(june86, actions); got != parameters.GasCost(200_000_000_000+115_123_062_500+toGasKeySend) || err != nil {
		t.Errorf("PrepaidSend = %v, %v", got, err)
	}
	want := primitives.Gas(780_000_000_000 + 2_235_934 + // call
		115_123_062_500 + // transfer
		200_000_000_000 + 780_000_000_000 + 115_123_062_500 + 108_059_500_000 + // delegate
		200_000_000_000 + 235_676_644_250 + (10+2+33+27)*101_435_400 + 108_059_500_000 + // delegate 2, towards alice
		7_430_000_000_000 + // state init
		235_676_644_250 + (8+2+33+27)*101_435_400) // withdrawal at bob
	got, err := PrepaidExec(june86, actions, bob)
	if got != parameters.GasCost(want) || err != nil {
		t.Errorf("PrepaidExec = %v, %v, want %d", got, err, want)
	}
	receipt := &primitives.Receipt{ReceiverID: bob, Body: &primitives.ActionReceipt{Actions: actions}}
	weight, err := ReceiptGas(june86, receipt)
	if all := want + 108_059_500_000 + 200_000_000_000 + 115_123_062_500 + toGasKeySend + 1030; weight != all || err != nil {
		t.Errorf("ReceiptGas = %d, %v, want %d", weight, err, all)
	}
}

func TestReceiptGasOfOtherKindsIsZero(t *testing.T) {
	t.Parallel()
	for _, body := range []primitives.ReceiptBody{
		&primitives.DataReceipt{}, &primitives.DataReceipt{Resume: true}, &primitives.GlobalContractDistribution{},
		&primitives.ActionReceipt{Yield: true, Actions: []primitives.Action{&primitives.FunctionCall{Gas: 1}}},
	} {
		if got, err := ReceiptGas(june86, &primitives.Receipt{ReceiverID: bob, Body: body}); got != 0 || err != nil {
			t.Errorf("ReceiptGas of %T = %d, %v, want 0", body, got, err)
		}
	}
}

func costOf(t *testing.T, c *parameters.RuntimeConfig, signer primitives.PublicKey, actions ...primitives.Action) TransactionCost {
	t.Helper()
	cost, err := TxCost(c, &primitives.Transaction{
		SignerID: alice, PublicKey: signer, ReceiverID: bob, Actions: actions,
	}, primitives.Yocto(1))
	if err != nil {
		t.Fatal(err)
	}
	return cost
}

// TestMLDSAVerificationIsChargedVectorA72: nearcore runtime/runtime/src/config.rs:672-783, with the
// fee of 85.
func TestMLDSAVerificationIsChargedVectorA72(t *testing.T) {
	t.Parallel()
	const verify = 100_000_000_000
	ed, pq := costOf(t, june86, edKey, transferOf(1)), costOf(t, june86, pqKey, transferOf(1))
	if pq.GasBurnt != ed.GasBurnt+verify || pq.ComputeBurnt != ed.ComputeBurnt+verify || pq.GasRemaining != ed.GasRemaining {
		t.Errorf("outer ML-DSA: %+v, want 100 Ggas more burnt than %+v and the same remaining", pq, ed)
	}
	if !ed.GasCost.Less(pq.GasCost) || !ed.TotalCost.Less(pq.TotalCost) {
		t.Errorf("outer ML-DSA pays %v, %v, want more than %v, %v", pq.GasCost, pq.TotalCost, ed.GasCost, ed.TotalCost)
	}
	if secp := costOf(t, june86, secpKey, transferOf(1)); secp != ed {
		t.Errorf("secp256k1 costs %+v, want as ed25519 %+v", secp, ed)
	}
	for version := 1; version <= 2; version++ {
		plain := costOf(t, june86, edKey, delegateOf(version, edKey, transferOf(1)))
		inner := costOf(t, june86, edKey, delegateOf(version, pqKey, transferOf(1)))
		both := costOf(t, june86, pqKey, delegateOf(version, pqKey, transferOf(1)))
		if inner.GasBurnt != plain.GasBurnt+verify || both.GasBurnt != plain.GasBurnt+2*verify {
			t.Errorf("delegate v%d: %d, inner %d, both %d gas burnt", version, plain.GasBurnt, inner.GasBurnt, both.GasBurnt)
		}
		if plain.DepositCost != primitives.Yocto(1) {
			t.Errorf("delegate v%d: deposit %v, want the inner 1", version, plain.DepositCost)
		}
	}
	c := *june86 // compute may differ from gas (NEP-455)
	c.Fees.SignatureVerification[primitives.MLDSA65].Compute = 3 * verify
	if alt := costOf(t, &c, pqKey, transferOf(1)); alt.ComputeBurnt != ed.ComputeBurnt+3*verify || alt.TotalCost != pq.TotalCost {
		t.Errorf("with its own compute: %+v", alt)
	}
	c.Fees.SignatureVerification[primitives.MLDSA65] = parameters.Cost{}
	if free := costOf(t, &c, pqKey, transferOf(1)); free != ed {
		t.Errorf("without the charge ML-DSA costs %+v, want %+v", free, ed)
	}
}

// TestCostComponentsOfWorkedExample checks the components of the costs of two transactions at the
// price 10^8.
func TestCostComponentsOfWorkedExample(t *testing.T) {
	t.Parallel()
	price := primitives.Yocto(100_000_000)
	b := primitives.MustParseBalance
	tests := []struct {
		name                  string
		actions               []primitives.Action
		creates               bool
		txGas, receiptGas     primitives.Gas
		txBurnt, total        string // total without the deposit
		refund, charge, burnt string
	}{
		{"transfer", []primitives.Action{transferOf(1)}, false, 223_182_562_500, 223_182_562_500,
			"22318256250000000000", "245500818750000000000", "200864306250000000000", "0", "22318256250000000000"},
		{"create", []primitives.Action{&primitives.CreateAccount{}, transferOf(1), &primitives.AddKey{PublicKey: edKey}}, true,
			824_947_687_500, 7_524_947_687_500,
			"82494768750000000000", "7607442456250000000000", "492452918750000000000", "6280000000000000000000", "7032494768750000000000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tx := &primitives.Transaction{SignerID: alice, PublicKey: edKey, ReceiverID: bob, Actions: tt.actions}
			cost, err := TxCost(june86, tx, price)
			if err != nil {
				t.Fatal(err)
			}
			if cost.GasBurnt != tt.txGas || cost.GasRemaining != tt.receiptGas || cost.BurntAmount != b(tt.txBurnt) ||
				cost.GasCost != b(tt.total) || cost.ReceiptGasPrice != primitives.Yocto(1_000_000_000) || cost.DepositCost != primitives.Yocto(1) {
				t.Errorf("TxCost = %+v", cost)
			}
			receipt := &primitives.Receipt{PredecessorID: alice, ReceiverID: bob, Body: &primitives.ActionReceipt{
				SignerID: alice, GasPrice: cost.ReceiptGasPrice, Actions: tt.actions,
			}}
			done := Executed{GasUsed: tt.receiptGas, GasBurnt: tt.receiptGas, CreatedAccount: tt.creates}
			got, err := Settle(june86, receipt, price, done)
			want := Settlement{BurnPrice: price, GasRefund: b(tt.refund), CreationCharge: b(tt.charge), TokensBurnt: b(tt.burnt)}
			if got != want || err != nil {
				t.Errorf("Settle = %+v, %v, want %+v", got, err, want)
			}
			// The amount paid for gas is burnt or refunded.
			back, _ := got.GasRefund.Add(got.TokensBurnt)
			paid, _ := cost.ReceiptGasPrice.MulGas(cost.GasRemaining)
			if back != paid {
				t.Errorf("refund and burnt tokens = %v, want the %v paid", back, paid)
			}
		})
	}
}

func TestSettleRefundsAndBurnsByPrice(t *testing.T) {
	t.Parallel()
	call := &primitives.FunctionCall{Method: "m", Gas: 1000, Deposit: primitives.Yocto(9)}
	came := primitives.Gas(1000 + 108_059_500_000 + 780_000_000_000 + 2_235_934)
	receipt := func(from primitives.AccountID, gasPrice uint64) *primitives.Receipt {
		return &primitives.Receipt{PredecessorID: from, ReceiverID: bob, Body: &primitives.ActionReceipt{
			GasPrice: primitives.Yocto(gasPrice), Actions: []primitives.Action{call},
		}}
	}
	y := primitives.Yocto
	tests := []struct {
		name string
		r    *primitives.Receipt
		now  uint64
		x    Executed
		want Settlement
	}{
		{"price fell", receipt(alice, 10), 4, Executed{GasUsed: came - 100, GasBurnt: came - 400},
			Settlement{BurnPrice: y(4), GasRefund: y(100*10 + 6*uint64(came-400)), TokensBurnt: y(4 * uint64(came-400))}},
		{"price rose", receipt(alice, 10), 40, Executed{GasUsed: came - 100, GasBurnt: came - 400},
			Settlement{BurnPrice: y(10), GasRefund: y(1000), TokensBurnt: y(10 * uint64(came-400))}},
		{"failed", receipt(alice, 10), 10, Executed{GasUsed: came, GasBurnt: came - 400, Failed: true, CreatedAccount: true},
			Settlement{BurnPrice: y(10), GasRefund: y(4000), DepositRefund: y(9), TokensBurnt: y(10 * uint64(came-400))}},
		{"nothing left", receipt(alice, 10), 10, Executed{GasUsed: came, GasBurnt: came}, Settlement{BurnPrice: y(10), TokensBurnt: y(10 * uint64(came))}},
		{"refund", receipt("system", 0), 10, Executed{GasUsed: came, GasBurnt: came}, Settlement{}},
		{"failed refund", receipt("system", 0), 10, Executed{GasUsed: came, GasBurnt: came, Failed: true}, Settlement{OtherBurnt: y(9)}},
		{"charge limited by surplus", receipt(alice, 10), 4, Executed{GasUsed: came, GasBurnt: came, CreatedAccount: true},
			Settlement{BurnPrice: y(4), CreationCharge: y(6 * uint64(came)), TokensBurnt: y(10 * uint64(came))}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := Settle(june86, tt.r, y(tt.now), tt.x); got != tt.want || err != nil {
				t.Errorf("Settle = %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
	if _, err := Settle(june86, receipt(alice, 10), y(1), Executed{GasUsed: came + 1}); !errors.Is(err, ErrOverflow) {
		t.Errorf("more gas used than there was: %v, want %v", err, ErrOverflow)
	}
	if _, err := Settle(june86, &primitives.Receipt{Body: &primitives.DataReceipt{}}, y(1), Executed{}); err == nil {
		t.Error("a data receipt was settled")
	}
}

func TestRefundPenaltyIsShareWithMinimum(t *testing.T) {
	t.Parallel()
	f := june86.Fees
	if got := refundPenalty(&f, 1e15); got != 0 {
		t.Errorf("penalty at 86 = %d, want 0", got)
	}
	f.GasRefundPenalty, f.MinGasRefundPenalty = parameters.Ratio{Num: 5, Den: 100}, 1000
	for _, tt := range []struct{ gross, want primitives.Gas }{
		{0, 0}, {999, 999}, {1001, 1000}, {20_000, 1000}, {40_000, 2000}, {^primitives.Gas(0), ^primitives.Gas(0) / 20},
	} {
		if got := refundPenalty(&f, tt.gross); got != tt.want {
			t.Errorf("penalty of %d = %d, want %d", tt.gross, got, tt.want)
		}
	}
}

func TestRewardIsRoundedDown(t *testing.T) {
	t.Parallel()
	if got, err := Reward(june86, 11, primitives.Yocto(100)); got != primitives.Yocto(300) || err != nil {
		t.Errorf("Reward = %v, %v, want floor(3.3) times 100", got, err)
	}
	if _, err := Reward(june86, 1<<63, primitives.Yocto(1)); !errors.Is(err, ErrOverflow) {
		t.Errorf("Reward of 2^63 gas: %v, want %v", err, ErrOverflow)
	}
	if got := GlobalDeployBurn(june86, 3); got != primitives.MustParseBalance("300000000000000000000") {
		t.Errorf("GlobalDeployBurn = %v", got)
	}
	if got, err := DistributionCompute(june86, 2); got != 20_000_500_000_000 || err != nil {
		t.Errorf("DistributionCompute = %d, %v", got, err)
	}
	if got, err := NonceRowsRemoval(june86, 2, 2*53); got != 400_000_000_000+38_220_384*106+11_531_556*16 || err != nil {
		t.Errorf("NonceRowsRemoval = %d, %v", got, err)
	}
}

func TestFeeOverflowIsAnError(t *testing.T) {
	t.Parallel()
	huge := *june86
	for i := range huge.Fees.Action {
		huge.Fees.Action[i] = parameters.Fee{
			SendSIR: parameters.GasCost(1 << 63), SendNotSIR: parameters.GasCost(1 << 63), Exec: parameters.GasCost(1 << 63),
		}
	}
	big := &primitives.FunctionCall{Gas: 1 << 63, Deposit: primitives.MaxBalance}
	perm := &primitives.FunctionCallPermission{MethodNames: []string{"m"}}
	actions := []primitives.Action{
		&primitives.FunctionCall{Method: "mm"}, &primitives.DeployContract{Code: make([]byte, 2)},
		&primitives.DeployGlobalContract{Code: make([]byte, 2)}, &primitives.UseGlobalContract{},
		&primitives.DeterministicStateInit{Init: primitives.StateInit{Data: []primitives.StateEntry{{Key: []byte("kk")}, {}}}},
		&primitives.AddKey{PublicKey: edKey, AccessKey: primitives.AccessKey{FunctionCall: perm}}, gasKeyAction(2, nil, edKey),
		&primitives.TransferToGasKey{PublicKey: edKey}, delegateOf(1, edKey, transferOf(1)), delegateOf(2, edKey, transferOf(1)),
	}
	for _, a := range actions {
		if _, err := Send(&huge, true, a, bob); !errors.Is(err, ErrOverflow) {
			t.Errorf("Send of %T: %v, want %v", a, err, ErrOverflow)
		}
		if _, err := PrepaidExec(&huge, []primitives.Action{a}, bob); !errors.Is(err, ErrOverflow) {
			t.Errorf("PrepaidExec of %T: %v, want %v", a, err, ErrOverflow)
		}
	}
	if _, err := Exec(&huge, transferOf(1), nearImplied); !errors.Is(err, ErrOverflow) {
		t.Errorf("Exec of an implicit transfer: %v, want %v", err, ErrOverflow)
	}
	pair := []primitives.Action{big, big}
	if _, err := PrepaidGas([]primitives.Action{delegateOf(1, edKey, pair...)}); !errors.Is(err, ErrOverflow) {
		t.Errorf("PrepaidGas: %v, want %v", err, ErrOverflow)
	}
	if _, err := TotalDeposit([]primitives.Action{delegateOf(2, edKey, pair...)}); !errors.Is(err, ErrOverflow) {
		t.Errorf("TotalDeposit: %v, want %v", err, ErrOverflow)
	}
	for _, tt := range []struct {
		actions []primitives.Action
		price   primitives.Balance
	}{
		{pair, primitives.Yocto(1)},
		{[]primitives.Action{transferOf(1), &primitives.Transfer{Deposit: primitives.MaxBalance}}, primitives.Yocto(1)},
		{[]primitives.Action{&primitives.Transfer{Deposit: primitives.MaxBalance}}, primitives.Yocto(1)},
		{[]primitives.Action{transferOf(1)}, primitives.MaxBalance},
	} {
		tx := &primitives.Transaction{SignerID: alice, PublicKey: edKey, ReceiverID: bob, Actions: tt.actions}
		if _, err := TxCost(june86, tx, tt.price); !errors.Is(err, ErrOverflow) {
			t.Errorf("TxCost at %v: %v, want %v", tt.price, err, ErrOverflow)
		}
	}
}

func BenchmarkTxCost(b *testing.B) {
	for _, bench := range []struct {
		name    string
		actions []primitives.Action
	}{
		{"transfer", []primitives.Action{transferOf(1)}},
		{"call", []primitives.Action{&primitives.FunctionCall{Method: "method", Args: make([]byte, 200), Gas: 1e13}}},
		{"delegate", []primitives.Action{delegateOf(1, edKey, transferOf(1))}},
	} {
		tx := &primitives.Transaction{SignerID: alice, PublicKey: edKey, ReceiverID: bob, Actions: bench.actions}
		price := primitives.Yocto(100_000_000)
		b.Run("actions="+bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := TxCost(june86, tx, price); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkExec(b *testing.B) {
	b.ReportAllocs()
	a := transferOf(1)
	for b.Loop() {
		if _, err := Exec(june86, a, bob); err != nil {
			b.Fatal(err)
		}
	}
}
