package blockfeed

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/storage/history"
)

// BenchmarkImportedBlock measures what a block of mainnet costs, without its transfer: parse, check, and
// store, and then read.
func BenchmarkImportedBlock(b *testing.B) {
	from := testutil.Data("real/lake")
	testutil.Need(b, from, "blocks of public networks are not part of the repository (docs/dev/testing.md)")
	read := func(name string) []byte {
		path := filepath.Join(from, "000107503704", name)
		if _, err := os.Stat(path); err != nil {
			path += ".gz"
		}
		return testutil.Read(b, path)
	}
	text := append([]byte(`{"block":`), read("block.json")...)
	for i, before := range []string{`,"shards":[`, ",", ",", ","} {
		text = append(append(text, before...), read(fmt.Sprintf("shard_%d.json", i))...)
	}
	text = append(text, "]}"...)
	s, err := history.Open(b.TempDir(), history.Options{CacheBytes: -1, GroupBlocks: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	d, err := blockdoc.Parse(text)
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Append(d, nil); err != nil {
		b.Fatal(err)
	}
	height := d.Block.Header.Height
	b.Run("parse", func(b *testing.B) {
		for b.Loop() {
			if _, err := blockdoc.Parse(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("check", func(b *testing.B) {
		for b.Loop() {
			if _, err := d.Check(blockdoc.Known{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("store", func(b *testing.B) {
		for b.Loop() {
			one, err := history.Open(b.TempDir(), history.Options{})
			if err != nil {
				b.Fatal(err)
			}
			if err := one.Append(d, nil); err != nil {
				b.Fatal(err)
			}
			if err := one.Close(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(s.Stats().Bytes), "stored-B")
		b.ReportMetric(float64(len(text)), "feed-B")
		b.ReportMetric(float64(len(d.AppendJSON(nil))), "json-B")
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Document(height); err != nil {
				b.Fatal(err)
			}
		}
	})
}
