package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// MaxRevertBlocks bounds the blocks behind a snapshot. No fold passes what was final at the oldest one, so what is behind that is in memory, as where finality
// stands still, and a start after a crash applies it again. One that has more behind it is ended.
const MaxRevertBlocks = 10_000

// Refusals of what goes back.
var (
	// ErrEnded: the snapshot has too many blocks behind it, or is behind one that the chain went back to.
	ErrEnded = errors.New("engine: the snapshot has ended")
	// ErrAhead: blocks are on their way to the disk.
	ErrAhead = errors.New("engine: blocks are on their way to the disk")
)

// RevertPoint is a block to which the chain may go back. Its states stay at hand as long as it does.
type RevertPoint struct {
	entry  *BlockNode // held; nil: it has ended
	at     *BlockNode // the same, for good
	ended  atomic.Bool
	ref    storage.BlockRef
	final  storage.BlockRef
	epochs epoch.Mark
}

// Ref names the block.
func (s *RevertPoint) Ref() storage.BlockRef { return s.ref }

// Ended tells whether there is no way back to it any more. Safe from any goroutine.
func (s *RevertPoint) Ended() bool { return s.ended.Load() }

// RevertPoint keeps the way back to the head, until EndSnapshot. Nothing is written. ErrAhead.
func (e *Engine) NewRevertPoint() (*RevertPoint, error) {
	if e.InFlight() > 0 {
		return nil, ErrAhead
	}
	h := e.view.Load()
	if !h.entry.Acquire() {
		return nil, fmt.Errorf("engine: the states of block %d are gone", h.entry.Height())
	}
	s := &RevertPoint{entry: h.entry, at: h.entry, ref: ref(h.entry), final: h.final}
	e.epochMu.Lock()
	s.epochs = e.epochs.Mark()
	e.epochMu.Unlock()
	e.revertPoints = append(e.revertPoints, s)
	return s, nil
}

// Share takes a snapshot of the block of another one, which ends by itself. ErrEnded.
func (e *Engine) ShareRevertPoint(s *RevertPoint) (*RevertPoint, error) {
	if s.entry == nil || !s.entry.Acquire() {
		return nil, fmt.Errorf("%w: that of block %v", ErrEnded, s.ref)
	}
	t := &RevertPoint{entry: s.entry, at: s.entry, ref: s.ref, final: s.final, epochs: s.epochs}
	e.revertPoints = append(e.revertPoints, t)
	return t, nil
}

// EndSnapshot gives up a snapshot; one that has ended may be.
func (e *Engine) EndRevertPoint(s *RevertPoint) {
	if s.entry == nil {
		return
	}
	s.entry.Release()
	s.entry = nil
	s.ended.Store(true)
	e.revertPoints = slices.DeleteFunc(e.revertPoints, func(x *RevertPoint) bool { return x == s })
}

// endOffBranch gives up the snapshots of blocks that are not of the chain of a new head.
func (e *Engine) endOffBranch(head *BlockNode) {
	if len(e.revertPoints) == 0 {
		return
	}
	low, ours := head.Height(), map[primitives.Hash]bool{}
	for at := head; at != nil; at = e.Imported(at.Header().PrevHash) {
		low, ours[at.Hash] = at.Height(), true
	}
	for _, s := range slices.Clone(e.revertPoints) {
		if s.ref.Height >= low && !ours[s.ref.Hash] {
			e.EndRevertPoint(s)
		}
	}
}

// EndSnapshots gives up all.
func (e *Engine) EndRevertPoints() {
	for len(e.revertPoints) > 0 {
		e.EndRevertPoint(e.revertPoints[0])
	}
}

// flatHeadLimit is the block up to which may be folded of those up to a final one: what was final at the oldest snapshot, as whatever is folded
// is final. Snapshots with too much behind them end.
func (e *Engine) flatHeadLimit(upto storage.BlockRef) storage.BlockRef {
	for _, s := range slices.Clone(e.revertPoints) {
		if e.Head().Tree.Size()-s.entry.Tree.Size() > MaxRevertBlocks {
			e.EndRevertPoint(s)
			continue
		}
		if s.final.Height < upto.Height {
			upto = s.final
		}
	}
	return upto
}

// Rewind makes a snapshot's block the head again. All blocks behind it, and all that are not its ancestors, are as if they had never been,
// on the disk too, and their heights come again. Snapshots of such blocks end; the snapshot itself stays. A fold that runs is waited for.
// ErrEnded; ErrAhead; other errors are fatal to the node, but for ErrFull of the store, after which nothing has changed.
func (e *Engine) Rewind(s *RevertPoint) error {
	if s.entry == nil {
		return fmt.Errorf("%w: that of block %v", ErrEnded, s.ref)
	}
	if e.InFlight() > 0 {
		return ErrAhead
	}
	if e.flatHeadUpdate != nil {
		if err := e.finishFlatHeadUpdate(e.flatHeadUpdate.wait()); err != nil {
			return err
		}
	}
	if err := e.store.Rewind(s.ref); err != nil {
		return fmt.Errorf("engine: back to block %v: %w", s.ref, err)
	}
	e.forgetAfter(s)
	return nil
}

// forgetAfter takes from the memory what Rewind has taken from the store.
func (e *Engine) forgetAfter(s *RevertPoint) {
	keep := map[primitives.Hash]bool{s.ref.Hash: true}
	for x := e.Imported(s.entry.Header().PrevHash); x != nil; x = e.Imported(x.Header().PrevHash) {
		keep[x.Hash] = true
	}
	var gone []*BlockNode
	e.mu.Lock()
	for hash, x := range e.entries {
		if !keep[hash] {
			delete(e.entries, hash)
			gone = append(gone, x)
		}
	}
	at := e.entries[s.ref.Hash]
	if at == nil || at.evicted {
		at = s.entry
		at.Acquire() // which the snapshot holds, so it is there
		e.entries[s.ref.Hash] = at
		e.resident = append(e.resident, at)
	}
	e.mu.Unlock()
	for _, x := range slices.Clone(e.revertPoints) {
		if !keep[x.ref.Hash] {
			e.EndRevertPoint(x)
		}
	}
	e.resident = slices.DeleteFunc(e.resident, func(x *BlockNode) bool { return e.Imported(x.Hash) != x })
	e.trimmedAt = min(e.trimmedAt, s.ref.Height)
	e.patch = pendingPatch{}
	hashes := make([]primitives.Hash, len(gone))
	for i, x := range gone {
		hashes[i] = x.Hash
	}
	e.epochMu.Lock()
	e.epochs.Rewind(s.epochs, hashes)
	e.epochMu.Unlock()
	e.viewed.Store(nil)
	e.proofs.forget(hashes)
	e.show(&head{entry: at, final: s.final})
	for _, x := range gone { // behind the view: who reads by the old one has acquired it, or finds it gone and looks again
		if !x.evicted {
			x.Release()
		}
	}
}
