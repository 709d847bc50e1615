package node

import (
	"fmt"
	"math/rand"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	validatoractor "github.com/troupe-chain/troupe/actors/validator"
	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// blockRecorder records the accepted blocks of a node.
type blockRecorder struct {
	mu     sync.Mutex
	blocks []messages.BlockReceived
	heads  chan primitives.Height
}

func newBlockRecorder() *blockRecorder {
	return &blockRecorder{heads: make(chan primitives.Height, 1024)}
}

func (r *blockRecorder) observe(m *messages.BlockAccepted) {
	b := messages.BlockReceived{Block: m.Block, From: "tape"}
	for i := range m.Shards {
		b.Chunks = append(b.Chunks, m.Shards[i].Chunk)
	}
	r.mu.Lock()
	r.blocks = append(r.blocks, b)
	r.mu.Unlock()
	if m.IsHead {
		r.heads <- m.Height()
	}
}

func (r *blockRecorder) all() []messages.BlockReceived {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]messages.BlockReceived{}, r.blocks...)
}

// await waits until the node's head has at least the height want.
func (r *blockRecorder) await(t *testing.T, want primitives.Height) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case h := <-r.heads:
			if h == want {
				return
			}
		case <-limit:
			t.Fatalf("the head does not come to height %d", want)
		}
	}
}

// until waits until f returns true, up to a minute.
func until(t *testing.T, f func() bool) {
	t.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for limit := time.Now().Add(time.Minute); !f(); <-again.C {
		if time.Now().After(limit) {
			t.Fatal("it does not happen")
		}
	}
}

// maker starts a node that makes blocks on request. Its clock is ahead by later seconds.
func maker(t *testing.T, shards int, later uint64) (*sandbox, *blockRecorder) {
	r := newBlockRecorder()
	return start(t, shards, func(o *Options) {
		o.Mode, o.Observe = production.Manual, r.observe
		o.Clock = func() uint64 { return 1_700_000_100_000_000_000 + later*1_000_000_000 }
	}), r
}

func follower(t *testing.T, shards int) (*sandbox, *blockRecorder) {
	r := newBlockRecorder()
	return start(t, shards, func(o *Options) { o.Mode, o.Observe, o.Keys = production.Manual, r.observe, nil }), r
}

func mineBlocks(t *testing.T, s *sandbox, n uint64) {
	t.Helper()
	if _, _, err := s.Mine(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

// TestFollowerReachesHeadDespiteForgedBlocks: a node that makes no blocks gets blocks out of order,
// repeated, and mixed with forged ones. It ends with the same head.
func TestFollowerReachesHeadDespiteForgedBlocks(t *testing.T) {
	a, tapeA := maker(t, 2, 0)
	for range 10 {
		for range 3 {
			if _, err := a.Submit(a.tx("near", transfer(1))); err != nil {
				t.Fatal(err)
			}
		}
		mineBlocks(t, a, 2)
	}
	b, tapeB := follower(t, 2)
	blocks := tapeA.all()
	blocks = append(blocks, blocks...)
	for i := range 3 { // forged: unsigned
		forged := *blocks[i].Block.Header
		forged.Signature = primitives.ZeroED25519Signature
		forged.Timestamp++
		forged.Init()
		blocks = append(blocks, messages.BlockReceived{Block: &primitives.Block{Header: &forged,
			Body: blocks[i].Block.Body}, Chunks: blocks[i].Chunks, From: "forger"})
	}
	rand.New(rand.NewSource(1)).Shuffle(len(blocks), func(i, k int) { blocks[i], blocks[k] = blocks[k], blocks[i] })
	for _, m := range blocks {
		b.Receive(m)
	}
	tapeB.await(t, a.e.Head().Height())
	if b.e.Head().Hash != a.e.Head().Hash {
		t.Errorf("head %v, want %v", b.e.Head().Hash, a.e.Head().Hash)
	}
	if b.Stats().Transactions != 30 {
		t.Errorf("%d transactions followed, want 30", b.Stats().Transactions)
	}
}

// TestOrphansAreMeasured: the metrics of a node that follows and of a validator show how many
// orphans wait and how many were evicted. An orphan whose parent has been imported is none.
func TestOrphansAreMeasured(t *testing.T) {
	a, tapeA := maker(t, 1, 0)
	mineBlocks(t, a, 3)
	blocks := tapeA.all()
	shows := func(t *testing.T, s *sandbox, orphans, evicted int) {
		t.Helper()
		until(t, func() bool {
			text := string(s.Metrics(nil))
			return strings.Contains(text, fmt.Sprintf("\nnear_num_orphans %d\n", orphans)) &&
				strings.Contains(text, fmt.Sprintf("\ntroupe_orphans_limit %d\n", blockpool.MaxBlocks)) &&
				strings.Contains(text, fmt.Sprintf("\ntroupe_orphans_evicted_total %d\n", evicted))
		})
	}
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("validator=%v", shared), func(t *testing.T) {
			s := start(t, 1, func(o *Options) {
				o.Mode, o.Keys = production.Manual, nil
				if shared { // without a key it signs nothing
					networked(t, o, "alone")
					o.Mode = production.Interval
					o.Validator = &validatoractor.Options{Account: validator, Journal: filepath.Join(t.TempDir(), "signed")}
				}
			})
			s.Receive(blocks[1])
			s.Receive(blocks[2])
			shows(t, s, 2, 0)
			if shared { // chunks come to a validator in parts, which this test does not send
				s.validator.Counters.Blocks.EvictedOrphans.Add(3)
				shows(t, s, 2, 3)
				return
			}
			s.Receive(blocks[0])
			shows(t, s, 0, 0)
			s.blocks.EvictedOrphans.Add(3)
			shows(t, s, 0, 3)
		})
	}
}

