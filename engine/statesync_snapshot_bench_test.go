package engine

import (
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// BenchmarkSnapshot measures making a snapshot of a state of a million pairs, and reading a state
// part from the snapshot and from the trie in memory.
func BenchmarkSnapshot(b *testing.B) {
	const pairs = 1_000_000
	g := testGenesis(b, "alice")
	var value [100]byte
	n, err := openChanged(b, g, storage.NewMemDisk(), storage.Options{}, func(o *Options) {
		load := o.Chain.Load
		o.Snapshots = true
		o.Chain.Load = func() (*GenesisState, error) {
			s, err := load()
			s.Add(0, func(yield func(k, v []byte) bool) {
				for i := range pairs {
					copy(value[:], primitives.HashBytes(fmt.Append(nil, i)).String())
					if !yield(fmt.Appendf(nil, "\x09%08d", i), value[:]) {
						return
					}
				}
			})
			return s, err
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	e, at := n.Engine, n.Genesis()
	root := at.Shards[0].root
	pin := storage.StateSnapshot{At: ref(at), Of: ref(at), Root: root.Hash()}
	id := trie.PartID{Index: 3, Total: trie.NumParts(root.MemoryUsage())}
	b.Run("op=pin", func(b *testing.B) {
		for b.Loop() {
			if ok, err := e.snapshots.snapshotShard(&pin, at); err != nil || !ok {
				b.Fatal(ok, err)
			}
		}
		rows := 0
		for level := range uint8(trie.Levels) {
			if err := e.store.SnapshotFrontier(&pin, level, nil, func(storage.FrontierNode) bool { rows++; return true }); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(rows), "rows")
		b.ReportMetric(float64(root.MemoryUsage()>>20), "MiB-of-state")
	})
	b.Run("op=part/of=memory", func(b *testing.B) {
		for b.Loop() {
			if _, err := root.Part(id); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("op=part/of=pin", func(b *testing.B) {
		for b.Loop() {
			err := e.snapshots.lendSnapshot(&pin, func(r *trie.Root) error {
				_, err := r.Part(id)
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
