package apply

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// goPar is a Par that runs each call on a goroutine of its own.
func goPar(n int, do func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}

// threeShards has boundaries among the names of the workloads.
func threeShards() primitives.ShardLayout {
	l, err := primitives.MultiShardLayoutAt([]primitives.AccountID{"g", "p"})
	if err != nil {
		panic(err)
	}
	return l
}

// sameResult compares all fields of two results, including the recorded reads and their order.
func sameResult(t testing.TB, got, want *Result) {
	t.Helper()
	if got.Trie.Root() != want.Trie.Root() {
		t.Errorf("root %v, want %v", got.Trie.Root(), want.Trie.Root())
	}
	a, b := got.Recording.(*testRecording).Entries(), want.Recording.(*testRecording).Entries()
	if len(a) != len(b) {
		t.Errorf("%d strings recorded, want %d", len(a), len(b))
	}
	for i := range min(len(a), len(b)) {
		if a[i].Hash != b[i].Hash {
			t.Errorf("recorded string %d = %v, want %v", i, a[i].Hash, b[i].Hash)
			break
		}
	}
	// Which old values are known depends on the order of reads. Known ones must be equal.
	for i := range min(len(got.Olds), len(want.Olds)) {
		if x, y := got.Olds[i], want.Olds[i]; x.Known && y.Known && !bytes.Equal(x.Value, y.Value) {
			t.Errorf("old value %d = %x, want %x", i, x.Value, y.Value)
		}
	}
	strip := func(r *Result) Result {
		c := *r
		c.Trie, c.Recording, c.Olds = nil, nil, nil
		c.Stats.RanInParallel, c.Stats.RanAgain = 0, 0
		return c
	}
	x, y := strip(got), strip(want)
	if !reflect.DeepEqual(x, y) {
		for i := range reflect.TypeOf(x).NumField() {
			f, g := reflect.ValueOf(x).Field(i).Interface(), reflect.ValueOf(y).Field(i).Interface()
			if !reflect.DeepEqual(f, g) {
				ja, _ := json.Marshal(f)
				jb, _ := json.Marshal(g)
				t.Errorf("%s differs:\n%.2000s\nwant\n%.2000s", reflect.TypeOf(x).Field(i).Name, ja, jb)
			}
		}
	}
}

// TestParallelExecutionEqualsSerial runs random workloads in parallel and serially, with limits
// that delay receipts, and compares each chunk. It also checks that the total supply falls by the
// burnt amount of the results.
func TestParallelExecutionEqualsSerial(t *testing.T) {
	t.Parallel()
	first := 0
	if testing.Short() {
		first = 52 // the last few reach all that is asked for below, and the first few do not
	}
	var ran, again, delayed, buffered int
	outcomes := map[string]int{}
	for seed := first; seed < 60; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newRandomWorkload(t, threeShards(), uint64(seed))
			cfg := *w.cfg
			switch seed % 4 {
			case 1:
				cfg.Witness.MainStorageProofSizeSoftLimit = 6_000
			case 2:
				w.limit = 30_000_000_000_000
			case 3:
				cfg.BandwidthScheduler.MaxShardBandwidth, cfg.BandwidthScheduler.MaxSingleGrant = 4_194_304, 4_194_304
				cfg.BandwidthScheduler.MaxBaseBandwidth = 0
				cfg.CongestionControl.MaxOutgoingGas, cfg.CongestionControl.MinOutgoingGas = 60_000_000_000_000, 10_000_000_000_000
			}
			w.cfg = &cfg
			w.vm = wildVM{w.cfg}
			held := w.totalBalance()
			for step := range 14 {
				var txs []*primitives.SignedTransaction
				for range w.rng.IntN(40) {
					if step < 9 {
						txs = append(txs, w.transaction())
					}
				}
				if len(txs) > 3 {
					txs = append(txs, txs[1]) // a second copy
				}
				w.shards[w.rng.IntN(3)].missing = w.rng.IntN(5) == 0
				w.height++
				var inputs []*Input
				for i := range w.shards {
					in := w.input(i, txs)
					in.window = windowSizes{most: 1 + w.rng.IntN(30), least: 1}
					inputs = append(inputs, in)
				}
				w.height--
				results := w.step(txs...)
				for i, in := range inputs {
					// The heights agree. Missed chunks are counted by net.step, so the count is copied.
					in.Congestion = nil
					for j := range w.shards {
						in.Congestion = append(in.Congestion, ShardCongestion{w.layout.ShardIDs()[j], w.before[j], w.shards[j].missed})
					}
					in.Par = goPar
					got, err := Apply(in)
					if err != nil {
						t.Fatal(err)
					}
					ran, again = ran+got.Stats.RanInParallel, again+got.Stats.RanAgain
					sameResult(t, got, results[i])
				}
				for i, r := range results {
					delayed, buffered = delayed+r.Stats.Postponed, buffered+r.Stats.Buffered
					if !w.shards[i].missing {
						held, _ = held.Sub(r.BalanceBurnt)
					}
					for j := range r.Outcomes {
						outcomes[outcomeKind(&r.Outcomes[j])]++
					}
				}
				if got := w.totalBalance(); got != held {
					t.Fatalf("step %d: %v held, want %v", step, got, held)
				}
				for i := range w.shards {
					w.shards[i].missing = false
				}
				if t.Failed() {
					t.Fatalf("seed %d step %d", seed, step)
				}
			}
		})
	}
	t.Logf("%d receipts adopted, %d ran again, %d delayed, %d buffered; outcomes: %v", ran, again, delayed, buffered, outcomes)
	if ran == 0 || again == 0 || delayed == 0 || buffered == 0 {
		t.Errorf("%d adopted, %d ran again, %d delayed, %d buffered: the workload reaches too little", ran, again, delayed, buffered)
	}
}

