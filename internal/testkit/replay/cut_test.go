package replay

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
)

// cut makes testdata/*.jsonl.gz again: `go test ./internal/testkit/replay -run TestCut -cut`, with the
// whole recordings in the folder that TROUPE_DATA names (shared/data beside the checkout). A cut
// contains the first blocks of a recording and all lines that belong to them. Replies recorded at
// the end of the whole chain (statuses, validators, light client blocks) are kept if a shorter
// chain gives the same, which a replay of the cut checks.
var cut = flag.Bool("cut", false, "make the cut-down recordings again")

// cuts maps recordings to the last block of their cut. native contains 19 contract calls; four the
// outage and kickout of node3; probe calls of every host function; storm floods; reshard an upgrade
// and two splits, with the epoch configs beside it; globals global contracts that are called in the
// chunks that deploy them.
var cuts = map[string]primitives.Height{"native": 700, "four": 480, "probe": 500, "storm": 60, "reshard": 700, "globals": 132}

func TestCut(t *testing.T) {
	if !*cut {
		t.Skip("only with -cut")
	}
	for name, last := range cuts {
		t.Run(name, func(t *testing.T) { cutOne(t, name, last) })
	}
}

func cutOne(t *testing.T, name string, last primitives.Height) {
	path := filepath.Join(shared, name+".jsonl.gz")
	rec, err := Read(bytes.NewReader(cutLines(t, path, last, nil)))
	if err != nil {
		t.Fatal(err)
	}
	report, err := Run(rec, Options{MaxFindings: 1 << 20, EpochConfig: epochConfigs(t, name)})
	if err != nil {
		t.Fatal(err)
	}
	drop := map[string]bool{}
	for _, d := range report.Findings {
		if !strings.HasPrefix(d.Where, "transaction ") && !strings.HasPrefix(d.Where, "light client block after ") && !strings.HasPrefix(d.Where, "validators of epoch ") {
			t.Fatalf("%s: difference %v", name, d)
		}
		drop[d.Where] = true
	}
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if _, err := z.Write(cutLines(t, path, last, drop)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("testdata", name+".jsonl.gz"), out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d bytes, %d answers of the end dropped", name, out.Len(), len(drop))
}

// cutLines returns the lines of the blocks up to last; those in drop go, or for transactions lose
// their status.
func cutLines(t *testing.T, path string, last primitives.Height, drop map[string]bool) []byte {
	t.Helper()
	var out bytes.Buffer
	included, height, known := map[primitives.Hash]bool{}, primitives.Height(0), map[primitives.Hash]bool{{}: true}
	for n, line := range testutil.Lines(t, path) {
		var l struct {
			Block *struct {
				Header struct {
					Height  primitives.Height `json:"height"`
					Hash    primitives.Hash   `json:"hash"`
					EpochID primitives.Hash   `json:"epoch_id"`
				} `json:"header"`
			} `json:"block"`
			Height *primitives.Height `json:"height"`
			Chunk  *struct {
				Transactions []struct {
					Hash primitives.Hash `json:"hash"`
				} `json:"transactions"`
			} `json:"chunk"`
			EpochID    *primitives.Hash `json:"epoch_id"`
			Validators json.RawMessage  `json:"validators"`
			After      *primitives.Hash `json:"after"`
			Tx         *primitives.Hash `json:"tx"`
			Label      string           `json:"label"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%s, line %d: %v", path, n, err)
		}
		keep := true
		switch {
		case l.Block != nil:
			height = l.Block.Header.Height
			if keep = height <= last; keep {
				known[l.Block.Header.Hash] = true
			}
		case l.Height != nil:
			if keep = *l.Height <= last; keep && l.Chunk != nil {
				for _, tx := range l.Chunk.Transactions {
					included[tx.Hash] = true
				}
			}
		case l.Validators != nil:
			keep = height <= last && !drop[fmt.Sprintf("validators of epoch %v", *l.EpochID)]
		case l.After != nil:
			keep = known[*l.After] && !drop[fmt.Sprintf("light client block after %v", *l.After)]
		case l.Tx != nil:
			if keep = included[*l.Tx]; keep && drop[fmt.Sprintf("transaction %v (%s)", *l.Tx, l.Label)] {
				var m map[string]json.RawMessage
				if err := json.Unmarshal(line, &m); err != nil {
					t.Fatalf("%s, line %d: %v", path, n, err)
				}
				delete(m, "status")
				delete(m, "submitted")
				var err error
				if line, err = json.Marshal(m); err != nil {
					t.Fatal(err)
				}
			}
		}
		if keep {
			out.Write(line)
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}
