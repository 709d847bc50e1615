package backend

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/replay"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/stream"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
)

var recorded = testutil.Data("neard/")

// TestStreamerMessagesEqualNearcores: the message of every block of a chain that nearcore's indexer
// framework has streamed is the same, byte for byte, for blocks in memory and for blocks that only
// the store has.
func TestStreamerMessagesEqualNearcores(t *testing.T) {
	if _, err := os.Stat(filepath.Join(recorded, "stream.jsonl.gz")); err != nil {
		t.Skip("the recording is not here:", err)
	}
	rec, err := replay.Open(recorded + "index.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	n, stored, early := 0, 0, 0
	report, err := replay.Run(rec, replay.Options{Par: func(n int, do func(int)) {
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() { do(i) })
		}
		wg.Wait()
	}, End: func(e *engine.Engine) error {
		config, _, err := genesis.ReadConfig(bytes.NewReader(rec.Genesis))
		if err != nil {
			return err
		}
		back := New(Options{Engine: e, Genesis: config, Now: time.Now})
		return lines(recorded+"stream.jsonl.gz", func(want []byte) error {
			height := primitives.Height(n)
			n++
			got, err := back.StreamerMessage(view.BlockRef{Kind: view.RefHeight, Height: height})
			if err != nil {
				return err
			}
			// as it is served before the block is persisted
			if k, err := back.byHeight(height); err == nil && k.entry != nil {
				if d := back.upcoming(k.ref.Hash); d != nil {
					early++
					if text, err := d.MessageJSON(nil); err != nil || !bytes.Equal(text, want) {
						t.Errorf("block %d differs before it is on disk: %v", height, err)
					}
				}
			}
			if !bytes.Equal(got, want) {
				i := 0
				for i < len(got) && i < len(want) && got[i] == want[i] {
					i++
				}
				from := max(0, i-200)
				t.Errorf("block %d differs at byte %d:\n got ...%s\nwant ...%s", height, i, got[from:min(len(got), i+200)], want[from:min(len(want), i+200)])
				if stored++; stored > 3 {
					return errors.New("enough")
				}
			}
			return nil
		})
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		t.Error(f)
	}
	if n != 1296 {
		t.Errorf("%d messages, want 1296", n)
	}
	if early == 0 {
		t.Error("no block is in memory")
	}
	t.Logf("%d from memory alone", early)
}

func lines(path string, each func([]byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	s := bufio.NewScanner(z)
	s.Buffer(nil, 64<<20)
	for s.Scan() {
		if err := each(s.Bytes()); err != nil {
			return err
		}
	}
	return s.Err()
}

// TestDelayedLocalReceiptIsRecomputed: a delayed local receipt has no record of its own in old
// stores. It is recomputed from its transaction some blocks before. The test does so for receipts
// that are stored, and compares the two.
func TestDelayedLocalReceiptIsRecomputed(t *testing.T) {
	for _, name := range []string{"native", "globals"} {
		rec, err := replay.Open("../testkit/replay/testdata/" + name + ".jsonl.gz")
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		_, err = replay.Run(rec, replay.Options{End: func(e *engine.Engine) error {
			config, _, err := genesis.ReadConfig(bytes.NewReader(rec.Genesis))
			if err != nil {
				return err
			}
			back := New(Options{Engine: e, Genesis: config, Now: time.Now})
			last, err := e.Store().BlockByHash(rec.Blocks[len(rec.Blocks)-1].Given.Header.Hash)
			if err != nil {
				return err
			}
			lost, want := map[primitives.Hash]*stream.Details{}, map[primitives.Hash][]byte{}
			for i := range rec.Blocks {
				k, err := back.find(view.BlockRef{Kind: view.RefHash, Hash: rec.Blocks[i].Given.Header.Hash})
				if err != nil {
					return err
				}
				if k.ref == last.Ref() || last.Ref().Height-k.ref.Height > delayedReach {
					continue
				}
				m, err := back.streamed(k)
				if err != nil {
					return err
				}
				details, err := back.details(k, m)
				if err != nil {
					return err
				}
				for i := range details {
					for _, x := range details[i].Local {
						lost[x.ID] = &stream.Details{Receipts: map[primitives.Hash]*primitives.Receipt{}}
						want[x.ID] = x.AppendBorsh(nil)
					}
				}
			}
			got := maps.Clone(lost)
			if err := back.delayed(last, lost); err != nil {
				return err
			}
			for id, d := range got {
				if x := d.Receipts[id]; x == nil || !bytes.Equal(x.AppendBorsh(nil), want[id]) {
					t.Errorf("%s: receipt %v: found %+v", name, id, x)
				}
				found++
			}
			return nil
		}})
		if err != nil {
			t.Fatalf("%s: error %v", name, err)
		}
		if found == 0 {
			t.Errorf("%s: no account has sent itself anything", name)
		}
	}
}
