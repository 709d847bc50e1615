package backend

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/vm"
	"github.com/troupe-chain/troupe/storage"
)

// recordedBlock is the result of an imported block, as the engine reported it at that time.
type recordedBlock struct {
	entry  *engine.BlockNode
	shards []*apply.Result
}

// lookupChain is a chain with everything that its blocks contain.
type lookupChain struct {
	*testing.T
	chain  *workload.Chain
	script *workload.Script
	blocks map[primitives.Hash]*recordedBlock
	made   map[primitives.Hash]*workload.Made
	back   *Backend
	counts map[string]int
	since  primitives.Height // of the block after which a state came by state sync; 0: the node executed all blocks
}

// TestEveryIDIsFound: every method that takes an id finds every id of every block, and its reply
// equals the block's content. The ids are those of transactions, receipts (delayed, local,
// buffered, refunds, data, resumes, distributions), outcomes, chunks and blocks. The chain's shards
// are congested and split, with forks and missing chunks. The test repeats the check after a
// restart, and for what garbage collection has left.
func TestEveryIDIsFound(t *testing.T) {
	seeds, blocks := []uint64{1}, 72
	if os.Getenv("TROUPE_WORKLOADS") == "all" {
		seeds, blocks = []uint64{1, 2, 3, 4, 5, 6, 7, 8}, 140
	}
	v, err := vm.New(vm.Options{Alarm: func(err error) { panic(err) }})
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			o, course := congestedChain(seed, blocks, v)
			o.Store.FlatHeadBlocks = 3
			runLookups(t, o, course, counts)
		})
	}
	for _, kind := range []string{"local ones delayed", "delayed", "buffered", "waiting", "distributions", "data", "sent before the tail", "executed above the tail", "of lost branches", "splits"} {
		if counts[kind] == 0 {
			t.Errorf("%s: none", kind)
		}
	}
}

// congestedChain is a chain of four shards with small chunks. Some of the shards are split later.
func congestedChain(seed uint64, blocks int, v *vm.VM) (workload.ChainOptions, workload.Course) {
	o, course := workload.RandomSplits(seed, blocks)
	o.Shards, o.Accounts, o.EpochLength, o.Validity = 4, 24, 11, 22
	o.GasLimit = 5_000_000_000_000 // 1/200 of the usual
	o.Splitting.Threshold, o.Splitting.MaxShards = 20_000, 6
	o.Contracts, o.VM = true, v
	course.PerStep, course.Fork, course.Skip, course.Miss, course.Resume = 16, 0.08, 0.08, 0.06, 0.3
	return o, course
}

func newLookupChain(t *testing.T, c *workload.Chain, course workload.Course, counts map[string]int) *lookupChain {
	return &lookupChain{T: t, chain: c, script: workload.NewScript(c, course), counts: counts,
		blocks: map[primitives.Hash]*recordedBlock{}, made: map[primitives.Hash]*workload.Made{}}
}

func runLookups(t *testing.T, o workload.ChainOptions, course workload.Course, counts map[string]int) {
	c, err := workload.OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	r := newLookupChain(t, c, course, counts)
	shards := len(c.Engine.Head().Shards)
	half := course.Blocks / 2
	r.run(half)
	r.check()
	if err := c.Restart(); err != nil {
		t.Fatal(err)
	}
	r.run(course.Blocks - half)
	r.check()
	r.collectGarbage()
	r.check()
	if err := c.Restart(); err != nil {
		t.Fatal(err)
	}
	r.check()
	t.Logf("%d shards of %d, tail %d of %d: %v", len(c.Engine.Head().Shards), shards, c.Store.Tip().Tail, c.Engine.Head().Height(), r.counts)
	counts["splits"] += len(c.Engine.Head().Shards) - shards
}

func (r *lookupChain) collectGarbage() {
	r.Helper()
	for more := true; more; {
		done, err := r.chain.Store.CollectGarbage(storage.GCOptions{KeepEpochs: 3, Before: 1 << 62, MaxHeights: 7})
		if err != nil {
			r.Fatal(err)
		}
		more = done.More
	}
}

// run produces n blocks.
func (r *lookupChain) run(n int) {
	r.Helper()
	for range n {
		r.step()
	}
}

