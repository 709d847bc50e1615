package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/storage"
)

// syncGate is a disk that blocks each sync until the test releases it.
type syncGate struct {
	closed  atomic.Bool
	arrived chan struct{} // gets an element when a sync is blocked
	pass    chan struct{}
}

func newSyncGate(d *storage.MemDisk) *syncGate {
	g := &syncGate{arrived: make(chan struct{}, 64), pass: make(chan struct{})}
	d.Fault = func(bytes int) error {
		if bytes == 0 && g.closed.Load() {
			g.arrived <- struct{}{}
			<-g.pass
		}
		return nil
	}
	return g
}

// importNext makes a block on the tip and imports it.
func (n *node) importNext(skip bool, txs ...*primitives.SignedTransaction) *Imported {
	n.t.Helper()
	b, chunks := n.make(n.Tip().Hash, n.Tip().Height()+1, skip, txs...)
	p := n.applied(b, chunks)
	a, err := n.FinishImport(p, nil)
	if err != nil {
		n.t.Fatalf("block %d: %v", b.Header.Height, err)
	}
	return a
}

// applied begins the import of a block and runs its jobs.
func (n *node) applied(b *primitives.Block, chunks []*primitives.Chunk) *BlockImport {
	n.t.Helper()
	p, err := n.BeginImport(b, chunks, true)
	if err != nil {
		n.t.Fatalf("block %d: %v", b.Header.Height, err)
	}
	for i := range p.Jobs() {
		p.Jobs()[i].Run()
	}
	return p
}

// transfer returns a transfer transaction of aa.
func transfer(base primitives.Hash, nonce primitives.Nonce) *primitives.SignedTransaction {
	return transferTo("near", base, nonce)
}

func transferTo(to primitives.AccountID, base primitives.Hash, nonce primitives.Nonce) *primitives.SignedTransaction {
	x := primitives.Transaction{SignerID: "aa", PublicKey: seedKey("aa").PublicKey(), Nonce: primitives.TransactionNonce{Nonce: nonce},
		ReceiverID: to, BlockHash: base, Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.NEAR(1)}}}
	h := x.Hash()
	return primitives.NewSignedTransaction(x, seedKey("aa").Sign(h[:]))
}

// TestPipelineEqualsSynchronousCommit: blocks built on blocks that are not on disk, also across
// epoch boundaries, equal those of an engine that waits for the disk each time. Readers do not see
// them before they are on disk.
func TestPipelineEqualsSynchronousCommit(t *testing.T) {
	slow, fast := openNode(t, testGenesis(t, "aa")), openNode(t, testGenesis(t, "aa"))
	root := slow.Head().Hash
	g := newSyncGate(fast.disk)
	nonce := primitives.Nonce(0)
	for round := range 9 {
		before, stored := fast.Head(), atomic.Int64{}
		g.closed.Store(true)
		var made []*Imported
		for i := range MaxAhead {
			nonce++
			tx := transfer(root, nonce)
			b, chunks := fast.make(fast.Tip().Hash, fast.Tip().Height()+1, i%5 == 3, tx)
			p := fast.applied(b, chunks)
			a, err := fast.FinishImport(p, func() { stored.Add(1) })
			if err != nil {
				t.Fatal(err)
			}
			made = append(made, a)
			want := slow.accept(slow.make(slow.Head().Hash, slow.Head().Height()+1, i%5 == 3, tx))
			if a.Entry.Hash != want.Entry.Hash || a.Final != want.Final || a.IsHead != want.IsHead {
				t.Fatalf("round %d: block %d differs from that of an engine that waits", round, b.Header.Height)
			}
			if i == 0 {
				<-g.arrived // the sync of the first block; the other blocks share the next sync
			}
			if fast.Head() != before || fast.BlockNode(a.Entry.Hash) != nil || stored.Load() != 0 {
				t.Fatalf("round %d: block %d is visible before it is on disk", round, b.Header.Height)
			}
			if _, err := fast.Header(a.Entry.Hash); err == nil {
				t.Errorf("round %d: a header is reported before it is on disk", round)
			}
			if _, _, err := fast.Transactions().Transaction(tx.Hash()); !errors.Is(err, ErrUnknown) {
				t.Errorf("round %d: a transaction that is not on disk: %v, want ErrUnknown", round, err)
			}
			if list, err := fast.Stored(); len(list) != 0 || err != nil {
				t.Fatalf("round %d: %d blocks are on disk, %v", round, len(list), err)
			}
		}
		if fast.InFlight() != MaxAhead {
			t.Fatalf("round %d: %d blocks in flight", round, fast.InFlight())
		}
		g.closed.Store(false)
		g.pass <- struct{}{}
		list, err := fast.Flush()
		if err != nil || !slices.Equal(list, made) {
			t.Fatalf("round %d: %d blocks came to the disk, %v, want %d", round, len(list), err, len(made))
		}
		if got := stored.Load(); got != MaxAhead || len(g.arrived) != 0 || fast.InFlight() != 0 {
			t.Errorf("round %d: %d blocks were reported, %d more syncs waited", round, got, len(g.arrived))
		}
		if fast.Head() != fast.Tip() || fast.Head().Hash != slow.Head().Hash || fast.Final() != slow.Final() {
			t.Fatalf("round %d: head %v, final %v, want %v, %v", round, fast.Head().Hash, fast.Final(), slow.Head().Hash, slow.Final())
		}
	}
	if err := errors.Join(fast.AdvanceFlatHead(), slow.AdvanceFlatHead()); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(fast.nodes()), fmt.Sprint(slow.nodes()); got != want {
		t.Errorf("the shards hold %s nodes and roots, want %s", got, want)
	}
}

