package replay

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// snapshotKeeper is a node beside a replay that keeps state snapshots, over restarts, advances of the flat
// head and garbage collection.
type snapshotKeeper struct {
	*partial
	random *rand.Rand
	want   []*snapshotParts // oldest first
	begun  map[primitives.EpochID]bool

	wipes bool
	wiped primitives.Height // folded when all pins were lost; 0: they are there

	asked, restarts, collected, gone, pinned, remade int
}

// snapshotParts are the state parts at one epoch's sync block, built from memory at that time.
type snapshotParts struct {
	point  primitives.Hash
	height primitives.Height
	states []snapshotState
}

type snapshotState struct {
	at    primitives.Hash
	index primitives.ShardIndex
	parts [][][]byte
}

// note builds the parts of an epoch's sync block when it is imported.
func (n *snapshotKeeper) note(r *runner, at *engine.BlockNode) error {
	if n.begun[at.Header().EpochID] {
		return nil
	}
	point, err := r.e.SyncPoint(at)
	if err != nil || point == nil {
		return err
	}
	n.begun[at.Header().EpochID] = true
	x := &snapshotParts{point: point.Hash, height: point.Height()}
	for i, h := range point.Block.Body.Chunks {
		s := snapshotState{at: h.PrevBlockHash, index: primitives.ShardIndex(i)}
		total := uint64(1 + n.random.IntN(5))
		for k := range total {
			part, err := r.e.Snapshots().Part(s.at, s.index, trie.PartID{Index: k, Total: total})
			if errors.Is(err, storage.ErrGone) { // a shard that has missed many chunks
				total = 0
				break
			}
			if err != nil {
				return err
			}
			s.parts = append(s.parts, part)
		}
		if total > 0 {
			x.states = append(x.states, s)
		}
	}
	n.want = append(n.want, x)
	return nil
}

// compare requests all parts of a snapshot from the node.
func (n *snapshotKeeper) compare(x *snapshotParts) error {
	for _, s := range x.states {
		for k, want := range s.parts {
			got, err := n.e.Snapshots().Part(s.at, s.index, trie.PartID{Index: uint64(k), Total: uint64(len(s.parts))})
			if err != nil {
				return fmt.Errorf("snapshot at block %d, shard index %d: %w", x.height, s.index, err)
			}
			if !slices.EqualFunc(got, want, bytes.Equal) {
				return fmt.Errorf("snapshot at block %d, shard index %d: part %d of %d is another", x.height, s.index, k, len(s.parts))
			}
			if n.asked++; n.e.Imported(s.at) == nil {
				n.pinned++
			}
		}
	}
	return nil
}

// check requests all snapshots that must exist. If the flat head advances meanwhile, it starts
// again.
func (n *snapshotKeeper) check() error {
	for {
		folded := n.store.Tip().FlatHead.Height
		if err := n.checkAt(folded); err == nil || n.store.Tip().FlatHead.Height == folded {
			return err
		}
	}
}

// checkAt requires the newest two snapshots of the last three epochs, and the states that are still
// in memory.
func (n *snapshotKeeper) checkAt(folded primitives.Height) error {
	if n.wiped == folded {
		return nil
	}
	if n.wiped != 0 {
		n.remade++
		n.wiped = 0
	}
	passed := 0
	for i := range n.want {
		if n.want[i].height <= folded {
			passed = i + 1
		}
	}
	epochs, err := n.store.Epochs()
	if err != nil {
		return err
	}
	// an epoch may have no sync block, and no node keeps snapshots older than three epochs
	oldest := epochs[max(0, len(epochs)-storage.MinKeptEpochs)].Height
	for _, x := range n.want[max(0, passed-2):passed] {
		if x.height < oldest {
			continue
		}
		if err := n.compare(x); err != nil {
			return err
		}
	}
	for _, x := range n.want[passed:] {
		if err := n.compare(x); err != nil {
			return err
		}
	}
	for _, x := range n.want[:max(0, passed-2)] {
		for _, s := range x.states {
			if _, err := n.e.Snapshots().Part(s.at, s.index, trie.PartID{Total: 1}); !errors.Is(err, storage.ErrGone) {
				return fmt.Errorf("snapshot at block %d, which is one of the third newest epoch or older: %w", x.height, err)
			}
			n.gone++
		}
	}
	list, err := n.store.StateSnapshots()
	if err != nil {
		return err
	}
	for _, p := range list {
		if passed > 2 && p.At.Height < n.want[passed-3].height {
			return fmt.Errorf("there is still a pin at block %v", p.At)
		}
	}
	return nil
}

func (n *snapshotKeeper) behind(r *runner, b *primitives.Block, chunks []*primitives.Chunk) error {
	if n.e == nil {
		if err := n.open(r); err != nil {
			return err
		}
	}
	if err := n.note(r, r.e.Imported(b.Hash())); err != nil {
		return err
	}
	if _, err := n.e.Process(b, chunks, false); err != nil {
		return err
	}
	if n.random.IntN(4) == 0 {
		if err := n.e.AdvanceFlatHead(); err != nil {
			return err
		}
	}
	if n.random.IntN(8) == 0 {
		c, err := n.store.CollectGarbage(storage.GCOptions{KeepEpochs: 3, Before: ^uint64(0), MaxHeights: 1 + n.random.IntN(200)})
		if err != nil {
			return err
		}
		n.collected += c.Blocks
	}
	switch n.random.IntN(12) {
	case 0:
		n.restarts++
		if err := n.close(); err != nil {
			return err
		}
		return errors.Join(n.open(r), n.check())
	case 1, 2:
		return n.check()
	case 3: // as after a crash between the advance and the snapshot: the next advance makes it
		if !n.wipes || n.wiped != 0 {
			return nil
		}
		if err := n.e.Close(); err != nil {
			return err
		}
		n.wiped = n.store.Tip().FlatHead.Height // a fold may have ended
		return errors.Join(n.store.DropStateSnapshots(^primitives.Height(0)), n.store.Close(), n.open(r))
	}
	return nil
}

// TestSnapshotPartsStayServed: a node that keeps snapshots returns each part of each epoch's sync
// block as it was built from memory at the time, until two later epochs have snapshots, while its
// flat head advances and it collects garbage, restarts, and loses snapshots at random.
// TestKilledReplayHasTheSameRoots covers kills.
func TestSnapshotPartsStayServed(t *testing.T) {
	seed := rand.Uint64()
	names := []string{"four", "reshard"}
	if modes() {
		names = chains(names...)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			rec := openWay(t, name)
			reaching(t, seed, func(seed uint64) bool {
				n := &snapshotKeeper{partial: &partial{name: "snapshots", disk: storage.NewMemDisk(), snapshots: true}, random: rand.New(rand.NewPCG(seed, 6)),
					begun: map[primitives.EpochID]bool{}}
				n.wipes = name != "reshard" // the snapshot of a shard that was split since cannot be made again
				report, err := Run(rec, Options{Par: par, EpochConfig: epochConfigs(t, name), behind: n.behind, Tries: trie.Options{Frontier: 16, Poison: true}})
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range report.Findings {
					t.Errorf("difference %v", d)
				}
				t.Logf("%d snapshots, %d parts compared, %d of them of pins, %d found gone, %d restarts, %d times made again, %d blocks collected", len(n.want), n.asked, n.pinned,
					n.gone, n.restarts, n.remade, n.collected)
				if err := n.close(); err != nil {
					t.Error(err)
				}
				return n.pinned > 0 && n.restarts > 0 && (!n.wipes || n.remade > 0) && (len(n.want) <= 3 || n.gone > 0 && n.collected > 0)
			})
		})
	}
}
