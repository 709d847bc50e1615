package replay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// scheduled is a node beside a replay that tracks other shards in each epoch, by a plan that
// depends on the epoch ids. It fetches missing data from the replay's engine, which at times does
// not answer or sends invalid data.
type scheduled struct {
	*partial
	r        *runner
	random   *rand.Rand
	schedule *engine.Schedule
	seed     byte // of the plan
	held     []primitives.ShardID
	last     primitives.Height // of the recording
	hosts    map[primitives.EpochID]bool

	came, left, spoiled, refused, silent, restarts, forks, splits int
	// shards of an epoch's beginning; of those that were held by then
	planned, met int
}

// plan draws a shard or two of each epoch.
func (x *scheduled) plan(of primitives.EpochID, layout primitives.ShardLayout, id primitives.ShardID) bool {
	n := layout.NumShards()
	of = primitives.HashBytes(append(of[:], x.seed))
	i, err := layout.Index(id)
	return err == nil && (int(of[0])%n == int(i) || int(of[1])%(4*n) == int(i))
}

func (n *scheduled) wants(at *engine.BlockNode, id primitives.ShardID) (now, next bool) {
	h := at.Header()
	now = n.plan(h.EpochID, at.Layout, id)
	var layout primitives.ShardLayout
	if err := n.r.e.Epochs(func(m *epoch.Manager) (err error) {
		layout, err = m.ShardLayout(h.NextEpochID)
		return err
	}); err != nil {
		panic(err)
	}
	if layout.Has(id) {
		return now, n.plan(h.NextEpochID, layout, id)
	}
	children, _ := layout.Children(id)
	return now, slices.ContainsFunc(children, func(c primitives.ShardID) bool { return n.plan(h.NextEpochID, layout, c) })
}

// State, Part, Chunks and Refused are the source.
func (n *scheduled) State(_ context.Context, point primitives.Hash, shard primitives.ShardID) (*engine.StateHeader, error) {
	if n.mute() {
		return nil, engine.ErrNotYet
	}
	x, err := n.r.e.Block(point)
	if err != nil {
		return nil, err
	}
	i, err := x.Layout.Index(shard)
	if err != nil {
		return nil, err
	}
	h, err := n.r.e.StateHeader(x, i)
	if err == nil && n.spoils() {
		switch n.random.IntN(3) {
		case 0:
			h.Root = h.Root[1:]
		case 1:
			h.Chunk = nil
		default:
			other := *h.Chunk
			other.Header.PrevStateRoot[3]++
			h.Chunk = &other
		}
	}
	return h, err
}

func (n *scheduled) Part(_ context.Context, point primitives.Hash, shard primitives.ShardID, id trie.PartID, take func([][]byte) error) error {
	if n.mute() {
		return engine.ErrNotYet
	}
	x, err := n.r.e.Block(point)
	if err != nil {
		return err
	}
	i, err := x.Layout.Index(shard)
	if err != nil {
		return err
	}
	part, err := n.r.e.Snapshots().Part(x.Block.Body.Chunks[i].PrevBlockHash, i, id)
	if err == nil && n.spoils() {
		part = part[1:]
	}
	if err == nil {
		if err = take(part); err != nil {
			n.Refused(point, shard, err)
		}
	}
	return err
}

func (n *scheduled) Chunks(_ context.Context, block primitives.Hash, shard primitives.ShardID) ([]*primitives.Chunk, error) {
	if n.mute() {
		return nil, engine.ErrNotYet
	}
	list, err := n.r.e.ChunksFor(block, shard)
	if err != nil || !n.spoils() {
		return list, err
	}
	for i, c := range list {
		if c != nil && c.Header.ShardID == shard {
			if n.random.IntN(2) == 0 {
				list[i] = nil
				break
			}
			other := *c
			other.Transactions = append(slices.Clone(c.Transactions), c.Transactions...)
			if len(c.Transactions) > 0 {
				list[i] = &other
			}
		}
	}
	return list, nil
}

func (n *scheduled) Refused(primitives.Hash, primitives.ShardID, error) { n.refused++ }

func (n *scheduled) mute() bool {
	no := n.random.IntN(4) == 0
	if no {
		n.silent++
	}
	return no
}

func (n *scheduled) spoils() bool {
	yes := n.random.IntN(8) == 0
	if yes {
		n.spoiled++
	}
	return yes
}

func (n *scheduled) tracks(layout primitives.ShardLayout, id primitives.ShardID) bool {
	if slices.Contains(n.held, id) {
		return true
	}
	parent, err := layout.Parent(id)
	return err == nil && parent != id && slices.Contains(n.held, parent)
}

// see records which shards the node has.
func (n *scheduled) see() {
	tip := n.e.Tip()
	var now []primitives.ShardID
	for i := range tip.Shards {
		if s := &tip.Shards[i]; s.Held() {
			now = append(now, s.ID)
			if !n.tracks(tip.Layout, s.ID) {
				n.came++
			}
		}
	}
	for _, id := range n.held {
		if !slices.Contains(now, id) && tip.Layout.Has(id) {
			n.left++
		}
	}
	n.held = now
}

func (n *scheduled) reopen() error {
	n.restarts++
	n.schedule.Close()
	if err := n.close(); err != nil {
		return err
	}
	return n.start()
}

func (n *scheduled) start() error {
	if err := n.open(n.r); err != nil {
		return err
	}
	n.schedule = engine.NewSchedule(n.e, n.wants, n)
	n.schedule.Go, n.schedule.WaitRemovals = func(f func()) { f() }, true
	return nil
}