// step produces a block and returns it; nil if it existed already.
func (r *lookupChain) step() *workload.Made {
	r.Helper()
	m, err := r.script.Step()
	if err != nil {
		r.Fatal(err)
	}
	if m.Accepted == nil {
		return nil
	}
	b := &recordedBlock{entry: m.Accepted.Entry}
	for i := range b.entry.Shards {
		b.shards = append(b.shards, b.entry.Shards[i].Result)
	}
	r.blocks[b.entry.Hash], r.made[b.entry.Hash] = b, m
	return m
}

// chainContents is the content of the blocks on the head's chain.
type chainContents struct {
	canonical []*recordedBlock
	outcomes  map[primitives.Hash]*chainOutcome
	txs       map[primitives.Hash]*recordedBlock
	receipts  map[primitives.Hash]*chainReceipt
}

type chainOutcome struct {
	*primitives.OutcomeWithID
	block *recordedBlock
	shard primitives.ShardID
}

// chainReceipt is a receipt with where it was made, sent, brought by a chunk, taken from the queue,
// and executed.
type chainReceipt struct {
	*primitives.Receipt
	made, sent, brought, queued, executed *recordedBlock
	parent                                primitives.Hash
}

// isStored returns whether the node has to know a receipt. nearcore keeps it as long as the chunk
// that brought it. This node keeps it also as long as the block that executed it, if it was sent at
// most storage.ReceiptsReach heights below the tail. Of a receipt that a chunk brought before the
// sync point a node knows nothing, unless it takes it from the queue.
func (r *lookupChain) isStored(x *chainReceipt) bool {
	if r.kept(x.sent) || r.kept(x.queued) {
		return true
	}
	if x.sent == nil || x.sent.entry.Height()+storage.ReceiptsReach < r.chain.Store.Tip().Tail {
		return false
	}
	executed := r.kept(x.executed)
	if r.since > 0 && (x.brought == nil || x.brought.entry.Height() <= r.since) {
		executed = executed && x.sent.entry.Height() > r.since
	}
	return r.kept(x.brought) || executed
}

// kept returns whether the node has executed a block and not collected it.
func (r *lookupChain) kept(b *recordedBlock) bool {
	return b != nil && b.entry.Height() >= r.chain.Store.Tip().Tail && b.entry.Height() > r.since
}

func (s *chainContents) receipt(id primitives.Hash) *chainReceipt {
	x := s.receipts[id]
	if x == nil {
		x = new(chainReceipt)
		s.receipts[id] = x
	}
	return x
}

// made records what made a receipt, and where.
func (s *chainContents) made(id, parent primitives.Hash, by *recordedBlock) {
	x := s.receipt(id)
	x.parent, x.made = parent, by
}

// gather reads the head's chain, the oldest block first.
func (r *lookupChain) gather() *chainContents {
	s := &chainContents{outcomes: map[primitives.Hash]*chainOutcome{}, txs: map[primitives.Hash]*recordedBlock{}, receipts: map[primitives.Hash]*chainReceipt{}}
	for hash := r.chain.Engine.Head().Hash; r.blocks[hash] != nil; hash = r.blocks[hash].entry.Header().PrevHash {
		s.canonical = append(s.canonical, r.blocks[hash])
	}
	slices.Reverse(s.canonical)
	for _, b := range s.canonical {
		for i, res := range b.shards {
			if c := b.entry.Shards[i].Chunk; c != nil {
				for _, tx := range c.Transactions {
					s.txs[tx.Hash()] = b
				}
				for _, x := range c.PrevOutgoingReceipts {
					s.receipt(x.ID).brought = b
				}
			}
			for k := range res.Outcomes {
				s.outcomes[res.Outcomes[k].ID] = &chainOutcome{&res.Outcomes[k], b, b.entry.Shards[i].ID}
			}
			for _, x := range res.Outgoing {
				y := s.receipt(x.ID)
				y.Receipt, y.sent = x, b
			}
			for _, x := range res.Processed {
				y := s.receipt(x.ID)
				if y.Receipt = x.Receipt; x.Source == apply.SourceDelayed {
					y.queued = b
				} else {
					y.sent = b
				}
			}
		}
	}
	for id, o := range s.outcomes {
		if x := s.receipts[id]; x != nil {
			x.executed = o.block
		}
	}
	s.parents()
	return s
}