// TestInFlightEpochsAreFoundWithoutCaches: the epoch data of blocks that are not on disk is found
// without the epoch manager's caches.
func TestInFlightEpochsAreFoundWithoutCaches(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa"))
	g := newSyncGate(n.disk)
	for n.Head().Height() < 8 {
		n.accept(n.make(n.Head().Hash, n.Head().Height()+1, false))
	}
	g.closed.Store(true)
	s := epochStore{n.Engine}
	for range 3 { // the epoch ends at 10
		a := n.importNext(false)
		info, err := s.BlockInfo(a.Entry.Hash)
		if err != nil || info == nil || info.Height != a.Entry.Height() {
			t.Fatalf("block info of %d: %+v, %v", a.Entry.Height(), info, err)
		}
	}
	last := n.Imported(n.Tip().Header().PrevHash)
	if info, err := s.EpochInfo(last.Hash); err != nil || info == nil {
		t.Errorf("no info of the epoch after the next: %v", err)
	}
	if sum, err := s.EpochSummary(last.Header().EpochID); err != nil || sum == nil {
		t.Errorf("no summary of the epoch that has ended: %v", err)
	}
	if h, found, err := s.EpochStart(n.Tip().Header().EpochID); err != nil || !found || h != n.Tip().Height() {
		t.Errorf("the epoch began at %d, %v, %v, want %d", h, found, err, n.Tip().Height())
	}
	<-g.arrived
	g.closed.Store(false)
	g.pass <- struct{}{}
	if _, err := n.Flush(); err != nil {
		t.Fatal(err)
	}
	if info, err := s.EpochInfo(last.Hash); err != nil || info == nil {
		t.Errorf("no stored info of the epoch after the next: %v", err)
	}
}

// limitSpace limits the disk to a number of bytes for the log, and returns that number.
func limitSpace(d *storage.MemDisk) *atomic.Int64 {
	left := new(atomic.Int64)
	left.Store(1 << 40)
	d.Fault = func(bytes int) error {
		if bytes > 0 && left.Add(-int64(bytes)) < 0 {
			return syscall.ENOSPC
		}
		return nil // a sync needs no room
	}
	return left
}

