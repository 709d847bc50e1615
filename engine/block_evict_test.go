package engine

import (
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// residentNodes returns the number of resident nodes, and of all nodes.
func (n *node) residentNodes() (warm, all int) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, x := range n.entries {
		if all++; !x.evicted {
			warm++
		}
	}
	return warm, all
}

// TestStalledFinalityKeepsNewestBlocksResident: while finality stalls, only the newest blocks have
// states, chunks and results in memory, also after a restart. A branch can continue from any other
// block. When finality resumes, the flat head advances over all of them; the states equal those of
// an engine that evicts nothing.
func TestStalledFinalityKeepsNewestBlocksResident(t *testing.T) {
	g := testGenesis(t, "aa")
	all := openNode(t, g)
	disk := storage.NewMemDisk()
	const warm = 6
	open := func() *node {
		n, err := openChanged(t, g, disk, storage.Options{ResidentBlocks: 3}, func(o *Options) { o.Tries, o.ResidentBlocks = trie.Options{Poison: true}, warm })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := open()
	check := func(what string) {
		t.Helper()
		if has, of := n.residentNodes(); has > warm+1 || of < 40 {
			t.Fatalf("%s: %d of %d blocks are in memory", what, has, of)
		}
		for x := range n.Head().Shards {
			if s := n.Head().Root(primitives.ShardIndex(x)).Forest().Stats(); s.Roots > warm+2 {
				t.Fatalf("%s: %d roots", what, s.Roots)
			}
		}
	}
	at, nonce := all.Head(), primitives.Nonce(0)
	var chain []*BlockNode
	step := func(parent *BlockNode, gap primitives.Height) *BlockNode {
		t.Helper()
		nonce++
		b, chunks := all.make(parent.Hash, parent.Height()+gap, nonce%5 == 0, transfer(parent.Hash, nonce))
		x := all.accept(b, chunks).Entry
		got := n.accept(b, chunks).Entry
		for i := range x.Shards {
			if got.Shards[i].root.Hash() != x.Shards[i].root.Hash() {
				t.Fatalf("block %d: another state", b.Header.Height)
			}
		}
		return x
	}
	for range 45 { // with skipped heights nothing becomes final
		at = step(at, 2)
		chain = append(chain, at)
	}
	check("at the end")
	// Old states are read from the store, and old blocks still have their outcomes.
	for _, x := range chain[:20:20] {
		s, err := n.StateAt(x.Hash)
		if err != nil {
			t.Fatal(err)
		}
		for i, id := range x.Layout.ShardIDs() {
			if x.Layout.ShardOf("aa") != id {
				continue
			}
			key := primitives.AppendAccountKey(nil, "aa")
			got, err := s.Trie(primitives.ShardIndex(i)).Get(key, nil)
			want, err2 := all.Imported(x.Hash).trieOf(primitives.ShardIndex(i)).Get(key, nil)
			if err != nil || err2 != nil || len(want) == 0 || string(got) != string(want) {
				t.Fatalf("block %d shard %d: %x, %v, want %x, %v", x.Height(), id, got, err, want, err2)
			}
		}
		s.Release()
		if b, err := n.Block(x.Hash); err != nil || len(b.transactions()) != len(x.transactions()) {
			t.Fatal(err)
		}
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := n.store.Close(); err != nil {
		t.Fatal(err)
	}
	n = open()
	check("after a start")
	if n.Head().Hash != at.Hash {
		t.Fatal("another head")
	}
	fork := chain[10]
	nonce = 10 // of the branch
	for range 3 {
		fork = step(fork, 1)
	}
	check("with a branch from an old block")
	nonce = 44
	for range 4 {
		at = step(at, 1)
	}
	if all.Final().Height == 0 || n.Final() != all.Final() {
		t.Fatalf("final %v and %v", n.Final(), all.Final())
	}
	for _, e := range []*node{n, all} {
		if err := e.AdvanceFlatHead(); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := fmt.Sprint(n.store.Tip()), fmt.Sprint(all.store.Tip()); got != want {
		t.Fatalf("after the fold %s, want %s", got, want)
	}
	for range 6 {
		at = step(at, 1)
	}
}

// TestBodiesAreFreedBelowFlatHead covers chunks, results and receipts.
func TestBodiesAreFreedBelowFlatHead(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa"))
	for i := range 40 {
		n.accept(n.make(n.Head().Hash, n.Head().Height()+1, false))
		if i%10 != 9 {
			continue
		}
		if err := n.AdvanceFlatHead(); err != nil {
			t.Fatal(err)
		}
		for _, x := range n.resident {
			if n.Imported(x.Hash) != x {
				t.Errorf("block %d is resident below the flat head %d", x.Height(), n.flatHead.Height())
			}
		}
		if len(n.resident) > 10 {
			t.Errorf("%d blocks are resident above the flat head %d, want at most 10", len(n.resident), n.flatHead.Height())
		}
	}
}
