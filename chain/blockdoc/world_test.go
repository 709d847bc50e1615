package blockdoc

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
)

var (
	shared  = testutil.Data("")
	streams = shared + "neard/stream.jsonl.gz"
	real    = shared + "real/"
)

// needShared skips a test if the recordings of public networks are not available.
func needShared(t testing.TB) {
	t.Helper()
	testutil.Need(t, shared+"README.md", "recordings are not part of the repository (docs/dev/testing.md)")
}

// books contains what a follower keeps of earlier documents: code by hash, and block hashes.
type books struct {
	code   map[primitives.Hash][]byte
	blocks []primitives.Hash
}

func newBooks() *books { return &books{code: map[primitives.Hash][]byte{}} }

func (b *books) known(layout *primitives.ShardLayout) Known {
	return Known{Layout: layout, Code: func(h primitives.Hash) []byte { return b.code[h] }, Ancestors: func(yield func(primitives.Hash) bool) {
		for i := len(b.blocks) - 1; i >= 0; i-- {
			if !yield(b.blocks[i]) {
				return
			}
		}
	}}
}

// learn adds the code and the hash of a document.
func (b *books) learn(d *Document) {
	d.Codes(func(c []byte) { b.code[primitives.HashBytes(c)] = c })
	b.blocks = append(b.blocks, d.Hash)
}

// stream is a recorded stream of neard, with the layout of its chain.
type stream struct {
	lines  [][]byte
	layout primitives.ShardLayout
	before []primitives.Hash // hashes of the blocks before the first line
}

// readStream returns the recorded stream, which it reads once for all tests. The caller must not
// change the lines.
func readStream(t testing.TB) *stream {
	t.Helper()
	needShared(t)
	recordedOnce.Do(func() { recorded = decodeStream(t) })
	if recorded == nil {
		t.Fatal("another test failed to read the stream")
	}
	s := *recorded
	s.before = slices.Clip(s.before) // tests append to it
	return &s
}

var (
	recordedOnce sync.Once
	recorded     *stream
	publicOnce   sync.Once
	public       map[string][]byte
)

func decodeStream(t testing.TB) *stream {
	t.Helper()
	s := &stream{}
	for _, line := range testutil.Lines(t, streams) {
		if strings.HasPrefix(string(line), `{"block"`) {
			s.lines = append(s.lines, append([]byte(nil), line...))
		}
	}
	first := primitives.Hash{}
	if d, err := Parse(s.lines[0]); err != nil {
		t.Fatal(err)
	} else {
		first = d.Hash
	}
	below := true
	for _, line := range testutil.Lines(t, shared+"neard/index.jsonl.gz") {
		var j struct {
			Genesis *struct {
				Layout primitives.ShardLayout `json:"shard_layout"`
			} `json:"genesis"`
			Block *struct {
				Header struct {
					Hash     primitives.Hash `json:"hash"`
					PrevHash primitives.Hash `json:"prev_hash"`
				} `json:"header"`
			} `json:"block"`
		}
		if err := json.Unmarshal(line, &j); err != nil {
			t.Fatal(err)
		}
		switch {
		case j.Genesis != nil:
			s.layout = j.Genesis.Layout
		case j.Block != nil:
			if len(s.before) == 0 {
				s.before = append(s.before, j.Block.Header.PrevHash)
			}
			if below = below && j.Block.Header.Hash != first; below {
				s.before = append(s.before, j.Block.Header.Hash)
			}
		}
	}
	return s
}

// realDocuments returns blocks of public networks by file name, except files that a client has
// renamed. It reads them once for all tests. The caller must not change the documents.
func realDocuments(t testing.TB) map[string][]byte {
	t.Helper()
	needShared(t)
	publicOnce.Do(func() { public = readDocuments(t) })
	if public == nil {
		t.Fatal("another test failed to read the documents")
	}
	return maps.Clone(public)
}

func readDocuments(t testing.TB) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	paths, err := filepath.Glob(real + "blocks/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text := testutil.Read(t, path)
		if strings.Contains(string(text), `"prevHash"`) {
			continue
		}
		name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".gz"), ".json")
		var j struct{ Result json.RawMessage }
		if err := json.Unmarshal(text, &j); err != nil {
			t.Fatal(err)
		}
		if j.Result != nil { // the file is a JSON-RPC response
			text = append(append([]byte(`{"block":`), j.Result...), `,"shards":[]}`...)
		}
		out[name] = exactTime(t, text)
	}
	folders, err := os.ReadDir(real + "lake")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		out["lake-"+f.Name()] = readLake(t, real+"lake/"+f.Name())
	}
	return out
}

// readLake joins the files of one block in a Lake bucket to a StreamerMessage.
func readLake(t testing.TB, dir string) []byte {
	t.Helper()
	read := func(name string) []byte {
		if _, err := os.Stat(dir + "/" + name); err != nil {
			name += ".gz"
		}
		return testutil.Read(t, dir+"/"+name)
	}
	out := append([]byte(`{"block":`), read("block.json")...)
	out = append(out, `,"shards":[`...)
	paths, err := filepath.Glob(dir + "/shard_*")
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range paths {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, read(strings.TrimSuffix(filepath.Base(path), ".gz"))...)
	}
	return append(out, "]}"...)
}

// exactTime restores the digits of the timestamp, if the program that wrote the file has rounded
// it.
func exactTime(t testing.TB, text []byte) []byte {
	var j struct {
		Block struct {
			Header struct {
				Lost  json.Number `json:"timestamp"`
				Exact string      `json:"timestamp_nanosec"`
			} `json:"header"`
		} `json:"block"`
	}
	if err := json.Unmarshal(text, &j); err != nil {
		t.Fatal(err)
	}
	if h := &j.Block.Header; h.Exact != "" && h.Lost.String() != h.Exact {
		return []byte(strings.Replace(string(text), `"timestamp":`+h.Lost.String(), `"timestamp":`+h.Exact, 1))
	}
	return text
}