// parents finds the parent of each receipt from the ids alone: an id derives from the parent's id,
// the height and a number.
func (s *chainContents) parents() {
	const most = 64
	for id, o := range s.outcomes {
		h := o.block.entry.Height()
		if _, ok := s.txs[id]; ok {
			for _, made := range o.Outcome.ReceiptIDs {
				s.made(made, id, o.block)
			}
			continue
		}
		for n := range uint64(most) {
			made := primitives.ReceiptIDFromReceipt(id, h, n)
			if s.receipts[made] != nil || slices.Contains(o.Outcome.ReceiptIDs, made) {
				s.made(made, id, o.block)
			}
		}
	}
	for id, x := range s.receipts {
		if x.Receipt == nil {
			continue
		}
		switch body := x.Body.(type) {
		case *primitives.GlobalContractDistribution:
			for _, b := range s.canonical {
				if next := primitives.ReceiptIDFromReceipt(id, b.entry.Height(), 0); s.receipts[next] != nil {
					s.made(next, id, b)
				}
			}
		case *primitives.ActionReceipt:
			if !body.Yield {
				continue
			}
			for _, b := range s.canonical {
				for n := range uint64(most) {
					if late := primitives.YieldTimeoutReceiptID(body.InputDataIDs[0], b.entry.Height(), n); s.receipts[late] != nil {
						s.made(late, id, b)
					}
				}
			}
		}
	}
}

// check looks up every id.
func (r *lookupChain) check() {
	r.Helper()
	r.back = New(Options{Engine: r.chain.Engine, Genesis: &genesis.Config{}, Now: time.Now})
	s := r.gather()
	for _, b := range s.canonical {
		r.block(b, r.kept(b))
		if r.kept(b) {
			r.message(s, b)
		}
	}
	for tx, b := range s.txs {
		if r.kept(b) {
			r.status(s, tx)
		} else if r.since > 0 {
			r.unknownTransaction(tx, b)
		}
	}
	for id, o := range s.outcomes {
		if r.kept(o.block) {
			r.proof(s, id, o)
		} else if r.since > 0 {
			r.unknownOutcome(id, o)
		}
	}
	for id, x := range s.receipts {
		r.receipt(id, x)
		r.origin(s, id)
	}
	r.lost(s)
	if r.Failed() {
		r.FailNow()
	}
}

// block looks up a block by hash and height, with its chunks and state changes.
func (r *lookupChain) block(b *recordedBlock, kept bool) {
	e := b.entry
	for _, ref := range []view.BlockRef{{Kind: view.RefHash, Hash: e.Hash}, {Kind: view.RefHeight, Height: e.Height()}} {
		_, got, err := r.back.Block(r.Context(), ref)
		if !kept && isLookup(err) {
			continue
		}
		if !kept && e.Height() > r.since {
			r.Errorf("collected block %d by %v: %v", e.Height(), ref, err)
			continue
		}
		if err != nil || got.Hash() != e.Hash || got.Body.Hash() != e.Block.Body.Hash() {
			r.Errorf("block %d by %v: %v", e.Height(), ref, err)
			continue
		}
		if !kept {
			r.counts["blocks of before the state"]++
			if _, _, err := r.back.written(ref); !isLookup(err) {
				r.Errorf("changes of block %d, which the node has not executed: %v", e.Height(), err)
			}
			if text, err := r.back.StreamerMessage(ref); !isLookup(err) {
				r.Errorf("message of block %d, which the node has not executed: %d bytes, %v", e.Height(), len(text), err)
			}
			continue
		}
		if at, err := r.chain.Engine.StateUntil(func() error { return nil }, e.Hash); err != nil {
			r.Errorf("state after block %d: %v", e.Height(), err)
		} else {
			at.Release()
		}
		hash, changes, err := r.back.written(ref)
		if err != nil || hash != e.Hash {
			r.Errorf("changes of block %d: %v", e.Height(), err)
		}
		n := 0
		for i := range b.shards {
			n += len(b.shards[i].Changes)
		}
		if len(changes) != n {
			r.Errorf("%d changes of block %d, want %d", len(changes), e.Height(), n)
		}
	}
	r.counts["blocks"]++
	for i := range e.Shards {
		c := e.Shards[i].Chunk
		if c == nil {
			continue
		}
		refs := []view.ChunkRef{{ByHash: true, Hash: c.Hash}, {Block: view.BlockRef{Kind: view.RefHash, Hash: e.Hash}, ShardID: e.Shards[i].ID}}
		for _, ref := range refs {
			_, got, err := r.back.Chunk(r.Context(), ref)
			switch {
			case !kept && isLookup(err):
			case err != nil || !kept && e.Height() > r.since || got.Hash != c.Hash || !sameReceipts(got.PrevOutgoingReceipts, c.PrevOutgoingReceipts) || len(got.Transactions) != len(c.Transactions):
				r.Errorf("chunk of shard %d in block %d: %v, kept: %v", e.Shards[i].ID, e.Height(), err, kept)
			}
		}
		r.counts["chunks"]++
	}
}

