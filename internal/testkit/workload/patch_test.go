package workload

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// TestPatchedRecordsAreInTheState: records written with a block are in the state from that block on
// and not before, over restarts and advances of the flat head, each in its shard. Applying the
// block's chunks again writes them too.
func TestPatchedRecordsAreInTheState(t *testing.T) {
	o := ChainOptions{Options: Options{Seed: 5, Shards: 4}}
	o.EpochLength, o.Validity, o.Store.FlatHeadBlocks = 40, 80, 3
	p := newManualChain(t, o)
	key := func(i int) []byte { return fmt.Append(nil, "key ", i) }
	var hashes []primitives.Hash
	var results [][]primitives.KeyChanges
	for i := range 40 {
		head := p.Engine.Head()
		plan := &Plan{Parent: head.Hash, Height: head.Height() + 1, Transactions: p.txs(3, Base{Height: head.Height() + 1, Hash: head.Hash})}
		if i%3 == 0 {
			for n := range 8 {
				id := Account(n)
				plan.Patch = append(plan.Patch, &genesis.DataRecord{AccountID: id, Key: key(i), Value: key(i)})
				if i > 6 {
					plan.Patch = append(plan.Patch, &genesis.Removal{Of: &genesis.DataRecord{AccountID: id, Key: key(i - 6)}})
				}
			}
		}
		if err := p.Engine.CheckPatch(plan.Patch, nil); err != nil {
			t.Fatal(err)
		}
		a := p.plan(plan)
		hashes = append(hashes, a.Entry.Hash)
		for s := range a.Entry.Shards {
			results = append(results, a.Entry.Shards[s].Result.Changes)
		}
		if i%7 == 0 {
			p.restart()
		}
	}
	again := 0
	for i, hash := range hashes {
		at, err := p.Engine.StateAt(hash)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 8 {
			id := Account(n)
			index, err := at.Layout.Index(at.Layout.ShardOf(id))
			if err != nil {
				t.Fatal(err)
			}
			for k := 0; k < len(hashes); k += 3 {
				want := key(k)
				if k > i || k > 0 && i >= k+6 {
					want = nil
				}
				if got, err := at.Trie(index).Get(primitives.AppendContractDataKey(nil, id, key(k)), nil); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("block %d: %s of %s is %q, %v, want %q", at.Height(), key(k), id, got, err, want)
				}
			}
		}
		for s := range at.Shards {
			if at.Height() == 1 {
				continue
			}
			r, err := p.Engine.Reapply(t.Context(), hash, primitives.ShardIndex(s), nil)
			if err != nil {
				t.Fatal(err)
			}
			if want := results[i*len(at.Shards)+s]; !reflect.DeepEqual(r.Changes, want) {
				t.Fatalf("block %d, shard %d applied again: %d changes, and it had %d", at.Height(), s, len(r.Changes), len(want))
			}
			again++
		}
		at.Release()
	}
	if again < 100 {
		t.Errorf("%d chunks applied again", again)
	}
}

