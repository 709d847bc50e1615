package engine

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// steps returns the blocks that the witness of a chunk on prev covers in a shard, the main one
// first. It finds them from the headers alone.
func (n *node) steps(prev *BlockNode, shard int) (out []primitives.Hash) {
	since := prev.Block.Body.Chunks[shard].HeightIncluded
	for at := prev; ; {
		out = append(out, at.Hash)
		if at.Height() == since {
			slices.Reverse(out)
			return out
		}
		var err error
		if at, err = n.Block(at.Header().PrevHash); err != nil {
			n.t.Fatal(err)
		}
	}
}

// TestTransitionsFollowFromTheirProofsAlone: a chunk's witness covers the newest chunk and each
// later block, and each step starts from the root of the step before. Each step gives the same
// result on its proof alone, and the proof contains nothing that the step does not read. A node
// that keeps no transitions computes the same on demand, also after a restart.
func TestTransitionsFollowFromTheirProofsAlone(t *testing.T) {
	g := testGenesis(t, "aa", "bb")
	keeps, onDemand := openNode(t, g), openNode(t, g)
	keeps.proofs.limit = 1 << 30
	root := keeps.Head().Hash
	check := func(n *node, prev *BlockNode) (all [][]*Transition) {
		t.Helper()
		for i, id := range prev.Layout.ShardIDs() {
			main, implicit, err := n.Transitions(prev.Hash, id)
			if first := n.Imported(n.steps(prev, i)[0]); errors.Is(err, storage.ErrGone) && n.proofs.limit == 0 && (first == nil || first.Height() <= n.flatHead.Height()) {
				all = append(all, nil) // not kept, and the flat head has passed the state before it
				continue
			}
			if err != nil {
				t.Fatalf("block %d, shard %d: %v", prev.Height(), id, err)
			}
			list := append([]*Transition{main}, implicit...)
			all = append(all, list)
			var blocks []primitives.Hash
			for k, tr := range list {
				blocks = append(blocks, tr.Block)
				if want := k == 0; (tr.Kind == TransitionChunk) != want || k > 0 && tr.Pre != list[k-1].Post {
					t.Errorf("block %d, shard %d: step %d is of kind %d, from %v", prev.Height(), id, k, tr.Kind, tr.Pre)
				}
			}
			if want := n.steps(prev, i); !slices.Equal(blocks, want) {
				t.Errorf("block %d, shard %d: steps %v, want %v", prev.Height(), id, blocks, want)
			}
			if got, want := list[len(list)-1].Post, prev.Shards[i].Extra.StateRoot; got != want {
				t.Errorf("block %d, shard %d: ends at %v, want %v", prev.Height(), id, got, want)
			}
		}
		return all
	}
	if all := check(keeps, keeps.Head()); all[0][0].Proof != nil || all[0][0].Receipts != primitives.HashBytes(make([]byte, 4)) {
		t.Errorf("the genesis proves %+v", all[0][0])
	}
	longest, again := 0, 0
	for i := range 40 {
		tx := transfer(root, primitives.Nonce(i+1))
		skip := i%9 > 4
		b, chunks := keeps.make(keeps.Head().Hash, keeps.Head().Height()+1, skip, tx)
		p, err := onDemand.BeginImport(b, chunks, false)
		if err != nil {
			t.Fatal(err)
		}
		for k := range p.jobs {
			if p.jobs[k].Run(); p.jobs[k].transition != nil {
				t.Fatal("a transition is kept without a limit")
			}
		}
		p.Drop()
		a := keeps.accept(b, chunks)
		onDemand.accept(b, chunks)
		kept := check(keeps, a.Entry)
		for s, list := range kept {
			longest = max(longest, len(list))
			last := list[len(list)-1]
			r, err := keeps.ApplyTransition(last, nil)
			if err != nil {
				t.Fatalf("block %d, shard index %d: %v", a.Entry.Height(), s, err)
			}
			want := a.Entry.Shards[s].Result
			if r.Trie.Root() != last.Post || r.RecordedSize != want.RecordedSize || r.OutcomeRoot != want.OutcomeRoot || !reflect.DeepEqual(r.Outcomes, want.Outcomes) || !reflect.DeepEqual(r.Changes, want.Changes) {
				t.Errorf("block %d, shard index %d: on its proof another result", a.Entry.Height(), s)
			}
			for k := range last.Proof {
				less := *last
				less.Proof = slices.Delete(slices.Clone(last.Proof), k, k+1)
				if _, err := keeps.ApplyTransition(&less, nil); !errors.Is(err, state.ErrMissing) || !errors.Is(err, trie.ErrMissing) {
					t.Fatalf("block %d, shard index %d, without string %d: %v, want %v", a.Entry.Height(), s, k, err, state.ErrMissing)
				}
			}
		}
		if i%4 == 3 {
			for s, made := range check(onDemand, onDemand.Head()) {
				if made != nil {
					again++
				}
				if made != nil && !reflect.DeepEqual(made, kept[s]) {
					t.Errorf("block %d: the transitions differ when computed again", a.Entry.Height())
				}
			}
		}
	}
	if longest < 4 || again < 15 {
		t.Errorf("at most %d steps, %d made again: want some missing chunks, and most made again", longest, again)
	}
	if n := len(keeps.proofs.kept); n > 24 || n == 0 || len(onDemand.proofs.kept) != 0 {
		t.Errorf("%d transitions are kept, and %d without a limit", n, len(onDemand.proofs.kept))
	}
	want := check(keeps, keeps.Head())
	disk := onDemand.disk
	if err := errors.Join(onDemand.Close(), onDemand.Store().Close()); err != nil {
		t.Fatal(err)
	}
	if opened := openOn(t, g, disk, storage.Options{}); !reflect.DeepEqual(check(opened, opened.Head()), want) {
		t.Error("the transitions differ after a restart")
	}
	if _, _, err := keeps.Transitions(primitives.Hash{1}, 0); err == nil {
		t.Error("transitions of an unknown block")
	}
}

