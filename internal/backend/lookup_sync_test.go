package backend

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/vm"
	"github.com/troupe-chain/troupe/storage"
)

// syncedNode is a node that started by state sync, with the blocks that it can have: the last one
// before its sync point and those after that.
type syncedNode struct {
	*lookupChain
	known  map[primitives.Hash]bool
	shards int // where it began
}

// TestEveryIDIsFoundAfterStateSync checks nodes that begin by state sync in the middle of a
// congested chain and follow it, over a split of shards, restarts and garbage collection. Each
// finds every id of the blocks that it has executed. Of what came before it says that it is
// unknown, as neard does, or what the block says.
func TestEveryIDIsFoundAfterStateSync(t *testing.T) {
	seeds, blocks, most := []uint64{1}, 56, 3
	if os.Getenv("TROUPE_WORKLOADS") == "all" {
		seeds, blocks, most = []uint64{1, 2, 3, 4, 5, 6}, 110, 6
	}
	v, err := vm.New(vm.Options{Alarm: func(err error) { panic(err) }})
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			o, course := congestedChain(seed, blocks, v)
			runSynced(t, o, course, most, counts)
		})
	}
	for _, kind := range []string{"synced", "missed before the sync point", "unknown transactions", "unknown outcomes",
		"sent before the state", "queued before the state", "splits", "proofs", "origins"} {
		if counts[kind] == 0 {
			t.Errorf("%s: none", kind)
		}
	}
	t.Logf("%v", counts)
}

// runSynced runs a chain along a course, with at most most nodes that start by state sync.
func runSynced(t *testing.T, o workload.ChainOptions, course workload.Course, most int, counts map[string]int) {
	c, err := workload.OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	r := newLookupChain(t, c, course, counts)
	var nodes []*syncedNode
	begun := map[primitives.EpochID]bool{}
	for range course.Blocks {
		m := r.step()
		if m == nil {
			continue
		}
		for _, n := range nodes {
			n.follow(m)
		}
		point, err := c.Engine.SyncPoint(c.Engine.Head())
		if err != nil {
			t.Fatal(err)
		}
		if len(nodes) == most || point == nil || point.Height() > c.Engine.Final().Height || begun[point.Header().EpochID] {
			continue
		}
		begun[point.Header().EpochID] = true
		if n := r.sync(point); n != nil {
			defer func() { _ = n.chain.Close() }()
			nodes = append(nodes, n)
		}
	}
	for _, n := range nodes {
		if n.chain.Engine.Head().Hash != c.Engine.Head().Hash {
			t.Fatalf("head %d, want %d", n.chain.Engine.Head().Height(), c.Engine.Head().Height())
		}
		n.check()
		n.restart()
		n.collectGarbage()
		n.check()
		counts["splits"] += len(n.chain.Engine.Head().Shards) - n.shards
	}
}

// sync starts a node at a sync point; nil if a shard has no chunk there.
func (r *lookupChain) sync(point *engine.BlockNode) *syncedNode {
	r.Helper()
	for _, x := range point.Block.Body.Chunks {
		if x.HeightIncluded != point.Height() {
			return nil
		}
	}
	made := func(h primitives.Hash) *workload.Made { return r.made[h] }
	c, err := r.chain.Bootstrap(point, made, storage.Options{FlatHeadBlocks: 3})
	if err != nil {
		r.Fatalf("sync point %d: %v", point.Height(), err)
	}
	r.counts["synced"]++
	last := r.blocks[point.Header().PrevHash].entry
	for _, x := range last.Block.Body.Chunks {
		if x.HeightIncluded != last.Height() {
			r.counts["missed before the sync point"]++
		}
	}
	n := &syncedNode{&lookupChain{T: r.T, chain: c, script: r.script, blocks: r.blocks, made: r.made, counts: r.counts, since: last.Height()},
		map[primitives.Hash]bool{last.Hash: true}, point.Layout.NumShards()}
	var list []*recordedBlock // of the chain of the head, the newest first
	for hash := r.chain.Engine.Head().Hash; hash != last.Hash; hash = r.blocks[hash].entry.Header().PrevHash {
		list = append(list, r.blocks[hash])
	}
	for i := len(list) - 1; i >= 0; i-- {
		n.follow(r.made[list[i].entry.Hash])
	}
	return n
}

// follow imports a block into the node, if the node has its parent.
func (n *syncedNode) follow(m *workload.Made) {
	n.Helper()
	if !n.known[m.Block.Header.PrevHash] {
		return
	}
	if _, err := n.chain.Accept(m.Block, m.Chunks, false); err != nil {
		n.Fatalf("block %d of a node that began after %d: %v", m.Block.Header.Height, n.since, err)
	}
	n.known[m.Block.Hash()] = true
}

func (n *syncedNode) restart() {
	n.Helper()
	if err := n.chain.Restart(); err != nil {
		n.Fatal(err)
	}
}

// unknownTransaction asks for a transaction of a block that the node has not executed:
// UNKNOWN_TRANSACTION (nearcore chain/client/src/view_client_actor.rs:701).
func (r *lookupChain) unknownTransaction(hash primitives.Hash, b *recordedBlock) {
	if got, err := r.chain.Engine.Transactions().FullStatus(hash); !errors.Is(err, engine.ErrUnknown) {
		r.Errorf("transaction %v of block %d, executed from %d on: %v, %v", hash, b.entry.Height(), r.since+1, got.Level, err)
	}
	r.counts["unknown transactions"]++
}

// unknownOutcome asks for a proof of an outcome that the node does not have:
// UNKNOWN_TRANSACTION_OR_RECEIPT.
func (r *lookupChain) unknownOutcome(id primitives.Hash, o *chainOutcome) {
	_, err := r.back.LightClientProof(&view.OutcomeRef{ID: id, Account: o.Outcome.ExecutorID, Head: r.chain.Engine.Final().Hash})
	var why *view.LookupError
	if !errors.As(err, &why) || why.Kind != view.ErrUnknownOutcome {
		r.Errorf("proof of outcome %v of block %d, executed from %d on: %v", id, o.block.entry.Height(), r.since+1, err)
	}
	r.counts["unknown outcomes"]++
}
