package node

import (
	"bytes"
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage"
)

// slowVM is a VM whose compiler finishes when the test calls end.
type slowVM struct {
	mu    sync.Mutex
	under map[primitives.Hash][]chan struct{} // channels to close when the code's compilation ends
	ready map[primitives.Hash]bool
	cold  atomic.Int64 // calls of code that was not compiled
}

func newSlowVM() *slowVM {
	return &slowVM{under: map[primitives.Hash][]chan struct{}{}, ready: map[primitives.Hash]bool{}}
}

func (v *slowVM) Call(c *action.Call, _ *action.External) (action.CallOutcome, error) {
	if !v.Ready(c.CodeHash, nil) {
		v.cold.Add(1)
	}
	return c.Unchanged(), nil
}

func (v *slowVM) Ready(code primitives.Hash, _ *parameters.Wasm) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.ready[code]
}

func (v *slowVM) Warm(_ action.CodeFrom, code []byte, _ *parameters.Wasm) <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	hash, done := primitives.HashBytes(code), make(chan struct{})
	v.under[hash] = append(v.under[hash], done)
	return done
}

// end ends the compilation of code. If ok is false it has failed.
func (v *slowVM) end(code string, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	hash := primitives.HashBytes([]byte(code))
	v.ready[hash] = ok
	for _, done := range v.under[hash] {
		close(done)
	}
	delete(v.under, hash)
}

func (v *slowVM) asked(code string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.under[primitives.HashBytes([]byte(code))]) > 0
}

var _ interface {
	action.Warmer
	action.Preparer
} = (*slowVM)(nil) // a VM without Preparer makes the node hold nothing

func startSlow(t *testing.T, change func(*Options)) (*sandbox, *slowVM) {
	t.Helper()
	vm := newSlowVM()
	s := startOn(t, 1, storage.NewMemDisk(), vm, change)
	if s.o.Mode == production.Manual {
		return s, vm
	}
	born := s.tx(somebody, &primitives.CreateAccount{}, &primitives.Transfer{Deposit: primitives.NEAR(10)},
		&primitives.AddKey{PublicKey: s.key.PublicKey()})
	out, err := s.SendTx(t.Context(), &view.SendTx{Tx: born, WaitUntil: view.LevelFinal})
	if err != nil || out.Status.Kind != view.FinalSuccessValue {
		t.Fatalf("%+v, %v", out, err)
	}
	return s, vm
}

const somebody = primitives.AccountID("somebody." + validator)

func deployCode(code string) primitives.Action { return &primitives.DeployContract{Code: []byte(code)} }

// other signs a transaction of a second account, which is not the validator.
func (s *sandbox) other(nonce primitives.Nonce, actions ...primitives.Action) *primitives.SignedTransaction {
	return s.sign(primitives.Transaction{SignerID: somebody, ReceiverID: somebody, BlockHash: s.e.Head().Hash,
		Actions: actions,
		Nonce:   primitives.TransactionNonce{Nonce: primitives.InitialNonce(s.e.Head().Height()) + nonce}})
}

// sends submits a transaction in the background and returns the channel of the result.
func (s *sandbox) sends(ctx context.Context, x *primitives.SignedTransaction, level view.ExecutionLevel) <-chan error {
	out := make(chan error, 1)
	go func() {
		_, err := s.SendTx(ctx, &view.SendTx{Tx: x, WaitUntil: level})
		out <- err
	}()
	return out
}

// included returns whether a block on disk includes the transaction.
func (s *sandbox) included(x *primitives.SignedTransaction) bool {
	_, err := s.e.Transactions().FullStatus(x.Hash())
	return err == nil
}