// message requests a block's indexer message. The node may lack receipts that have waited for data
// since long before the tail.
func (r *lookupChain) message(s *chainContents, b *recordedBlock) {
	e := b.entry
	for _, res := range b.shards {
		for i := range res.Outcomes {
			x := s.receipts[res.Outcomes[i].ID]
			if x != nil && !r.isStored(x) {
				r.counts["waited for data since long before the tail"]++
				return
			}
			if x != nil && !r.kept(x.sent) && !r.kept(x.queued) {
				r.counts["executed above the tail"]++
			}
		}
	}
	text, err := r.back.StreamerMessage(view.BlockRef{Kind: view.RefHash, Hash: e.Hash})
	if err != nil {
		r.Errorf("message of block %d: %v", e.Height(), err)
		return
	}
	var message struct {
		Shards []struct {
			Executed []struct {
				Outcome struct{ ID string } `json:"execution_outcome"`
				Receipt *struct {
					ReceiptID string `json:"receipt_id"`
				}
			} `json:"receipt_execution_outcomes"`
		}
	}
	if err := json.Unmarshal(text, &message); err != nil {
		r.Fatal(err)
	}
	for _, sh := range message.Shards {
		for _, x := range sh.Executed {
			if x.Receipt == nil || x.Receipt.ReceiptID != x.Outcome.ID {
				r.Errorf("message of block %d: the receipt of outcome %s is %v", e.Height(), x.Outcome.ID, x.Receipt)
			}
			r.counts["told"]++
		}
	}
}

func sameReceipts(a, b []*primitives.Receipt) bool {
	return slices.EqualFunc(a, b, func(x, y *primitives.Receipt) bool { return bytes.Equal(x.AppendBorsh(nil), y.AppendBorsh(nil)) })
}

// status requests a transaction by tx and EXPERIMENTAL_tx_status.
func (r *lookupChain) status(s *chainContents, hash primitives.Hash) {
	o := s.outcomes[hash]
	if o == nil { // the second copy of one in its chunk
		return
	}
	got, err := r.chain.Engine.Transactions().FullStatus(hash)
	if err != nil || got.Transaction.Hash() != hash || got.Outcome.BlockHash != o.block.entry.Hash || !sameOutcome(&got.Outcome.OutcomeWithID, o.OutcomeWithID) {
		r.Errorf("transaction %v of block %d: %v", hash, o.block.entry.Height(), err)
		return
	}
	want := map[primitives.Hash]bool{}
	for ids := slices.Clone(o.Outcome.ReceiptIDs); len(ids) > 0; {
		id := ids[len(ids)-1]
		ids = ids[:len(ids)-1]
		if x := s.outcomes[id]; x != nil && !want[id] {
			want[id] = true
			ids = append(ids, x.Outcome.ReceiptIDs...)
		}
	}
	for i := range got.Outcomes {
		x := &got.Outcomes[i]
		if w := s.outcomes[x.ID]; !want[x.ID] || w.block.entry.Hash != x.BlockHash || !sameOutcome(&x.OutcomeWithID, w.OutcomeWithID) {
			r.Errorf("transaction %v: outcome of %v", hash, x.ID)
		}
		delete(want, x.ID)
	}
	if len(want) > 0 {
		r.Errorf("transaction %v of block %d: %d outcomes lack", hash, o.block.entry.Height(), len(want))
	}
	for _, x := range got.Receipts {
		if w := s.receipts[x.ID]; w.Receipt == nil || !bytes.Equal(w.AppendBorsh(nil), x.AppendBorsh(nil)) {
			r.Errorf("transaction %v: receipt %v", hash, x.ID)
		}
	}
	shown := len(got.Outcomes)
	if tx := got.Transaction; shown > 0 && tx.SignerID == tx.ReceiverID { // as neard, which leaves out the first one
		shown--
	}
	if len(got.Receipts) != shown {
		r.Errorf("transaction %v: %d receipts, want %d", hash, len(got.Receipts), shown)
	}
	r.counts["transactions"]++
}

