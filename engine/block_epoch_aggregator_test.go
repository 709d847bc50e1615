package engine

import (
	"reflect"
	"testing"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// TestEpochStatisticsAreStoredWithBlock: the statistics of a long epoch are stored together with the
// block that makes them due, whether the flat head has passed this block or not. A node that is
// started again without a regular stop uses them, and its validators query and next block are those
// of a node that was not stopped.
func TestEpochStatisticsAreStoredWithBlock(t *testing.T) {
	for name, advance := range map[string]bool{"above the flat head": false, "below the flat head": true} {
		t.Run(name, func(t *testing.T) {
			g := testGenesis(t, "aa", "bb")
			g.Config.EpochLength = 10_000
			n, other := openNode(t, g), openNode(t, g) // only n is stopped
			stored := func(n *node) *epoch.Aggregator {
				t.Helper()
				a, err := (epochStore{n.Engine}).Aggregator()
				if err != nil {
					t.Fatal(err)
				}
				return a
			}
			h := primitives.Height(0)
			grow := func(by primitives.Height) {
				t.Helper()
				h += by
				b, chunks := other.make(other.Head().Hash, h, h%3 == 0)
				other.accept(b, chunks)
				n.accept(b, chunks)
			}
			for h < 480 {
				grow(60)
			}
			for range 5 {
				grow(1)
			}
			if a := stored(n); a != nil {
				t.Fatalf("statistics up to block %v were stored before they are due", a.LastBlock)
			}
			grow(15)
			for stored(n) == nil {
				grow(1)
				if h > 510 {
					t.Fatal("no statistics were stored")
				}
			}
			if advance {
				if err := n.AdvanceFlatHead(); err != nil {
					t.Fatal(err)
				}
			}
			if err := n.store.Close(); err != nil { // the engine writes nothing more
				t.Fatal(err)
			}
			n = openOn(t, g, n.disk, storage.Options{})
			a := stored(n)
			if a == nil {
				t.Fatal("the statistics are lost after a restart")
			}
			if x, err := n.Block(a.LastBlock); err != nil || x.Height() < 500 || x.Height() > n.Head().Height() {
				t.Errorf("statistics up to a block that is not final above height 500: %v", err)
			}
			info := func(n *node) (v *epoch.ValidatorInfo) {
				t.Helper()
				err := n.Epochs(func(m *epoch.Manager) (err error) {
					v, err = m.ValidatorInfoOfBlock(n.Head().Hash)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			if got, want := info(n), info(other); !reflect.DeepEqual(got, want) {
				t.Errorf("after a restart the validators query gives %+v, want %+v", got, want)
			}
			grow(1)
			if got, want := info(n), info(other); !reflect.DeepEqual(got, want) {
				t.Errorf("one block after a restart the validators query gives %+v, want %+v", got, want)
			}
		})
	}
}
