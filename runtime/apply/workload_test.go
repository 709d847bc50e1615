package apply

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/fees"
)

// wildNames are the accounts of the random workloads, spread over the shards.
var wildNames = func() (names []primitives.AccountID) {
	for i := range 24 {
		names = append(names, primitives.AccountID(fmt.Sprintf("%c%d.near", 'a'+i%26, i)))
	}
	return names
}()

// randomWorkload makes random transactions.
type randomWorkload struct {
	*net
	rng  *rand.Rand
	keys map[primitives.AccountID][]primitives.SecretKey
}

func newRandomWorkload(t testing.TB, layout primitives.ShardLayout, seed uint64) *randomWorkload {
	w := &randomWorkload{net: newNet(t, layout, wildNames...), rng: rand.New(rand.NewPCG(seed, 1)), keys: map[primitives.AccountID][]primitives.SecretKey{}}
	w.vm = wildVM{w.cfg}
	// Every other account starts with a contract and a gas key.
	var txs []*primitives.SignedTransaction
	for i, id := range wildNames {
		if i%2 == 0 {
			txs = append(txs, w.tx(id, id, &primitives.DeployContract{Code: []byte{byte(i % 3)}}, &primitives.AddKey{
				PublicKey: testKey(fmt.Sprintf("wild%d", i)).PublicKey(), AccessKey: primitives.AccessKey{GasKey: &primitives.GasKeyInfo{NumNonces: 3}},
			}, &primitives.TransferToGasKey{PublicKey: testKey(fmt.Sprintf("wild%d", i)).PublicKey(), Deposit: primitives.NEAR(uint64(i % 5))}))
		}
	}
	w.step(txs...)
	w.settle()
	return w
}

func (w *randomWorkload) name() primitives.AccountID { return wildNames[w.rng.IntN(len(wildNames))] }

func (w *randomWorkload) newKey() primitives.SecretKey {
	return testKey(fmt.Sprintf("wild%d", w.rng.IntN(40)))
}

func (w *randomWorkload) receiver() primitives.AccountID {
	switch w.rng.IntN(12) {
	case 0:
		return primitives.AccountID(fmt.Sprintf("missing%d.near", w.rng.IntN(5)))
	case 1:
		return primitives.AccountID(fmt.Sprintf("%064x", w.rng.IntN(6)))
	case 2:
		return primitives.AccountID(fmt.Sprintf("0x%040x", w.rng.IntN(6)))
	case 3:
		return primitives.AccountID(fmt.Sprintf("0s%040x", w.rng.IntN(6)))
	}
	return w.name()
}

func (w *randomWorkload) amount() primitives.Balance {
	switch w.rng.IntN(8) {
	case 0:
		return primitives.NEAR(uint64(w.rng.IntN(400)))
	case 1:
		return primitives.Balance{}
	}
	return primitives.Yocto(w.rng.Uint64())
}

// action returns a random action. inner means that it is for a delegate, so it is not a delegate itself.
func (w *randomWorkload) action(from, to primitives.AccountID, inner bool) primitives.Action {
	n := 16
	if inner {
		n = 14
	}
	switch w.rng.IntN(n) {
	case 0:
		return &primitives.AddKey{PublicKey: w.newKey().PublicKey()}
	case 1:
		allowance := w.amount()
		return &primitives.AddKey{PublicKey: w.newKey().PublicKey(), AccessKey: primitives.AccessKey{
			FunctionCall: &primitives.FunctionCallPermission{Allowance: &allowance, ReceiverID: string(w.name())},
		}}
	case 2:
		return &primitives.AddKey{PublicKey: w.newKey().PublicKey(), AccessKey: primitives.AccessKey{
			GasKey: &primitives.GasKeyInfo{NumNonces: uint16(1 + w.rng.IntN(3))},
		}}
	case 3:
		return &primitives.DeleteKey{PublicKey: w.newKey().PublicKey()}
	case 4:
		return &primitives.TransferToGasKey{PublicKey: w.newKey().PublicKey(), Deposit: primitives.NEAR(uint64(w.rng.IntN(3)))}
	case 5:
		return &primitives.WithdrawFromGasKey{PublicKey: w.newKey().PublicKey(), Amount: w.amount()}
	case 6:
		return &primitives.Stake{Stake: primitives.NEAR(uint64(w.rng.IntN(300))), PublicKey: testKey("stake").PublicKey()}
	case 7:
		return &primitives.DeployContract{Code: []byte{byte(w.rng.IntN(3))}}
	case 8:
		if w.rng.IntN(4) == 0 {
			return &primitives.DeleteAccount{Beneficiary: w.name()}
		}
	case 9, 10:
		return &primitives.FunctionCall{
			Method: "m", Args: fmt.Append(nil, w.rng.IntN(1000)), Gas: primitives.Gas(w.rng.Uint64N(100_000_000_000_000)) + 1, Deposit: primitives.Yocto(uint64(w.rng.IntN(5))),
		}
	case 11:
		return &primitives.DeployGlobalContract{Code: []byte{byte(w.rng.IntN(3))}, Mode: primitives.GlobalDeployMode(w.rng.IntN(2))}
	case 12:
		return &primitives.UseGlobalContract{ID: w.global()}
	case 14, 15:
		return w.delegate(to)
	}
	return transfer(w.amount())
}

func (w *randomWorkload) global() primitives.GlobalContractID {
	if w.rng.IntN(2) == 0 {
		return primitives.GlobalContractID{Account: w.name()}
	}
	return primitives.GlobalContractID{Hash: primitives.HashBytes([]byte{byte(w.rng.IntN(3))})}
}