func sameOutcome(a, b *primitives.OutcomeWithID) bool {
	return a.ID == b.ID && bytes.Equal(a.Outcome.AppendBorsh(nil), b.Outcome.AppendBorsh(nil))
}

// proof requests a light client proof of an outcome and verifies it against the headers.
func (r *lookupChain) proof(s *chainContents, id primitives.Hash, o *chainOutcome) {
	got, _, err := r.chain.Engine.Transactions().Outcome(id)
	if err != nil || got.BlockHash != o.block.entry.Hash || !sameOutcome(&got.OutcomeWithID, o.OutcomeWithID) {
		r.Errorf("outcome %v of block %d: %v", id, o.block.entry.Height(), err)
		return
	}
	final := r.chain.Engine.Final()
	p, err := r.back.LightClientProof(&view.OutcomeRef{ID: id, Account: o.Outcome.ExecutorID, Head: final.Hash})
	var none *view.LookupError
	switch {
	case err != nil && !s.confirmed(o, final.Height):
		if !errors.As(err, &none) && !strings.Contains(err.Error(), "not on current chain") {
			r.Errorf("proof of outcome %v, which no final block has: %v", id, err)
		}
		r.counts["not confirmed"]++
		return
	case err != nil:
		r.Errorf("proof of outcome %v of block %d: %v", id, o.block.entry.Height(), err)
		return
	}
	in := r.blocks[p.Outcome.BlockHash]
	if in == nil || !slices.Contains(s.canonical, in) {
		r.Errorf("proof of outcome %v: block %v", id, p.Outcome.BlockHash)
		return
	}
	root := p.Outcome.Proof.Root(p.Outcome.LeafHash())
	if h := in.entry.Header(); p.OutcomeRootProof.Root(primitives.HashBytes(root[:])) != h.PrevOutcomeRoot {
		r.Errorf("proof of outcome %v of block %d does not lead to the root in block %d", id, o.block.entry.Height(), h.Height)
	}
	r.counts["proofs"]++
}

// confirmed returns whether a final block has the root of an outcome's chunk: the next block with a
// new chunk of its shard, or of a child of that shard.
func (s *chainContents) confirmed(o *chainOutcome, final primitives.Height) bool {
	return slices.ContainsFunc(s.canonical, func(b *recordedBlock) bool {
		e := b.entry
		return e.Height() > o.block.entry.Height() && e.Height() <= final && slices.ContainsFunc(e.Shards, func(sh engine.ShardState) bool {
			older, _ := e.Layout.Ancestors(sh.ID)
			return sh.Chunk != nil && (sh.ID == o.shard || slices.Contains(older, o.shard))
		})
	})
}

// receipt asks for a receipt.
func (r *lookupChain) receipt(id primitives.Hash, x *chainReceipt) {
	got, err := r.back.Receipt(r.Context(), id)
	switch {
	case x.Receipt == nil: // it waits, in a queue or a buffer
		if !isLookup(err) {
			r.Errorf("receipt %v, which was not sent yet: %v, %v", id, got, err)
		}
		r.counts["waiting"]++
		return
	case err == nil && bytes.Equal(got.AppendBorsh(nil), x.AppendBorsh(nil)):
	case err == nil || r.isStored(x) || !isLookup(err):
		r.Errorf("receipt %v, made %v, sent %v, taken from the queue %v: %v", id, heightOf(x.made), heightOf(x.sent), heightOf(x.queued), err)
	}
	r.counts["receipts"]++
	if x.queued != nil {
		r.counts["delayed"]++
	}
	if x.queued != nil && x.sent == nil {
		r.counts["local ones delayed"]++
	}
	if x.made != nil && x.sent != nil && x.made != x.sent {
		r.counts["buffered"]++
	}
	if r.kept(x.queued) && !r.kept(x.sent) && x.sent != nil {
		r.counts["sent before the tail"]++
	}
	if r.since > 0 && x.sent != nil && x.sent.entry.Height() <= r.since && r.kept(x.brought) {
		r.counts["sent before the state"]++
	}
	if r.since > 0 && x.brought != nil && x.brought.entry.Height() <= r.since && r.kept(x.queued) {
		r.counts["queued before the state"]++
	}
	switch body := x.Body.(type) {
	case *primitives.GlobalContractDistribution:
		r.counts["distributions"]++
	case *primitives.DataReceipt:
		if body.Resume {
			r.counts["resumes"]++
		} else {
			r.counts["data"]++
		}
	}
}