// outcomeKind returns the name of an outcome's status.
func outcomeKind(o *primitives.OutcomeWithID) string {
	if o.Status.Kind != primitives.StatusFailure {
		return "ok"
	}
	var e primitives.TxExecutionError
	if json.Unmarshal(o.Status.Failure, &e) != nil {
		return "unreadable"
	}
	if e.InvalidTx != nil {
		return e.InvalidTx.Tag.String()
	}
	return e.Action.Kind.Tag.String()
}

// TestReceiverWithMajorityOfWorkIsFound tests the search for a receiver with more than half of the
// work, in which a call counts as ten transfers.
func TestReceiverWithMajorityOfWorkIsFound(t *testing.T) {
	t.Parallel()
	receipt := func(to primitives.AccountID, calls bool) *primitives.Receipt {
		body := &primitives.ActionReceipt{Actions: []primitives.Action{&primitives.Transfer{}}}
		if calls {
			body.Actions = append(body.Actions, &primitives.FunctionCall{})
		}
		return &primitives.Receipt{ReceiverID: to, Body: body}
	}
	for list, want := range map[string]primitives.AccountID{ // small letters: transfers, capitals: calls
		"": "", "a": "a", "ab": "", "aab": "a", "aba": "a", "baa": "a", "abab": "", "abcaa": "a", "aabbc": "",
		"Ab": "a", "Abbbbbbbbb": "a", "Abbbbbbbbbb": "", "Abbbbbbbbbbb": "b", "bbbbbbbbbbbA": "b", "AABBB": "b", "BABAB": "b", "ABC": "",
	} {
		var receipts []*primitives.Receipt
		for _, c := range list {
			receipts = append(receipts, receipt(primitives.AccountID(strings.ToLower(string(c))), c < 'a'))
		}
		if got := majority(receipts); got != want {
			t.Errorf("%s: %q, want %q", list, got, want)
		}
	}
}

// TestReceiptsMayRunAheadInEveryVersion checks that every version's config allows receipts to run
// ahead of their turn, and that a config whose receipts may record more than a chunk does not.
func TestReceiptsMayRunAheadInEveryVersion(t *testing.T) {
	t.Parallel()
	for _, numbering := range []primitives.Numbering{primitives.NumberingJune, primitives.NumberingRelease} {
		for v := parameters.OldestProtocol; v <= parameters.Newest(numbering); v++ {
			version := parameters.Version{Protocol: v, Numbering: numbering}
			c := *parameters.MustGet(version)
			if !canRunAhead(&c) {
				t.Errorf("%v: nothing may run ahead: soft limit %d, a receipt's %d", version,
					c.Witness.MainStorageProofSizeSoftLimit, c.Wasm.Limits.PerReceiptStorageProofSizeLimit)
			}
			c.Witness.MainStorageProofSizeSoftLimit = c.Wasm.Limits.PerReceiptStorageProofSizeLimit + 1
			if canRunAhead(&c) {
				t.Errorf("%v: a receipt may meet its limit below the chunk's and still be adopted", version)
			}
		}
	}
	n := newPair(t)
	cfg := *n.cfg
	cfg.Witness.MainStorageProofSizeSoftLimit = cfg.Wasm.Limits.PerReceiptStorageProofSizeLimit + 1
	for _, c := range []*parameters.RuntimeConfig{n.cfg, &cfg} {
		n.cfg = c
		receipts := bobsReceipts(n, 10)
		for i := range receipts[:5] { // the receiver of most of the work is left out
			receipts[i].ReceiverID = bob
		}
		n.give(receipts...)
		n.height++
		in := n.input(0, nil)
		n.height--
		in.Par, in.window = goPar, windowSizes{most: 10, least: 1}
		r, err := Apply(in)
		if err != nil {
			t.Fatal(err)
		}
		if ahead, want := r.Stats.RanInParallel > 0, c != &cfg; ahead != want {
			t.Errorf("ran ahead: %v, want %v", ahead, want)
		}
		n.shards[0].incoming[0] = nil
	}
}
