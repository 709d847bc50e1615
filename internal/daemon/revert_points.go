package daemon

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/troupe-chain/troupe/actors/node"
	"github.com/troupe-chain/troupe/primitives/view"
)

// maxRevertPoints is the maximum number of snapshots (revert points) of a chain. Each snapshot
// keeps in memory the state that has changed since it was taken.
const maxRevertPoints = 1024

// revertPoints are the snapshots of a chain, in the order in which they were taken.
type revertPoints struct {
	mu   sync.Mutex // held while a snapshot is taken or reverted to
	list []namedPoint
	last uint64 // number of the most recent point without a given name; the number is that point's name
}

type namedPoint struct {
	id string
	*node.RevertPoint
}

func (s *revertPoints) find(id string) int {
	return slices.IndexFunc(s.list, func(n namedPoint) bool { return n.id == id })
}

// prune removes snapshots that have ended: snapshots with too many blocks above them, and snapshots
// above a block to which the chain was reverted.
func (s *revertPoints) prune() {
	s.list = slices.DeleteFunc(s.list, func(n namedPoint) bool { return n.Ended() })
}

func (s *revertPoints) refuse(id string) error {
	var names []string
	for _, n := range s.list {
		names = append(names, strconv.Quote(n.id))
	}
	return &view.SandboxError{Reason: fmt.Sprintf("there is no snapshot %q, or it has ended; existing ones are %v", id, names)}
}

// TakeSnapshot makes the head a snapshot. The new snapshot replaces an existing snapshot of the
// same name. If name is empty, the snapshot gets a number as its name.
func (s sandboxControl) TakeSnapshot(ctx context.Context, name string) (out view.Snapshot, err error) {
	if err := s.checkSandbox(); err != nil {
		return out, err
	}
	all := &s.revertPoints
	all.mu.Lock()
	defer all.mu.Unlock()
	all.prune()
	i := -1
	if name != "" {
		i = all.find(name)
	}
	if i < 0 && len(all.list) >= maxRevertPoints {
		return out, &view.SandboxError{Reason: fmt.Sprintf("there are %d snapshots already; drop one with "+
			"sandbox_drop_snapshot", maxRevertPoints)}
	}
	at, err := s.Node.TakeSnapshot(ctx)
	if err != nil {
		return out, sandboxError(ctx, err)
	}
	if i >= 0 {
		s.Node.EndSnapshot(all.list[i].RevertPoint)
		all.list = slices.Delete(all.list, i, i+1)
	}
	for name == "" || i < 0 && all.find(name) >= 0 {
		all.last++
		name = strconv.FormatUint(all.last, 10)
	}
	all.list = append(all.list, namedPoint{name, at})
	return view.Snapshot{ID: name, At: view.At{Height: at.Height, Hash: at.Hash}}, nil
}

// Revert rolls the chain back to a snapshot. Snapshots that were taken after that one end.
func (s sandboxControl) Revert(ctx context.Context, id string) (at view.At, err error) {
	if err := s.checkExclusive(); err != nil {
		return at, err
	}
	all := &s.revertPoints
	all.mu.Lock()
	defer all.mu.Unlock()
	all.prune()
	i := all.find(id)
	if i < 0 {
		return at, all.refuse(id)
	}
	to := all.list[i]
	s.worlds.dropAbove(s.Instance, view.At{Height: to.Height, Hash: to.Hash})
	if err := s.Node.Rollback(ctx, to.RevertPoint); err != nil {
		return at, sandboxError(ctx, err)
	}
	for _, later := range all.list[i+1:] {
		s.Node.EndSnapshot(later.RevertPoint)
	}
	all.list = slices.Delete(all.list, i+1, len(all.list))
	return view.At{Height: to.Height, Hash: to.Hash}, nil
}

// DropSnapshot removes a snapshot.
func (s sandboxControl) DropSnapshot(id string) error {
	all := &s.revertPoints
	all.mu.Lock()
	defer all.mu.Unlock()
	all.prune()
	i := all.find(id)
	if i < 0 {
		return all.refuse(id)
	}
	s.Node.EndSnapshot(all.list[i].RevertPoint)
	all.list = slices.Delete(all.list, i, i+1)
	return nil
}

// Snapshots lists the snapshots, oldest first.
func (s sandboxControl) Snapshots() (out []view.Snapshot, err error) {
	all := &s.revertPoints
	all.mu.Lock()
	defer all.mu.Unlock()
	all.prune()
	for _, n := range all.list {
		out = append(out, view.Snapshot{ID: n.id, At: view.At{Height: n.Height, Hash: n.Hash}})
	}
	return out, nil
}
