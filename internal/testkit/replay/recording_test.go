package replay

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/troupe-chain/troupe/primitives"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
)

// shared is the folder of recordings beside a checkout.
var shared = testutil.Data("neard")

func openShared(t testing.TB, name string) *Recording {
	t.Helper()
	path := filepath.Join(shared, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no %s beside this checkout: the cut-down recordings of testdata are judged instead", path)
	}
	rec, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// openWay opens a recording for a test of one replay mode: the cut, or the whole one if every mode
// is to be replayed.
func openWay(t testing.TB, name string) *Recording {
	t.Helper()
	if modes() {
		return openShared(t, name+".jsonl.gz")
	}
	return openCut(t, name)
}

// openCut opens the first blocks of a recording, which the project carries.
func openCut(t testing.TB, name string) *Recording {
	t.Helper()
	rec, err := Open("testdata/" + name + ".jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestRecordingIsReadWhole(t *testing.T) {
	rec := openShared(t, "four.jsonl.gz")
	if got, want := len(rec.Blocks), 1041; got != want {
		t.Errorf("blocks = %d, want %d", got, want)
	}
	if got, want := len(rec.Txs), 709; got != want {
		t.Errorf("transactions = %d, want %d", got, want)
	}
	for h, chunks := range rec.Chunks {
		for i := range chunks {
			if _, err := rec.Transactions(&chunks[i]); err != nil {
				t.Errorf("height %d: %v", h, err)
			}
		}
	}
}

func TestDiffJSONNamesThePath(t *testing.T) {
	for _, c := range []struct{ got, want, path string }{
		{`{"a":1}`, `{"a":1}`, ""},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, ""},
		{`{"a":{"b":[1,2]}}`, `{"a":{"b":[1,3]}}`, ".a.b[1]"},
		{`{"a":1.0}`, `{"a":1}`, ".a"},
		{`{"a":1}`, `{"a":1,"c":null}`, ".c"},
		{`[1]`, `[1,2]`, "[1]"},
	} {
		d := DiffJSON("x", []byte(c.got), []byte(c.want), 5)
		if c.path == "" && len(d) != 0 || c.path != "" && (len(d) != 1 || d[0].Path != c.path) {
			t.Errorf("DiffJSON(%s, %s) = %v, want path %q", c.got, c.want, d, c.path)
		}
	}
}

// TestRepliesBeyondRecordingAreRecognised: replies that count blocks after the recording's last one
// are recognised.
func TestRepliesBeyondRecordingAreRecognised(t *testing.T) {
	rec := &Recording{Lights: []LightLine{{Height: 3}, {Height: 0}, {Height: 7}, {Height: 9}, {Height: 12}}}
	epoch := func(b byte) (e primitives.EpochID) { e[0] = b; return e }
	for h := primitives.Height(0); h <= 7; h++ {
		if h == 5 { // skipped
			continue
		}
		b := BlockLine{}
		b.Given.Header.Height, b.Given.Header.EpochID = h, epoch(byte(h/4))
		rec.Blocks = append(rec.Blocks, b)
	}
	rec.Epochs = []EpochLine{{EpochID: epoch(0), Blocks: 9}, {EpochID: epoch(1), Blocks: 4}, {EpochID: epoch(1), Blocks: 5}}
	if got := rec.lightsWithin(); len(got) != 3 || got[2].Height != 7 {
		t.Errorf("light client blocks: %+v", got)
	}
	if got := rec.epochsWithin(); len(got) != 2 || got[1].Blocks != 4 {
		t.Errorf("epochs: %+v", got)
	}
}
