package engine

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/verify"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// openTracking opens a node that holds the shards that track selects.
func openTracking(t *testing.T, disk *storage.MemDisk, track Track) (*node, error) {
	t.Helper()
	return openChanged(t, testGenesis(t, "aa", "bb", "cc"), disk, storage.Options{}, func(o *Options) {
		o.Tries, o.Tracks = trie.Options{Poison: true}, track
	})
}

// TestReceiptProofsMustMatchUntrackedChunk: the receipts from a shard that is not held must match
// that chunk's header, for each held shard. If they do not, the block waits for the right ones and
// does not count as invalid.
func TestReceiptProofsMustMatchUntrackedChunk(t *testing.T) {
	maker := openNode(t, testGenesis(t, "aa", "bb", "cc"))
	layout := maker.Head().Layout
	ids := layout.ShardIDs()
	n, err := openTracking(t, storage.NewMemDisk(), TrackShards(ids[0]))
	if err != nil {
		t.Fatal(err)
	}
	b, chunks := maker.make(maker.Head().Hash, 1, false)
	held, good := chunks[0], chain.CutChunk(chunks[1], layout, ids[:1])
	changed := func(f func(*primitives.ReceiptProof)) *primitives.Chunk {
		c := *good
		p := good.Proofs[0]
		f(&p)
		c.Proofs = []primitives.ReceiptProof{p}
		return &c
	}
	before := n.state()
	for name, given := range map[string][]*primitives.Chunk{
		"nothing":                     nil,
		"the held shard alone":        {held, nil},
		"proofs of the held shard":    {chain.CutChunk(held, layout, ids), good},
		"a whole body without proofs": {held, chunks[1]},
		"proofs to the other shard":   {held, chain.CutChunk(chunks[1], layout, ids[1:])},
		"receipts without a proof":    {held, changed(func(p *primitives.ReceiptProof) { p.Receipts = []*primitives.Receipt{refund()} })},
		"too long a path":             {held, changed(func(p *primitives.ReceiptProof) { p.Proof = append(p.Proof, p.Proof...) })},
		"another source":              {held, changed(func(p *primitives.ReceiptProof) { p.From = ids[0] })},
		"a stranger's chunk":          {held, held},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := n.BeginImport(b, given, false); !errors.Is(err, ErrMissing) || VerdictOf(err) != VerdictWaiting {
				t.Errorf("got %v, want ErrMissing", err)
			}
		})
	}
	if n.state() != before {
		t.Error("what was refused has changed the engine")
	}
	n.accept(b, []*primitives.Chunk{held, good})
	if s := n.Head().Shards; !s[0].Held() || s[1].Held() {
		t.Error("another shard is held than is tracked")
	}
	none, err := openTracking(t, storage.NewMemDisk(), func(primitives.ShardLayout, primitives.ShardID) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	none.accept(b, nil) // a node without any shard needs no chunks
}

func refund() *primitives.Receipt {
	return &primitives.Receipt{PredecessorID: "system", ReceiverID: "aa", Body: &primitives.ActionReceipt{SignerID: "aa", SignerPublicKey: seedKey("aa").PublicKey()}}
}

