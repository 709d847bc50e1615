package apply

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/congestion"
	"github.com/troupe-chain/troupe/runtime/fees"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// The tests of this file have the numbers of nearcore's runtime/runtime/src/tests/apply.rs at
// f0c7706f1.

var smallTransfer = primitives.NEAR(10_000)

// bobsReceipts returns transfers of 10000 N + i yocto from bob to alice (apply.rs:477).
func bobsReceipts(n *net, count int) []*primitives.Receipt {
	out := make([]*primitives.Receipt, count)
	var id primitives.Hash
	for i := range out {
		id = primitives.HashBytes(id[:])
		out[i] = &primitives.Receipt{PredecessorID: bob, ReceiverID: alice, ID: id, Body: &primitives.ActionReceipt{
			SignerID: bob, SignerPublicKey: primitives.ZeroED25519Key, GasPrice: n.price,
			Actions: []primitives.Action{transfer(smallTransfer.SaturatingAdd(primitives.Yocto(uint64(i))))},
		}}
	}
	return out
}

// give adds incoming receipts to the next chunk of the only shard.
func (n *net) give(receipts ...*primitives.Receipt) {
	n.shards[0].incoming[0] = append(n.shards[0].incoming[0], receipts...)
}

// aliceHas checks alice's balance once i receipts have arrived.
func aliceHas(t *testing.T, n *net, i uint64) {
	t.Helper()
	want, _ := smallTransfer.Mul64(i)
	want = want.SaturatingAdd(primitives.NEAR(1000)).SaturatingAdd(primitives.Yocto(i * (i - min(i, 1)) / 2))
	if got := n.account(alice).Amount; got != want {
		t.Fatalf("after %d receipts alice has %v, want %v", i, got, want)
	}
}

// transferGas is the gas that the execution of a transfer burns.
func transferGas(c *parameters.RuntimeConfig) primitives.Gas {
	return c.Fees.Fee(parameters.ActionNewActionReceipt).Exec.Gas + c.Fees.Fee(parameters.ActionTransfer).Exec.Gas
}

// TestGasLimitOfOneRunsOneReceiptPerChunk checks that with a limit of 1 gas each chunk runs one
// receipt (apply.rs:250, 296), and that the delayed receipts are counted in the congestion info
// (2702).
func TestGasLimitOfOneRunsOneReceiptPerChunk(t *testing.T) {
	t.Parallel()
	const count = 10
	for _, refunds := range []bool{false, true} {
		n := newPair(t)
		n.limit = 1
		receipts := bobsReceipts(n, count)
		if refunds {
			for i, r := range receipts {
				r.PredecessorID = primitives.SystemAccount
				b := r.Body.(*primitives.ActionReceipt)
				b.SignerID, b.GasPrice = alice, primitives.Balance{}
				receipts[i] = r
			}
		}
		n.give(receipts...)
		gas, err := fees.ReceiptGas(n.cfg, receipts[0])
		if err != nil {
			t.Fatal(err)
		}
		size := uint64(len(receipts[0].AppendBorsh(nil)))
		for i := uint64(1); i <= count+3; i++ {
			r := n.step()[0]
			aliceHas(t, n, min(i, count))
			waiting := count - min(i, count)
			if r.Stats.DelayedLen != waiting || r.Congestion.DelayedReceiptsGas != primitives.Yocto(waiting*uint64(gas)) {
				t.Errorf("chunk %d: %d delayed, gas %v, want %d and %d", i, r.Stats.DelayedLen, r.Congestion.DelayedReceiptsGas, waiting, waiting*uint64(gas))
			}
			if r.Congestion.ReceiptBytes > waiting*(size+19) || r.Congestion.ReceiptBytes < waiting*size {
				t.Errorf("chunk %d: %d bytes wait in %d receipts of %d", i, r.Congestion.ReceiptBytes, waiting, size)
			}
			if waiting == 0 && (r.Congestion.ReceiptBytes != 0 || r.GasUsed != 0 && i > count) {
				t.Errorf("chunk %d: %d bytes and %d gas with an empty queue", i, r.Congestion.ReceiptBytes, r.GasUsed)
			}
		}
	}
}

