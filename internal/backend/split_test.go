package backend

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/storage/trie"
)

// stateSeen is the state after a block, as its tries had it when it was the head.
type stateSeen struct {
	ref      view.BlockRef
	layout   primitives.ShardLayout
	chunks   []primitives.Hash
	outcomes []primitives.Hash
	accounts map[primitives.AccountID]primitives.Account
	keys     map[primitives.AccountID]int
}

func look(t *testing.T, e *engine.BlockNode, ids []primitives.AccountID) stateSeen {
	s := stateSeen{ref: view.BlockRef{Kind: view.RefHeight, Height: e.Height()}, layout: e.Layout,
		accounts: map[primitives.AccountID]primitives.Account{}, keys: map[primitives.AccountID]int{}}
	for i := range e.Shards {
		s.chunks = append(s.chunks, e.Block.Body.Chunks[i].ChunkHash())
		for k := range e.Shards[i].Result.Outcomes {
			s.outcomes = append(s.outcomes, e.Shards[i].Result.Outcomes[k].ID)
		}
	}
	for _, id := range ids {
		i, err := e.Layout.Index(e.Layout.ShardOf(id))
		if err != nil {
			t.Fatal(err)
		}
		var a primitives.Account
		if ok, err := state.NewUnrecorded(engine.StateTrie(e.Root(i))).Account(id, &a); err != nil {
			t.Fatal(err)
		} else if ok {
			s.accounts[id] = a
			scan := e.Root(i).Scan(primitives.AppendAccessKeyPrefix(nil, id), nil, nil)
			for scan.Next() {
				if k, err := primitives.ParseTrieKey(scan.Key()); err == nil && !k.HasIndex {
					s.keys[id]++
				}
			}
		}
	}
	return s
}

// TestViewsOverSplitsReturnStateOfTheTime: RPC reads of old blocks, above the flat head or not,
// return the state of that time in every layout. Every outcome has a valid proof, also if the next
// block has other shards.
func TestViewsOverSplitsReturnStateOfTheTime(t *testing.T) {
	o, course := workload.RandomSplits(4, 110)
	course.Fork = 0
	course.PerStep = 12
	o.StateBytes, o.Tries = 1, trie.Options{Frontier: 256, Poison: true} // nearly all is read from the disk
	c, err := workload.OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var ids []primitives.AccountID
	for i := range o.Accounts {
		ids = append(ids, workload.Account(i))
	}
	script := workload.NewScript(c, course)
	var all []stateSeen
	splits := 0
	for range course.Blocks {
		m, err := script.Step()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, look(t, m.Accepted.Entry, ids))
		if n := len(all); n > 1 && !all[n-1].layout.Equal(all[n-2].layout) {
			splits++
		}
	}
	if splits < 3 {
		t.Fatalf("%d splits", splits)
	}
	if err := c.Restart(); err != nil {
		t.Fatal(err)
	}
	b := New(Options{Engine: c.Engine, Genesis: &genesis.Config{}, Now: time.Now})
	proofs := 0
	for i := range all {
		s := &all[i]
		for _, id := range ids {
			st, err := b.State(s.ref, id)
			if err != nil {
				t.Fatalf("state of %s at %d: %v", id, s.ref.Height, err)
			}
			var a primitives.Account
			ok, err := st.Account(id, &a)
			if want, exists := s.accounts[id]; err != nil || ok != exists || ok && fmt.Sprint(a) != fmt.Sprint(want) {
				t.Errorf("%s at %d: %v %v %v, want %v", id, s.ref.Height, a, ok, err, want)
			}
			if ok {
				keys, more, err := st.AccessKeys(id, "", 0)
				if err != nil || len(keys) != s.keys[id] || more {
					t.Errorf("%s at %d: %d keys, more: %v, %v, want %d", id, s.ref.Height, len(keys), more, err, s.keys[id])
				}
				var paged []view.KeyInfo // one by one
				for more = len(keys) > 0; more; {
					after := primitives.PublicKeyHandle("")
					if n := len(paged); n > 0 {
						after = paged[n-1].Handle
					}
					var page []view.KeyInfo
					if page, more, err = st.AccessKeys(id, after, 1); err != nil || len(page) != 1 {
						t.Fatalf("%s at %d: a page of %d keys, %v", id, s.ref.Height, len(page), err)
					}
					paged = append(paged, page...)
				}
				if !slices.EqualFunc(paged, keys, func(x, y view.KeyInfo) bool { return x.Handle == y.Handle }) {
					t.Errorf("%s at %d: %d keys page by page, %d at once", id, s.ref.Height, len(paged), len(keys))
				}
			}
			st.Release()
		}
		for k, id := range s.layout.ShardIDs() {
			_, chunk, err := b.Chunk(t.Context(), view.ChunkRef{Block: s.ref, ShardID: id})
			if err != nil || chunk.Header.ChunkHash() != s.chunks[k] {
				t.Errorf("chunk of shard %d at %d: %v, want %v", id, s.ref.Height, err, s.chunks[k])
			}
		}
		if _, _, err := b.Chunk(t.Context(), view.ChunkRef{Block: s.ref, ShardID: 99}); !errors.Is(err, view.ErrInvalidShard) {
			t.Errorf("chunk of an unknown shard: %v", err)
		}
		for _, id := range s.outcomes {
			p, err := b.LightClientProof(&view.OutcomeRef{ID: id, Head: c.Engine.Final().Hash})
			if errors.Is(err, view.ErrNotConfirmed) || i > len(all)-8 {
				continue // no chunk, or no final block, has it yet
			}
			if err != nil {
				t.Errorf("proof of %v in block %d: %v", id, s.ref.Height, err)
				continue
			}
			proofs++
			chunk := p.Outcome.Proof.Root(p.Outcome.LeafHash())
			if !p.OutcomeRootProof.Verify(p.Header.InnerLite.PrevOutcomeRoot, primitives.HashBytes(chunk[:])) {
				t.Errorf("outcome %v of block %d is not proven by block %v", id, s.ref.Height, p.Outcome.BlockHash)
			}
		}
	}
	if proofs < 100 {
		t.Errorf("%d proofs", proofs)
	}
	provable(t, b, all[1].ref, ids[0])
}

// provable checks that a proof at a block without tries fails with the height from which on there
// are tries, and that a proof at that height succeeds.
func provable(t *testing.T, b *Backend, old view.BlockRef, id primitives.AccountID) {
	prove := func(ref view.BlockRef) ([][]byte, error) {
		st, err := b.State(ref, id)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Release()
		return st.DataProof(id, nil)
	}
	_, err := prove(old)
	var e *view.LookupError
	if !errors.As(err, &e) || e.Kind != view.ErrNoProof || e.Height <= old.Height {
		t.Fatalf("a proof at %d: %v", old.Height, err)
	}
	if nodes, err := prove(view.BlockRef{Kind: view.RefHeight, Height: e.Height}); err != nil || len(nodes) == 0 {
		t.Errorf("a proof at %d, the first provable height: %d nodes, %v", e.Height, len(nodes), err)
	}
	if _, err := prove(view.BlockRef{Kind: view.RefHeight, Height: e.Height - 1}); !errors.Is(err, view.ErrNoProof) {
		t.Errorf("a proof at %d, below the first provable height: %v", e.Height-1, err)
	}
}
