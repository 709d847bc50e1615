package apply

import (
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
)

// list is a group; pool turns through groups as a mempool would.
type list struct {
	txs []*primitives.SignedTransaction
}

func (l *list) Peek() *primitives.SignedTransaction {
	if len(l.txs) == 0 {
		return nil
	}
	return l.txs[0]
}
func (l *list) Pop() { l.txs = l.txs[1:] }

type pool struct {
	groups []*list
	before int
	last   *list
}

func (p *pool) NextGroup() Group {
	if p.last != nil && len(p.last.txs) > 0 && len(p.last.txs) < p.before {
		p.groups = append(p.groups, p.last)
	}
	if len(p.groups) == 0 {
		return nil
	}
	p.last, p.groups = p.groups[0], p.groups[1:]
	p.before = len(p.last.txs)
	return p.last
}

func (n *net) prepare(groups ...[]*primitives.SignedTransaction) (*PrepareInput, *pool) {
	p := new(pool)
	for _, g := range groups {
		p.groups = append(p.groups, &list{g})
	}
	yes := func(*primitives.SignedTransaction) bool { return true }
	in := &PrepareInput{
		Trie: n.shards[0].trie, Config: n.cfg, Layout: n.layout, ShardID: n.layout.ShardIDs()[0], PrevHeight: n.height,
		GasPrice: n.price, Candidates: p, Valid: yes, Fresh: yes,
		Congestion: []ShardCongestion{{Shard: n.layout.ShardIDs()[0]}},
	}
	return in, p
}

