package workload

import (
	"errors"
	"math"
	"testing"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// TestPatchesDoNotHalt: any patch is refused, or the chain continues after it: the written state is
// used, two epochs begin, the chain is closed and opened, and the patched chunk is applied once
// more.
func TestPatchesDoNotHalt(t *testing.T) {
	most := primitives.Balance{Hi: math.MaxUint64, Lo: math.MaxUint64}
	half := primitives.Balance{Hi: 1 << 63}
	a, b := Account(0), Account(1)
	d := func(n byte) primitives.Hash { return primitives.Hash{n} }
	account := func(id primitives.AccountID, amount, locked primitives.Balance, usage uint64) genesis.Record {
		return &genesis.AccountRecord{AccountID: id, Account: primitives.Account{Version: primitives.AccountV1, Amount: amount, Locked: locked, StorageUsage: usage}}
	}
	receipt := func(id byte, price primitives.Balance, inputs []primitives.Hash, actions ...primitives.Action) *primitives.Receipt {
		return &primitives.Receipt{PredecessorID: a, ReceiverID: b, ID: d(id), Body: &primitives.ActionReceipt{
			SignerID: a, SignerPublicKey: StakeKey(a).PublicKey(), GasPrice: price, InputDataIDs: inputs, Actions: actions}}
	}
	delayed := func(r *primitives.Receipt) genesis.Record { return &genesis.DelayedReceiptRecord{Receipt: r} }
	waits := func(id byte, inputs ...primitives.Hash) genesis.Record {
		return &genesis.PostponedReceiptRecord{Receipt: receipt(id, primitives.Yocto(1), inputs)}
	}
	data := func(n byte) *primitives.Receipt {
		return &primitives.Receipt{PredecessorID: a, ReceiverID: b, ID: d(100 + n), Body: &primitives.DataReceipt{DataID: d(n), Data: []byte{1}}}
	}
	there := func(n byte) genesis.Record {
		return &genesis.ReceivedDataRecord{AccountID: b, DataID: d(n), Data: []byte{1}}
	}
	transfer := func(v primitives.Balance) primitives.Action { return &primitives.Transfer{Deposit: v} }
	type txs = func(g *Generator, at Base) []*primitives.SignedTransaction
	sends := func(from, to primitives.AccountID, actions ...primitives.Action) txs {
		return func(g *Generator, at Base) []*primitives.SignedTransaction {
			return []*primitives.SignedTransaction{g.draft(at, from, to, actions...).sign()}
		}
	}
	gasKey := primitives.SecretKeyFromSeed(primitives.ED25519, "gas")
	for name, c := range map[string]struct {
		patches [][]genesis.Record
		txs     txs
	}{
		"the most money, and a transfer to it":         {[][]genesis.Record{{account(a, most, primitives.Balance{}, 182)}}, sends(b, a, transfer(primitives.NEAR(1)))},
		"half of the most, twice":                      {[][]genesis.Record{{account(a, half, primitives.Balance{}, 182), account(b, half, primitives.Balance{}, 182)}}, sends(b, a, transfer(half))},
		"the most money for the validator":             {[][]genesis.Record{{account(Validator, most, primitives.Balance{}, 182)}}, nil},
		"the most locked":                              {[][]genesis.Record{{account(Validator, primitives.Balance{}, most, 182)}}, nil},
		"the most money for the treasury":              {[][]genesis.Record{{account(Treasury, most, primitives.Balance{}, 182)}}, nil},
		"no treasury":                                  {[][]genesis.Record{{&genesis.Removal{Of: &genesis.AccountRecord{AccountID: Treasury}}}}, nil},
		"no money for the validator":                   {[][]genesis.Record{{account(Validator, primitives.Balance{}, primitives.Balance{}, 0)}}, nil},
		"the most storage":                             {[][]genesis.Record{{account(a, primitives.Balance{Hi: 1 << 62, Lo: 0}, primitives.Balance{}, math.MaxUint64)}}, sends(a, a, &primitives.AddKey{PublicKey: gasKey.PublicKey()})},
		"no storage, and a key less":                   {[][]genesis.Record{{account(a, primitives.NEAR(5), primitives.Balance{}, 0)}}, sends(a, a, &primitives.DeleteKey{PublicKey: NewGenerator(Options{Accounts: 1, Shards: 1}).Key(a).PublicKey()})},
		"a receipt twice the most":                     {[][]genesis.Record{{delayed(receipt(1, primitives.Yocto(1), nil, transfer(half), transfer(half)))}}, nil},
		"a receipt with the most":                      {[][]genesis.Record{{delayed(receipt(1, primitives.Yocto(1), nil, transfer(most)))}}, nil},
		"a receipt of the highest price":               {[][]genesis.Record{{delayed(receipt(1, most, nil, transfer(primitives.NEAR(1))))}}, nil},
		"a receipt of a high price":                    {[][]genesis.Record{{delayed(receipt(1, primitives.Balance{Hi: 1 << 20}, nil, transfer(primitives.NEAR(1))))}}, nil},
		"a failing receipt with the most":              {[][]genesis.Record{{delayed(receipt(1, primitives.Yocto(1), nil, transfer(half), transfer(half), &primitives.DeleteKey{PublicKey: gasKey.PublicKey()}))}}, nil},
		"an input twice":                               {[][]genesis.Record{{there(1), delayed(receipt(1, primitives.Yocto(1), []primitives.Hash{d(1), d(1)}))}}, nil},
		"an input twice, and another":                  {[][]genesis.Record{{there(1), waits(1, d(1), d(1), d(2))}, {delayed(data(2))}}, nil},
		"an input of two":                              {[][]genesis.Record{{there(1), waits(1, d(1), d(2)), waits(2, d(1), d(3))}, {delayed(data(2)), delayed(data(3))}}, nil},
		"an input of two, one of them to run":          {[][]genesis.Record{{there(1), waits(1, d(1), d(2)), delayed(receipt(2, primitives.Yocto(1), []primitives.Hash{d(1)}))}, {delayed(data(2))}}, nil},
		"an id twice":                                  {[][]genesis.Record{{waits(1, d(1)), waits(1, d(2))}, {delayed(data(1))}, {delayed(data(2))}}, nil},
		"an id twice, in two blocks":                   {[][]genesis.Record{{waits(1, d(1))}, {waits(1, d(2))}, {delayed(data(1))}, {delayed(data(2))}}, nil},
		"an id twice, one of them to run":              {[][]genesis.Record{{waits(1, d(1)), delayed(receipt(1, primitives.Yocto(1), []primitives.Hash{d(2)}))}, {delayed(data(1))}, {delayed(data(2))}}, nil},
		"a yield and one that waits":                   {[][]genesis.Record{{waits(1, d(1)), &genesis.PostponedReceiptRecord{Receipt: &primitives.Receipt{PredecessorID: b, ReceiverID: b, ID: d(1), Body: &primitives.ActionReceipt{SignerID: a, SignerPublicKey: StakeKey(a).PublicKey(), InputDataIDs: []primitives.Hash{d(1)}, Yield: true}}}}, {delayed(data(1))}, {delayed(&primitives.Receipt{PredecessorID: b, ReceiverID: b, ID: d(9), Body: &primitives.DataReceipt{DataID: d(1), Resume: true}})}}, nil},
		"a yield of two to run":                        {[][]genesis.Record{{delayed(&primitives.Receipt{PredecessorID: b, ReceiverID: b, ID: d(1), Body: &primitives.ActionReceipt{SignerID: a, SignerPublicKey: StakeKey(a).PublicKey(), Yield: true}})}}, nil},
		"code that goes nowhere":                       {[][]genesis.Record{{delayed(&primitives.Receipt{PredecessorID: b, ReceiverID: b, ID: d(1), Body: &primitives.GlobalContractDistribution{TargetShard: 77, AlreadyDelivered: []primitives.ShardID{5, 5, 9}, ID: primitives.GlobalContractID{Account: b}, Code: []byte{1}, V2: true, Nonce: math.MaxUint64}})}}, nil},
		"a gas key without nonces":                     {[][]genesis.Record{{&genesis.AccessKeyRecord{AccountID: a, PublicKey: gasKey.PublicKey().Handle(), AccessKey: primitives.AccessKey{GasKey: &primitives.GasKeyInfo{NumNonces: math.MaxUint16, Balance: most}}}}}, sends(a, a, &primitives.TransferToGasKey{PublicKey: gasKey.PublicKey(), Deposit: primitives.NEAR(1)})},
		"a gas key without nonces that goes":           {[][]genesis.Record{{&genesis.AccessKeyRecord{AccountID: a, PublicKey: gasKey.PublicKey().Handle(), AccessKey: primitives.AccessKey{GasKey: &primitives.GasKeyInfo{NumNonces: 9, Balance: most}}}}}, sends(a, a, &primitives.DeleteKey{PublicKey: gasKey.PublicKey()})},
		"two rich gas keys, and the account goes":      {[][]genesis.Record{{&genesis.AccessKeyRecord{AccountID: a, PublicKey: gasKey.PublicKey().Handle(), AccessKey: primitives.AccessKey{GasKey: &primitives.GasKeyInfo{NumNonces: 9, Balance: half}}}, &genesis.AccessKeyRecord{AccountID: a, PublicKey: StakeKey(b).PublicKey().Handle(), AccessKey: primitives.AccessKey{GasKey: &primitives.GasKeyInfo{NumNonces: 9, Balance: half}}}}}, sends(a, a, &primitives.DeleteAccount{Beneficiary: b})},
		"code that is not there":                       {[][]genesis.Record{{&genesis.AccountRecord{AccountID: a, Account: primitives.Account{Version: primitives.AccountV1, Amount: primitives.NEAR(9), Contract: primitives.AccountContract{Kind: primitives.ContractLocal, Hash: d(7)}}}}}, sends(b, a, &primitives.FunctionCall{Method: "x", Gas: 1e13})},
		"code that is not there, and its account goes": {[][]genesis.Record{{&genesis.AccountRecord{AccountID: a, Account: primitives.Account{Version: primitives.AccountV1, Amount: primitives.NEAR(9), Contract: primitives.AccountContract{Kind: primitives.ContractLocal, Hash: d(7)}}}}}, sends(a, a, &primitives.DeleteAccount{Beneficiary: b})},
		"global code that is not there":                {[][]genesis.Record{{&genesis.AccountRecord{AccountID: a, Account: primitives.Account{Version: primitives.AccountV1, Amount: primitives.NEAR(9), Contract: primitives.AccountContract{Kind: primitives.ContractGlobalHash, Hash: d(7)}}}}}, sends(b, a, &primitives.FunctionCall{Method: "x", Gas: 1e13})},
		"global code of nobody":                        {[][]genesis.Record{{&genesis.AccountRecord{AccountID: a, Account: primitives.Account{Version: primitives.AccountV1, Amount: primitives.NEAR(9), Contract: primitives.AccountContract{Kind: primitives.ContractGlobalAccount, Account: b}}}}}, sends(b, a, &primitives.FunctionCall{Method: "x", Gas: 1e13})},
		"global code of nobody, and its account goes":  {[][]genesis.Record{{&genesis.AccountRecord{AccountID: a, Account: primitives.Account{Version: primitives.AccountV1, Amount: primitives.NEAR(9), Contract: primitives.AccountContract{Kind: primitives.ContractGlobalAccount, Account: b}}}}}, sends(a, a, &primitives.DeleteAccount{Beneficiary: b})},
		"code of one who is removed":                   {[][]genesis.Record{{&genesis.ContractRecord{AccountID: a, Code: []byte("x")}, &genesis.Removal{Of: &genesis.AccountRecord{AccountID: a}}}}, sends(b, a, transfer(primitives.NEAR(1)))},
		"stakes, and is removed":                       {[][]genesis.Record{{&genesis.Removal{Of: &genesis.AccountRecord{AccountID: a}}}}, sends(a, a, &primitives.Stake{Stake: primitives.NEAR(900_000), PublicKey: StakeKey(a).PublicKey()})},
	} {
		t.Run(name, func(t *testing.T) {
			o := ChainOptions{Options: Options{Seed: 5, Shards: 2}}
			o.EpochLength, o.Validity, o.Store.FlatHeadBlocks = 5, 10, 3
			p := newManualChain(t, o)
			p.next(0)
			patched := map[primitives.Hash]bool{}
			block := func(records []genesis.Record, txs txs) {
				t.Helper()
				head := p.Engine.Head()
				plan := &Plan{Parent: head.Hash, Height: head.Height() + 1, Patch: records}
				if txs != nil {
					plan.Transactions = txs(p.gen, p.Base())
				}
				made, chunks, err := p.Make(plan)
				if err != nil {
					t.Fatalf("making block %d: %v", plan.Height, err)
				}
				got, err := p.Accept(made, chunks, true)
				if err != nil {
					t.Fatalf("block %d: %v", plan.Height, err)
				}
				if records != nil {
					patched[got.Entry.Hash] = true
				}
			}
			for _, records := range c.patches {
				if err := p.Engine.CheckPatch(records, nil); err == nil {
					block(records, nil)
				} else if !errors.Is(err, engine.ErrPatch) {
					t.Fatal(err)
				} else {
					t.Log(err)
				}
			}
			block(nil, c.txs)
			for range 14 {
				block(nil, nil)
			}
			p.restart()
			for hash := range patched {
				for i := range 2 {
					if _, err := p.Engine.Reapply(t.Context(), hash, primitives.ShardIndex(i), nil); err != nil {
						t.Errorf("applied again: %v", err)
					}
				}
			}
			block(nil, nil)
		})
	}
}
