package bench

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestShardRootsDependOnlyOnSeed: the same seed gives the same roots, on one core or two, with a
// fixed size of chunks.
func TestShardRootsDependOnlyOnSeed(t *testing.T) {
	var first []primitives.Hash
	for _, cores := range []int{1, 2} {
		r, err := runShort(t, ShardOptions{Accounts: 500, Shards: 3, Skew: 1, Cross: 0.3, Batch: 120, Blocks: 5, Cores: cores, Seed: 7})
		if err != nil {
			t.Fatal(err)
		}
		x := &r.Result
		if x.Blocks != 5 || x.Transfers != 5*3*120 || x.Failed != 0 || x.WaitingBlocks != 0 {
			t.Errorf("%d cores: %d blocks, %d transfers, %d failed, %d blocks with waiting receipts; want 5, %d, 0, 0", cores, x.Blocks, x.Transfers, x.Failed, x.WaitingBlocks, 5*3*120)
		}
		if x.Outcomes < 2*x.Transfers {
			t.Errorf("%d cores: %d outcomes of %d transfers", cores, x.Outcomes, x.Transfers)
		}
		if first == nil {
			first = x.Roots
		}
		if !slices.Equal(x.Roots, first) {
			t.Errorf("%d cores: roots %v, want %v", cores, x.Roots, first)
		}
	}
}

// TestDefaultChunkHas1PGasOfTransfers: by default a chunk has as many transfers as fit into 1 PGas,
// and none has to wait.
func TestDefaultChunkHas1PGasOfTransfers(t *testing.T) {
	r, err := runShort(t, ShardOptions{Accounts: 3000, Shards: 1, Skew: 1, Blocks: 3, Cores: 1, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if x := &r.Result; x.PerChunk < 1300 || x.PerChunk > mostTransfers || x.WaitingBlocks != 0 || x.GasPerChunk > chunkGasLimit {
		t.Errorf("%.0f transfers and %.0f gas a chunk, %d blocks with waiting receipts", x.PerChunk, x.GasPerChunk, x.WaitingBlocks)
	}
	var text, raw bytes.Buffer
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "transfers") {
		t.Errorf("text report %q: %v", text.String(), err)
	}
	if err := r.WriteJSON(&raw); err != nil {
		t.Fatal(err)
	}
	var back ShardReport
	if err := json.Unmarshal(raw.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if back.Result.PerSecond != r.Result.PerSecond || !slices.Equal(back.Result.Roots, r.Result.Roots) || back.Limits != r.Limits {
		t.Errorf("read back: %+v, want %+v", back, *r)
	}
}

func TestInvalidShardOptionsAreRefused(t *testing.T) {
	good := ShardOptions{Accounts: 100, Shards: 1, Blocks: 1, Cores: 1}
	for name, spoil := range map[string]func(*ShardOptions){
		"accounts": func(o *ShardOptions) { o.Accounts = 1 },
		"skew":     func(o *ShardOptions) { o.Skew = -1 },
		"cross":    func(o *ShardOptions) { o.Cross = 2 },
		"batch":    func(o *ShardOptions) { o.Batch = -1 },
		"duration": func(o *ShardOptions) { o.Blocks = 0 },
		"cores":    func(o *ShardOptions) { o.Cores = 0 },
		"shards":   func(o *ShardOptions) { o.Shards = 27 },
		"few":      func(o *ShardOptions) { o.Accounts, o.Shards = 20, 26 },
	} {
		t.Run(name, func(t *testing.T) {
			o := good
			spoil(&o)
			if _, err := runShort(t, o); err == nil {
				t.Error("no error")
			}
		})
	}
}

func runShort(t *testing.T, o ShardOptions) (*ShardReport, error) {
	t.Helper()
	if o.Cores > 1 && o.Cores > machineCores() {
		t.Skip("one core")
	}
	o.Dir = t.TempDir()
	return RunShard(t.Context(), o)
}

func machineCores() int { m := ThisMachine(); return m.Cores }

// TestTokenRootsAreEqualOnAnyCores: calls of a token succeed, and give the same roots on one core
// and on two.
func TestTokenRootsAreEqualOnAnyCores(t *testing.T) {
	var first []primitives.Hash
	for _, cores := range []int{1, 2} {
		r, err := runShort(t, ShardOptions{Accounts: 300, Shards: 2, Skew: 1, Cross: 0.3, Batch: 40, Blocks: 4, Cores: cores, Seed: 7, Tokens: true, Contracts: 3})
		if err != nil {
			t.Fatal(err)
		}
		x := &r.Result
		if x.Transfers != 4*2*40 || x.Failed != 0 || x.Outcomes < 3*x.Transfers {
			t.Errorf("%d cores: %d calls, %d failed, %d outcomes; want %d, 0, three of each", cores, x.Transfers, x.Failed, x.Outcomes, 4*2*40)
		}
		if first == nil {
			first = x.Roots
		}
		if !slices.Equal(x.Roots, first) {
			t.Errorf("%d cores: roots %v, want %v", cores, x.Roots, first)
		}
	}
}