// TestInconsistentPatchIsRefused: a patch that would leave an inconsistent state is refused.
func TestInconsistentPatchIsRefused(t *testing.T) {
	p := newManualChain(t, ChainOptions{Options: Options{Seed: 5, Shards: 2}})
	p.next(3)
	waiting := func(yield bool, inputs ...primitives.Hash) *primitives.Receipt {
		return &primitives.Receipt{PredecessorID: Account(0), ReceiverID: Account(1), ID: primitives.Hash{1},
			Body: &primitives.ActionReceipt{SignerID: Account(0), SignerPublicKey: StakeKey("a").PublicKey(), InputDataIDs: inputs, Yield: yield}}
	}
	most := primitives.Balance{Hi: math.MaxUint64, Lo: math.MaxUint64}
	for name, records := range map[string][]genesis.Record{
		"code of nobody":          {&genesis.ContractRecord{AccountID: "nobody.near", Code: []byte{1}}},
		"code of a removed one":   {&genesis.Removal{Of: &genesis.AccountRecord{AccountID: Account(1)}}, &genesis.ContractRecord{AccountID: Account(1), Code: []byte{1}}},
		"data of nobody":          {&genesis.DataRecord{AccountID: "nobody.near"}},
		"a key of nobody":         {&genesis.AccessKeyRecord{AccountID: "nobody.near", PublicKey: StakeKey("a").PublicKey().Handle()}},
		"a nonce of nobody":       {&genesis.GasKeyNonceRecord{AccountID: "nobody.near", PublicKey: StakeKey("a").PublicKey().Handle()}},
		"received data of nobody": {&genesis.ReceivedDataRecord{AccountID: "nobody.near", DataID: primitives.Hash{2}}},
		"data of a removed one":   {&genesis.Removal{Of: &genesis.AccountRecord{AccountID: Account(1)}}, &genesis.DataRecord{AccountID: Account(1)}},
		"data of a short-lived one": {&genesis.AccountRecord{AccountID: "new.near"}, &genesis.Removal{Of: &genesis.AccountRecord{AccountID: "new.near"}},
			&genesis.DataRecord{AccountID: "new.near"}},
		"large code":               {&genesis.ContractRecord{AccountID: Account(1), Code: make([]byte, 4<<20+1)}},
		"large key":                {&genesis.DataRecord{AccountID: Account(1), Key: make([]byte, 2049)}},
		"large value":              {&genesis.DataRecord{AccountID: Account(1), Value: make([]byte, 4<<20+1)}},
		"system":                   {&genesis.DataRecord{AccountID: "system"}},
		"balances overflow":        {&genesis.AccountRecord{AccountID: Account(1), Account: primitives.Account{Amount: most, Locked: most}}},
		"a yield of two":           {&genesis.PostponedReceiptRecord{Receipt: waiting(true, primitives.Hash{1}, primitives.Hash{2})}},
		"waits for nothing":        {&genesis.PostponedReceiptRecord{Receipt: waiting(false)}},
		"all data is there":        {&genesis.ReceivedDataRecord{AccountID: Account(1), DataID: primitives.Hash{2}}, &genesis.PostponedReceiptRecord{Receipt: waiting(false, primitives.Hash{2})}},
		"postponed data":           {&genesis.PostponedReceiptRecord{Receipt: &primitives.Receipt{PredecessorID: Account(0), ReceiverID: Account(1), Body: &primitives.DataReceipt{}}}},
		"delayed, no valid sender": {&genesis.DelayedReceiptRecord{Receipt: &primitives.Receipt{PredecessorID: "!", ReceiverID: Account(1), Body: &primitives.DataReceipt{}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := p.Engine.CheckPatch(records, nil); !errors.Is(err, engine.ErrPatch) {
				t.Errorf("got error %v", err)
			}
		})
	}
	for name, records := range map[string][]genesis.Record{
		"code before its hash":  {&genesis.ContractRecord{AccountID: Account(1), Code: []byte{1}}},
		"code of a new account": {&genesis.AccountRecord{AccountID: "new.near"}, &genesis.ContractRecord{AccountID: "new.near", Code: []byte{1}}},
		"an account behind all of it": {
			&genesis.DataRecord{AccountID: "new.near"}, &genesis.AccessKeyRecord{AccountID: "new.near", PublicKey: StakeKey("a").PublicKey().Handle()},
			&genesis.GasKeyNonceRecord{AccountID: "new.near", PublicKey: StakeKey("a").PublicKey().Handle()},
			&genesis.ReceivedDataRecord{AccountID: "new.near", DataID: primitives.Hash{2}}, &genesis.AccountRecord{AccountID: "new.near"},
		},
		"nothing of nobody is removed": {&genesis.Removal{Of: &genesis.DataRecord{AccountID: "nobody.near"}}},
		"waits":                        {&genesis.PostponedReceiptRecord{Receipt: waiting(false, primitives.Hash{2})}},
		"nothing":                      nil,
	} {
		t.Run(name, func(t *testing.T) {
			if err := p.Engine.CheckPatch(records, nil); err != nil {
				t.Errorf("got error %v", err)
			}
		})
	}
	coming := func(id primitives.AccountID) bool { return id == "coming.near" }
	for id, fits := range map[primitives.AccountID]bool{"coming.near": true, "nobody.near": false} {
		for _, r := range []genesis.Record{&genesis.DataRecord{AccountID: id}, &genesis.AccessKeyRecord{AccountID: id, PublicKey: StakeKey("a").PublicKey().Handle()}} {
			if err := p.Engine.CheckPatch([]genesis.Record{r}, coming); (err == nil) != fits {
				t.Errorf("%T of %s while another patch makes coming.near: %v", r, id, err)
			}
		}
	}
}
