package engine

import (
	"errors"
	"sync"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// sandboxNode is an engine under test together with a reference engine that imports the same blocks
// but has no parent and no children.
type sandboxNode struct {
	*node
	reference *node
	nonce     primitives.Nonce
	imports   []importedBlock
}

type importedBlock struct {
	block  *primitives.Block
	chunks []*primitives.Chunk
}

// step makes a block on the head. Both engines import it, and the test fails unless they have the
// same states and finality afterwards.
func (k *sandboxNode) step(t *testing.T, skip bool, gap primitives.Height) {
	t.Helper()
	head := k.Head()
	k.nonce++
	b, chunks := k.make(head.Hash, head.Height()+gap, skip, transfer(head.Hash, k.nonce))
	got := k.accept(b, chunks)
	want := k.reference.accept(b, chunks)
	if got.Final != want.Final || got.IsHead != want.IsHead {
		t.Fatalf("block %d: final %v, want %v", b.Header.Height, got.Final, want.Final)
	}
	for i := range want.Entry.Shards {
		if got.Entry.Shards[i].root.Hash() != want.Entry.Shards[i].root.Hash() {
			t.Fatalf("block %d shard %d: another state", b.Header.Height, i)
		}
	}
	k.imports = append(k.imports, importedBlock{b, chunks})
}

// openChild opens a child at the revert point s of the head, together with a reference engine of its
// own.
func (k *sandboxNode) openChild(t *testing.T, g *genesis.Genesis, s *RevertPoint) *sandboxNode {
	t.Helper()
	c, err := k.Child(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := &sandboxNode{node: &node{Engine: c, t: t}, reference: openNode(t, g), nonce: k.nonce}
	for _, x := range k.imports {
		if x.block.Header.Height <= s.ref.Height {
			out.reference.accept(x.block, x.chunks)
			out.imports = append(out.imports, x)
		}
	}
	return out
}

// TestChildrenOfRevertPointAreIndependent: children of one revert point, and a child of a child,
// continue over epochs and reverts, independently of each other and of the parent, which continues
// too. Each has the same states, finality and epochs as an engine that imported only its blocks,
// and none of them knows a block of another. Earlier states stay readable. The parent's flat head
// stays at the limit of the revert point. When the children have ended, the parent's tries are as
// if the children had never existed.
func TestChildrenOfRevertPointAreIndependent(t *testing.T) {
	g := testGenesis(t, "aa")
	n := &sandboxNode{node: openNode(t, g), reference: openNode(t, g)}
	for i := range 27 {
		n.step(t, i%5 == 0, 1)
	}
	s, err := n.NewRevertPoint()
	if err != nil {
		t.Fatal(err)
	}
	family := []*sandboxNode{n, n.openChild(t, g, s), n.openChild(t, g, s)}
	first := family[1]
	var inner, early *RevertPoint
	for i := range 120 {
		k := family[i%len(family)]
		gap := primitives.Height(1)
		if i%11 == 0 {
			gap = 2
		}
		k.step(t, i%(3+i%len(family)) == 0, gap)
		switch i {
		case 20:
			if inner, err = first.NewRevertPoint(); err != nil {
				t.Fatal(err)
			}
			family = append(family, first.openChild(t, g, inner))
		case 60: // a revert within a child, and in its reference engine
			if early, err = family[2].NewRevertPoint(); err != nil {
				t.Fatal(err)
			}
		case 90:
			k := family[2]
			if err := k.Rewind(early); err != nil {
				t.Fatal(err)
			}
			var kept []importedBlock
			k.reference = openNode(t, g)
			for _, x := range k.imports {
				if x.block.Header.Height <= early.ref.Height {
					k.reference.accept(x.block, x.chunks)
					kept = append(kept, x)
				}
			}
			k.imports, k.nonce = kept, primitives.Nonce(len(kept))
		}
	}
	if at := n.store.Tip().FlatHead; at.Height > s.final.Height {
		t.Errorf("the parent is folded to %v, and what was final at the snapshot is %v", at, s.final)
	}
	for i, k := range family {
		if k.Head().Header().EpochID == s.at.Header().EpochID {
			t.Errorf("chain %d has not left the epoch of the snapshot", i)
		}
		for j, other := range family {
			for _, x := range other.imports {
				hash := x.block.Hash()
				own := false
				for _, y := range k.imports {
					own = own || y.block.Hash() == hash
				}
				at, err := k.StateAt(hash)
				if !own {
					if !errors.Is(err, ErrUnknown) {
						t.Fatalf("chain %d has block %d of chain %d: %v", i, x.block.Header.Height, j, err)
					}
					continue
				}
				if err != nil {
					t.Fatalf("chain %d: state of its block %d: %v", i, x.block.Header.Height, err)
				}
				if k != n && n.BlockNode(hash) != nil && at.historical != nil {
					t.Fatalf("chain %d: of block %d, which its parent has in memory, it has values alone", i, x.block.Header.Height)
				}
				want, err := k.reference.StateAt(hash)
				if err != nil {
					t.Fatal(err)
				}
				shard, err := at.Layout.Index(at.Layout.ShardOf("aa"))
				if err != nil {
					t.Fatal(err)
				}
				key := primitives.AppendAccountKey(nil, "aa")
				got, err := at.Trie(shard).Get(key, nil)
				value, err2 := want.Trie(shard).Get(key, nil)
				if err != nil || err2 != nil || len(got) == 0 || string(got) != string(value) {
					t.Fatalf("chain %d block %d: %x, %v, want %x, %v", i, x.block.Header.Height, got, err, value, err2)
				}
				at.Release()
				want.Release()
			}
		}
	}
	for i := len(family) - 1; i > 0; i-- {
		if family[i].Size() == 0 {
			t.Errorf("chain %d takes nothing", i)
		}
		if err := family[i].Discard(); err != nil {
			t.Fatal(err)
		}
		// A call after Discard returns ErrDiscarded; it must not retry forever.
		if err := family[i].CheckPatch(nil, nil); !errors.Is(err, ErrDiscarded) {
			t.Errorf("a chain that has ended: %v", err)
		}
	}
	n.EndRevertPoint(s)
	if _, err := n.Child(s, nil); !errors.Is(err, ErrEnded) {
		t.Errorf("a child of a snapshot that has ended: %v", err)
	}
	for _, e := range []*node{n.node, n.reference} {
		if err := e.AdvanceFlatHead(); err != nil {
			t.Fatal(err)
		}
	}
	got, want := n.Forests(), n.reference.Forests()
	for i := range want {
		if got, want := got[i].Stats(), want[i].Stats(); got.Roots != want.Roots || got.Nodes != want.Nodes {
			t.Errorf("shard %d: %d roots and %d nodes, want %d and %d", i, got.Roots, got.Nodes, want.Roots, want.Nodes)
		}
	}
}

func TestChildCanStartAtGenesis(t *testing.T) {
	g := testGenesis(t, "aa")
	n := &sandboxNode{node: openNode(t, g), reference: openNode(t, g)}
	s, err := n.NewRevertPoint()
	if err != nil {
		t.Fatal(err)
	}
	k := n.openChild(t, g, s)
	for range 24 {
		k.step(t, false, 1)
		n.step(t, true, 1)
	}
	if k.Genesis().Hash != n.Genesis().Hash {
		t.Error("the child has another genesis block")
	}
	if err := k.Discard(); err != nil {
		t.Fatal(err)
	}
}

// TestChildrenAndParentRunConcurrently runs each of them on a goroutine of its own.
func TestChildrenAndParentRunConcurrently(t *testing.T) {
	g := testGenesis(t, "aa")
	n := &sandboxNode{node: openNode(t, g), reference: openNode(t, g)}
	for range 12 {
		n.step(t, false, 1)
	}
	s, err := n.NewRevertPoint()
	if err != nil {
		t.Fatal(err)
	}
	family := []*sandboxNode{n, n.openChild(t, g, s), n.openChild(t, g, s), n.openChild(t, g, s)}
	var all sync.WaitGroup
	for _, k := range family {
		all.Go(func() {
			for i := range 30 {
				k.step(t, i%7 == 0, 1)
			}
		})
	}
	all.Wait()
	for _, k := range family[1:] {
		if err := k.Discard(); err != nil {
			t.Fatal(err)
		}
	}
}
