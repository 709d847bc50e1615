package engine

import (
	"strconv"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestChosenTransactionsAreMeasured: each choice of a chunk's transactions has its size, gas and gas
// limit, and the number of transactions that it dropped for each reason.
func TestChosenTransactionsAreMeasured(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa", "bb"))
	head := n.Head().Hash
	shard := strconv.FormatUint(uint64(n.Head().Layout.ShardIDs()[0]), 10)
	good := transfer(head, 1)
	unknown, used := transfer(primitives.HashBytes(nil), 2), transfer(head, 0)
	for _, tx := range []*primitives.SignedTransaction{good, unknown, used, used} {
		if _, err := n.Prepare(head, 0, &one{tx: tx}, nil); err != nil {
			t.Fatal(err)
		}
	}
	set := &n.times.Applied.set
	if c, size := set.Count(prepareSize, shard), set.Value(prepareSize, shard); c != 4 || size != int64(good.Size()) {
		t.Errorf("%d choices of %d bytes, want 4 of %d", c, size, good.Size())
	}
	gas, limit := set.Value(prepareGas, shard), set.Value(prepareGasLimit, shard)
	if set.Count(prepareGas, shard) != 4 || gas <= 0 || limit <= gas {
		t.Errorf("%d gas with a limit of %d", gas, limit)
	}
	for reason, want := range map[string]int64{"congestion": 0, "invalid_tx": 2, "invalid_block_hash": 1} {
		if c, v := set.Count(prepareRejected, shard, reason), set.Value(prepareRejected, shard, reason); c != 4 || v != want {
			t.Errorf("%s: %d dropped in %d choices, want %d in 4", reason, v, c, want)
		}
	}
}