// TestCommitOnFullDiskCanBeRetried: a Commit that fails on a full disk changes nothing and can be
// retried, at any block of an epoch.
func TestCommitOnFullDiskCanBeRetried(t *testing.T) {
	n, other := openNode(t, testGenesis(t, "aa")), openNode(t, testGenesis(t, "aa"))
	left := limitSpace(n.disk)
	for n.Head().Height() < 25 {
		b, chunks := n.make(n.Head().Hash, n.Head().Height()+1, false, transfer(n.Genesis().Hash, primitives.Nonce(n.Head().Height()+1)))
		p := n.applied(b, chunks)
		before, head := n.state(), n.store.Tip().Head // a running update of the flat head may end meanwhile
		for _, bytes := range []int64{0, 100} {
			left.Store(bytes)
			if _, err := n.Commit(p); !errors.Is(err, storage.ErrFull) || !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("block %d on a full disk: %v, want ErrFull", b.Header.Height, err)
			}
			if after := n.state(); after != before || n.store.Tip().Head != head || n.Tip() != n.Head() || n.InFlight() != 0 {
				t.Fatalf("block %d on a full disk: the engine was %v and is %v", b.Header.Height, before, after)
			}
		}
		left.Store(1 << 40)
		a, err := n.Commit(p)
		if err != nil {
			t.Fatalf("block %d with free space again: %v", b.Header.Height, err)
		}
		if want := other.accept(b, chunks); a.Final != want.Final || a.Entry.Shards[0].Extra.StateRoot != want.Entry.Shards[0].Extra.StateRoot {
			t.Fatalf("block %d differs from that of a node whose disk was never full", b.Header.Height)
		}
	}
}

// TestFullDiskAbandonsInFlightBlocks: when the disk is full, persisted blocks are returned and
// in-flight blocks are removed completely. Once there is room, the chain continues from its head.
func TestFullDiskAbandonsInFlightBlocks(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa"))
	left := limitSpace(n.disk)
	n.store.DiskSpace().CancelWaits() // as while a node stops
	for round := range 12 {
		n.accept(n.make(n.Head().Hash, n.Head().Height()+1, false))
		nodes := n.nodes()
		before := n.state()
		left.Store(int64(round%4) * 1500) // some blocks fit
		calls := atomic.Int64{}
		var made []*Imported
		for range 5 {
			b, chunks := n.make(n.Tip().Hash, n.Tip().Height()+1, false)
			p := n.applied(b, chunks)
			a, err := n.FinishImport(p, func() { calls.Add(1) })
			if errors.Is(err, storage.ErrFull) { // the write failed before this import
				p.Drop()
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			made = append(made, a)
		}
		list, err := n.Flush()
		if !errors.Is(err, storage.ErrFull) || len(list) == len(made) || !slices.Equal(list, made[:len(list)]) {
			t.Fatalf("round %d: %d of %d blocks, %v, want ErrFull", round, len(list), len(made), err)
		}
		if calls.Load() == 0 {
			t.Errorf("round %d: the error is not reported", round)
		}
		if _, err := n.Stored(); !errors.Is(err, storage.ErrFull) {
			t.Errorf("round %d: asked again: %v, want ErrFull", round, err)
		}
		n.Abandon()
		if len(list) == 0 && (n.state() != before || fmt.Sprint(n.nodes()) != fmt.Sprint(nodes)) {
			t.Errorf("round %d: the engine was %v, %v and is %v, %v", round, before, nodes, n.state(), n.nodes())
		}
		if len(list) > 0 && n.Head() != list[len(list)-1].Entry || n.Tip() != n.Head() || n.InFlight() != 0 {
			t.Errorf("round %d: head %d, tip %d with %d blocks on disk", round, n.Head().Height(), n.Tip().Height(), len(list))
		}
		for _, a := range made[len(list):] {
			if n.Imported(a.Entry.Hash) != nil {
				t.Errorf("round %d: abandoned block %d is still known", round, a.Entry.Height())
			}
		}
		if list, err := n.Flush(); len(list) != 0 || err != nil {
			t.Errorf("round %d: %d blocks, %v, after the abandoned blocks", round, len(list), err)
		}
		left.Store(1 << 40)
	}
	if err := n.AdvanceFlatHead(); err != nil {
		t.Fatal(err)
	}
}

// TestInFlightBlocksWaitForDiskSpace: blocks that wait while the disk is full are persisted once
// there is space.
func TestInFlightBlocksWaitForDiskSpace(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa"))
	left := limitSpace(n.disk)
	full, free := make(chan struct{}), make(chan struct{})
	n.store.DiskSpace().Watch(func(f *storage.Full) {
		if f != nil {
			close(full)
		} else {
			close(free)
		}
	})
	left.Store(1500)
	head := n.Head()
	var made []*Imported
	for range 5 {
		b, chunks := n.make(n.Tip().Hash, n.Tip().Height()+1, false)
		a, err := n.FinishImport(n.applied(b, chunks), nil)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, a)
	}
	<-full
	if list, err := n.Stored(); err != nil || len(list) == len(made) || n.Tip() != made[len(made)-1].Entry || n.Head().Height() >= n.Tip().Height() {
		t.Errorf("on a full disk: %d blocks, %v; head %d after %d, tip %d", len(list), err, n.Head().Height(), head.Height(), n.Tip().Height())
	} else {
		made = made[len(list):]
	}
	left.Store(1 << 40)
	<-free
	if list, err := n.Flush(); err != nil || !slices.Equal(list, made) || n.Head() != n.Tip() {
		t.Errorf("with free space again: %d of %d blocks, %v", len(list), len(made), err)
	}
}

