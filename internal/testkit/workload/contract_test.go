package workload

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/runtime/vm"
)

// theVM runs the contracts of all chains of the tests: they share compiled code.
var theVM = sync.OnceValues(func() (*vm.VM, error) {
	return vm.New(vm.Options{Alarm: func(err error) { panic(err) }})
})

// TestContractWorkloadsLoseNoToken is TestWorkloadsLoseNoToken with contracts: programs of host
// calls with promises across shards, tokens, yields, storage. The token supply is constant, and
// parallel execution, restarts, and execution from the blocks alone give the same results.
func TestContractWorkloadsLoseNoToken(t *testing.T) {
	n, blocks := 8, 30
	if full() {
		n, blocks = 40, 50
	}
	if testing.Short() || testutil.Racing {
		n, blocks = 2, 12
	}
	v, err := theVM()
	if err != nil {
		t.Fatal(err)
	}
	statuses := map[string]int{}
	for seed := range uint64(n) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			o, course := RandomChain(1000+seed, blocks)
			o.Contracts, o.VM = true, v
			runWorkload(t, o, course, statuses)
		})
	}
	for _, name := range slices.Sorted(maps.Keys(statuses)) {
		t.Logf("%7d %s", statuses[name], name)
	}
	if statuses["ok *primitives.FunctionCall"] == 0 || statuses["ran in parallel"] == 0 || statuses["postponed"] == 0 {
		t.Errorf("no call succeeded, ran in parallel or was postponed")
	}
}
