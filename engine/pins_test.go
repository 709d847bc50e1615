package engine

import (
	"testing"

	"github.com/troupe-chain/troupe/storage"
)

// TestLook: whoever opens a folder to look at it leaves the snapshots there which its node keeps.
func TestLook(t *testing.T) {
	g, disk := testGenesis(t, "alice"), storage.NewMemDisk()
	open := func(o Options) *node {
		t.Helper()
		n, err := openChanged(t, g, disk, storage.Options{}, func(to *Options) { to.Snapshots, to.Look = o.Snapshots, o.Look })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := open(Options{Snapshots: true})
	at := n.Genesis()
	pin := storage.Pin{At: ref(at), Of: ref(at), Root: at.Shards[0].root.Hash()}
	if ok, err := n.pinShard(&pin, at); err != nil || !ok {
		t.Fatal(ok, err)
	}
	for i, want := range []int{1, 1, 0} {
		if err := n.store.Close(); err != nil {
			t.Fatal(err)
		}
		n = open([]Options{{Look: true}, {Snapshots: true}, {}}[i])
		if list, err := n.store.Pins(); err != nil || len(list) != want {
			t.Errorf("opening %d: %d pins, %v, want %d", i, len(list), err, want)
		}
	}
}
