package engine

import (
	"errors"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

func TestInspectKeepsStateSnapshots(t *testing.T) {
	g, disk := testGenesis(t, "alice"), storage.NewMemDisk()
	open := func(o Options) *node {
		t.Helper()
		n, err := openChanged(t, g, disk, storage.Options{}, func(to *Options) { to.Snapshots, to.Inspect = o.Snapshots, o.Inspect })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := open(Options{Snapshots: true})
	at := n.Genesis()
	pin := storage.StateSnapshot{At: ref(at), Of: ref(at), Root: at.Shards[0].root.Hash()}
	if ok, err := n.snapshots.snapshotShard(&pin, at); err != nil || !ok {
		t.Fatal(ok, err)
	}
	for i, want := range []int{1, 1, 0} {
		if err := n.store.Close(); err != nil {
			t.Fatal(err)
		}
		n = open([]Options{{Inspect: true}, {Snapshots: true}, {}}[i])
		if list, err := n.store.StateSnapshots(); err != nil || len(list) != want {
			t.Errorf("opening %d: %d snapshots, %v, want %d", i, len(list), err, want)
		}
	}
}

// TestSyncPointSearchEndsWithItsEpoch: the search for the sync point of an epoch without one ends
// with that epoch, even if the flat head is in the next epoch.
func TestSyncPointSearchEndsWithItsEpoch(t *testing.T) {
	n := openNode(t, testGenesis(t, "alice"))
	for n.Head().Height() < 60 {
		at := n.Head()
		b, chunks := n.make(at.Hash, at.Height()+1, at.Height() < 30)
		n.accept(b, chunks)
	}
	if err := n.AdvanceFlatHead(); err != nil {
		t.Fatal(err)
	}
	epochs, err := n.store.Epochs()
	if err != nil || len(epochs) < 4 {
		t.Fatal(len(epochs), err)
	}
	with, without := 0, 0
	for _, begin := range epochs {
		scan := syncScan{epoch: begin, next: begin.Height + 1}
		p, err := n.snapshots.findPoint(&scan, n.store.Tip().FlatHead.Height+1)
		if err != nil {
			t.Fatal(err)
		}
		if p == nil {
			without++
		} else if with++; p.begin != begin {
			t.Errorf("block %d of epoch %v is the sync point of epoch %v", p.at.Height, p.begin.Epoch, begin.Epoch)
		}
	}
	if with == 0 || without < 2 {
		t.Errorf("%d epochs with a point, %d without", with, without)
	}
}

// TestLateSnapshotsOfFewChangesAreMade: a node starts to keep snapshots in a data folder with
// several epochs of blocks. It makes those snapshots that need few changes undone, and continues
// without the others.
func TestLateSnapshotsOfFewChangesAreMade(t *testing.T) {
	for _, most := range []int{0, 100} {
		g, disk := testGenesis(t, "aa"), storage.NewMemDisk()
		var warned []error
		n, err := openChanged(t, g, disk, storage.Options{}, func(*Options) {})
		if err != nil {
			t.Fatal(err)
		}
		nonce := primitives.Nonce(0)
		goOn := func(blocks int) {
			for range blocks {
				at := n.Head()
				nonce++
				n.accept(n.make(at.Hash, at.Height()+1, false, transfer(at.Hash, nonce)))
			}
			if err := n.AdvanceFlatHead(); err != nil {
				t.Fatal(err)
			}
		}
		goOn(28)
		if err := n.store.Close(); err != nil {
			t.Fatal(err)
		}
		if n, err = openChanged(t, g, disk, storage.Options{}, func(o *Options) { o.Snapshots, o.Warn = true, func(err error) { warned = append(warned, err) } }); err != nil {
			t.Fatal(err)
		}
		n.snapshots.undoLimit = most
		goOn(1)
		if n.Snapshots().GivenUp() != uint64(len(warned)) || (len(warned) > 0) != (most > 0) || slices.ContainsFunc(warned, func(err error) bool { return !errors.Is(err, ErrFarBehind) }) {
			t.Errorf("at most %d bytes: %d given up, warnings: %v", most, n.Snapshots().GivenUp(), warned)
		}
		made := func() (of [2]int) {
			list, err := n.store.StateSnapshots()
			if err != nil {
				t.Fatal(err)
			}
			for i := range list {
				of[list[i].Index]++
			}
			return of
		}
		if of := made(); (of[0] == 0) != (most > 0) || (of[1] == 0) != (most > 0) {
			t.Errorf("at most %d bytes: %v snapshots of the shards", most, of)
		}
		goOn(20) // the snapshots of later epochs are made when the flat head reaches them
		if of := made(); of != [2]int{2, 2} {
			t.Errorf("at most %d bytes: %v snapshots of the shards behind two epochs, want 2 of each", most, of)
		}
		points := uint64(2) // sync points of the 20 blocks
		if most == 0 {
			points = 4 // two late ones, too
		}
		_, counts, _ := n.Snapshots().Took().Read()
		total := uint64(0)
		for _, c := range counts {
			total += c
		}
		if total != points {
			t.Errorf("at most %d bytes: times of %d sync points, want %d", most, total, points)
		}
	}
}