// TestKeptTransitionsEvictOldest: the size of the kept transitions stays below the limit, and the
// oldest are evicted first. Those that no descendant of the final block needs are dropped at once.
func TestKeptTransitionsEvictOldest(t *testing.T) {
	p := witnessCache{limit: 10_000}
	for i := range 100 {
		p.keep(&Transition{Height: primitives.Height(i), Block: primitives.Hash{byte(i)}, Proof: [][]byte{make([]byte, i%7*500)}})
		if p.size > p.limit || len(p.kept) != len(p.order) {
			t.Fatalf("%d bytes in %d proofs, %d in order", p.size, len(p.kept), len(p.order))
		}
	}
	if p.get(primitives.Hash{99}, 0) == nil || p.get(primitives.Hash{1}, 0) != nil {
		t.Error("the newest transition was evicted, or the oldest was not")
	}
	before := len(p.kept)
	p.keep(&Transition{Block: primitives.Hash{200}, Proof: [][]byte{make([]byte, 10_000)}})
	if p.get(primitives.Hash{200}, 0) != nil || len(p.kept) != before {
		t.Error("a transition larger than the limit was kept")
	}
	header := new(primitives.BlockHeader)
	header.Height = 99
	final := &BlockNode{Block: &primitives.Block{Header: header, Body: primitives.BlockBody{
		Chunks: []*primitives.ChunkHeader{{HeightIncluded: 98}}}}, Shards: []ShardState{{ID: 0}}}
	p.prune(final)
	if p.get(primitives.Hash{97}, 0) != nil || p.get(primitives.Hash{98}, 0) == nil || len(p.kept) != 2 {
		t.Errorf("after the final block %d are kept", len(p.kept))
	}
	sum := int64(0)
	for _, tr := range p.kept {
		sum += tr.size()
	}
	if sum != p.size {
		t.Errorf("size = %d, want %d", p.size, sum)
	}
}

