package txpool

import (
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestRoundVisitsGroupsInTurn checks nearcore's order (chain/pool/src/lib.rs tests): one
// transaction of each group in turn, with ascending nonces, and the next round starts after the
// group used last.
func TestRoundVisitsGroupsInTurn(t *testing.T) {
	t.Parallel()
	p := New(Limits{}, 100, primitives.Hash{3})
	for nonce := primitives.Nonce(5); nonce > 0; nonce-- {
		for key := byte(0); key < 24; key += 8 {
			if _, err := p.Add(testTx(key, nonce, 0), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	keep := func(*primitives.SignedTransaction) byte { return keepIt }
	got := walk(p, 7, keep)
	var nonces []primitives.Nonce
	signers := map[primitives.AccountID]int{}
	for _, h := range got {
		tx := p.Find(h)
		nonces = append(nonces, tx.Nonce.Nonce)
		signers[tx.SignerID]++
	}
	if want := []primitives.Nonce{1, 1, 1, 2, 2, 2, 3}; !slices.Equal(nonces, want) {
		t.Errorf("nonces = %v, want %v", nonces, want)
	}
	if p.Len() != 15 {
		t.Errorf("kept transactions left the pool: %d of 15", p.Len())
	}
	last := p.Find(got[6]).SignerID
	for _, h := range got {
		p.Remove(h)
	}
	if again := walk(p, 1, keep); p.Find(again[0]).SignerID == last {
		t.Errorf("the next round begins with %s, which was used last", last)
	}
}

// TestGroupWithNonceGapIsSkipped: a group with a missing nonce is skipped; once the gap is filled,
// it is visited in order.
func TestGroupWithNonceGapIsSkipped(t *testing.T) {
	t.Parallel()
	p := New(Limits{}, 100, primitives.Hash{3})
	p.Add(testTx(0, 3, 0), 0)
	p.Add(testTx(8, 1, 0), 0)
	p.Add(testTx(8, 2, 0), 0)
	known := primitives.Nonce(1) // the last nonce of the first signer's key
	strict := func(tx *primitives.SignedTransaction) byte {
		if tx.SignerID != "s0.near" {
			return keepIt
		}
		if tx.Nonce.Nonce > known+1 {
			return parkIt
		}
		known = tx.Nonce.Nonce
		return keepIt
	}
	if got := walk(p, 10, strict); len(got) != 2 {
		t.Errorf("%d kept, want the two of the other signer", len(got))
	}
	known = 1
	p.Add(testTx(0, 2, 0), 0)
	if got := walk(p, 10, strict); len(got) != 4 {
		t.Errorf("%d kept after the gap closed, want 4", len(got))
	}
}

// TestRoundFollowsChangesOfPool: during a round a block includes a kept transaction, the next
// transaction expires, and new transactions are added.
func TestRoundFollowsChangesOfPool(t *testing.T) {
	t.Parallel()
	p := New(Limits{}, 10, primitives.Hash{3})
	a, b, c := testTx(0, 1, 0), testTx(0, 2, 0), testTx(0, 3, 0)
	p.Add(a, 5)
	p.Add(b, 0)
	p.Add(c, 5)
	r := p.Round()
	if !r.Next() || r.Peek() != a {
		t.Fatal("the round does not begin with the first nonce")
	}
	r.Keep(a)
	p.Remove(a.Hash())
	again := testTx(0, 1, 1) // uses the freed index
	p.Add(again, 5)
	if !r.Next() || r.Peek() != again {
		t.Error("a new transaction of a group in the queue is not seen")
	}
	p.Advance(11)
	r.Keep(again)
	if !r.Next() || r.Peek() != c {
		t.Error("an expired transaction is still returned")
	}
	r.Drop(b) // b was removed: nothing happens
	r.End()
	r.End()
	if p.Len() != 2 || p.Find(again.Hash()) == nil || len(p.groups[0].waiting) != 2 {
		t.Errorf("%d transactions after the round, want the kept one and the last", p.Len())
	}
	if r.Next() || r.Peek() != nil {
		t.Error("a closed round goes on")
	}
}

func TestDrainReturnsAllTransactions(t *testing.T) {
	t.Parallel()
	p := New(Limits{}, 10, primitives.Hash{3})
	for i := range byte(20) {
		p.Add(testTx(i, primitives.Nonce(i), 0), primitives.Height(i))
	}
	n := 0
	p.Drain(func(tx *primitives.SignedTransaction, base primitives.Height) {
		if primitives.Height(tx.Nonce.Nonce) != base {
			t.Errorf("nonce %d came with base %d", tx.Nonce.Nonce, base)
		}
		n++
	})
	if n != 20 || p.Len() != 0 || p.Bytes() != 0 || p.Groups() != 0 {
		t.Errorf("drained %d, left %d, %d bytes, %d groups", n, p.Len(), p.Bytes(), p.Groups())
	}
}

func BenchmarkPool(b *testing.B) {
	const n = 200_000
	txs := make([]*primitives.SignedTransaction, n)
	for i := range txs {
		txs[i] = primitives.NewSignedTransaction(primitives.Transaction{
			SignerID:  primitives.AccountID([]byte{'a' + byte(i%26), 'a' + byte(i/26%26), 'a' + byte(i/676%26), 'a'}),
			PublicKey: testKeys[0], Nonce: primitives.TransactionNonce{Nonce: primitives.Nonce(i)}, ReceiverID: "r.near",
		}, primitives.ZeroED25519Signature)
	}
	b.Run("op=add", func(b *testing.B) {
		b.ReportAllocs()
		p := New(Limits{}, 100, primitives.Hash{})
		i := 0
		for b.Loop() {
			if i == n {
				b.StopTimer()
				p, i = New(Limits{}, 100, primitives.Hash{}), 0
				b.StartTimer()
			}
			p.Add(txs[i], 1)
			i++
		}
	})
	full := New(Limits{}, 100, primitives.Hash{})
	for _, tx := range txs {
		full.Add(tx, 1)
	}
	b.Run("op=chunk/waiting=200000/kept=1490", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			walk(full, 1490, func(*primitives.SignedTransaction) byte { return keepIt })
		}
	})
	b.Run("op=replace/waiting=200000", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			full.Remove(txs[i].Hash())
			full.Add(txs[i], 1)
			i = (i + 1) % n
		}
	})
}
