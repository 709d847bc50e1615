package mempool

import (
	"slices"
	"sync"
	"testing"

	core "github.com/troupe-chain/troupe/chain/mempool"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
)

func tx(signer primitives.AccountID, nonce primitives.Nonce) *primitives.SignedTransaction {
	return primitives.NewSignedTransaction(primitives.Transaction{SignerID: signer, PublicKey: primitives.ZeroED25519Key,
		ReceiverID: "r.near", Nonce: primitives.TransactionNonce{Nonce: nonce}}, primitives.ZeroED25519Signature)
}

// world is a pool with its actor, and what they say.
type world struct {
	*Pool
	*Actor
	fresh   *Fresh
	rings   int
	dropped []primitives.Hash
}

func newWorld() *world {
	w := &world{fresh: new(Fresh)}
	w.fresh.Tell = func(messages.TransactionsWaiting) { w.rings++ }
	w.Pool = New(core.New(core.Limits{}, 10, primitives.Hash{1}), w.fresh, nil)
	w.fresh.SetPools([]*Pool{w.Pool})
	w.Actor = NewActor(0, w.Pool, func(x *primitives.SignedTransaction) bool { return x.SignerID != "elsewhere.near" },
		func(primitives.Hash) (primitives.Height, bool) { return 0, true },
		Out{Dropped: func(m messages.TransactionsDropped) { w.dropped = append(w.dropped, m.Hashes...) }})
	return w
}

// choose takes what the pool offers, at most limit; the rest is dropped if drop says so.
func (w *world) choose(limit int, drop func(*primitives.SignedTransaction) bool) (out apply.Prepared) {
	c := w.Choose()
	if c == nil {
		return out
	}
	for g := c.NextGroup(); g != nil; g = c.NextGroup() {
		if len(out.Transactions) == limit {
			out.Limit = apply.LimitGas
			break
		}
		for x := g.Peek(); x != nil; x = g.Peek() {
			g.Pop()
			if drop == nil || !drop(x) {
				out.Transactions = append(out.Transactions, x)
				break
			}
			out.Dropped = append(out.Dropped, apply.Dropped{SignedTransaction: x})
		}
	}
	w.dropped = append(w.dropped, c.Done(&out)...)
	return out
}

func (w *world) block(hash, prev byte, height primitives.Height, change func(*messages.BlockAccepted), txs ...*primitives.SignedTransaction) {
	h := &primitives.BlockHeader{PrevHash: primitives.Hash{prev}}
	h.Height = height
	m := messages.BlockAccepted{Block: &primitives.Block{Header: h}, Hash: primitives.Hash{hash}, IsHead: true,
		Shards: []messages.ShardAccepted{{ID: 7}, {ID: 0, Chunk: &primitives.Chunk{ChunkBody: primitives.ChunkBody{Transactions: txs}}}}}
	if change != nil {
		change(&m)
	}
	w.Handle(messages.BlockAdopted{BlockAccepted: &m})
}

// TestIdle: an empty pool is idle, and rings again for what comes after it was asked.
func TestIdle(t *testing.T) {
	w := newWorld()
	if !w.Idle() {
		t.Error("an empty pool is not idle")
	}
	a := tx("a.near", 1)
	if _, err := w.Add(a, 0); err != nil {
		t.Fatal(err)
	}
	if w.Idle() || !w.offers.Load() {
		t.Error("a pool with a transaction is idle, or offers none")
	}
	w.block(1, 0, 1, nil, a) // another node's block has it
	if !w.offers.Load() {
		t.Fatal("the test is about an offer that is left over")
	}
	if !w.Idle() || w.offers.Load() {
		t.Error("a pool that is empty again is not idle, or still offers something")
	}
}

// TestRings: the producer is told once until it looks, and of what a choice has left.
func TestRings(t *testing.T) {
	w := newWorld()
	a, b, c := tx("a.near", 1), tx("b.near", 1), tx("c.near", 1)
	for _, x := range []*primitives.SignedTransaction{a, b, a} {
		if _, err := w.Add(x, 0); err != nil {
			t.Fatal(err)
		}
	}
	if w.rings != 1 || !w.fresh.Any() {
		t.Errorf("%d rings, want 1, and something on offer", w.rings)
	}
	if out := w.choose(1, nil); len(out.Transactions) != 1 || !w.fresh.Any() {
		t.Errorf("chose %d, want 1, and the other still on offer", len(out.Transactions))
	}
	if out := w.choose(9, nil); len(out.Transactions) != 2 || w.fresh.Any() {
		t.Errorf("chose %d, want 2, and nothing on offer", len(out.Transactions))
	}
	if w.Add(c, 0); w.rings != 2 {
		t.Errorf("%d rings after a new one, want 2", w.rings)
	}
	w.block(1, 0, 1, nil, a, b, c)
	if w.Len() != 0 || w.Bytes() != 0 || w.Choose() != nil || w.fresh.Any() {
		t.Errorf("%d transactions are left, or on offer", w.Len())
	}
}