// TestHostileProofGivesErrorOrItsOwnRoot: applying a transition with an arbitrary proof returns an
// error, or the root that follows from the proof.
func TestHostileProofGivesErrorOrItsOwnRoot(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa"))
	root := n.Head().Hash
	a := n.accept(n.make(root, 1, false, transfer(root, 1)))
	a = n.accept(n.make(a.Entry.Hash, 2, false, transfer(root, 2)))
	tr, err := n.Transition(a.Entry.Hash, a.Entry.Layout.ShardIDs()[0])
	if err != nil {
		t.Fatal(err)
	}
	try := func(name string, want error, change func(tr *Transition)) *apply.Result {
		changed := *tr
		changed.Proof = nil
		for _, s := range tr.Proof {
			changed.Proof = append(changed.Proof, slices.Clone(s))
		}
		change(&changed)
		r, err := n.ApplyTransition(&changed, nil)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		return r
	}
	try("no proof", state.ErrMissing, func(tr *Transition) { tr.Proof = nil })
	try("another root", state.ErrMissing, func(tr *Transition) { tr.Pre = primitives.Hash{1} })
	try("a bit", state.ErrMissing, func(tr *Transition) { tr.Proof[len(tr.Proof)/2][0] ^= 1 })
	try("a root that is no node", trie.ErrCorrupt, func(tr *Transition) {
		tr.Proof = append(tr.Proof, []byte("root"))
		tr.Pre = primitives.HashBytes([]byte("root"))
	})
	for name, change := range map[string]func(tr *Transition){
		"doubled": func(tr *Transition) { tr.Proof = append(tr.Proof, tr.Proof...) },
		"more":    func(tr *Transition) { tr.Proof = append(tr.Proof, []byte("what nobody reads")) },
		"turned":  func(tr *Transition) { slices.Reverse(tr.Proof) },
	} {
		t.Run(name, func(t *testing.T) {
			if r := try(name, nil, change); r == nil || r.Trie.Root() != tr.Post {
				t.Error("another root")
			}
		})
	}
}

// TestTransitionOfInFlightBlockIsUnknown: the transition of a block in flight to the disk is not
// computed again, because its patch cannot be read yet. Once the block is on disk, it is computed
// with the patch.
func TestTransitionOfInFlightBlockIsUnknown(t *testing.T) {
	disk := storage.NewMemDisk()
	g := newSyncGate(disk)
	n := openOn(t, testGenesis(t, "aa", "bb"), disk, storage.Options{})
	n.importNext(false)
	if _, err := n.Flush(); err != nil {
		t.Fatal(err)
	}
	b, chunks := n.make(n.Tip().Hash, n.Tip().Height()+1, false)
	n.patch = pendingPatch{block: b.Hash(), records: []genesis.Record{&genesis.DataRecord{AccountID: "aa", Key: []byte("k"), Value: []byte("v")}}}
	g.closed.Store(true)
	a, err := n.FinishImport(n.applied(b, chunks), nil)
	if err != nil {
		t.Fatal(err)
	}
	<-g.arrived
	if _, _, err := n.Transitions(b.Hash(), a.Entry.Shards[0].ID); !errors.Is(err, ErrUnknown) {
		t.Errorf("of a block that is not on disk: %v", err)
	}
	g.closed.Store(false)
	g.pass <- struct{}{}
	if _, err := n.Flush(); err != nil {
		t.Fatal(err)
	}
	for i := range a.Entry.Shards {
		s := &a.Entry.Shards[i]
		main, _, err := n.Transitions(b.Hash(), s.ID)
		if err != nil || main.Post != s.Extra.StateRoot {
			t.Errorf("shard %d: %+v, %v; want root %v", s.ID, main, err, s.Extra.StateRoot)
		}
	}
}
