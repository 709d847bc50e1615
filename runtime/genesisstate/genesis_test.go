package genesisstate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/fees"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage/trie"
)

var pv86 = parameters.MustGet(parameters.June(86))

// roots returns the shards of g and their state roots.
func roots(t testing.TB, g *genesis.Genesis) ([]*Shard, []primitives.Hash) {
	t.Helper()
	shards, err := State(NewBuilder(pv86, g.Config.ShardLayout), g)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]primitives.Hash, len(shards))
	for i, s := range shards {
		root, err := trie.New(trie.Options{}).Build(s.Pairs())
		if err != nil {
			t.Fatal(err)
		}
		out[i] = root.Hash()
	}
	return shards, out
}

func check(t *testing.T, what string, got fmt.Stringer, want string) {
	t.Helper()
	if got.String() != want {
		t.Errorf("%s = %v, want %s", what, got, want)
	}
}

// TestMainnetGenesisRootMatchesVectorA1: mainnet's genesis has version 29 (nearcore
// core/store/src/genesis/initialization.rs:70).
func TestMainnetGenesisRootMatchesVectorA1(t *testing.T) {
	t.Parallel()
	g, err := genesis.Parse(testutil.Read(t, "../../primitives/genesis/mainnet.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	_, got := roots(t, g)
	check(t, "mainnet's root", got[0], "8EhZRfDTYujfZoUZtZ3eSMB9gJyFo5zjscR12dEcaxGU")
}

// ownKey returns the key whose seed is the name.
func ownKey(id primitives.AccountID) primitives.PublicKey {
	return primitives.SecretKeyFromSeed(primitives.ED25519, string(id)).PublicKey()
}

// small returns a genesis of one shard. The first accounts have 950M + 50M NEAR locked, all others
// have 10^9 NEAR. Keys are those of ownKey.
func small(staked int, ids ...primitives.AccountID) *genesis.Genesis {
	g := &genesis.Genesis{Config: genesis.Config{ShardLayout: primitives.SingleShardLayout()}}
	for i, id := range ids {
		free, locked := primitives.NEAR(1_000_000_000), primitives.Balance{}
		if i < staked {
			free, locked = primitives.NEAR(950_000_000), primitives.NEAR(50_000_000)
			g.Config.Validators = append(g.Config.Validators, genesis.Validator{AccountID: id, PublicKey: ownKey(id), Amount: locked})
		}
		g.Records = append(g.Records,
			&genesis.AccountRecord{AccountID: id, Account: primitives.Account{Version: primitives.AccountV1, Amount: free, Locked: locked}},
			&genesis.AccessKeyRecord{AccountID: id, PublicKey: ownKey(id).Handle()})
	}
	return g
}

// TestTwoAccountGenesisRootsMatchVectorA12: nearcore
// chain/jsonrpc/jsonrpc-tests/tests/rpc_query.rs:45, 92.
func TestTwoAccountGenesisRootsMatchVectorA12(t *testing.T) {
	t.Parallel()
	_, got := roots(t, small(1, "test1", "test", "test2", "near"))
	check(t, "trie root", got[0], "66Ekb5R2y5TMdHkYzSoBpWSyyau1LVNG2qdxifbBagD4")
	check(t, "prev_state_root", primitives.MerkleRootOf(got), "CfKJ4CZqCCtLAESUk1RnWSrXvwenMVooWYrvoMsDrCAH")
}

// TestSimpleChainRootMatchesNearcore: the state of nearcore's simple_chain test.
func TestSimpleChainRootMatchesNearcore(t *testing.T) {
	t.Parallel()
	_, got := roots(t, small(1, "test", "near"))
	check(t, "trie root", got[0], "F5owueruwL7nH2sxCQZy2nhL5VU2JU2xCXfWfK6TiiPD")
}

// TestGenesisOfRecordedChainsMatches: testdata/recorded.jsonl has the genesis of each chain that
// neard (f0c7706f1) recorded, and the chunks of its genesis block.
func TestGenesisOfRecordedChainsMatches(t *testing.T) {
	t.Parallel()
	type line struct {
		Chain  string
		Chunks []struct {
			ShardID    primitives.ShardID `json:"shard_id"`
			StateRoot  string             `json:"state_root"`
			Congestion struct {
				AllowedShard uint16 `json:"allowed_shard"`
			}
		}
		Genesis json.RawMessage
	}
	n := 0
	for line := range testutil.Values[line](t, "testdata/recorded.jsonl") {
		g, err := genesis.Parse(line.Genesis)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Validate(); err != nil {
			t.Errorf("%s: %v", line.Chain, err)
		}
		shards, got := roots(t, g)
		if len(shards) != len(line.Chunks) {
			t.Fatalf("%s: %d shards, want %d", line.Chain, len(shards), len(line.Chunks))
		}
		for i, c := range line.Chunks {
			check(t, fmt.Sprintf("%s: root of shard %d", line.Chain, c.ShardID), got[i], c.StateRoot)
			want := Shard{ID: c.ShardID, Congestion: primitives.CongestionInfo{AllowedShard: c.Congestion.AllowedShard}}
			if shards[i].ID != want.ID || shards[i].Congestion != want.Congestion {
				t.Errorf("%s: shard %d, %+v, want %d, %+v", line.Chain, shards[i].ID, shards[i].Congestion, want.ID, want.Congestion)
			}
		}
		n++
	}
	if n != 6 {
		t.Errorf("%d chains, want 6", n)
	}
}

// pairs returns a shard's pairs as a map.
func pairs(s *Shard) map[string]string {
	out := map[string]string{}
	for k, v := range s.Pairs() {
		out[string(k)] = string(v)
	}
	return out
}

func accountRecord(id primitives.AccountID, code []byte) *genesis.AccountRecord {
	a := primitives.Account{Version: primitives.AccountV1, Amount: primitives.NEAR(1), Locked: primitives.NEAR(9), StorageUsage: 12345}
	if code != nil {
		a.Contract = primitives.AccountContract{Kind: primitives.ContractLocal, Hash: primitives.HashBytes(code)}
	}
	return &genesis.AccountRecord{AccountID: id, Account: a}
}

func bareRecord(id primitives.AccountID) *genesis.AccountRecord {
	return &genesis.AccountRecord{AccountID: id, Account: primitives.NewUninitializedAccount(primitives.NEAR(1), 12345, 7_000_000)}
}

// TestUninitializedAccountKeepsNonce: the account's storage usage is that of an empty account, and
// its nonce is kept.
func TestUninitializedAccountKeepsNonce(t *testing.T) {
	t.Parallel()
	g := &genesis.Genesis{Config: genesis.Config{ShardLayout: primitives.SingleShardLayout()}, Records: []genesis.Record{bareRecord("aa")}}
	shards, _ := roots(t, g)
	var a primitives.Account
	err := borsh.Unmarshal([]byte(pairs(shards[0])[string(primitives.AppendAccountKey(nil, "aa"))]), &a)
	if want := primitives.NewUninitializedAccount(primitives.NEAR(1), 100, 7_000_000); err != nil || a != want {
		t.Errorf("got %+v, %v, want %+v", a, err, want)
	}
}

// TestStorageUsageIsSumOfRecords: storage usage is 100 for the account, the code, and for each
// other record 40 plus key and value.
func TestStorageUsageIsSumOfRecords(t *testing.T) {
	t.Parallel()
	gas := primitives.AccessKey{GasKey: &primitives.GasKeyInfo{NumNonces: 2}}
	handle := ownKey("k").Handle()
	secp := primitives.SecretKeyFromSeed(primitives.SECP256K1, "k").PublicKey().Handle()
	code := []byte{1, 2, 3, 4}
	g := &genesis.Genesis{Config: genesis.Config{ShardLayout: primitives.SingleShardLayout()}, Records: []genesis.Record{
		accountRecord("ab-c", nil), // names with a common prefix
		accountRecord("ab.c", nil),
		accountRecord("ab", code),
		&genesis.ContractRecord{AccountID: "ab", Code: code},
		&genesis.AccessKeyRecord{AccountID: "ab", PublicKey: handle, AccessKey: gas},
		&genesis.GasKeyNonceRecord{AccountID: "ab", PublicKey: handle, Index: 0, Nonce: 7},
		&genesis.GasKeyNonceRecord{AccountID: "ab", PublicKey: handle, Index: 1, Nonce: 8},
		&genesis.AccessKeyRecord{AccountID: "ab.c", PublicKey: secp},
		&genesis.DataRecord{AccountID: "ab-c", Key: []byte("key"), Value: []byte("value")},
		&genesis.DataRecord{AccountID: "ab", Key: nil, Value: nil},
		&genesis.DataRecord{AccountID: "system", Key: nil, Value: []byte("dropped")},
	}}
	g.Config.Validators = []genesis.Validator{{AccountID: "ab.c", Amount: primitives.NEAR(5)}}
	shards, _ := roots(t, g)
	got := pairs(shards[0])
	for id, want := range map[primitives.AccountID]uint64{
		"ab":   100 + 4 + (40 + 33 + 8 + 1 + 16 + 2) + 2*(40+33+2+8) + 40,
		"ab-c": 100 + 40 + 3 + 5,
		"ab.c": 100 + 40 + 65 + 9,
	} {
		var a primitives.Account
		if err := borsh.Unmarshal([]byte(got[string(primitives.AppendAccountKey(nil, id))]), &a); err != nil {
			t.Fatal(err)
		}
		if a.StorageUsage != want {
			t.Errorf("%s: usage %d, want %d", id, a.StorageUsage, want)
		}
		locked := primitives.NEAR(9) // the amount of the record, which a validator's stake replaces
		if id == "ab.c" {
			locked = primitives.NEAR(5)
		}
		if a.Locked != locked {
			t.Errorf("%s: locked %v, want %v", id, a.Locked, locked)
		}
	}
	if len(got) != 3+1+1+2+1+2 {
		t.Errorf("%d pairs, want 10", len(got))
	}
	if v := got[string(primitives.AppendGasKeyNonceKey(nil, "ab", handle, 1))]; v != "\x08\x00\x00\x00\x00\x00\x00\x00" {
		t.Errorf("row 1 = %x, want 8", v)
	}
}

func receipt(id byte, body primitives.ReceiptBody) *primitives.Receipt {
	return &primitives.Receipt{PredecessorID: "pp", ReceiverID: "rr", ID: primitives.Hash{id}, Body: body}
}

func waiting(yield bool, inputs ...primitives.Hash) *primitives.ActionReceipt {
	return &primitives.ActionReceipt{SignerID: "pp", SignerPublicKey: ownKey("pp"), Yield: yield, InputDataIDs: inputs,
		Actions: []primitives.Action{&primitives.FunctionCall{Method: "m", Gas: 1000}}}
}

func TestReceiptRecordsBecomeTrieEntries(t *testing.T) {
	t.Parallel()
	known, missing1, missing2, yield := primitives.Hash{1}, primitives.Hash{2}, primitives.Hash{3}, primitives.Hash{4}
	postponed := receipt(10, waiting(false, known, missing1, missing2))
	yielded := receipt(11, waiting(true, yield))
	delayed := []*primitives.Receipt{receipt(12, waiting(false)), receipt(13, &primitives.DataReceipt{Data: []byte("d")})}
	g := &genesis.Genesis{Config: genesis.Config{ShardLayout: primitives.SingleShardLayout()}, Records: []genesis.Record{
		&genesis.DelayedReceiptRecord{Receipt: delayed[0]},
		&genesis.PostponedReceiptRecord{Receipt: postponed}, // precedes the data that it waits for
		&genesis.PostponedReceiptRecord{Receipt: yielded},
		&genesis.ReceivedDataRecord{AccountID: "rr", DataID: known},
		&genesis.ReceivedDataRecord{AccountID: "rr", DataID: primitives.Hash{9}, Data: []byte("x")},
		&genesis.DelayedReceiptRecord{Receipt: delayed[1]},
	}}
	shards, _ := roots(t, g)
	key := func(col primitives.TrieColumn, h primitives.Hash) string {
		return string(primitives.AppendAccountHashKey(nil, col, "rr", h))
	}
	want := map[string]string{
		key(primitives.ColReceivedData, known):              "\x00",
		key(primitives.ColReceivedData, primitives.Hash{9}): "\x01\x01\x00\x00\x00x",
		key(primitives.ColPostponedReceiptID, missing1):     string(postponed.ID[:]),
		key(primitives.ColPostponedReceiptID, missing2):     string(postponed.ID[:]),
		key(primitives.ColPendingDataCount, postponed.ID):   "\x02\x00\x00\x00",
		key(primitives.ColPostponedReceipt, postponed.ID):   string(borsh.Marshal(postponed)),
		key(primitives.ColPromiseYieldReceipt, yield):       string(borsh.Marshal(yielded)),
		string(primitives.AppendDelayedReceiptKey(nil, 0)):  string(borsh.Marshal(delayed[0])),
		string(primitives.AppendDelayedReceiptKey(nil, 1)):  string(borsh.Marshal(delayed[1])),
		string(primitives.DelayedIndicesKey):                strings.Repeat("\x00", 8) + "\x02" + strings.Repeat("\x00", 7),
	}
	if got := pairs(shards[0]); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	gas, err := fees.ReceiptGas(pv86, delayed[0])
	if err != nil {
		t.Fatal(err)
	}
	info := primitives.CongestionInfo{DelayedReceiptsGas: primitives.Yocto(uint64(gas)),
		ReceiptBytes: uint64(len(borsh.Marshal(delayed[0])) + len(borsh.Marshal(delayed[1])))}
	if got := shards[0].Congestion; got != info || gas == 0 {
		t.Errorf("congestion = %+v, want %+v", got, info)
	}
}

// TestRecordOrderMattersOnlyForEqualKeys: of equal keys the last counts.
func TestRecordOrderMattersOnlyForEqualKeys(t *testing.T) {
	t.Parallel()
	g := small(1, "test1", "test", "test2", "near")
	_, want := roots(t, g)
	slices.Reverse(g.Records)
	_, got := roots(t, g)
	check(t, "root of the reverse", got[0], want[0].String())
	twice := small(0, "aa")
	twice.Records = append(twice.Records, &genesis.AccessKeyRecord{AccountID: "aa", PublicKey: ownKey("aa").Handle(), AccessKey: primitives.AccessKey{Nonce: 5}})
	shards, _ := roots(t, twice)
	p := pairs(shards[0])
	if v := p[string(primitives.AppendAccessKeyKey(nil, "aa", ownKey("aa").Handle()))]; v[0] != 5 {
		t.Errorf("nonce = %d, want 5", v[0])
	}
	var a primitives.Account
	if err := borsh.Unmarshal([]byte(p["\x00aa"]), &a); err != nil || a.StorageUsage != 100+2*82 {
		t.Errorf("usage = %d, %v, want 264: both records count", a.StorageUsage, err)
	}
}

func TestInvalidGenesisIsRefused(t *testing.T) {
	t.Parallel()
	code := []byte{1}
	for _, c := range []struct {
		name       string
		records    []genesis.Record
		validators []genesis.Validator
	}{
		{"key of nobody", []genesis.Record{&genesis.AccessKeyRecord{AccountID: "aa", PublicKey: ownKey("aa").Handle()}}, nil},
		{"data of nobody, between accounts", []genesis.Record{accountRecord("aa", nil), accountRecord("cc", nil), &genesis.DataRecord{AccountID: "bb"}}, nil},
		{"code of nobody", []genesis.Record{&genesis.ContractRecord{AccountID: "aa", Code: code}}, nil},
		{"code of another hash", []genesis.Record{accountRecord("aa", nil), &genesis.ContractRecord{AccountID: "aa", Code: code}}, nil},
		{"code before its account", []genesis.Record{&genesis.ContractRecord{AccountID: "aa", Code: code}, accountRecord("aa", code)}, nil},
		{"validator without account", nil, []genesis.Validator{{AccountID: "aa"}}},
		{"postponed data", []genesis.Record{&genesis.PostponedReceiptRecord{Receipt: receipt(1, &primitives.DataReceipt{})}}, nil},
		{"nothing to wait for", []genesis.Record{&genesis.PostponedReceiptRecord{Receipt: receipt(1, waiting(false))}}, nil},
		{"validator that is uninitialized", []genesis.Record{bareRecord("aa")}, []genesis.Validator{{AccountID: "aa"}}},
		{"key of an uninitialized account", []genesis.Record{bareRecord("aa"), &genesis.AccessKeyRecord{AccountID: "aa", PublicKey: ownKey("aa").Handle()}}, nil},
		{"data of an uninitialized account", []genesis.Record{bareRecord("aa"), &genesis.DataRecord{AccountID: "aa"}}, nil},
		{"code of an uninitialized account", []genesis.Record{bareRecord("aa"), &genesis.ContractRecord{AccountID: "aa", Code: code}}, nil},
		{"yield without input", []genesis.Record{&genesis.PostponedReceiptRecord{Receipt: receipt(1, waiting(true))}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &genesis.Genesis{Config: genesis.Config{ShardLayout: primitives.SingleShardLayout(), Validators: c.validators}, Records: c.records}
			_, err := State(NewBuilder(pv86, g.Config.ShardLayout), g)
			if e := new(Error); !errors.As(err, &e) || e.Account == "" {
				t.Errorf("got %v, want an *Error", err)
			}
		})
	}
	if _, err := NewBuilder(pv86, primitives.SingleShardLayout()).Finish(1, nil); err == nil {
		t.Errorf("shard 1 of 1: no error")
	}
}

// TestAccountsAreInTheirShards: keys ascend within each shard.
func TestAccountsAreInTheirShards(t *testing.T) {
	t.Parallel()
	layout, err := primitives.MultiShardLayout(4)
	if err != nil {
		t.Fatal(err)
	}
	g := small(2, "test0", "test1", "test2", "test3", "zz", "aa")
	g.Config.ShardLayout = layout
	shards, _ := roots(t, g)
	total := 0
	for i, s := range shards {
		var last []byte
		for k := range s.Pairs() {
			if last != nil && bytes.Compare(last, k) >= 0 {
				t.Errorf("shard %d: %q after %q", s.ID, k, last)
			}
			last = k
			id, ok, err := primitives.TrieKeyAccount(k)
			if err != nil || ok && layout.ShardOf(id) != s.ID {
				t.Errorf("shard %d holds %s: %v", s.ID, id, err)
			}
		}
		if want, _ := layout.IDAt(primitives.ShardIndex(i)); s.ID != want || s.Congestion.AllowedShard != uint16(want) {
			t.Errorf("shard %d at index %d, want %d", s.ID, i, want)
		}
		total += s.Len()
	}
	if total != 12 {
		t.Errorf("%d pairs, want 12", total)
	}
}

func BenchmarkState(b *testing.B) {
	const n = 100_000
	var ids []primitives.AccountID
	for i := range n {
		ids = append(ids, primitives.AccountID(fmt.Sprintf("account%d.near", i)))
	}
	key := ownKey("k").Handle()
	b.ReportAllocs()
	for b.Loop() {
		x := NewBuilder(pv86, primitives.SingleShardLayout())
		for _, id := range ids {
			_ = x.Add(&genesis.AccountRecord{AccountID: id, Account: primitives.Account{Version: primitives.AccountV1}})
			_ = x.Add(&genesis.AccessKeyRecord{AccountID: id, PublicKey: key})
		}
		if s, err := x.Finish(0, nil); err != nil || s.Len() != 2*n {
			b.Fatal(err)
		}
	}
}