// TestReplacedTransactionReturnsToPool: a transaction of a replaced branch returns to the pool. A
// wait for it continues until the other branch includes it.
func TestReplacedTransactionReturnsToPool(t *testing.T) {
	one, tapeOne := maker(t, 1, 0)
	two, tapeTwo := maker(t, 1, 7)
	f, tapeF := follower(t, 1)
	if one.e.Genesis().Hash != f.e.Genesis().Hash {
		t.Fatal("the chains have different geneses")
	}
	tx := f.tx("near", transfer(1))
	if _, err := one.Submit(tx); err != nil {
		t.Fatal(err)
	}
	mineBlocks(t, one, 2)
	done := make(chan error, 1)
	go func() {
		out, err := f.SendTx(t.Context(), &view.SendTx{Tx: tx, WaitUntil: view.LevelFinal})
		if err == nil && out.Level != view.LevelFinal {
			t.Errorf("level %v, want FINAL", out.Level)
		}
		done <- err
	}()
	until(t, func() bool { return f.Stats().Pooled > 0 })
	for _, m := range tapeOne.all() {
		f.Receive(m)
	}
	tapeF.await(t, 2)
	if out, err := f.e.Transactions().FullStatus(tx.Hash()); err != nil || out.Level < view.LevelIncluded {
		t.Errorf("on the first branch: %v, %v", out.Level, err)
	}
	mineBlocks(t, two, 3)
	for _, m := range tapeTwo.all() {
		f.Receive(m)
	}
	tapeF.await(t, 3)
	if _, err := f.e.Transactions().FullStatus(tx.Hash()); err == nil {
		t.Error("the branch that won has the transaction")
	}
	until(t, func() bool { return f.Stats().Pooled == 1 }) // the mempool gets the block after readers see it as head
	select {
	case err := <-done:
		t.Fatalf("the wait ended on the replaced branch: %v", err)
	default:
	}
	if _, err := two.Submit(tx); err != nil {
		t.Fatal(err)
	}
	mineBlocks(t, two, 6)
	for _, m := range tapeTwo.all()[3:] {
		f.Receive(m)
	}
	if err := <-done; err != nil {
		t.Errorf("the wait on the branch that won: %v", err)
	}
	until(t, func() bool { return f.Stats().Pooled == 0 })
}
