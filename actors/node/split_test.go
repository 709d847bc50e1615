package node

import (
	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/internal/testkit/testnode"
	"github.com/troupe-chain/troupe/messages"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/actors/chain"
	"github.com/troupe-chain/troupe/actors/mempool"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/signature"
	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// splitting starts a node in manual mode on a chain of short epochs that splits its shards
// again and again.
func splitting(t *testing.T) (*sandbox, *workload.Generator) { return splittingTripped(t, nil) }

func splittingTripped(t *testing.T, trip func(kind string, m any, after bool)) (*sandbox, *workload.Generator) {
	t.Helper()
	o := workload.Options{Seed: 1, Accounts: 26, Shards: 1}
	r := workload.Rules{EpochLength: 8, Validity: 16, GasLimit: 30_000_000_000_000,
		Splitting: &workload.Splitting{Threshold: 3_000, MinChild: 500, MaxShards: 5, MinEpochs: 1}}
	chain, err := workload.NewChain(o, r)
	if err != nil {
		t.Fatal(err)
	}
	checker := signature.New()
	e := testnode.Open(t, testnode.Options{Chain: chain, Engine: func(o *engine.Options) { o.Signature = checker.Check }})
	t.Cleanup(func() { // after the node
		if err := e.Store().Close(); err != nil {
			t.Error(err)
		}
	})
	s := start(t, 1, func(x *Options) {
		_ = x.Engine.Close()
		x.Limits.Wait = time.Minute
		x.Engine, x.Signatures, x.Mode, x.hooks.trip = e, checker, production.Manual, trip
		x.Keys = map[primitives.AccountID]primitives.SecretKey{workload.Validator: workload.StakeKey(workload.Validator)}
	})
	s.e = e
	return s, workload.NewGenerator(o)
}

func (s *sandbox) tracked() (ids []primitives.ShardID) {
	for _, t := range s.shards.set.Load().list {
		ids = append(ids, t.id)
	}
	slices.Sort(ids)
	return ids
}

// TestTransactionsSurviveShardSplit: shards split while transactions come without a pause. Every
// transaction ends and every wait is answered. New shards have actors, and those of removed shards
// end.
func TestTransactionsSurviveShardSplit(t *testing.T) {
	s, g := splitting(t)
	type end struct {
		tx  *primitives.SignedTransaction
		out *view.FinalOutcome
		err error
	}
	ends := make(chan end, 1000)
	var waits, submits sync.WaitGroup
	var sent []*primitives.SignedTransaction
	stop := make(chan struct{})
	var turns atomic.Int64 // of the submitter: blocks do not outrun it, since a transaction is valid for 16 of them
	submits.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Microsecond):
			}
			turns.Add(1)
			head := s.e.Head()
			tx := g.Transfer(workload.Base{Height: head.Height() + 1, Hash: head.Hash})
			// Also sent again by a waiter, which may be slower than the next nonce.
			if _, err := s.Submit(tx); err != nil {
				t.Errorf("block %d: %v", head.Height(), err)
			}
			if i%40 != 0 || i >= 40*cap(ends) {
				sent = append(sent, tx)
				continue
			}
			waits.Go(func() {
				out, err := s.SendTx(t.Context(), &view.SendTx{Tx: tx, WaitUntil: view.LevelFinal})
				ends <- end{tx, out, err}
			})
		}
	})
	layouts := 0
	for block := 0; block < 120 && s.e.Head().Layout.NumShards() < 5; block++ {
		before, turn := s.e.Head().Layout, turns.Load()
		mineBlocks(t, s, 1)
		until(t, func() bool { return turns.Load() > turn })
		if !s.e.Head().Layout.Equal(before) {
			layouts++
		}
	}
	close(stop)
	submits.Wait()
	if layouts != 4 {
		t.Fatalf("%d splits, want 4", layouts)
	}
	mineBlocks(t, s, 10)
	for _, tx := range sent {
		out, err := s.Tx(t.Context(), &view.GetTx{Hash: tx.Hash(), WaitUntil: view.LevelNone})
		for block := 0; err == nil && out.Level != view.LevelFinal && block < 40; block++ {
			mineBlocks(t, s, 1)
			out, err = s.Tx(t.Context(), &view.GetTx{Hash: tx.Hash(), WaitUntil: view.LevelNone})
		}
		if err != nil || out.Level != view.LevelFinal {
			t.Fatalf("transaction %v: %+v, %v", tx.Hash(), out, err)
		}
	}
	waits.Wait()
	close(ends)
	n := 0
	for x := range ends {
		if n++; x.err != nil || x.out.Level != view.LevelFinal || x.out.Status.Kind != view.FinalSuccessValue {
			t.Errorf("%v: %+v, %v, want FINAL", x.tx.Hash(), x.out, x.err)
		}
	}
	if n == 0 {
		t.Error("no transaction waited over the split")
	}
	want := slices.Sorted(slices.Values(s.e.Head().Layout.ShardIDs()))
	if got := s.tracked(); !slices.Equal(got, want) {
		t.Errorf("shards with actors = %v, want %v", got, want)
	}
	registry := s.root.ActorSystem().ProcessRegistry
	for limit := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, there := registry.GetLocal("shards/0"); !there {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("the actor of shard 0 is still there")
		}
	}
	if _, there := registry.GetLocal("shards/0/" + "mempool"); there {
		t.Error("the mempool of shard 0 is still there")
	}
}

