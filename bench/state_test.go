package bench

import (
	"bytes"
	"compress/flate"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
)

// TestAccountsComeSortedByName: each account comes once.
func TestAccountsComeSortedByName(t *testing.T) {
	for _, accounts := range []int{1, 26, 27, 261, 5000} {
		var got, want []string
		sorted(accounts, func(i int) bool { got = append(got, string(workload.Account(i))); return true })
		for i := range accounts {
			want = append(want, string(workload.Account(i)))
		}
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("%d accounts: %v, want %v", accounts, got, want)
		}
	}
}

// TestStateLargerThanMemoryIsServed: a chain that is created with too little memory for its trie is
// run twice under transfers, and answers.
func TestStateLargerThanMemoryIsServed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	made, err := RunState(t.Context(), StateOptions{Dir: dir, Accounts: 20_000, Memory: 1})
	if err != nil {
		t.Fatal(err)
	}
	if x := &made.Result; x.StateBytes < 20_000*100 || x.AccountsPerSecond <= 0 || cpuTime() > 0 && (x.ValueMicros <= 0 || x.LookUpMicros <= 0) {
		t.Errorf("result %+v", made.Result)
	}
	for range 2 {
		r, err := RunNode(t.Context(), NodeOptions{State: dir, Memory: 1 << 20, Skew: 1, Senders: 2, Batch: 8, Window: 200, Rate: 300, Duration: time.Second, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if x := &r.Result; x.Included == 0 || x.Refused != 0 || x.Failed != 0 {
			t.Errorf("included %d, %d refused (%s), %d failed", x.Included, x.Refused, x.Refusal, x.Failed)
		}
	}
	x, err := RunShard(t.Context(), ShardOptions{State: dir, Memory: 1 << 20, Skew: 1, Shards: 1, Batch: 50, Blocks: 3, Cores: 2, Seed: 1, Dir: t.TempDir()})
	if err != nil || x.Result.Transfers != 150 || x.Result.Failed != 0 || cpuTime() > 0 && x.Result.LoadCPUSeconds <= 0 {
		t.Errorf("the executor on a stored state: %+v, %v", x, err)
	}
	r, err := RunRPC(t.Context(), RPCOptions{State: dir, Memory: 1 << 20, Scenarios: []string{"view_account"}, Connections: 2, Rate: 200, Duration: 200 * time.Millisecond, Dir: t.TempDir()})
	if err != nil || len(r.Results) != 1 || r.Results[0].Requests == 0 {
		t.Errorf("reads of a stored state: %v, %v", r, err)
	}
}

// TestStateValuesAreDeterministicAndCounted: equal seeds give equal states, another seed gives
// another. The entries ascend, their values do not compress, and the accounts are charged for them.
// The size as nearcore counts it grows by the values and the nodes that lead to them.
func TestStateValuesAreDeterministicAndCounted(t *testing.T) {
	o := StateOptions{Accounts: 2000, Values: 5000, ValueBytes: 100, Seed: 3, Memory: 1}
	v, err := newStateValues(&o)
	if err != nil {
		t.Fatal(err)
	}
	count, bytesOf, usage := 0, 0, uint64(0)
	var last []byte
	var text bytes.Buffer
	zip, _ := flate.NewWriter(&text, flate.BestCompression)
	v.all(func(key, value []byte) bool {
		if bytes.Compare(last, key) >= 0 {
			t.Fatalf("key %x after %x", key, last)
		}
		last, count, bytesOf = key, count+1, bytesOf+len(value)
		usage += uint64(dataKeyBytes + len(value) + recordBytes)
		_, _ = zip.Write(value)
		return true
	})
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	for _, n := range v.usage {
		usage -= n
	}
	if count != o.Values || usage != 0 || bytesOf < 450_000 || bytesOf > 550_000 || text.Len() < bytesOf || v.counts[0] < 4*v.counts[9] {
		t.Errorf("%d entries, %d bytes, %d compressed, usage differs by %d, first accounts have %v", count, bytesOf, text.Len(), usage, v.counts[:10])
	}
	run := func(o StateOptions) (root primitives.Hash, size uint64) {
		o.Dir = filepath.Join(t.TempDir(), "state")
		r, err := RunState(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		n, err := reopenState(o.Dir, 1, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := n.stop(); err != nil {
				t.Error(err)
			}
		}()
		return n.Engine.Genesis().Shards[0].Extra.StateRoot, r.Result.StateBytes // the head may be a later block already
	}
	first, size := run(o)
	if again, _ := run(o); again != first {
		t.Errorf("equal options give the roots %v and %v", first, again)
	}
	o.Seed++
	if other, _ := run(o); other == first {
		t.Error("another seed gives an equal state")
	}
	o.Values = 0
	if _, small := run(o); size-small < uint64(bytesOf)+100*5000 {
		t.Errorf("the state has %d bytes, %d without the entries, which have %d", size, small, bytesOf)
	}
	for _, bad := range []StateOptions{{Accounts: 2, Values: -1}, {Accounts: 2, Values: 1}, {Accounts: 2, Values: 1, ValueBytes: maxMean + 1}} {
		if _, err := RunState(t.Context(), bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