// TestFourthReceiptIsDelayedAtLimitOfThree checks the queue when four receipts arrive and three run
// in each chunk (apply.rs:343).
func TestFourthReceiptIsDelayedAtLimitOfThree(t *testing.T) {
	t.Parallel()
	const count = 40
	n := newPair(t)
	n.limit = 3 * transferGas(n.cfg)
	receipts := bobsReceipts(n, count)
	for i := uint64(1); i <= count/3+3; i++ {
		if len(receipts) > 0 {
			n.give(receipts[:4]...)
			receipts = receipts[4:]
		}
		n.step()
		aliceHas(t, n, min(i*3, count))
	}
}

// TestGasLimitFollowsDelayedQueueLength changes the gas limit with the length of the queue
// (apply.rs:399).
func TestGasLimitFollowsDelayedQueueLength(t *testing.T) {
	t.Parallel()
	const count = 120
	n := newPair(t)
	receipts := bobsReceipts(n, count)
	given, done, each := uint64(0), uint64(0), uint64(1)
	for done < count {
		if given > done {
			each++
		} else if each > 1 {
			each--
		}
		n.limit = transferGas(n.cfg) * primitives.Gas(each)
		if len(receipts) > 0 {
			n.give(receipts[:4]...)
			receipts, given = receipts[4:], given+4
		}
		r := n.step()[0]
		done += uint64(len(r.Outcomes))
		aliceHas(t, n, done)
		if r.Stats.DelayedLen != given-done {
			t.Errorf("%d delayed, want %d", r.Stats.DelayedLen, given-done)
		}
	}
}

// freeConfig charges nothing but 1000 gas for running a receipt (RuntimeConfig::free with one fee).
func freeConfig() *parameters.RuntimeConfig {
	c := *parameters.MustGet(parameters.June(86))
	c.Fees.Action = [parameters.NumActionCosts]parameters.Fee{}
	// Without this there would be refunds.
	c.Fees.StorageAmountPerByte, c.MinGasPurchasePrice = primitives.Balance{}, primitives.Balance{}
	c.Fees.Action[parameters.ActionNewActionReceipt].Exec = parameters.Cost{Gas: 1000, Compute: 1000}
	return &c
}

// TestLocalReceiptsRunBeforeDelayedOnes checks that local receipts run before delayed ones, and
// delayed before incoming ones (apply.rs:568).
func TestLocalReceiptsRunBeforeDelayedOnes(t *testing.T) {
	t.Parallel()
	n := newPair(t)
	n.cfg, n.limit = freeConfig(), 3000
	receipts := bobsReceipts(n, 6)
	txs := make([]*primitives.SignedTransaction, 9)
	for i := range txs {
		txs[i] = n.tx(alice, alice, transfer(primitives.NEAR(1)))
	}
	made := map[int]primitives.Hash{} // receipt ids of transactions
	for i, s := range []struct {
		tx, in   [2]int
		outcomes []string
	}{
		{[2]int{0, 4}, [2]int{0, 2}, []string{"t0", "t1", "t2", "t3", "l0", "l1", "l2"}},
		{[2]int{4, 5}, [2]int{2, 3}, []string{"t4", "l4", "l3", "r0"}},
		{[2]int{5, 9}, [2]int{3, 4}, []string{"t5", "t6", "t7", "t8", "l5", "l6", "l7"}},
		{[2]int{}, [2]int{4, 5}, []string{"r1", "r2", "l8"}},
		{[2]int{}, [2]int{5, 6}, []string{"r3", "r4", "r5"}},
	} {
		n.give(receipts[s.in[0]:s.in[1]]...)
		got := n.step(txs[s.tx[0]:s.tx[1]]...)[0]
		for k := s.tx[0]; k < s.tx[1]; k++ {
			made[k] = primitives.ReceiptIDFromTransaction(txs[k].Hash(), n.height)
		}
		var want []primitives.Hash
		for _, o := range s.outcomes {
			k := int(o[1] - '0')
			switch o[0] {
			case 't':
				want = append(want, txs[k].Hash())
			case 'l':
				want = append(want, made[k])
			case 'r':
				want = append(want, receipts[k].ID)
			}
		}
		var ids []primitives.Hash
		for _, o := range got.Outcomes {
			ids = append(ids, o.ID)
		}
		if !slices.Equal(ids, want) {
			t.Fatalf("step %d: outcomes %v, want %v", i+1, ids, want)
		}
	}
	if got := n.shards[0].info; got.ReceiptBytes != 0 || !got.DelayedReceiptsGas.IsZero() {
		t.Errorf("congestion with an empty queue: %+v", got)
	}
}