// TestTransactionsMoveToPoolsOfTheirShards: transactions move to the pools of their signers' shards
// with the head, also back to a branch with the old shards, and to one that split another shard
// into the same ids.
func TestTransactionsMoveToPoolsOfTheirShards(t *testing.T) {
	s, g := splitting(t)
	head := s.e.Head()
	var txs []*primitives.SignedTransaction
	for range 40 {
		tx := g.Transfer(workload.Base{Height: head.Height() + 1, Hash: head.Hash})
		if _, err := s.Submit(tx); err != nil {
			t.Fatal(err)
		}
		txs = append(txs, tx)
	}
	check := func(layout primitives.ShardLayout) { // they move by messages
		t.Helper()
		for _, x := range s.shards.set.Load().list {
			n := 0
			for _, tx := range txs {
				if layout.ShardOf(tx.SignerID) == x.id {
					n++
				}
			}
			until(t, func() bool { return x.pool.Len() == n })
		}
	}
	one := head.Layout
	two := derive(t, one, "m0.w")
	left, right := derive(t, two, "f0.w"), derive(t, two, "t0.w")
	if !slices.Contains(left.ShardIDs(), right.ShardIDs()[1]) {
		t.Fatalf("layouts %v and %v share no id", left, right)
	}
	m := chain.Accepted(&engine.Imported{Entry: head, OldHead: head})
	for i, layout := range []primitives.ShardLayout{two, one, two, left, right, two, one} {
		if err := s.shards.setLayout(layout, &m); err != nil {
			t.Fatal(err)
		}
		check(layout)
		if t.Failed() {
			t.Fatalf("step %d", i)
		}
	}
	late := g.Transfer(workload.Base{Height: head.Height() + 1, Hash: head.Hash})
	// Submitted to the shard of the layout before the change.
	request := mempool.NewRequest("", []*primitives.SignedTransaction{late})
	s.tell(s.shards.set.Load().find(1).mempool, request)
	select {
	case <-request.Done():
		if got := request.Answers()[0]; !got.Pooled || got.Err != nil {
			t.Errorf("sent to a removed shard: %+v, want it in the pool of its signer's shard", got)
		}
	case <-time.After(time.Minute):
		t.Error("sent to a removed shard: no answer")
	}
	txs = append(txs, late)
	check(one)
	s.shards.retire(head.Height())
	if got := s.tracked(); len(got) != 5 {
		t.Errorf("shards with actors = %v before a block after the split is final", got)
	}
	s.shards.retire(head.Height() + 1)
	if got := s.tracked(); !slices.Equal(got, []primitives.ShardID{0}) {
		t.Errorf("shards with actors = %v, want 0 alone", got)
	}
	mineBlocks(t, s, 30)
	if left := s.Stats().Pooled; left != 0 {
		t.Errorf("%d transactions are still pooled", left)
	}
}

