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

// maxSnapshots bounds the snapshots of a node: each keeps what of the state has changed since.
const maxSnapshots = 1024

// snapshots are those that can be gone back to, in the order in which they were taken.
type snapshots struct {
	mu   sync.Mutex // held while one is taken or gone back to
	list []named
	last uint64 // number that was given
}

type named struct {
	id string
	*node.RevertPoint
}

func (s *snapshots) find(id string) int {
	return slices.IndexFunc(s.list, func(n named) bool { return n.id == id })
}

// prune drops those that have ended by themselves: of too many blocks since, or behind one that was
// gone back to.
func (s *snapshots) prune() {
	s.list = slices.DeleteFunc(s.list, func(n named) bool { return n.Ended() })
}

func (s *snapshots) refuse(id string) error {
	var names []string
	for _, n := range s.list {
		names = append(names, strconv.Quote(n.id))
	}
	return &view.SandboxError{Reason: fmt.Sprintf("there is no snapshot %q, or it has ended; there are %v", id, names)}
}

// TakeSnapshot keeps the way back to the head.
func (s steerer) TakeSnapshot(ctx context.Context, name string) (out view.Snapshot, err error) {
	if err := s.may(); err != nil {
		return out, err
	}
	all := &s.snapshots
	all.mu.Lock()
	defer all.mu.Unlock()
	all.prune()
	i := -1
	if name != "" {
		i = all.find(name)
	}
	if i < 0 && len(all.list) >= maxSnapshots {
		return out, &view.SandboxError{Reason: fmt.Sprintf("there are %d snapshots already; sandbox_drop_snapshot gives one up", maxSnapshots)}
	}
	at, err := s.Node.TakeSnapshot(ctx)
	if err != nil {
		return out, steerError(ctx, err)
	}
	if i >= 0 {
		s.Node.EndSnapshot(all.list[i].RevertPoint)
		all.list = slices.Delete(all.list, i, i+1)
	}
	for name == "" || i < 0 && all.find(name) >= 0 {
		all.last++
		name = strconv.FormatUint(all.last, 10)
	}
	all.list = append(all.list, named{name, at})
	return view.Snapshot{ID: name, At: view.At{Height: at.Height, Hash: at.Hash}}, nil
}

// Revert goes back to a snapshot. Those taken behind it end.
func (s steerer) Revert(ctx context.Context, id string) (at view.At, err error) {
	if err := s.alone(); err != nil {
		return at, err
	}
	all := &s.snapshots
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
		return at, steerError(ctx, err)
	}
	for _, later := range all.list[i+1:] {
		s.Node.EndSnapshot(later.RevertPoint)
	}
	all.list = slices.Delete(all.list, i+1, len(all.list))
	return view.At{Height: to.Height, Hash: to.Hash}, nil
}

// DropSnapshot gives up a snapshot.
func (s steerer) DropSnapshot(id string) error {
	all := &s.snapshots
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

// Snapshots lists them.
func (s steerer) Snapshots() (out []view.Snapshot, err error) {
	all := &s.snapshots
	all.mu.Lock()
	defer all.mu.Unlock()
	all.prune()
	for _, n := range all.list {
		out = append(out, view.Snapshot{ID: n.id, At: view.At{Height: n.Height, Hash: n.Hash}})
	}
	return out, nil
}