// nodes returns the number of trie nodes in each forest.
func (n *node) nodes() (out []uint64) {
	for i := range n.Head().Shards {
		s := n.Head().Root(primitives.ShardIndex(i)).Forest().Stats()
		out = append(out, s.Nodes, uint64(s.Roots))
	}
	return out
}

// TestDroppedImportReleasesItsStates holds whether the import's jobs have run or not.
func TestDroppedImportReleasesItsStates(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa"))
	n.accept(n.make(n.Head().Hash, 1, false))
	want, before := fmt.Sprint(n.nodes()), n.state()
	for run := range 3 { // how many jobs run
		b, chunks := n.make(n.Head().Hash, 2, false, transfer(n.Genesis().Hash, 1))
		p, err := n.BeginImport(b, chunks, true)
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Jobs()[:run] {
			p.Jobs()[i].Run()
		}
		if got := fmt.Sprint(n.nodes()); run > 0 && got == want {
			t.Error("the jobs created no trie nodes")
		}
		if run == 1 {
			if _, err := n.FinishImport(p, nil); err == nil {
				t.Error("FinishImport succeeds although a job has not run")
			}
		}
		p.Drop()
		p.Drop()
		if got := fmt.Sprint(n.nodes()); got != want || n.state() != before {
			t.Errorf("after %d jobs: nodes and roots %s, want %s; %v, want %v", run, got, want, n.state(), before)
		}
	}
	n.accept(n.make(n.Head().Hash, 2, false, transfer(n.Genesis().Hash, 1)))
}

// TestInvalidChunkIsNotALocalFault: a block with a chunk that cannot be applied is refused and
// leaves no trace. A fault of this node has another verdict.
func TestInvalidChunkIsNotALocalFault(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa"))
	want, before := fmt.Sprint(n.nodes()), n.state()
	for _, tt := range []struct {
		err error
		bad bool
	}{
		{fmt.Errorf("balance: %w", primitives.ErrOverflow), true},
		{fmt.Errorf("incoming: %w", &primitives.ReceiptValidationError{Tag: primitives.ReceiptInvalidReceiverID}), true},
		{storage.ErrDamaged, false},
		{borsh.ErrEOF, false},
	} {
		b, chunks := n.make(n.Head().Hash, 1, false)
		p, err := n.BeginImport(b, chunks, false)
		if err != nil {
			t.Fatal(err)
		}
		p.jobs[0].Run()
		p.jobs[1].err = tt.err
		if _, err = n.FinishImport(p, nil); errors.Is(err, ErrChunk) != tt.bad || !errors.Is(err, tt.err) {
			t.Errorf("%v: %v, ErrChunk wanted: %v", tt.err, err, tt.bad)
		}
		p.Drop()
		if got := fmt.Sprint(n.nodes()); got != want || n.state() != before {
			t.Errorf("%v: nodes and roots %s, want %s", tt.err, got, want)
		}
	}
	if a := n.accept(n.make(n.Head().Hash, 1, false)); !a.IsHead {
		t.Error("the next block is not the head")
	}
}