// TestRemovedShardHandlesItsMailbox: what is in the mailbox of a removed shard's mempool is handled
// before it ends.
func TestRemovedShardHandlesItsMailbox(t *testing.T) {
	gate, reached := make(chan struct{}), make(chan struct{})
	var armed atomic.Bool
	s, g := splittingTripped(t, func(kind string, m any, after bool) {
		if _, ok := m.(layoutChanged); ok && kind == "mempool" && !after && armed.CompareAndSwap(true, false) {
			close(reached)
			<-gate
		}
	})
	head := s.e.Head()
	one := head.Layout
	m := chain.Accepted(&engine.Imported{Entry: head, OldHead: head})
	// There and back, so that two shards are gone.
	for _, layout := range []primitives.ShardLayout{derive(t, one, "m0.w"), one} {
		if err := s.shards.setLayout(layout, &m); err != nil {
			t.Fatal(err)
		}
	}
	gone := s.shards.set.Load().find(1)
	until(t, func() bool {
		return s.account(t, "mempool", func(x *system.Sample) bool { return x.Shard == "1" }).Mailbox == 0
	})
	armed.Store(true)
	s.tell(gone.mempool, system.NewRequest[messages.LayoutChanged, messages.PoolMoved](messages.LayoutChanged{}))
	<-reached
	var requests []mempool.Request
	for range 20 {
		r := mempool.NewRequest("", []*primitives.SignedTransaction{g.Transfer(workload.Base{Height: head.Height() + 1,
			Hash: head.Hash})})
		s.tell(gone.mempool, r)
		requests = append(requests, r)
	}
	s.shards.retire(head.Height() + 1)
	until(t, func() bool { // it has taken note of that
		return s.account(t, "shard", func(x *system.Sample) bool { return x.Shard == "1" }).Mailbox == 0
	})
	time.Sleep(10 * time.Millisecond)
	close(gate)
	for i, r := range requests {
		select {
		case <-r.Done():
			if got := r.Answers()[0]; !got.Pooled || got.Err != nil {
				t.Fatalf("submission %d got %+v, want pooled", i, got)
			}
		case <-r.Lost():
			t.Fatalf("submission %d got no answer", i)
		case <-time.After(time.Minute):
			t.Fatalf("submission %d is not answered", i)
		}
	}
	registry := s.root.ActorSystem().ProcessRegistry
	until(t, func() bool { _, there := registry.GetLocal("shards/1"); return !there })
}