func (n *scheduled) behind(r *runner, b *primitives.Block, chunks []*primitives.Chunk) error {
	at := r.e.Imported(b.Hash())
	if n.e == nil {
		n.r, n.held = r, at.Layout.ShardIDs()[:1]
		if err := n.start(); err != nil {
			return err
		}
	}
	if at.Layout.NumShards() != n.e.Tip().Layout.NumShards() {
		n.splits++
	}
	if err := n.feed(r, b, chunks); err != nil {
		return err
	}
	n.see()
	if h := at.Header(); !n.hosts[h.EpochID] {
		n.hosts[h.EpochID] = true
		for _, id := range at.Layout.ShardIDs() {
			if n.plan(h.EpochID, at.Layout, id) {
				n.planned++
				if slices.Contains(n.held, id) {
					n.met++
				}
			}
		}
	}
	if height := b.Header.Height + 2; height+20 < n.last && n.random.IntN(8) == 0 {
		fork, its, err := r.fork(at, height, n.random)
		if err != nil {
			return err
		}
		if _, err := r.e.Process(fork, its, false); err != nil {
			return err
		}
		if err := n.feed(r, fork, its); err != nil {
			return err
		}
		n.forks++
	}
	if n.random.IntN(2) == 0 {
		if err := n.e.AdvanceFlatHead(); err != nil {
			return err
		}
	}
	if n.random.IntN(6) == 0 {
		if _, err := n.store.CollectGarbage(storage.GCOptions{KeepEpochs: 3, Before: ^uint64(0), MaxHeights: 100}); err != nil {
			return err
		}
	}
	if n.random.IntN(12) == 0 {
		if err := n.reopen(); err != nil {
			return err
		}
	}
	for range 1 + n.random.IntN(3) {
		if err := n.schedule.Step(); err != nil {
			return fmt.Errorf("step after block %d: %w", b.Header.Height, err)
		}
	}
	n.see()
	return n.whole(r, at)
}

// whole reads the states of all tracked shards at the tip and at the flat head, and requires that
// the others have none.
func (n *scheduled) whole(r *runner, at *engine.BlockNode) error {
	if n.random.IntN(10) > 0 {
		return nil
	}
	if err := n.store.FinishUntrack(); err != nil { // runs while blocks are imported
		return err
	}
	folded := n.store.Tip().FlatHead
	rec, err := n.e.Block(folded.Hash)
	if err != nil {
		return err
	}
	for _, id := range rec.Layout.ShardIDs() {
		if slices.Contains(n.schedule.CatchingUp(), id) { // the downloaded parts are on disk
			continue
		}
		accounts, err := engine.Accounts(rec.Layout, id)
		if err != nil {
			return err
		}
		read := func(s *storage.Store) (sum primitives.Hash, err error) {
			err = s.Scan(folded, id, accounts, nil, nil, func(k, v []byte) bool {
				sum = primitives.HashBytes(append(append(sum[:], k...), v...))
				return true
			})
			return sum, err
		}
		want, err := read(r.store)
		if err != nil {
			return err
		}
		got, err := read(n.store)
		i, _ := rec.Layout.Index(id)
		if rec.Shards[i].Held() {
			if err != nil || got != want {
				return fmt.Errorf("shard %d at folded block %v is another on disk: %w", id, folded, err)
			}
		} else if err == nil && got != (primitives.Hash{}) || err != nil && !errors.Is(err, storage.ErrGone) && !errors.Is(err, storage.ErrNotFound) {
			return fmt.Errorf("shard %d at folded block %v is not held, and has %v on disk, %w", id, folded, got, err)
		}
	}
	return nil
}

// TestShardScheduleChangesNoResult: a node with a plan of shards for each epoch fetches them from
// another node while the chain advances with forks, restarts and splits, and untracks others. In
// each tracked shard its results equal those of a node that has tracked it all along.
func TestShardScheduleChangesNoResult(t *testing.T) {
	seed := rand.Uint64()
	names := []string{"four", "reshard"}
	if modes() {
		names = chains(names...)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			rec := openWay(t, name)
			reaching(t, seed, func(seed uint64) bool {
				n := &scheduled{partial: &partial{name: "scheduled", disk: storage.NewMemDisk(), scheduled: true}, seed: byte(seed), random: rand.New(rand.NewPCG(seed, 7)),
					last: rec.Blocks[len(rec.Blocks)-1].Given.Header.Height, hosts: map[primitives.EpochID]bool{}}
				n.track = n.tracks
				report, err := Run(rec, Options{Par: par, EpochConfig: epochConfigs(t, name), behind: n.behind, Tries: trie.Options{Frontier: 512, Poison: true}, snapshots: true})
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range report.Findings {
					t.Errorf("difference %v", d)
				}
				t.Logf("%d shards came in, %d were let go, %d of %d were there when their epoch began, %d restarts, %d forks, %d splits; %d times no answer, %d wrong ones, %d refused; %d steps compared",
					n.came, n.left, n.met, n.planned, n.restarts, n.forks, n.splits, n.silent, n.spoiled, n.refused, n.applied)
				n.schedule.Close()
				if err := n.close(); err != nil {
					t.Error(err)
				}
				return n.came >= 2 && n.left >= 2 && n.restarts > 0 && n.forks > 0 && n.refused > 0 && n.met > 0
			})
		})
	}
}
