package engine

import (
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// TestPauseDelaysOnlyFlatHeadUpdatesThatCanWait: an update of the flat head that is due waits for
// the requested pause, while blocks continue. An urgent update does not pause.
func TestPauseDelaysOnlyFlatHeadUpdatesThatCanWait(t *testing.T) {
	n := openKeeping(t, storage.NewMemDisk(), "", "aa")
	asked := 0
	n.PauseFlatHead(func() time.Duration {
		asked++
		return time.Minute
	})
	for range 2 * storage.DefaultFlatHeadBlocks {
		n.accept(n.make(n.Head().Hash, n.Head().Height()+1, false))
	}
	f := n.flatHeadUpdate
	if asked != 1 || f == nil {
		t.Fatalf("pause requested %d times, want 1; update running: %v", asked, f != nil)
	}
	select {
	case err := <-f.done:
		t.Fatalf("a paused flat head update has ended: %v", err)
	default:
	}
	if is := n.store.Tip().FlatHead.Height; is != f.from.Height() {
		t.Errorf("flat head %d, want %d", is, f.from.Height())
	}
	if err := n.AdvanceFlatHead(); err != nil { // does not wait for the rest of the pause
		t.Fatal(err)
	}
	if is := n.store.Tip().FlatHead.Height; is < f.to.Height() {
		t.Errorf("flat head %d, want %d at least", is, f.to.Height())
	}
	for behind, presses := range map[primitives.Height]bool{maxAboveFlatHead/2 - 1: false, maxAboveFlatHead / 2: true} {
		to := &BlockNode{Block: &primitives.Block{Header: &primitives.BlockHeader{}}}
		if to.Block.Header.Height = n.flatHead.Height() + behind; n.flatHeadUrgent(to) != presses {
			t.Errorf("an update of %d blocks is urgent: %v", behind, !presses)
		}
	}
}