// TestBlocksDoNotWaitForCompilation: while code is compiled, blocks include everything that does
// not need it, and the order of nonces is kept. Once the code is compiled, or its compilation has
// failed, the transaction is included. It makes no difference whether clients wait.
func TestBlocksDoNotWaitForCompilation(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"instant":                       func(*Options) {},
		"instant, without empty blocks": func(o *Options) { o.SkipEmpty = true },
		"interval": func(o *Options) {
			o.Mode = production.Interval
			o.Delays = doomslug.Delays{Endorsement: int64(20 * time.Millisecond), Skip: int64(time.Second),
				MaxWait: int64(2 * time.Second), ChunkWait: [2]uint64{1, 3}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, vm := startSlow(t, change)
			ctx := t.Context()
			session, done, err := s.OpenSession(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer done()
			deploys, follows := s.tx(validator, deployCode("one")), s.tx(validator, transfer(1))
			if err := s.SendTxAsync(session, deploys); err != nil { // without a wait
				t.Fatal(err)
			}
			until(t, func() bool { return vm.asked("one") })
			included := make(chan error, 1)
			go func() {
				_, err := s.Tx(ctx, &view.GetTx{Hash: deploys.Hash(), Sender: validator, WaitUntil: view.LevelIncluded})
				included <- err
			}()
			behind := s.sends(session, follows, view.LevelFinal)
			if err := <-s.sends(ctx, s.other(1, transfer(1)), view.LevelFinal); err != nil {
				t.Fatalf("another's transfer: %v", err)
			}
			if s.included(deploys) || s.included(follows) || len(included)+len(behind) > 0 {
				t.Error("a block includes the held transaction, or a later nonce of its key")
			}
			text := string(s.Metrics(nil))
			for _, line := range []string{"troupe_transactions_held{shard_id=\"s0\"} 1\n",
				"troupe_transactions_compiling{shard_id=\"s0\"} 1\n", "troupe_transactions_unheld_total 0\n", "troupe_transactions_held_limit 4096\n", "troupe_transactions_held_bytes_limit 25165824\n", "troupe_transactions_queued_limit 20000\n"} {
				if !strings.Contains(text, line) {
					t.Errorf("metrics lack %q", line)
				}
			}
			vm.end("one", true)
			if err := <-included; err != nil {
				t.Errorf("the wait for inclusion: %v", err)
			}
			if err := <-behind; err != nil {
				t.Errorf("the wait for the later nonce: %v", err)
			}

			// A call of code that is no longer compiled.
			vm.end("one", false)
			calls := s.sends(ctx, s.tx(validator, call()), view.LevelExecutedOptimistic)
			until(t, func() bool { return vm.asked("one") })
			if err := <-s.sends(ctx, s.other(2, transfer(1)), view.LevelFinal); err != nil || len(calls) > 0 ||
				vm.cold.Load() > 0 {
				t.Errorf("another's transfer: %v; the call is answered %v, ran cold %v", err, len(calls) > 0, vm.cold.Load() > 0)
			}
			vm.end("one", true)
			if err := <-calls; err != nil || vm.cold.Load() > 0 {
				t.Errorf("a call: %v, ran cold %v", err, vm.cold.Load() > 0)
			}

			// A call of code whose compilation fails: the block that includes it has the failure as
			// its result.
			vm.end("one", false)
			calls = s.sends(ctx, s.tx(validator, call()), view.LevelExecutedOptimistic)
			until(t, func() bool { return vm.asked("one") })
			vm.end("one", false)
			if err := <-calls; err != nil || vm.cold.Load() != 1 {
				t.Errorf("a call of what does not compile: %v, in a block %v", err, vm.cold.Load() == 1)
			}
		})
	}
}

// TestManualBlockWaitsForCompiler: in manual mode a requested block includes everything that was
// sent before, and waits for the compiler.
func TestManualBlockWaitsForCompiler(t *testing.T) {
	s, vm := startSlow(t, func(o *Options) { o.Mode = production.Manual })
	x := s.tx(validator, deployCode("one"))
	if pooled, err := s.Submit(x); err != nil || !pooled {
		t.Fatal(pooled, err)
	}
	if !vm.asked("one") {
		t.Error("the code was not compiled")
	}
	if _, _, err := s.Mine(t.Context(), 1); err != nil || !s.included(x) {
		t.Errorf("the next block has it: %v, %v", s.included(x), err)
	}
}

// TestStopDoesNotWaitForCompiler: a node that stops does not wait for the compiler, answers pending
// waits, and leaves no goroutine behind.
func TestStopDoesNotWaitForCompiler(t *testing.T) {
	s, vm := startSlow(t, nil)
	x := s.tx(validator, deployCode("one"))
	waits := s.sends(t.Context(), x, view.LevelFinal)
	until(t, func() bool { return vm.asked("one") })
	s.stopNow(t)
	if err := <-waits; err == nil {
		t.Error("the wait succeeded although the node stopped")
	}
	until(t, func() bool {
		stacks := make([]byte, 4<<20)
		return !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("engine.(*Unready).Compile"))
	})
}

// TestHeldTransactionSurvivesMempoolFailure: if a mempool fails while it holds a transaction, the
// transaction's waiter submits it again.
func TestHeldTransactionSurvivesMempoolFailure(t *testing.T) {
	var trip atomic.Bool
	s, vm := startSlow(t, func(o *Options) {
		o.hooks.trip = func(of string, m any, after bool) {
			if _, adopted := m.(messages.BlockImported); of == "mempool" && adopted && trip.CompareAndSwap(true, false) {
				panic("tripped on purpose")
			}
		}
	})
	x := s.tx(validator, deployCode("one"))
	waits := s.sends(t.Context(), x, view.LevelFinal)
	until(t, func() bool { return vm.asked("one") })
	trip.Store(true)
	<-s.sends(t.Context(), s.other(1, transfer(1)), view.LevelFinal)
	until(t, func() bool { return !trip.Load() })
	until(t, func() bool {
		vm.mu.Lock()
		defer vm.mu.Unlock()
		return len(vm.under[primitives.HashBytes([]byte("one"))]) == 2
	})
	if s.included(x) || len(waits) > 0 {
		t.Error("it is in a block, or answered")
	}
	vm.end("one", true)
	if err := <-waits; err != nil {
		t.Errorf("the wait: %v", err)
	}
	until(t, func() bool { set := s.shards.set.Load().list[0].pool; return set.Held() == 0 && set.Compiling() == 0 })
}
