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

// coldPairs are accounts of evenly spread names, each with an access key, in ascending order.
func coldPairs(accounts int) (keys, values [][]byte) {
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

// BenchmarkColdTouch is what the first read of an account costs after a start, by the size of the subtrees that are loaded as one: the
// start itself, the load of the pairs alone, and the whole of it; and what of memory a touch keeps.
func BenchmarkColdTouch(b *testing.B) {
	const accounts, touches = 300_000, 2000
	keys, values := coldPairs(accounts)
	for _, limit := range []uint64{64 << 10, 16 << 10, 4 << 10, 1 << 10} {
		full, err := trie.New(trie.Options{Frontier: limit}).Build(func(yield func(k, v []byte) bool) {
			for i := range keys {
				if !yield(keys[i], values[i]) {
					return
				}
			}
		})
		if err != nil {
			b.Fatal(err)
		}
		all, err := full.Frontier()
		if err != nil {
			b.Fatal(err)
		}
		perAccount := float64(full.Forest().Stats().Bytes) / accounts
		usage := full.MemoryUsage()
		s, err := Open(b.TempDir(), Options{Identity: testIdentity, NoSync: true})
		if err != nil {
			b.Fatal(err)
		}
		var stubs []FrontierChange
		for _, e := range all {
			stubs = append(stubs, FrontierChange{Stub: Stub{e.Path, e.Hash, e.Size}})
		}
		g := &Block{Ref: BlockRef{1, hashOf("g")}, Epoch: hashOf("epoch"), Head: true}
		if err := s.Import(g, stubs, func(put func(Pair) error) error {
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
			var start, load, get time.Duration
			var kept, pairs, loads uint64
			rng := rand.New(rand.NewPCG(3, 4))
			for b.Loop() {
				begun := time.Now()
				var list []trie.FrontierEntry
				if err := s.Frontier(0, func(f Stub) bool {
					list = append(list, trie.FrontierEntry{Path: f.Path, Hash: f.Hash, Size: f.MemoryUsage})
					return true
				}); err != nil {
					b.Fatal(err)
				}
				f := trie.New(trie.Options{Frontier: limit, Loader: func(from, to []byte, yield func(k, v []byte) bool) error {
					at := time.Now()
					defer func() { load += time.Since(at) }()
					loads++
					return s.Load(g.Ref, 0, AccountRange{}, from, to, func(k, v []byte) bool { pairs++; return yield(k, v) })
				}})
				root, err := f.Import(list, full.Hash())
				if err != nil {
					b.Fatal(err)
				}
				start += time.Since(begun)
				before := f.Stats().Bytes
				for range touches {
					i := rng.IntN(accounts)
					at := time.Now()
					v, err := root.Get(keys[i], nil)
					get += time.Since(at)
					if err != nil || !bytes.Equal(v, values[i]) {
						b.Fatal(err)
					}
				}
				kept += f.Stats().Bytes - before
				root.Release()
			}
			n := float64(b.N * touches)
			b.ReportMetric(float64(len(all)), "entries")
			b.ReportMetric(perAccount, "nodeB/account")
			b.ReportMetric(float64(usage)/accounts, "usage/account")
			b.ReportMetric(float64(start.Microseconds())/float64(b.N)/1000, "ms/start")
			b.ReportMetric(float64(get.Nanoseconds())/n/1000, "us/touch")
			b.ReportMetric(float64(get.Nanoseconds())/float64(loads)/1000, "us/load")
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
