package apply

import (
	"bytes"
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/state"
)

// patched applies an empty chunk of the only shard with a patch, and goes on from there.
func (n *net) patched(records ...genesis.Record) *Result {
	n.t.Helper()
	n.height++
	in := n.input(0, nil)
	in.Patch = records
	r, err := Apply(in)
	if err != nil {
		n.t.Fatal(err)
	}
	n.shards[0].trie, n.shards[0].info, n.shards[0].requests = r.Trie, r.Congestion, r.BandwidthRequests
	n.shards[0].incoming = make([][]*primitives.Receipt, 1)
	return r
}

func (n *net) update() *state.TrieUpdate { return state.NewUnrecorded(n.shards[0].trie) }

// TestPatchWritesAndRemovesEachRecordKind checks that a patch writes each kind of record, with
// nearcore's cause, and that each kind of removal removes its record.
func TestPatchWritesAndRemovesEachRecordKind(t *testing.T) {
	t.Parallel()
	n := newNet(t, primitives.SingleShardLayout(), "aa", "bb")
	code, key := []byte("code"), testKey("other").PublicKey().Handle()
	gas := primitives.AccessKey{Nonce: 3, GasKey: &primitives.GasKeyInfo{NumNonces: 3}}
	waiting := func(id byte, inputs ...byte) *primitives.Receipt {
		a := &primitives.ActionReceipt{SignerID: "aa", SignerPublicKey: testKey("aa").PublicKey(), Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.Yocto(7)}}}
		for _, n := range inputs {
			a.InputDataIDs = append(a.InputDataIDs, primitives.Hash{n})
		}
		return &primitives.Receipt{PredecessorID: "aa", ReceiverID: "cc", ID: primitives.Hash{id}, Body: a}
	}
	waits := waiting(1, 2, 3)
	r := n.patched(
		&genesis.AccountRecord{AccountID: "cc", Account: primitives.Account{Amount: primitives.NEAR(5)}},
		&genesis.ContractRecord{AccountID: "cc", Code: code},
		&genesis.DataRecord{AccountID: "cc", Key: []byte("k")},
		&genesis.AccessKeyRecord{AccountID: "cc", PublicKey: key, AccessKey: gas},
		&genesis.GasKeyNonceRecord{AccountID: "cc", PublicKey: key, Index: 0, Nonce: 9},
		&genesis.GasKeyNonceRecord{AccountID: "cc", PublicKey: key, Index: 1, Nonce: 8},
		&genesis.ReceivedDataRecord{AccountID: "cc", DataID: primitives.Hash{5}, Data: []byte("d")},
		&genesis.PostponedReceiptRecord{Receipt: waits},
		// once more; and others that would take what it waits for, or that wait for nothing
		&genesis.PostponedReceiptRecord{Receipt: waits},
		&genesis.PostponedReceiptRecord{Receipt: waiting(6, 3, 4)},
		&genesis.PostponedReceiptRecord{Receipt: waiting(6, 4, 4)},
		&genesis.PostponedReceiptRecord{Receipt: waiting(6, 4, 5)},
		&genesis.PostponedReceiptRecord{Receipt: waiting(6)},
		// which the key has
		&genesis.Removal{Of: &genesis.GasKeyNonceRecord{AccountID: "cc", PublicKey: key, Index: 1}},
	)
	for _, c := range r.Changes {
		for _, w := range c.Changes {
			if c.Key[0] != byte(primitives.ColBandwidthScheduler) && w.Cause.Kind != primitives.CauseMigration {
				t.Errorf("key %x was written by %v", c.Key, w.Cause.Kind)
			}
		}
	}
	u := n.update()
	var a primitives.Account
	if ok, err := u.Account("cc", &a); !ok || err != nil || a.Amount != primitives.NEAR(5) || a.LocalCodeHash() != primitives.HashBytes(code) {
		t.Errorf("account %+v, %v, %v", a, ok, err)
	}
	if got, err := u.Code(a.LocalCodeHash(), primitives.AppendCodeKey(nil, "cc")); err != nil || !bytes.Equal(got, code) {
		t.Errorf("code %q, %v", got, err)
	}
	if got, err := u.Get(primitives.AppendContractDataKey(nil, "cc", []byte("k"))); err != nil || got == nil || len(got) > 0 {
		t.Errorf("an empty value is read as %q, %v", got, err)
	}
	if got, ok, err := u.GasKeyNonce("cc", key, 1); got != 8 || !ok || err != nil {
		t.Errorf("nonce %d, %v, %v", got, ok, err)
	}
	if got, err := u.PendingDataCount("cc", waits.ID); got != 2 || err != nil {
		t.Errorf("waits for %d, %v, want 2", got, err)
	}
	if has, err := u.HasPostponedReceipt("cc", primitives.Hash{6}); has || err != nil {
		t.Errorf("one that can't wait: %v, %v", has, err)
	}
	if got, ok, err := u.GasKeyNonce("cc", key, 2); got != 0 || !ok || err != nil {
		t.Errorf("a nonce that was not named: %d, %v, %v", got, ok, err)
	}
	// A postponed receipt of a patch runs when its data has arrived.
	n.shards[0].incoming[0] = nil
	for _, id := range []primitives.Hash{{2}, {3}} {
		n.shards[0].incoming[0] = append(n.shards[0].incoming[0], &primitives.Receipt{PredecessorID: "aa", ReceiverID: "cc", ID: primitives.Hash{4}, Body: &primitives.DataReceipt{DataID: id}})
	}
	if got := n.step()[0]; len(got.Outcomes) != 1 || got.Outcomes[0].ID != waits.ID {
		t.Errorf("outcomes %+v", got.Outcomes)
	}
	n.patched(&genesis.Removal{Of: &genesis.DataRecord{AccountID: "cc", Key: []byte("k")}}, &genesis.Removal{Of: &genesis.ContractRecord{AccountID: "cc"}},
		&genesis.Removal{Of: &genesis.AccessKeyRecord{AccountID: "cc", PublicKey: key}})
	u = n.update()
	if ok, err := u.Account("cc", &a); !ok || err != nil || !a.LocalCodeHash().IsZero() {
		t.Errorf("without code: %+v, %v, %v", a, ok, err)
	}
	for _, k := range [][]byte{primitives.AppendCodeKey(nil, "cc"), primitives.AppendContractDataKey(nil, "cc", []byte("k")),
		primitives.AppendAccessKeyKey(nil, "cc", key), primitives.AppendGasKeyNonceKey(nil, "cc", key, 0), primitives.AppendGasKeyNonceKey(nil, "cc", key, 1)} {
		if got, err := u.Get(k); got != nil || err != nil {
			t.Errorf("key %x was not removed: %x, %v", k, got, err)
		}
	}
	n.patched(&genesis.Removal{Of: &genesis.AccountRecord{AccountID: "aa"}})
	if err := n.update().Keys(primitives.AppendAccessKeyPrefix(nil, "aa"), func(k []byte) error { return errors.New("is left") }); err != nil {
		t.Errorf("a key of a removed account %v", err)
	}
}

