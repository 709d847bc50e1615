package badchunk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/bandwidth"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage/trie"
)

// whole returns an input with all fields set.
func whole(t *testing.T) *apply.Input {
	t.Helper()
	layout, err := primitives.MultiShardLayout(3)
	if err != nil {
		t.Fatal(err)
	}
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "key")
	body := primitives.Transaction{SignerID: "a.near", ReceiverID: "b.near", PublicKey: key.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: 7},
		Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.Yocto(5)}}}
	hash := body.Hash()
	amounts := []apply.AccountAmount{{Account: "a.near", Amount: primitives.NEAR(3)}}
	return &apply.Input{
		Layout: layout, NewChunk: true, GasLimit: 1e15,
		Block: action.Block{
			Config: parameters.MustGet(parameters.June(parameters.Newest(primitives.NumberingJune))), ChainID: "chain", ShardID: 1, Height: 12, PrevHash: primitives.Hash{1},
			EpochID: primitives.EpochID{2}, EpochHeight: 3, Timestamp: 4, GasPrice: primitives.Yocto(5), RandomValue: primitives.Hash{6},
			MinimumStake: primitives.Yocto(7), Stakes: stakes(amounts),
		},
		Congestion: []apply.ShardCongestion{{Shard: 1, Info: primitives.CongestionInfo{DelayedReceiptsGas: primitives.NEAR(1), ReceiptBytes: 2, AllowedShard: 3}, Missed: 4}},
		Requests:   []bandwidth.SenderRequests{{Shard: 2, Requests: []primitives.BandwidthRequest{{ToShard: 1, Bitmap: [5]byte{1, 2, 3, 4, 255}}}}},
		Validators: &apply.ValidatorUpdate{Stakes: amounts, Rewards: amounts, Treasury: "treasury",
			LastProposals: []primitives.ValidatorStake{{AccountID: "a.near", PublicKey: key.PublicKey(), Stake: primitives.NEAR(9)}}},
		Split: &apply.SplitRule{MaxShards: 4, Force: []primitives.ShardID{1}, Block: []primitives.ShardID{2}, MemoryThreshold: 5, MinChildMemory: 6},
		Patch: []genesis.Record{&genesis.DataRecord{AccountID: "b.near", Key: []byte{1}, Value: []byte{2}},
			&genesis.Removal{Of: &genesis.ContractRecord{AccountID: "b.near"}}},
		Transactions: []apply.Transaction{{SignedTransaction: primitives.NewSignedTransaction(body, key.Sign(hash[:])), Valid: true}},
		Incoming: []*primitives.Receipt{{PredecessorID: "a.near", ReceiverID: "b.near", ID: primitives.Hash{8},
			Body: &primitives.ActionReceipt{SignerID: "a.near", SignerPublicKey: key.PublicKey(), GasPrice: primitives.Yocto(1), Actions: body.Actions}}},
	}
}

func TestFileRestoresWholeInput(t *testing.T) {
	in, dir := whole(t), t.TempDir()
	for i, v := 0, reflect.ValueOf(in).Elem(); i < v.NumField(); i++ {
		switch f := v.Type().Field(i); f.Name {
		case "Trie", "Signature", "Recording", "Par", "Canceled", "Clock", "window": // not stored, because they are not part of the chunk
		default:
			if v.Field(i).IsZero() {
				t.Errorf("the test sets no %s", f.Name)
			}
		}
	}
	file := describe(in, in.Block.Stakes.(stakes))
	file.State = State{Root: primitives.Hash{1}, Whole: true,
		Frontier: []trie.FrontierEntry{{Path: []byte{1, 2}, Hash: primitives.Hash{3}, Size: 4, IsValue: true, Data: []byte{}}, {Path: []byte{15}, Size: 1 << 40}},
		Subtrees: []Subtree{{From: []byte{1}, Pairs: [][]byte{{1, 2}, {}, {1, 3}, {255}}}}}
	path, err := Write(dir, file)
	if err != nil {
		t.Fatal(err)
	}
	if !Is(path) {
		t.Error("Is does not recognize the file")
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.State, file.State) {
		t.Errorf("state\n%+v, want\n%+v", got.State, file.State)
	}
	again, err := got.input()
	if err != nil {
		t.Fatal(err)
	}
	for _, tx := range append(in.Transactions, again.Transactions...) {
		tx.Hash() // compute the cached hashes of both
	}
	if !reflect.DeepEqual(again, in) {
		t.Errorf("input\n%+v, want\n%+v", again, in)
	}
	for what, change := range map[string]func(*File){
		"layout": func(f *File) { f.Context.Layout = []byte{9} }, "transaction": func(f *File) { f.Txs[0].Bytes = nil },
		"receipt": func(f *File) { f.Incoming[0] = []byte{1} }, "proposals": func(f *File) { f.Context.Update.Proposals = []byte{1} },
		"patch":   func(f *File) { f.Patch = []byte("[1]") },
		"version": func(f *File) { f.Context.Protocol = 1 },
	} {
		t.Run(what, func(t *testing.T) {
			bad, err := Read(path)
			if err != nil {
				t.Fatal(err)
			}
			change(bad)
			if _, err := bad.input(); err == nil {
				t.Errorf("a bad %s is accepted", what)
			}
		})
	}
}

func TestReadOfMissingStateReturnsErrState(t *testing.T) {
	s := State{Subtrees: []Subtree{{From: []byte{1}, To: []byte{2}, Pairs: [][]byte{{1}, {2}}}}}
	n := 0
	if err := s.load([]byte{1}, []byte{2}, func(_, _ []byte) bool { n++; return true }); err != nil || n != 1 {
		t.Errorf("%d pairs, %v", n, err)
	}
	if err := s.load([]byte{1}, nil, nil); !errors.Is(err, ErrState) {
		t.Errorf("another subtree: %v", err)
	}
}

// TestFolderKeepsNewestFiles: a folder keeps the newest MaxFiles files. Partly written files of an
// earlier process are removed.
func TestFolderKeepsNewestFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	now := time.Now()
	for i := range MaxFiles + 3 {
		path, err := Write(dir, &File{Format: format, Height: primitives.Height(100 - i)})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now, now.Add(time.Duration(i-100)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != MaxFiles {
		t.Fatalf("%d files, %v, want %d", len(list), err, MaxFiles)
	}
	for _, f := range list {
		var h primitives.Height
		if _, err := fmt.Sscanf(f.Name(), "chunk-%010d-", &h); err != nil || h > 97 {
			t.Errorf("%s is still there, %v", f.Name(), err)
		}
	}
	late, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range late { // as if the clock had been set back afterwards
		if err := os.Chtimes(filepath.Join(dir, f.Name()), now, now.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	left := filepath.Join(dir, "new-1") // left by a process that was killed while writing
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if path, err := Write(dir, &File{Format: format, Height: 7}); err != nil || !Is(path) {
		t.Errorf("what was written is not there: %v", err)
	}
	if list, _ := os.ReadDir(dir); len(list) != MaxFiles || Is(left) {
		t.Errorf("%d files, want %d", len(list), MaxFiles)
	}
	other := filepath.Join(dir, "other.jsonl.gz")
	if err := os.WriteFile(other, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if Is(other) || Is(filepath.Join(dir, "none")) {
		t.Error("another file is taken for one of these")
	}
	if _, err := Read(other); !errors.Is(err, ErrFormat) {
		t.Errorf("another file: %v", err)
	}
	next, err := Write(dir, &File{Format: format + 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Read(next); !errors.Is(err, ErrFormat) {
		t.Errorf("another version: %v", err)
	}
}
