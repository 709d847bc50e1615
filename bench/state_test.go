package bench

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/workload"
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