// TestPatchedDelayedReceiptRunsInNextChunk checks that a delayed receipt of a patch is appended to
// the queue, is counted in the congestion info, and runs in the next chunk.
func TestPatchedDelayedReceiptRunsInNextChunk(t *testing.T) {
	t.Parallel()
	n := newNet(t, primitives.SingleShardLayout(), "aa", "bb")
	r := &primitives.Receipt{PredecessorID: "aa", ReceiverID: "bb", ID: primitives.Hash{1}, Body: &primitives.ActionReceipt{
		SignerID: "aa", SignerPublicKey: testKey("aa").PublicKey(), GasPrice: n.price, Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.Yocto(7)}}}}
	if got := n.patched(&genesis.DelayedReceiptRecord{Receipt: r}); got.Congestion.DelayedReceiptsGas.IsZero() || got.Stats.DelayedLen != 1 {
		t.Errorf("congestion %+v, %d in the queue", got.Congestion, got.Stats.DelayedLen)
	}
	got := n.step()[0]
	if len(got.Outcomes) != 1 || got.Outcomes[0].ID != r.ID || !got.Congestion.DelayedReceiptsGas.IsZero() || got.Congestion.ReceiptBytes != 0 {
		t.Errorf("outcomes %+v, congestion %+v", got.Outcomes, got.Congestion)
	}
}

// TestPatchNeverLowersLockedBalance checks that a patch never lowers the locked balance of an
// account, and never removes an account with a locked balance.
func TestPatchNeverLowersLockedBalance(t *testing.T) {
	t.Parallel()
	n := newNet(t, primitives.SingleShardLayout(), "aa", "bb")
	stake := primitives.Account{Amount: primitives.NEAR(1), Locked: primitives.NEAR(50)}
	n.patched(&genesis.AccountRecord{AccountID: "aa", Account: stake})
	n.patched(&genesis.AccountRecord{AccountID: "aa", Account: primitives.Account{Amount: primitives.NEAR(2)}}, &genesis.Removal{Of: &genesis.AccountRecord{AccountID: "aa"}})
	var a primitives.Account
	if ok, err := n.update().Account("aa", &a); !ok || err != nil || a.Locked != stake.Locked || a.Amount != primitives.NEAR(2) {
		t.Errorf("%+v, %v, %v", a, ok, err)
	}
}

// TestPatchForMissingChunkIsRefused: Apply returns an error.
func TestPatchForMissingChunkIsRefused(t *testing.T) {
	t.Parallel()
	n := newNet(t, primitives.SingleShardLayout(), "aa", "bb")
	in := n.input(0, nil)
	in.NewChunk, in.Patch = false, []genesis.Record{&genesis.DataRecord{AccountID: "aa"}}
	if _, err := Apply(in); !errors.Is(err, ErrInput) {
		t.Errorf("%v", err)
	}
}