func derive(t *testing.T, l primitives.ShardLayout, boundary primitives.AccountID) primitives.ShardLayout {
	t.Helper()
	out, err := l.DeriveV3(boundary, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestShardIsTrackedAgainAfterItsActorEnds: A shard with an actor that is still ending is tracked
// again as soon as the actor has ended.
func TestShardIsTrackedAgainAfterItsActorEnds(t *testing.T) {
	gate, reached := make(chan struct{}), make(chan struct{})
	var armed atomic.Bool
	s, _ := splittingTripped(t, func(kind string, m any, after bool) {
		if _, ok := m.(layoutChanged); ok && kind == "mempool" && !after && armed.CompareAndSwap(true, false) {
			close(reached)
			<-gate
		}
	})
	head := s.e.Head()
	one := head.Layout
	two := derive(t, one, "m0.w")
	m := chain.Accepted(&engine.Imported{Entry: head, OldHead: head})
	for _, layout := range []primitives.ShardLayout{two, one} {
		if err := s.shards.setLayout(layout, &m); err != nil {
			t.Fatal(err)
		}
	}
	old := s.shards.set.Load().find(1)
	until(t, func() bool {
		return s.account(t, "mempool", func(x *system.Sample) bool { return x.Shard == "1" }).Mailbox == 0
	})
	armed.Store(true)
	s.tell(old.mempool, system.NewRequest[messages.LayoutChanged, messages.PoolMoved](messages.LayoutChanged{}))
	<-reached
	s.shards.retire(head.Height() + 1)
	time.AfterFunc(20*time.Millisecond, func() { close(gate) })
	if err := s.shards.setLayout(two, &m); err != nil {
		t.Fatal(err)
	}
	if now := s.shards.set.Load().find(1); now == nil || now == old {
		t.Error("shard 1 is not tracked anew")
	}
}

// TestRollbackOverSplitClearsNewPools: transactions in pools of shards that the snapshot's layout
// lacks are gone after the rollback.
func TestRollbackOverSplitClearsNewPools(t *testing.T) {
	s, g := splitting(t)
	for block := 0; block < 60 && s.e.Head().Layout.NumShards() < 4; block++ {
		before := s.e.Head()
		snapshot, err := s.TakeSnapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		mineBlocks(t, s, 1)
		if s.shards.set.Load().layout.NumShards() == 1 {
			s.EndSnapshot(snapshot)
			continue
		}
		head := s.e.Head()
		for range 40 {
			if _, err := s.Submit(g.Transfer(workload.Base{Height: head.Height() + 1, Hash: head.Hash})); err != nil {
				t.Fatal(err)
			}
		}
		if s.Waiting() != 40 {
			t.Fatalf("%d transactions wait, want 40", s.Waiting())
		}
		if err := s.Rollback(t.Context(), snapshot); err != nil {
			t.Fatal(err)
		}
		if s.e.Head().Hash != before.Hash {
			t.Fatal("the head is another")
		}
		for limit := time.Now().Add(300 * time.Millisecond); time.Now().Before(limit); time.Sleep(time.Millisecond) {
			if n := s.Waiting(); n != 0 {
				t.Fatalf("%d transactions of removed blocks are pooled", n)
			}
		}
		return
	}
	t.Fatal("no split")
}

// TestNonceOrderSurvivesSplit: a transaction that waited over a split runs before a later one of
// the same key with the next nonce, however long its old pool takes to forward it.
func TestNonceOrderSurvivesSplit(t *testing.T) {
	gate, reached := make(chan struct{}), make(chan struct{})
	var armed atomic.Bool
	s, g := splittingTripped(t, func(kind string, m any, after bool) {
		if _, ok := m.(layoutChanged); ok && kind == "mempool" && !after && armed.CompareAndSwap(true, false) {
			close(reached)
			<-gate
		}
	})
	last := primitives.Height(0) // of one shard, as each such chain has
	for other, _ := splitting(t); ; mineBlocks(t, other, 1) {
		if other.shards.set.Load().layout.NumShards() > 1 {
			last = other.e.Head().Height() - 1
			break
		}
	}
	mineBlocks(t, s, uint64(last-s.e.Head().Height()))
	if _, err := s.MissChunks(t.Context(), nil, 1); err != nil {
		t.Fatal(err)
	}
	var sent []*primitives.SignedTransaction
	submit := func() {
		t.Helper()
		head := s.e.Head()
		for signers := map[primitives.AccountID]bool{}; len(signers) < 26; {
			tx := g.Transfer(workload.Base{Height: head.Height() + 1, Hash: head.Hash})
			signers[tx.SignerID], sent = true, append(sent, tx)
			if pooled, err := s.Submit(tx); err != nil || !pooled {
				t.Fatalf("pooled %v, %v", pooled, err)
			}
		}
	}
	submit()
	armed.Store(true)
	made := make(chan error, 1)
	go func() {
		_, _, err := s.Mine(t.Context(), 1) // without chunks; after it there are two shards
		made <- err
	}()
	<-reached
	submit()
	select {
	case err := <-made:
		if err != nil {
			t.Fatal(err)
		}
		mineBlocks(t, s, 1)
		close(gate)
	case <-time.After(200 * time.Millisecond):
		close(gate)
		if err := <-made; err != nil {
			t.Fatal(err)
		}
	}
	if n := s.shards.set.Load().layout.NumShards(); n != 2 {
		t.Errorf("%d shards at the snapshot, want 2", n)
	}
	mineBlocks(t, s, 8)
	for _, tx := range sent {
		if out, err := s.Tx(t.Context(), &view.GetTx{Hash: tx.Hash(), WaitUntil: view.LevelNone}); err != nil ||
			out.Level != view.LevelFinal {
			t.Fatalf("nonce %d of %s: %+v, %v", tx.Nonce.Nonce, tx.SignerID, out, err)
		}
	}
}