func (w *randomWorkload) delegate(sender primitives.AccountID) primitives.Action {
	to := w.receiver()
	key := testKey(string(sender))
	slot := "delegate " + string(sender)
	w.nonces[slot] = max(w.nonces[slot]+1, primitives.InitialNonce(w.height)+500_000)
	d := primitives.DelegateAction{
		SenderID: sender, ReceiverID: to, Actions: []primitives.Action{w.action(sender, to, true)}, Nonce: w.nonces[slot],
		MaxBlockHeight: w.height + primitives.Height(w.rng.IntN(6)), PublicKey: key.PublicKey(),
	}
	hash := d.SignedHash()
	return &primitives.Delegate{Action: d, Signature: key.Sign(hash[:])}
}

// transaction is a random one, most of them valid.
func (w *randomWorkload) transaction() *primitives.SignedTransaction {
	from, to := w.name(), w.receiver()
	if w.rng.IntN(3) == 0 {
		to = from
	}
	key := testKey(string(from))
	switch w.rng.IntN(8) {
	case 0:
		key = w.newKey()
	case 1:
		return w.gasKeyTransaction(to)
	}
	var actions []primitives.Action
	switch w.rng.IntN(10) {
	case 0:
		to = primitives.AccountID(fmt.Sprintf("sub%d.%s", w.rng.IntN(4), from))
		actions = []primitives.Action{&primitives.CreateAccount{}, transfer(primitives.NEAR(1)), &primitives.AddKey{PublicKey: w.newKey().PublicKey()}}
	case 1:
		init := primitives.StateInit{Code: w.global(), Data: []primitives.StateEntry{{Key: []byte("k"), Value: make([]byte, w.rng.IntN(900))}}}
		to = init.DerivedAccount()
		actions = []primitives.Action{&primitives.DeterministicStateInit{Init: init, Deposit: primitives.NEAR(uint64(w.rng.IntN(2)))}}
	default:
		for range 1 + w.rng.IntN(3) {
			actions = append(actions, w.action(from, to, false))
		}
	}
	tx := w.txBy(key, from, to, actions...).Transaction
	switch w.rng.IntN(8) {
	case 0:
		tx.Nonce.Nonce -= primitives.Nonce(w.rng.IntN(3))
	}
	return w.sign(key, tx)
}

// gasKeyTransaction is one that a gas key pays for.
func (w *randomWorkload) gasKeyTransaction(to primitives.AccountID) *primitives.SignedTransaction {
	i := 2 * w.rng.IntN(len(wildNames)/2)
	key := testKey(fmt.Sprintf("wild%d", i))
	index := uint16(w.rng.IntN(4))
	slot := fmt.Sprintf("row %d %d", i, index)
	w.nonces[slot] = max(w.nonces[slot]+1, primitives.InitialNonce(w.height)+1)
	return w.sign(key, primitives.Transaction{
		Version: primitives.TransactionV1, SignerID: wildNames[i], PublicKey: key.PublicKey(), ReceiverID: to,
		Nonce:     primitives.TransactionNonce{Nonce: w.nonces[slot], HasIndex: true, Index: index},
		NonceMode: primitives.NonceMode(w.rng.IntN(20) / 19), Actions: []primitives.Action{w.action(wildNames[i], to, true)},
	})
}

// totalBalance returns the sum of all balances in the state and in receipts in flight.
func (n *net) totalBalance() primitives.Balance {
	n.t.Helper()
	var sum primitives.Balance
	add := func(b primitives.Balance) {
		var ok bool
		if sum, ok = sum.Add(b); !ok {
			n.t.Fatal("overflow")
		}
	}
	receipt := func(r *primitives.Receipt) {
		a, ok := r.Body.(*primitives.ActionReceipt)
		if !ok {
			return
		}
		deposit, err := fees.TotalDeposit(a.Actions)
		if err != nil {
			n.t.Fatal(err)
		}
		add(deposit)
		plain := *r
		body := *a
		body.Yield = false // a yield weighs nothing for congestion, but it has gas
		plain.Body = &body
		gas, err := fees.ReceiptGas(n.cfg, &plain)
		if err != nil {
			n.t.Fatal(err)
		}
		price, _ := a.GasPrice.MulGas(gas)
		add(price)
	}
	for i := range n.shards {
		err := n.shards[i].trie.Scan(nil, nil, nil, func(key, value []byte) bool {
			k, err := primitives.ParseTrieKey(key)
			if err != nil {
				n.t.Fatalf("%x: %v", key, err)
			}
			r := borsh.NewReader(value)
			switch k.Column {
			case primitives.ColAccount:
				var a primitives.Account
				a.DecodeBorsh(r)
				add(a.Amount)
				add(a.Locked)
			case primitives.ColAccessKey:
				if !k.HasIndex {
					var a primitives.AccessKey
					if a.DecodeBorsh(r); a.GasKey != nil {
						add(a.GasKey.Balance)
					}
				}
			case primitives.ColPostponedReceipt, primitives.ColPromiseYieldReceipt:
				receipt(primitives.ReadReceipt(r))
			case primitives.ColDelayedReceipt, primitives.ColBufferedReceipt:
				if len(key) > 1 {
					var s primitives.StoredReceipt
					s.DecodeBorsh(r)
					receipt(&s.Receipt)
				}
			}
			if r.Err() != nil {
				n.t.Fatalf("%x: %v", key, r.Err())
			}
			return true
		})
		if err != nil {
			n.t.Fatal(err)
		}
		for _, list := range n.shards[i].incoming {
			for _, r := range list {
				receipt(r)
			}
		}
	}
	return sum
}