func mustPrepare(t *testing.T, in *PrepareInput) *Prepared {
	t.Helper()
	p, err := Prepare(in)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (n *net) transfers(from primitives.AccountID, count int) (txs []*primitives.SignedTransaction) {
	for range count {
		txs = append(txs, n.tx(from, bob, transfer(primitives.Yocto(1))))
	}
	return txs
}

func TestPrepareTakesOneTransactionPerGroupInTurn(t *testing.T) {
	t.Parallel()
	n := newNet(t, primitives.SingleShardLayout(), alice, bob, "carol.near")
	a, c := n.transfers(alice, 3), n.transfers("carol.near", 2)
	in, _ := n.prepare(a, c)
	p := mustPrepare(t, in)
	want := []*primitives.SignedTransaction{a[0], c[0], a[1], c[1], a[2]}
	if len(p.Transactions) != 5 || p.Limit != LimitNone || p.Gas != 5*223_182_562_500 {
		t.Fatalf("%d transactions, limit %v, %d gas", len(p.Transactions), p.Limit, p.Gas)
	}
	size := uint64(0)
	for i, tx := range p.Transactions {
		if tx != want[i] {
			t.Errorf("transaction %d is of %s", i, tx.SignerID)
		}
		size += uint64(tx.Size())
	}
	if p.Size != size || p.RecordedSize == 0 {
		t.Errorf("size %d, want %d; recorded %d", p.Size, size, p.RecordedSize)
	}
	// The chosen transactions are valid in the chunk.
	for i, o := range n.step(p.Transactions...)[0].Outcomes {
		if o.Status.Kind != primitives.StatusSuccessReceiptID {
			t.Errorf("outcome %d: %s", i, statusText(&o.Status))
		}
	}
}

func TestPrepareStopsAtEachLimit(t *testing.T) {
	t.Parallel()
	n := newPair(t)
	txs := n.transfers(alice, 40)
	cfg := *n.cfg
	n.cfg = &cfg

	in, pool := n.prepare(txs)
	cfg.CongestionControl.MaxTxGas = 10 * 223_182_562_500
	if p := mustPrepare(t, in); len(p.Transactions) != 10 || p.Limit != LimitGas {
		t.Errorf("gas: %d transactions, limit %v", len(p.Transactions), p.Limit)
	}
	if left := len(pool.last.txs); left != 30 {
		t.Errorf("%d stay in the pool, want 30", left)
	}
	cfg.CongestionControl.MaxTxGas = 1 << 60
	cfg.Witness.CombinedTransactionsSizeLimit = 7*uint64(txs[0].Size()) + 20
	in, _ = n.prepare(txs)
	if p := mustPrepare(t, in); len(p.Transactions) != 7 || p.Limit != LimitSize {
		t.Errorf("size: %d transactions, limit %v", len(p.Transactions), p.Limit)
	}
	cfg.Witness.CombinedTransactionsSizeLimit = 1 << 40
	cfg.Witness.NewTransactionsValidationStateSizeSoftLimit = 1
	in, _ = n.prepare(txs)
	if p := mustPrepare(t, in); len(p.Transactions) != 1 || p.Limit != LimitProof {
		t.Errorf("proof: %d transactions, limit %v", len(p.Transactions), p.Limit)
	}
	cfg.Witness.NewTransactionsValidationStateSizeSoftLimit = 1 << 40
	in, _ = n.prepare(txs)
	turns := 0
	in.Stop = func() bool { turns++; return turns > 3 }
	if p := mustPrepare(t, in); len(p.Transactions) != 3 || p.Limit != LimitTime {
		t.Errorf("time: %d transactions, limit %v", len(p.Transactions), p.Limit)
	}
}

// slowTrie is a Trie of which each lookup takes 10 ms of the clock now.
type slowTrie struct {
	state.Trie
	now *time.Duration
}

func (s slowTrie) Get(key []byte, rec state.Recording) ([]byte, error) {
	*s.now += 10 * time.Millisecond
	return s.Trie.Get(key, rec)
}

func (s slowTrie) Lookup(key []byte, rec state.Recording) (state.ValueRef, bool, error) {
	*s.now += 10 * time.Millisecond
	return s.Trie.Lookup(key, rec)
}

// TestPrepareStopsIfStateIsSlow: with a slow state the choice of transactions lasts no longer than
// the time limit and one more transaction. The transactions chosen by then are in the chunk.
func TestPrepareStopsIfStateIsSlow(t *testing.T) {
	t.Parallel()
	const limit = 200 * time.Millisecond
	n := newPair(t)
	var groups [][]*primitives.SignedTransaction
	for range 40 { // the state of the first signer is read once, and kept afterwards
		groups = append(groups, n.transfers(alice, 1))
	}
	var now, each time.Duration
	choose := func(limit time.Duration) *Prepared {
		in, _ := n.prepare(groups...)
		now = 0
		in.Trie = slowTrie{in.Trie, &now}
		if limit > 0 {
			in.Stop = func() bool { now += 15 * time.Millisecond; return now >= limit }
		}
		return mustPrepare(t, in)
	}
	if p := choose(0); p.Limit != LimitNone || len(p.Transactions) != 40 || now == 0 {
		t.Fatalf("without a limit: %d transactions, limit %v, %v", len(p.Transactions), p.Limit, now)
	}
	each = now
	if p := choose(limit); p.Limit != LimitTime || len(p.Transactions) == 0 || len(p.Transactions) >= 40 || now > limit+each {
		t.Errorf("with a limit: %d transactions, limit %v, %v", len(p.Transactions), p.Limit, now)
	}
}

func TestPrepareDropsInvalidTransactions(t *testing.T) {
	t.Parallel()
	n := newPair(t)
	nonce := primitives.InitialNonce(n.height) + 5
	strict := func(v primitives.Nonce) *primitives.SignedTransaction {
		return n.sign(testKey(string(alice)), primitives.Transaction{
			Version: primitives.TransactionV1, SignerID: alice, PublicKey: testKey(string(alice)).PublicKey(), ReceiverID: bob,
			Nonce: primitives.TransactionNonce{Nonce: v}, NonceMode: primitives.NonceStrict, Actions: []primitives.Action{transfer(primitives.Yocto(1))},
		})
	}
	// A transaction with a strict nonce and a gap stays in the pool while it is recent.
	in, p := n.prepare([]*primitives.SignedTransaction{strict(nonce)})
	if r := mustPrepare(t, in); len(r.Transactions) != 0 || len(r.Dropped) != 0 || len(p.last.txs) != 1 {
		t.Errorf("gap: %d taken, %d dropped", len(r.Transactions), len(r.Dropped))
	}
	in, _ = n.prepare([]*primitives.SignedTransaction{strict(nonce)})
	in.Fresh = func(*primitives.SignedTransaction) bool { return false }
	if r := mustPrepare(t, in); len(r.Dropped) != 1 || r.Dropped[0].Reason != DropExpired {
		t.Errorf("old gap: %+v", r.Dropped)
	}
	in, _ = n.prepare([]*primitives.SignedTransaction{strict(1), strict(2), strict(4)})
	if r := mustPrepare(t, in); len(r.Transactions) != 2 || len(r.Dropped) != 0 {
		t.Errorf("1, 2, 4: %d taken, %d dropped", len(r.Transactions), len(r.Dropped))
	}
	// After an invalid transaction, the next one of the group is tried in the same turn.
	bad := n.tx(alice, bob, transfer(primitives.NEAR(5000)))
	good := n.tx(alice, bob, transfer(primitives.NEAR(600)))
	broke := n.tx(alice, bob, transfer(primitives.NEAR(600)))
	in, _ = n.prepare([]*primitives.SignedTransaction{bad, good, broke})
	r := mustPrepare(t, in)
	if len(r.Transactions) != 1 || len(r.Dropped) != 2 || r.Dropped[1].Reason != DropInvalid || r.Dropped[1].Err.Tag != primitives.TxNotEnoughBalance {
		t.Errorf("%d taken, dropped %+v", len(r.Transactions), r.Dropped)
	}
	in, _ = n.prepare([]*primitives.SignedTransaction{good})
	in.Valid = func(*primitives.SignedTransaction) bool { return false }
	if r := mustPrepare(t, in); len(r.Dropped) != 1 || r.Dropped[0].Reason != DropChain {
		t.Errorf("chain: %+v", r.Dropped)
	}
	in, _ = n.prepare([]*primitives.SignedTransaction{good})
	in.Congestion[0].Info.ReceiptBytes = 800_000_000 // 0.8 of the maximum
	if r := mustPrepare(t, in); len(r.Dropped) != 1 || r.Dropped[0].Reason != DropCongested {
		t.Errorf("congested: %+v", r.Dropped)
	}
	missing := n.tx("nobody.near", bob, transfer(primitives.Yocto(1)))
	in, _ = n.prepare([]*primitives.SignedTransaction{missing})
	if r := mustPrepare(t, in); len(r.Dropped) != 1 || r.Dropped[0].Err.Tag != primitives.TxInvalidSignerID {
		t.Errorf("missing signer: %+v", r.Dropped)
	}
}