func TestJobIsTrivialIfNothingIsExecuted(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa"))
	root := n.Head().Hash
	light := func(txs ...*primitives.SignedTransaction) (out []bool) {
		b, chunks := n.make(n.Head().Hash, n.Head().Height()+1, false, txs...)
		p := n.applied(b, chunks)
		for i := range p.Jobs() {
			out = append(out, p.Jobs()[i].Trivial())
		}
		if _, err := n.Commit(p); err != nil {
			t.Fatal(err)
		}
		return out
	}
	for i, tt := range []struct {
		txs  []*primitives.SignedTransaction
		want []bool
	}{
		{nil, []bool{false, false}}, // the first block of an epoch pays rewards
		{nil, []bool{true, true}},
		{[]*primitives.SignedTransaction{transfer(root, 1)}, []bool{false, true}},
		{nil, []bool{false, true}}, // the receipt of the transfer
		{nil, []bool{false, true}}, // the refund
		{nil, []bool{true, true}},
	} {
		if got := light(tt.txs...); !slices.Equal(got, tt.want) {
			t.Errorf("block %d: light %v, want %v", i+1, got, tt.want)
		}
	}
}

// TestBlockOffFinalBranchIsRefused: a block is refused if, since its BeginImport, a block of
// another branch became final.
func TestBlockOffFinalBranchIsRefused(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa"))
	root := n.Head().Hash
	first := n.accept(n.make(root, 1, false)).Entry.Hash
	b, chunks := n.make(first, 10, true) // a separate branch
	p := n.applied(b, chunks)
	for n.Tip().Height() < 5 {
		n.importNext(false)
	}
	if _, err := n.FinishImport(p, nil); !errors.Is(err, ErrOld) {
		t.Errorf("%v, want ErrOld: block %d is final", err, n.TipFinal().Height)
	}
	p.Drop()
	if _, err := n.Flush(); err != nil {
		t.Fatal(err)
	}
	if n.Head().Height() != 5 {
		t.Errorf("head %d, want 5", n.Head().Height())
	}
}

// TestReopenedNodeHasAllReportedBlocks closes the store while the flat head advances and blocks are
// in flight. After reopening, the node has all blocks that it reported, with the right state roots,
// and the chain continues.
func TestReopenedNodeHasAllReportedBlocks(t *testing.T) {
	g, disk, nonce := testGenesis(t, "aa"), storage.NewMemDisk(), primitives.Nonce(0)
	rounds := 40
	if testing.Short() {
		rounds = 10
	}
	reported := storage.BlockRef{}
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range rounds {
		n := openOn(t, g, disk, storage.Options{FlatHeadBlocks: 1 + round%5})
		if reported.Height > 0 {
			if rec, err := n.store.BlockAt(reported.Height); err != nil || rec.Ref() != reported {
				t.Fatalf("round %d: reported block %v is missing: %v", round, reported, err)
			}
		}
		nonce = 0
		if k, found, err := n.KeyNonce(transfer(n.Genesis().Hash, 1)); err == nil && found {
			nonce = k
		}
		for range 3 + rng.IntN(20) {
			var txs []*primitives.SignedTransaction
			if base := n.Head().Hash; rng.IntN(3) > 0 {
				nonce++
				txs = append(txs, transfer(base, nonce))
			}
			n.importNext(rng.IntN(5) == 0, txs...)
			wait := n.Stored
			if n.InFlight() >= 1+rng.IntN(MaxAhead) {
				wait = n.Flush
			}
			list, err := wait()
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			for _, a := range list {
				reported = ref(a.Entry)
			}
		}
		if err := n.store.Close(); err != nil { // while the flat head update and the pipeline use it
			t.Fatal(err)
		}
		_ = n.Close() // it returns ErrClosed if work was left; no goroutine may continue
	}
}