// TestDelayedQueueMatchesListModel compares the delayed queue with a list. The same receipts must
// run in each chunk, in the same order, with random limits, in parallel and serially.
func TestDelayedQueueMatchesListModel(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 8))
	n := newPair(t)
	n.cfg = freeConfig()
	supply := bobsReceipts(n, 600)
	var queue []primitives.Hash // the model
	for range 150 {
		n.limit = primitives.Gas(rng.IntN(9)) * 700
		n.par = nil
		if rng.IntN(2) == 0 {
			n.par = serialPar
		}
		var txs []*primitives.SignedTransaction
		for range rng.IntN(5) {
			txs = append(txs, n.tx(alice, alice, transfer(primitives.Yocto(1))))
		}
		k := min(rng.IntN(6), len(supply))
		n.give(supply[:k]...)
		got := n.step(txs...)[0]

		var want []primitives.Hash
		gas, local := primitives.Gas(0), []primitives.Hash(nil)
		for _, tx := range txs {
			want = append(want, tx.Hash())
			local = append(local, primitives.ReceiptIDFromTransaction(tx.Hash(), n.height))
		}
		run := func(id primitives.Hash) { want, gas = append(want, id), gas+1000 }
		for _, id := range local {
			if gas < n.limit {
				run(id)
			} else {
				queue = append(queue, id)
			}
		}
		for len(queue) > 0 && gas < n.limit {
			run(queue[0])
			queue = queue[1:]
		}
		for _, r := range supply[:k] {
			if gas < n.limit {
				run(r.ID)
			} else {
				queue = append(queue, r.ID)
			}
		}
		supply = supply[k:]
		var ids []primitives.Hash
		for _, o := range got.Outcomes {
			ids = append(ids, o.ID)
		}
		if !slices.Equal(ids, want) {
			t.Fatalf("height %d, limit %d: outcomes %v, want %v", n.height, n.limit, ids, want)
		}
		if got.Stats.DelayedLen != uint64(len(queue)) || got.GasUsed != gas {
			t.Fatalf("height %d: %d delayed, %d gas, want %d and %d", n.height, got.Stats.DelayedLen, got.GasUsed, len(queue), gas)
		}
	}
}

// serialPar is a Par that runs the calls one after another, without goroutines.
func serialPar(n int, do func(int)) {
	for i := range n {
		do(i)
	}
}

// priced is a VM whose calls burn little gas and much compute.
type priced struct{ out func(*action.CallOutcome) }

func (v priced) Call(c *action.Call, _ *action.External) (action.CallOutcome, error) {
	o := c.Unchanged()
	v.out(&o)
	return o, nil
}

// removing is a VM whose calls remove a missing entry. A removal counts as 2000 bytes before
// anything is read.
type removing struct{}

func (removing) Call(c *action.Call, x *action.External) (action.CallOutcome, error) {
	_, _, err := x.Remove([]byte("absent"), func(uint32) error { return nil })
	return c.Unchanged(), err
}

// selfReceipt is a receipt from an account to itself (apply.rs create_receipt_with_actions).
func (n *net) selfReceipt(who primitives.AccountID, salt byte, actions ...primitives.Action) *primitives.Receipt {
	return &primitives.Receipt{PredecessorID: who, ReceiverID: who, ID: primitives.HashBytes([]byte{salt}), Body: &primitives.ActionReceipt{
		SignerID: who, SignerPublicKey: testKey(string(who)).PublicKey(), GasPrice: n.price, Actions: actions,
	}}
}

