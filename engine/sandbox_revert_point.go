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

// MaxRevertBlocks is the number of blocks after which a revert point ends. The limit bounds memory
// and restart time: the flat head does not pass the block that was final at the oldest revert
// point. So all blocks after that block stay in memory, as when finality stalls, and a start after
// a crash applies these blocks again.
const MaxRevertBlocks = 10_000

// Errors of revert points.
var (
	// ErrEnded means that a revert point no longer exists: too many blocks were imported after it,
	// or the chain was reverted to a block before the revert point.
	ErrEnded = errors.New("engine: the revert point is no longer usable")
	// ErrAhead means that imported blocks are not on disk yet. The caller may flush and try again.
	ErrAhead = errors.New("engine: imported blocks are not on disk yet")
)

// RevertPoint is a block to which the chain can be reverted. The block's states stay in memory
// until the revert point ends. Methods of the engine that take a RevertPoint run on the engine's
// goroutine, unless their comment says otherwise.
type RevertPoint struct {
	entry  *BlockNode // block of the revert point, which holds its states; nil: the revert point has ended
	at     *BlockNode // block of the revert point; the block's states are held only while entry is set
	ended  atomic.Bool
	ref    storage.BlockRef
	final  storage.BlockRef
	epochs epoch.Mark
}

// Ref returns the height and hash of the block.
func (s *RevertPoint) Ref() storage.BlockRef { return s.ref }

// Ended returns whether the revert point has ended. Safe for concurrent use.
func (s *RevertPoint) Ended() bool { return s.ended.Load() }

// NewRevertPoint makes the head a revert point. The revert point lasts until EndRevertPoint, until
// Rewind to a block before it, or for MaxRevertBlocks blocks. NewRevertPoint writes nothing to
// disk. It returns ErrAhead if imported blocks are not on disk yet.
func (e *Engine) NewRevertPoint() (*RevertPoint, error) {
	if e.InFlight() > 0 {
		return nil, ErrAhead
	}
	h := e.view.Load()
	if !h.entry.Acquire() {
		return nil, fmt.Errorf("engine: the states after block %d are no longer in memory", h.entry.Height())
	}
	s := &RevertPoint{entry: h.entry, at: h.entry, ref: ref(h.entry), final: h.final}
	e.epochMu.Lock()
	s.epochs = e.epochs.Mark()
	e.epochMu.Unlock()
	e.revertPoints = append(e.revertPoints, s)
	return s, nil
}

// ShareRevertPoint returns a second revert point at the block of s. The two revert points end
// independently of each other. ShareRevertPoint returns ErrEnded if s has ended.
func (e *Engine) ShareRevertPoint(s *RevertPoint) (*RevertPoint, error) {
	if s.entry == nil || !s.entry.Acquire() {
		return nil, fmt.Errorf("%w: block %v", ErrEnded, s.ref)
	}
	t := &RevertPoint{entry: s.entry, at: s.entry, ref: s.ref, final: s.final, epochs: s.epochs}
	e.revertPoints = append(e.revertPoints, t)
	return t, nil
}

// EndRevertPoint ends a revert point. It does nothing if the revert point has ended already.
func (e *Engine) EndRevertPoint(s *RevertPoint) {
	if s.entry == nil {
		return
	}
	s.entry.Release()
	s.entry = nil
	s.ended.Store(true)
	e.revertPoints = slices.DeleteFunc(e.revertPoints, func(x *RevertPoint) bool { return x == s })
}

// endOffBranch ends the revert points whose blocks are not on the branch of a new head.
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

// EndRevertPoints ends all revert points.
func (e *Engine) EndRevertPoints() {
	for len(e.revertPoints) > 0 {
		e.EndRevertPoint(e.revertPoints[0])
	}
}

// flatHeadLimit returns the block up to which the flat head may advance: the block that was final
// at the oldest revert point, or upto if that is lower. The limit is needed because blocks at or
// below the flat head cannot be reverted. First, flatHeadLimit ends revert points that are followed
// by more than MaxRevertBlocks blocks.
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

// Rewind makes the block of s the head again. Rewind removes all blocks from memory and disk,
// except the block of s and that block's ancestors. Blocks imported after Rewind may have the
// heights of removed blocks. Revert points at removed blocks end; s does not. Rewind first waits
// until a running update of the flat head has ended. Errors: ErrEnded; ErrAhead; storage.ErrFull,
// after which nothing has changed; all other errors are fatal for the node.
func (e *Engine) Rewind(s *RevertPoint) error {
	if s.entry == nil {
		return fmt.Errorf("%w: block %v", ErrEnded, s.ref)
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
		return fmt.Errorf("engine: revert to block %v: %w", s.ref, err)
	}
	e.forgetAfter(s)
	return nil
}

// forgetAfter removes from memory the blocks that Rewind has removed from the store.
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
		at.Acquire() // cannot fail, because the revert point holds the block
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
	// Release the states only after the persisted head has changed. A reader that loaded the old
	// head has acquired the old head's node already, or will fail to acquire that node and load the
	// head again.
	for _, x := range gone {
		if !x.evicted {
			x.Release()
		}
	}
}
