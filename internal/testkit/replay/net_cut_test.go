package replay

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
)

// cutSeconds is the end of the recorded network's cut, in seconds. By then contracts have been
// called, and a validator has been stopped for a while.
const cutSeconds = 121.2

// cutWindows are when witnesses and endorsements are kept: the first blocks, without a validator
// (some chunks are missing), deployments, calls of contracts.
var cutWindows = [][2]float64{{0, 12}, {67, 74}, {94, 97}, {115, cutSeconds}}

// TestCutNet makes testdata/net.jsonl.gz: all blocks up to cutSeconds, each chunk's body once,
// witnesses and endorsements of some periods, and a few messages of each other kind.
func TestCutNet(t *testing.T) {
	if !*cut {
		t.Skip("only with -cut")
	}
	folder := filepath.Join(shared, "net")
	path := filepath.Join(folder, "frames.jsonl.gz")
	nodes, frames := testutil.Frames(t, path, func(kind string) bool {
		return kind == "routed" || kind == "block_response" || kind == "optimistic_block" || kind == "state_response"
	})
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	first, err := json.Marshal(map[string]any{"nodes": nodes, "genesis": json.RawMessage(testutil.Read(t, filepath.Join(folder, "genesis.json.gz")))})
	if err != nil {
		t.Fatal(err)
	}
	write := func(line []byte) {
		if _, err := z.Write(append(bytes.Clone(line), '\n')); err != nil {
			t.Fatal(err)
		}
	}
	write(first)
	kept, seen := map[string]int{}, map[primitives.Hash]bool{}
	for f := range frames {
		if f.Time > cutSeconds {
			break
		}
		name, content := f.Kind, f.Bytes
		if tag, body, ok := f.Routed(); ok {
			name, content = string(rune(tag)), body
			if len(content) > 160 && tag == 16 {
				content = body[:160] // one of a chunk
			}
		}
		hash := primitives.HashBytes(append([]byte(name), content...))
		if seen[hash] {
			continue
		}
		seen[hash] = true
		want := kept[name] < 12
		switch name {
		case "block_response", "\x10", "\x1c", "\x1f":
			want = true
		case "\x16", "\x18":
			for _, w := range cutWindows {
				want = want || f.Time >= w[0] && f.Time < w[1]
			}
		}
		if want {
			kept[name]++
			write(f.Text)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("testdata/net.jsonl.gz", out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes, kept %v", out.Len(), kept)
}