// TestChunkLimitCountsComputeNotGas: nearcore apply.rs:1300.
func TestChunkLimitCountsComputeNotGas(t *testing.T) {
	t.Parallel()
	const gas, compute = 1_000_000, 10_000_000_000_000
	n := newPair(t)
	n.cfg, n.limit = freeConfig(), compute // deploying has much compute of its own, too
	n.vm = priced{func(o *action.CallOutcome) { o.GasBurnt, o.GasUsed, o.Compute = gas, gas, compute }}
	deploy := n.selfReceipt(alice, 1, &primitives.DeployContract{Code: []byte("code")})
	call := func(salt byte) *primitives.Receipt {
		return n.selfReceipt(alice, salt, &primitives.FunctionCall{Method: "ext_sha256", Gas: gas})
	}
	n.give(deploy, call(2), call(3))
	r := n.step()[0]
	if len(r.Outcomes) != 2 || r.Outcomes[0].ID != deploy.ID || r.Outcomes[1].ID != call(2).ID || r.Stats.DelayedLen != 1 {
		t.Fatalf("%d outcomes, %d delayed, want two and one", len(r.Outcomes), r.Stats.DelayedLen)
	}
	if r.GasUsed >= compute {
		t.Errorf("the gas %d alone reaches the limit", r.GasUsed)
	}
	r = n.step()[0]
	if len(r.Outcomes) != 1 || r.Outcomes[0].ID != call(3).ID || r.Outcomes[0].ComputeUsage < compute || r.Outcomes[0].Status.Kind != primitives.StatusSuccessValue {
		t.Errorf("the second call did not run in the next chunk: %+v", r.Outcomes)
	}
	// A call with too little gas fails and counts only the gas that it burnt (apply.rs:1392).
	n.vm = priced{func(o *action.CallOutcome) {
		o.GasBurnt, o.GasUsed, o.Compute = 1, 1, 1
		o.Err = &primitives.FunctionCallError{Tag: primitives.CallExecution, Message: "Exceeded the prepaid gas."}
	}}
	n.give(n.selfReceipt(alice, 4, &primitives.FunctionCall{Method: "ext_sha256", Gas: 1}), call(5))
	if r = n.step()[0]; len(r.Outcomes) != 2 || r.Outcomes[0].Status.Kind != primitives.StatusFailure || r.Stats.DelayedLen != 0 {
		t.Errorf("after a failed call: %d outcomes, %d delayed, want two and none", len(r.Outcomes), r.Stats.DelayedLen)
	}
}

// TestSoftProofLimitDelaysNextCall checks that with a soft limit of 300 bytes of recorded state the
// first call runs and the second is delayed. Code is not part of the proof (apply.rs:1441).
func TestSoftProofLimitDelaysNextCall(t *testing.T) {
	t.Parallel()
	n := newPair(t)
	n.cfg = freeConfig()
	code := make([]byte, 5000)
	n.give(n.selfReceipt(alice, 1, &primitives.DeployContract{Code: code}), n.selfReceipt(bob, 2, &primitives.DeployContract{Code: code}))
	if r := n.step()[0]; len(r.Outcomes) != 2 || r.Stats.DelayedLen != 0 {
		t.Fatalf("%d outcomes, %d delayed, want two and none", len(r.Outcomes), r.Stats.DelayedLen)
	}
	limited := *n.cfg
	limited.Witness.MainStorageProofSizeSoftLimit = 300
	n.cfg = &limited
	n.vm = priced{func(*action.CallOutcome) {}}
	call := func(who primitives.AccountID, salt byte) *primitives.Receipt {
		return n.selfReceipt(who, salt, &primitives.FunctionCall{Method: "ext_sha256", Gas: 1})
	}
	n.give(call(alice, 3), call(bob, 4))
	r := n.step()[0]
	if len(r.Outcomes) != 1 || r.Outcomes[0].ID != call(alice, 3).ID || r.Stats.DelayedLen != 1 || !r.Stats.LimitedByProof || r.Stats.LimitedByGas {
		t.Errorf("%d outcomes, %d delayed, %+v, want one and one", len(r.Outcomes), r.Stats.DelayedLen, r.Stats)
	}
	if r.RecordedSize >= uint64(len(code)) {
		t.Errorf("the proof has %d bytes: the code is in it", r.RecordedSize)
	}
}