func heightOf(b *recordedBlock) any {
	if b == nil {
		return "nowhere"
	}
	return b.entry.Height()
}

// origin returns the transaction that a receipt comes from, and whether all blocks between are
// kept.
func (s *chainContents) origin(id primitives.Hash, kept func(*recordedBlock) bool) (tx primitives.Hash, whole bool) {
	for tx, whole = id, true; s.txs[tx] == nil; {
		x := s.receipts[tx]
		if x == nil || x.made == nil {
			return tx, whole
		}
		tx, whole = x.parent, whole && kept(x.made)
	}
	return tx, whole
}

// origin requests the transaction of a receipt. The node must know it while the blocks from the
// transaction to the receipt are stored.
func (r *lookupChain) origin(s *chainContents, id primitives.Hash) {
	tx, whole := s.origin(id, r.kept)
	if s.txs[tx] == nil {
		r.Errorf("receipt %v: this test does not know the origin of %v", id, tx)
		return
	}
	got, err := r.back.ReceiptToTx(r.Context(), &view.OriginQuery{Receipt: id})
	switch {
	case err == nil && got.Transaction == tx:
	case err != nil && !whole && errors.Is(err, view.OriginUnknown):
	default:
		x := s.receipts[id]
		r.Errorf("receipt %v, made %v, sent %v, taken from the queue %v: origin %v, %v, want %v", id, heightOf(x.made), heightOf(x.sent), heightOf(x.queued), got, err, tx)
	}
	r.counts["origins"]++
}

// lost looks up ids that exist only on lost branches.
func (r *lookupChain) lost(s *chainContents) {
	for _, b := range r.blocks {
		if slices.Contains(s.canonical, b) {
			continue
		}
		for _, res := range b.shards {
			for _, x := range res.Outgoing {
				if s.receipts[x.ID] != nil {
					continue
				}
				if got, err := r.back.Receipt(r.Context(), x.ID); !isLookup(err) {
					r.Errorf("receipt %v of a lost branch: %v, %v", x.ID, got, err)
				}
				r.counts["of lost branches"]++
			}
		}
	}
}

// TestTimedOutYieldHasOrigin: the origin of a timed-out yield's resume receipt is found without a
// search. There may be any number of receipts in the 200 blocks between.
func TestTimedOutYieldHasOrigin(t *testing.T) {
	v, err := vm.New(vm.Options{Alarm: func(err error) { panic(err) }})
	if err != nil {
		t.Fatal(err)
	}
	o := workload.ChainOptions{Options: workload.Options{Seed: 1, Accounts: 10, Shards: 1, Contracts: true}, VM: v}
	c, err := workload.OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	g := workload.NewGenerator(o.Options)
	accept := func(txs ...*primitives.SignedTransaction) *engine.BlockNode {
		a, err := c.Next(txs)
		if err != nil {
			t.Fatal(err)
		}
		return a.Entry
	}
	accept(g.Deployments(c.Base())...)
	yielder, base := workload.Account(7), c.Base()
	tx := primitives.Transaction{
		SignerID: workload.Account(1), PublicKey: g.Key(workload.Account(1)).PublicKey(), ReceiverID: yielder, BlockHash: base.Hash,
		Nonce:   primitives.TransactionNonce{Nonce: primitives.InitialNonce(base.Height) + 1},
		Actions: []primitives.Action{&primitives.FunctionCall{Method: "ask", Args: []byte(`{"prompt":"p","number":1,"name":"n","text":"t"}`), Gas: 100_000_000_000_000}},
	}
	hash := tx.Hash()
	accept(primitives.NewSignedTransaction(tx, g.Key(tx.SignerID).Sign(hash[:])))
	var late primitives.Hash
	for range 210 {
		for _, x := range accept(g.Transfer(c.Base())).Shards[0].Result.Outgoing {
			if d, ok := x.Body.(*primitives.DataReceipt); ok && d.Resume && d.Data == nil {
				late = x.ID
			}
		}
	}
	if late.IsZero() {
		t.Fatal("no yield has timed out")
	}
	b := New(Options{Engine: c.Engine, Genesis: &genesis.Config{}, Now: time.Now, Origins: Origins{MaxOutcomes: 8}})
	if got, err := b.ReceiptToTx(t.Context(), &view.OriginQuery{Receipt: late}); err != nil || got.Transaction != hash {
		t.Errorf("origin of %v: %v, %v, want %v", late, got, err, hash)
	}
}