// TestMissed: what was chosen for a chunk that the block did not include is on offer again.
func TestMissed(t *testing.T) {
	w := newWorld()
	a, b := tx("a.near", 1), tx("b.near", 1)
	w.Add(a, 0)
	w.Add(b, 0)
	if out := w.choose(9, nil); len(out.Transactions) != 2 || w.fresh.Any() {
		t.Fatalf("chose %d", len(out.Transactions))
	}
	w.block(1, 0, 1, nil, a)
	if !w.fresh.Any() || w.Len() != 1 {
		t.Errorf("what was not included is not on offer; %d in the pool, want 1", w.Len())
	}
}

func TestDroppedAndExpired(t *testing.T) {
	w := newWorld()
	a, b := tx("a.near", 1), tx("a.near", 2)
	w.Add(a, 0)
	w.Add(b, 0)
	out := w.choose(9, func(x *primitives.SignedTransaction) bool { return x == a })
	if len(out.Transactions) != 1 || !slices.Equal(w.dropped, []primitives.Hash{a.Hash()}) || w.Len() != 1 {
		t.Errorf("chose %d, dropped %v, left %d", len(out.Transactions), w.dropped, w.Len())
	}
	w.block(1, 0, 10, nil)
	w.block(2, 1, 11, nil)
	if !slices.Equal(w.dropped[1:], []primitives.Hash{b.Hash()}) || w.Len() != 0 {
		t.Errorf("expired %v, left %d, want the second", w.dropped[1:], w.Len())
	}
}

// TestReorganisation: a branch's transactions stay until it wins; those of the one that loses come back, if they are ours.
func TestReorganisation(t *testing.T) {
	w := newWorld()
	a, b, c, other := tx("a.near", 1), tx("b.near", 1), tx("c.near", 1), tx("elsewhere.near", 1)
	for _, x := range []*primitives.SignedTransaction{a, b, c} {
		w.Add(x, 0)
	}
	w.block(1, 0, 1, nil, a)
	side := func(m *messages.BlockAccepted) { m.IsHead = false }
	w.block(11, 0, 1, side, b)
	w.block(99, 98, 1, side, c) // of a third branch
	if w.Len() != 2 {
		t.Errorf("%d in the pool, want 2: a branch counts only once it wins", w.Len())
	}
	w.block(12, 11, 2, func(m *messages.BlockAccepted) {
		m.Reorganised, m.Returned = true, []*primitives.SignedTransaction{a, other}
	})
	if w.Pool.Find(a.Hash()) == nil || w.Pool.Find(b.Hash()) != nil || w.Pool.Find(c.Hash()) == nil || w.Len() != 2 {
		t.Errorf("after the reorganisation: a %v, b %v, c %v, %d in all, want a and c",
			w.Pool.Find(a.Hash()) != nil, w.Pool.Find(b.Hash()) != nil, w.Pool.Find(c.Hash()) != nil, w.Len())
	}
	if len(w.side) != 1 {
		t.Errorf("%d side blocks are remembered, want the one that did not win", len(w.side))
	}
	w.block(13, 12, 3, func(m *messages.BlockAccepted) { m.Final = 1 })
	if len(w.side) != 0 {
		t.Errorf("%d side blocks are remembered below the final one", len(w.side))
	}
}

// TestConcurrent: adding, looking, choosing and accepting at the same time lose nothing.
func TestConcurrent(t *testing.T) {
	w := newWorld()
	w.fresh.Tell = func(messages.TransactionsWaiting) {}
	const signers, each = 8, 200
	var adding sync.WaitGroup
	for s := range signers {
		adding.Add(1)
		go func() {
			defer adding.Done()
			for n := range each {
				x := tx(primitives.AccountID([]byte{'a' + byte(s), '.', 'n'}), primitives.Nonce(n+1))
				if _, err := w.Add(x, 0); err != nil {
					t.Error(err)
				}
				w.Pool.Find(x.Hash())
			}
		}()
	}
	done := make(chan struct{})
	go func() { adding.Wait(); close(done) }()
	included := 0
	for height := primitives.Height(1); included < signers*each; height++ {
		out := w.choose(50, nil)
		w.block(byte(height), byte(height-1), min(height, 10), nil, out.Transactions...)
		included += len(out.Transactions)
		if len(out.Transactions) == 0 {
			select {
			case <-done:
				if w.Len() == 0 && included != signers*each {
					t.Fatalf("%d of %d came out", included, signers*each)
				}
			default:
			}
		}
	}
	if w.Len() != 0 || w.fresh.Any() {
		t.Errorf("%d are left", w.Len())
	}
}