// TestQueriesOfUntrackedShardFail: queries of a shard that is not held fail, and a data folder
// without a shard cannot be opened by a node that tracks it.
func TestQueriesOfUntrackedShardFail(t *testing.T) {
	maker := openNode(t, testGenesis(t, "aa", "bb", "cc"))
	layout := maker.Head().Layout
	ids := layout.ShardIDs()
	own, other := primitives.AccountID("aa"), primitives.AccountID("")
	for _, a := range []primitives.AccountID{"0", "aa", "near", "test1.near", "zz"} {
		if layout.ShardOf(a) != layout.ShardOf(own) {
			other = a
		}
	}
	if other == "" {
		t.Fatal("all accounts are in one shard")
	}
	disk := storage.NewMemDisk()
	n, err := openTracking(t, disk, TrackAccounts(own))
	if err != nil {
		t.Fatal(err)
	}
	mine, _ := layout.Index(layout.ShardOf(own))
	for len(n.Head().Block.Body.Chunks) > 0 && n.Head().Height() < 25 { // across updates of the flat head
		b, chunks := maker.make(maker.Head().Hash, maker.Head().Height()+1, false)
		maker.accept(b, chunks)
		given := []*primitives.Chunk{chain.CutChunk(chunks[0], layout, []primitives.ShardID{ids[mine]}), chain.CutChunk(chunks[1], layout, []primitives.ShardID{ids[mine]})}
		given[mine] = chunks[mine]
		n.accept(b, given)
	}
	old := n.Head().Header().PrevHash
	look := func(n *node, when string) {
		for _, hash := range []primitives.Hash{n.Head().Hash, old} {
			at, err := n.StateAt(hash)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range []primitives.AccountID{own, other} {
				i, _ := layout.Index(layout.ShardOf(a))
				_, err := at.Trie(i).Get(primitives.AppendAccountKey(nil, a), nil)
				if errors.Is(err, ErrUntracked) != (a == other) || a == own && err != nil {
					t.Errorf("%s: account %s: %v", when, a, err)
				}
				_, _, err = n.CallView(at, &action.View{Account: a, Method: "x"})
				if errors.Is(err, ErrUntracked) != (a == other) {
					t.Errorf("%s: a call of %s: %v", when, a, err)
				}
			}
			at.Release()
		}
		tx := signedBy(other, n.Head().Hash)
		if _, err := n.Check(tx, verify.Checked); !errors.Is(err, ErrUntracked) {
			t.Errorf("%s: a transaction of %s: %v", when, other, err)
		}
		if _, _, err := n.KeyNonce(tx); !errors.Is(err, ErrUntracked) {
			t.Errorf("%s: a nonce of %s: %v", when, other, err)
		}
		if _, err := n.NewChunk(n.Head().Hash, 1-mine, nil, seedKey("aa")); !errors.Is(err, ErrUntracked) {
			t.Errorf("%s: a chunk of it: %v", when, err)
		}
		if _, err := n.Transition(n.Head().Hash, ids[1-mine]); !errors.Is(err, ErrUntracked) {
			t.Errorf("%s: what proves a chunk of it: %v", when, err)
		}
		if _, err := n.Reapply(t.Context(), n.Head().Hash, 1-mine, nil); !errors.Is(err, ErrUntracked) {
			t.Errorf("%s: a chunk of it again: %v", when, err)
		}
		if n.StateSize(1-mine) != 0 || n.StateSize(mine) == 0 {
			t.Errorf("%s: sizes %d and %d", when, n.StateSize(0), n.StateSize(1))
		}
	}
	look(n, "at first")
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := n.Store().Close(); err != nil {
		t.Fatal(err)
	}
	for _, track := range []Track{nil, TrackAccounts(other)} {
		m, err := openTracking(t, disk, track)
		if !errors.Is(err, ErrUntracked) {
			t.Errorf("a folder without a shard that is tracked opens: %v", err)
		}
		_ = m.Store().Close()
	}
	if n, err = openTracking(t, disk, TrackAccounts(own)); err != nil {
		t.Fatal(err)
	}
	look(n, "after a restart")
	v := n.Verify()
	for done := false; !done; {
		if done, err = v.Step(100); err != nil {
			t.Fatal(err)
		}
	}
}

func signedBy(a primitives.AccountID, base primitives.Hash) *primitives.SignedTransaction {
	tx := primitives.Transaction{SignerID: a, PublicKey: seedKey(a).PublicKey(), ReceiverID: a, BlockHash: base, Nonce: primitives.TransactionNonce{Nonce: 1},
		Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.NEAR(1)}}}
	hash := tx.Hash()
	return primitives.NewSignedTransaction(tx, seedKey(a).Sign(hash[:]))
}

// TestStoredEmptyProofsAreReadAsEmpty: a chunk without receipts, stored by a node that did not hold
// its shard, is read back with an empty list of proofs and not nil. nil would mean the whole chunk,
// and a witness built from it would state that it sent no receipts at all.
func TestStoredEmptyProofsAreReadAsEmpty(t *testing.T) {
	kept := ShardState{Chunk: &primitives.Chunk{Proofs: []primitives.ReceiptProof{}}}
	list, err := readBroughtReceipts(encodeUntracked(&kept).Incoming)
	if err != nil || list == nil || len(list) != 0 {
		t.Errorf("%#v, %v", list, err)
	}
}
