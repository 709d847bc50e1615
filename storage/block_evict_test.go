package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage/trie"
)

// uncachedPairs are accounts of evenly spread names, each with an access key, in ascending order.
func uncachedPairs(accounts int) (keys, values [][]byte) {
	c := &benchChain{rng: rand.New(rand.NewPCG(1, 2))}
	names := make([]string, accounts)
	for i := range names {
		names[i] = fmt.Sprintf("%x.near", publicKey(i)[1:9])
	}
	slices.Sort(names)
	for _, name := range names {
		keys = append(keys, primitives.AppendAccountKey(nil, primitives.AccountID(name)))
		values = append(values, c.account())
	}
	for i, name := range names {
		k := append(primitives.AppendAccessKeyPrefix(nil, primitives.AccountID(name)), publicKey(i)...)
		keys, values = append(keys, k), append(values, append(binary.LittleEndian.AppendUint64(nil, uint64(i)), 1))
	}
	return keys, values
}

// BenchmarkFirstReadAfterStart measures the first read of an account after a start, for several
// sizes of the subtrees that are loaded as pairs. It reports the time of the start, the time of the
// read, how much the read spends on pairs and how much on frontier entries, and how much memory
// stays in use after it. It reports the same for a later read, when the upper levels are loaded.
func BenchmarkFirstReadAfterStart(b *testing.B) {
	const accounts, touches = 300_000, 2000
	keys, values := uncachedPairs(accounts)
	for _, limit := range []uint64{64 << 10, 16 << 10, 4 << 10, 2 << 10} {
		var stubs []FrontierChange
		full, err := trie.New(trie.Options{Frontier: limit}).BuildFrontier(func(yield func(k, v []byte) bool) {
			for i := range keys {
				if !yield(keys[i], values[i]) {
					return
				}
			}
		}, 0, func(level int, e *trie.FrontierEntry) {
			stubs = append(stubs, FrontierChange{FrontierNode: FrontierNode{uint8(level), bytes.Clone(e.Path), e.Hash, e.Size}})
		})
		if err != nil {
			b.Fatal(err)
		}
		perAccount := float64(full.Forest().Stats().Bytes) / accounts
		usage := full.MemoryUsage()
		s, err := Open(b.TempDir(), Options{Identity: testIdentity, NoSync: true})
		if err != nil {
			b.Fatal(err)
		}
		g := &Block{Ref: BlockRef{1, hashOf("g")}, Epoch: hashOf("epoch"), Head: true}
		if err := s.Import(g, slices.Values(stubs), func(put func(Pair) error) error {
			for i := range keys {
				if err := put(Pair{0, keys[i], values[i]}); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("op=touch/accounts=%d/frontier=%d", accounts, limit), func(b *testing.B) {
			var start, load, page, get, again time.Duration
			var kept, pairs, loads, rows, pages uint64
			rng := rand.New(rand.NewPCG(3, 4))
			for b.Loop() {
				begun := time.Now()
				var list []trie.FrontierEntry
				source := trie.Source{Rows: func(level int, path []byte, yield func(trie.FrontierEntry) bool) error {
					at := time.Now()
					defer func() { page += time.Since(at) }()
					pages++
					return s.Frontier(0, uint8(level), path, func(f FrontierNode) bool {
						rows++
						return yield(trie.FrontierEntry{Path: f.Path, Hash: f.Hash, Size: f.MemoryUsage})
					})
				}, Load: func(from, to []byte, yield func(k, v []byte) bool) error {
					at := time.Now()
					defer func() { load += time.Since(at) }()
					loads++
					return s.Load(g.Ref, 0, AccountRange{}, from, to, func(k, v []byte) bool { pairs++; return yield(k, v) })
				}}
				if err := source.Rows(trie.Top, nil, func(e trie.FrontierEntry) bool { list = append(list, e); return true }); err != nil {
					b.Fatal(err)
				}
				f := trie.New(trie.Options{Frontier: limit})
				f.SetSource(source)
				root, err := f.Import(list, full.Hash())
				if err != nil {
					b.Fatal(err)
				}
				start += time.Since(begun)
				before := f.Stats().Bytes
				for k := range 2 * touches {
					i := rng.IntN(accounts)
					at := time.Now()
					v, err := root.Get(keys[i], nil)
					if k < touches {
						get += time.Since(at)
					} else {
						again += time.Since(at)
					}
					if err != nil || !bytes.Equal(v, values[i]) {
						b.Fatal(err)
					}
				}
				kept += f.Stats().Bytes - before
				root.Release()
			}
			n := float64(b.N * touches)
			b.ReportMetric(float64(len(stubs)), "entries")
			b.ReportMetric(perAccount, "nodeB/account")
			b.ReportMetric(float64(usage)/accounts, "usage/account")
			b.ReportMetric(float64(start.Microseconds())/float64(b.N)/1000, "ms/start")
			b.ReportMetric(float64(get.Nanoseconds())/n/1000, "us/touch")
			b.ReportMetric(float64(again.Nanoseconds())/n/1000, "us/later-touch")
			b.ReportMetric(float64(page.Nanoseconds())/float64(pages)/1000, "us/page-of-entries")
			b.ReportMetric(float64(rows)/float64(pages), "entries/page")
			b.ReportMetric(float64(load.Nanoseconds())/float64(loads)/1000, "us/load-of-pairs")
			b.ReportMetric(float64(pairs)/float64(loads), "pairs/load")
			b.ReportMetric(float64(kept)/float64(loads), "B/load")
		})
		time.Sleep(2 * time.Second) // the index merges what was imported
		b.Run(fmt.Sprintf("op=seek/accounts=%d/frontier=%d", accounts, limit), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(3, 4))
			for b.Loop() {
				i := rng.IntN(accounts)
				n := 0
				if err := s.Load(g.Ref, 0, AccountRange{}, keys[i], nil, func(k, v []byte) bool { n++; return n < 6 }); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("op=get/accounts=%d/frontier=%d", accounts, limit), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(3, 4))
			for b.Loop() {
				if _, err := s.ValueAt(g.Ref, 0, keys[rng.IntN(accounts)]); err != nil {
					b.Fatal(err)
				}
			}
		})
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		full.Release()
		runtime.GC()
	}
}