// TestProofLimitIgnoresReadsOfLaterReceipts checks that whether a receipt runs depends only on the
// reads of earlier receipts, not on the number of later ones, and that parallel and serial
// execution agree.
func TestProofLimitIgnoresReadsOfLaterReceipts(t *testing.T) {
	t.Parallel()
	accounts := make([]primitives.AccountID, 24)
	for i := range accounts {
		accounts[i] = primitives.AccountID("account" + string(rune('a'+i)) + ".near")
	}
	fresh := func(limit uint64, par Par) *net {
		n := newNet(t, primitives.SingleShardLayout(), accounts...)
		c := *freeConfig()
		c.Witness.MainStorageProofSizeSoftLimit = limit
		n.cfg, n.par, n.vm = &c, par, removing{}
		return n
	}
	receipts := make([]*primitives.Receipt, len(accounts))
	for i, id := range accounts {
		receipts[i] = fresh(0, nil).selfReceipt(id, byte(i), &primitives.FunctionCall{Method: "remove", Gas: 1})
		if i%2 == 0 {
			receipts[i] = fresh(0, nil).selfReceipt(id, byte(i), transfer(primitives.Yocto(1)))
		}
	}
	run := func(limit uint64, count int, par Par) int {
		n := fresh(1<<30, par)
		for i, id := range accounts {
			n.give(n.selfReceipt(id, byte(100+i), &primitives.DeployContract{Code: []byte("code")}))
		}
		n.step()
		c := *n.cfg
		c.Witness.MainStorageProofSizeSoftLimit = limit
		n.cfg = &c
		n.give(receipts[:count]...)
		return len(n.step()[0].Outcomes)
	}
	// least[k] is the lowest limit at which receipt k runs if it is the last one, found by trial.
	least := make([]uint64, len(receipts))
	for k := range receipts {
		lo, hi := uint64(0), uint64(1<<20)
		for lo < hi {
			if mid := (lo + hi) / 2; run(mid, k+1, nil) == k+1 {
				hi = mid
			} else {
				lo = mid + 1
			}
		}
		if least[k] = lo; k > 0 && least[k] < least[k-1] {
			t.Fatalf("receipt %d runs at a limit of %d, the one before it only at %d", k, least[k], least[k-1])
		}
	}
	if least[len(least)-1] < 22_000 {
		t.Errorf("11 removals and 24 accounts fit %d bytes, want 2000 a removal", least[len(least)-1])
	}
	for limit := uint64(0); limit < least[len(least)-1]+500; limit += 997 {
		want := 0
		for want < len(least) && least[want] <= limit {
			want++
		}
		for _, par := range []Par{nil, serialPar} {
			if got := run(limit, len(receipts), par); got != want {
				t.Errorf("limit %d, parallel %v: %d receipts ran, want %d", limit, par != nil, got, want)
			}
		}
	}
}

// TestGasIsBurntAtLowerPrice checks that gas is burnt at the lower of the receipt's and the block's
// price, and that the difference to the paid price is refunded (apply.rs:786, 830, with
// AccountCostIncrease).
func TestGasIsBurntAtLowerPrice(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		price   func(primitives.Balance) primitives.Balance
		burnAt  func(primitives.Balance) primitives.Balance
		refunds int
	}{
		"cheaper":   {func(p primitives.Balance) primitives.Balance { q, _ := p.DivMod64(10); return q }, func(p primitives.Balance) primitives.Balance { q, _ := p.DivMod64(10); return q }, 0},
		"the same":  {func(p primitives.Balance) primitives.Balance { return p }, func(p primitives.Balance) primitives.Balance { return p }, 0},
		"expensive": {func(p primitives.Balance) primitives.Balance { q, _ := p.Mul64(10); return q }, func(p primitives.Balance) primitives.Balance { return p }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			n := newPair(t)
			r := bobsReceipts(n, 1)
			r[0].Body.(*primitives.ActionReceipt).GasPrice = tt.price(n.price)
			n.give(r...)
			got := n.step()[0]
			want, _ := tt.burnAt(n.price).MulGas(transferGas(n.cfg))
			if got.BalanceBurnt != want || len(got.Outgoing) != tt.refunds {
				t.Errorf("burnt %v with %d refunds, want %v and %d", got.BalanceBurnt, len(got.Outgoing), want, tt.refunds)
			}
			if tt.refunds == 1 {
				paid, _ := tt.price(n.price).MulGas(transferGas(n.cfg))
				back, _ := paid.Sub(want)
				if a := got.Outgoing[0].Body.(*primitives.ActionReceipt).Actions[0].(*primitives.Transfer); a.Deposit != back {
					t.Errorf("%v is refunded, want %v", a.Deposit, back)
				}
			}
		})
	}
}

// TestReceiptsToCongestedShardAreBuffered checks that receipts to a congested shard are buffered,
// and forwarded when the congestion ends (apply.rs:2751).
func TestReceiptsToCongestedShardAreBuffered(t *testing.T) {
	t.Parallel()
	layout, err := primitives.NewShardLayoutV2([]primitives.AccountID{alice, bob}, []primitives.ShardID{0, 1, 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := newNet(t, layout, alice)
	n.limit = 1
	own, err := layout.Index(layout.ShardOf(alice))
	if err != nil {
		t.Fatal(err)
	}
	to, err := layout.Index(layout.ShardOf(bob))
	if err != nil || to == own {
		t.Fatalf("alice and bob are in one shard: %v", err)
	}
	full := primitives.CongestionInfo{DelayedReceiptsGas: primitives.Yocto(uint64(n.cfg.CongestionControl.MaxCongestionIncomingGas)), AllowedShard: uint16(layout.ShardOf(bob))}
	attached := n.cfg.Wasm.Limits.MaxTotalPrepaidGas
	const count = 10
	key := testKey(string(alice))
	var receipts []*primitives.Receipt
	for i := range byte(count) {
		d := primitives.DelegateAction{SenderID: alice, ReceiverID: bob, Nonce: primitives.Nonce(2 + uint64(i)), MaxBlockHeight: 10000, PublicKey: key.PublicKey(),
			Actions: []primitives.Action{&primitives.FunctionCall{Method: "foo", Args: []byte("arg"), Gas: attached, Deposit: primitives.NEAR(10)}}}
		h := d.SignedHash()
		receipts = append(receipts, n.selfReceipt(alice, i, &primitives.Delegate{Action: d, Signature: key.Sign(h[:])}))
	}
	n.shards[own].incoming[own] = receipts
	next := func(info primitives.CongestionInfo) *Result {
		n.shards[to].info = info
		n.shards[to].incoming[own] = nil // these receipts are never delivered
		return n.step()[own]
	}
	buffered := func() uint64 {
		b, err := n.view(alice).Buffers()
		if err != nil {
			t.Fatal(err)
		}
		q := b.To(layout.ShardOf(bob))
		return q.Len()
	}
	for i := uint64(1); i <= count+3; i++ {
		r := next(full)
		if got, want := buffered(), min(i, count); got != want || len(r.Outgoing) != 0 || r.Congestion.BufferedReceiptsGas.IsZero() || r.Congestion.ReceiptBytes == 0 {
			t.Fatalf("chunk %d: %d buffered, %d sent, want %d and none", i, got, len(r.Outgoing), want)
		}
	}
	relaxed := full
	relaxed.DelayedReceiptsGas, _ = full.DelayedReceiptsGas.Sub(primitives.Yocto(100))
	level := congestion.Control{Config: &n.cfg.CongestionControl, Info: relaxed}
	if level.Level() >= 1 {
		t.Fatalf("congestion level = %v, want less than 1", level.Level())
	}
	each := uint64(n.cfg.CongestionControl.MinOutgoingGas / attached)
	for i := uint64(1); i <= count+3; i++ {
		r := next(relaxed)
		want := count - min(count, i*each)
		left := min(each, count-min(count, (i-1)*each))
		if got := buffered(); got != want || uint64(len(r.Outgoing)) != left {
			t.Fatalf("chunk %d after: %d buffered, %d sent, want %d and %d", i, got, len(r.Outgoing), want, left)
		}
	}
	if got := n.shards[own].info; got.ReceiptBytes != 0 || !got.BufferedReceiptsGas.IsZero() {
		t.Errorf("congestion with empty buffers: %+v", got)
	}
}

// TestEmptyChunkChangesStateRoot checks that an empty chunk changes the state root, because the
// bandwidth scheduler's state changes in every block (apply.rs:2669).
func TestEmptyChunkChangesStateRoot(t *testing.T) {
	t.Parallel()
	n := newPair(t)
	before := n.shards[0].trie.Root()
	n.step()
	if n.shards[0].trie.Root() == before {
		t.Error("the root stays")
	}
}
