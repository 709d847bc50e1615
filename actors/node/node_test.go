package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/signature"
	"github.com/troupe-chain/troupe/internal/testkit/testnode"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// sandbox is a node with an in-memory chain and one validator, test.near, whose key signs
// everything.
type sandbox struct {
	*Node
	e     *engine.Engine
	key   primitives.SecretKey
	store *storage.Store
	ended atomic.Bool // the test has stopped it

	mu    sync.Mutex
	nonce primitives.Nonce
}

const validator = testnode.Validator

// open initialises a chain like the init command, and opens an engine on it with the given VM.
func open(t testing.TB, shards int, disk *storage.MemDisk, vm action.VM) (*engine.Engine, *storage.Store,
	primitives.SecretKey, *signature.Checker) {
	t.Helper()
	chain, key := testnode.Sandbox(t, shards, nil)
	checker := signature.New()
	e, err := testnode.TryOpen(testnode.Options{Chain: chain, Disk: disk, Engine: func(o *engine.Options) {
		o.Signature, o.VM, o.Tries = checker.Check, vm, trie.Options{Poison: true}
	}})
	if errors.Is(err, engine.ErrInconsistent) { // keep the disk's content for the analysis
		kept, derr := os.MkdirTemp("", "troupe-inconsistent-")
		t.Logf("the folder is kept in %s: %v", kept, errors.Join(derr, disk.Save(kept)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return e, e.Store(), key, checker
}

func start(t testing.TB, shards int, change func(*Options)) *sandbox {
	t.Helper()
	return startOn(t, shards, storage.NewMemDisk(), nil, change)
}

// startOn starts a node on the given disk, with the given VM.
func startOn(t testing.TB, shards int, disk *storage.MemDisk, vm action.VM, change func(*Options)) *sandbox {
	t.Helper()
	e, store, key, checker := open(t, shards, disk, vm)
	o := Options{
		Engine: e, Signatures: checker, Keys: map[primitives.AccountID]primitives.SecretKey{validator: key}, Vote: parameters.Newest(primitives.NumberingRelease),
		Delays: doomslug.Delays{Endorsement: int64(600 * time.Millisecond), Skip: int64(2 * time.Second),
			MaxWait: int64(6 * time.Second), ChunkWait: [2]uint64{1, 3}},
		Mempool: txpool.Limits{Transactions: 200_000, Bytes: 100 << 20, KeyTransactions: 10_000},
		Exit: func(who string, reason any, stack []byte) {
			panic(fmt.Sprintf("%s failed: %v\n%s", who, reason, stack))
		},
	}
	if change != nil {
		change(&o)
	}
	n, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	s := &sandbox{Node: n, e: e, key: key, store: store}
	t.Cleanup(func() {
		if s.ended.Load() {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := n.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// tx signs a transaction of the validator with the next nonce, based on the head.
func (s *sandbox) tx(receiver primitives.AccountID, actions ...primitives.Action) *primitives.SignedTransaction {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nonce++
	return s.sign(primitives.Transaction{SignerID: validator, ReceiverID: receiver,
		Nonce:     primitives.TransactionNonce{Nonce: s.nonce},
		BlockHash: s.e.Head().Hash, Actions: actions})
}

func (s *sandbox) sign(t primitives.Transaction) *primitives.SignedTransaction {
	t.PublicKey = s.key.PublicKey()
	h := t.Hash()
	return primitives.NewSignedTransaction(t, s.key.Sign(h[:]))
}

func transfer(yocto uint64) primitives.Action {
	return &primitives.Transfer{Deposit: primitives.Yocto(yocto)}
}

// TestTransferReachesEveryWaitLevel sends a transfer for each wait_until, and then looks it up by
// hash.
func TestTransferReachesEveryWaitLevel(t *testing.T) {
	for _, shards := range []int{1, 4} {
		t.Run(fmt.Sprintf("shards=%d", shards), func(t *testing.T) {
			s := start(t, shards, nil)
			for level := view.LevelIncluded; level <= view.LevelFinal; level++ {
				tx := s.tx("near", transfer(1))
				out, err := s.SendTx(t.Context(), &view.SendTx{Tx: tx, WaitUntil: level})
				if err != nil {
					t.Fatalf("wait for %v: %v", level, err)
				}
				if out.Level < level {
					t.Errorf("wait for %v: got %v", level, out.Level)
				}
				if alone := out.Level == view.LevelIncluded; alone != (out.Transaction == nil) || !alone &&
					out.Transaction.Hash() != tx.Hash() {
					t.Errorf("wait for %v: transaction %v", level, out.Transaction)
				}
				out, err = s.Tx(t.Context(), &view.GetTx{Hash: tx.Hash(), Sender: validator, WaitUntil: view.LevelFinal})
				if err != nil || out.Level != view.LevelFinal || out.Status.Kind != view.FinalSuccessValue {
					t.Errorf("tx: %+v, %v, want FINAL with a value", out, err)
				}
				again, err := s.SendTx(t.Context(), &view.SendTx{Tx: tx, WaitUntil: level})
				if err != nil || again.Level != view.LevelFinal {
					t.Errorf("sent again: %+v, %v, want FINAL", again, err)
				}
			}
			if parked := s.Stats().Parked; parked != 0 {
				t.Errorf("%d waits are still parked", parked)
			}
		})
	}
}

func TestInvalidTransactionIsRefused(t *testing.T) {
	s := start(t, 1, nil)
	sent := s.tx("near", transfer(1))
	if _, err := s.SendTx(t.Context(), &view.SendTx{Tx: sent, WaitUntil: view.LevelIncluded}); err != nil {
		t.Fatal(err)
	}
	head := s.e.Head().Hash
	base := primitives.Transaction{SignerID: validator, ReceiverID: "near", BlockHash: head,
		Nonce: primitives.TransactionNonce{Nonce: 100}, Actions: []primitives.Action{transfer(1)}}
	change := func(f func(*primitives.Transaction)) *primitives.SignedTransaction {
		x := base
		f(&x)
		return s.sign(x)
	}
	good := s.sign(base)
	sig := []byte(good.Signature)
	sig[10] ^= 1
	for _, c := range []struct {
		name string
		tx   *primitives.SignedTransaction
		want primitives.InvalidTxTag
	}{
		{"used nonce", change(func(x *primitives.Transaction) { x.Nonce.Nonce = sent.Nonce.Nonce }),
			primitives.TxInvalidNonce},
		{"unknown block", change(func(x *primitives.Transaction) { x.BlockHash = primitives.Hash{1} }), primitives.TxExpired},
		{"unknown signer", change(func(x *primitives.Transaction) { x.SignerID = "nobody.near" }),
			primitives.TxSignerDoesNotExist},
		{"signature", primitives.NewSignedTransaction(base, primitives.Signature(sig)), primitives.TxInvalidSignature},
		{"balance", change(func(x *primitives.Transaction) {
			x.Actions = []primitives.Action{&primitives.Transfer{Deposit: primitives.NEAR(1 << 40)}}
		}), primitives.TxNotEnoughBalance},
		{"strict nonce with a gap", change(func(x *primitives.Transaction) {
			x.Version, x.NonceMode = primitives.TransactionV1, primitives.NonceStrict
		}), primitives.TxInvalidNonce},
	} {
		for _, level := range []view.ExecutionLevel{view.LevelIncluded, view.LevelFinal} {
			_, err := s.SendTx(t.Context(), &view.SendTx{Tx: c.tx, WaitUntil: level})
			var invalid *primitives.InvalidTxError
			if !errors.As(err, &invalid) || invalid.Tag != c.want {
				t.Errorf("%s, wait for %v: %v, want tag %d", c.name, level, err, c.want)
			}
		}
		if out, err := s.SendTx(t.Context(), &view.SendTx{Tx: c.tx, WaitUntil: view.LevelNone}); err != nil ||
			out.Level != view.LevelNone {
			t.Errorf("%s, without a wait: %v, %v, want NONE", c.name, out, err)
		}
	}
	if _, err := s.Tx(t.Context(), &view.GetTx{Hash: primitives.Hash{9}, WaitUntil: view.LevelNone}); !errors.Is(err,
		view.ErrUnknownTx) {
		t.Errorf("unknown hash: %v, want %v", err, view.ErrUnknownTx)
	}
	var invalid *primitives.InvalidTxError
	spent := change(func(x *primitives.Transaction) { x.Nonce.Nonce = sent.Nonce.Nonce })
	if _, err := s.Tx(t.Context(), &view.GetTx{Hash: spent.Hash(), Tx: spent,
		WaitUntil: view.LevelFinal}); !errors.As(err, &invalid) {
		t.Errorf("a transaction that can't come any more: %v, want InvalidNonce", err)
	}
}

// TestLoadOfManyClientsBecomesFinal sends many transactions from many clients at once. All of them
// become final.
func TestLoadOfManyClientsBecomesFinal(t *testing.T) {
	s := start(t, 2, func(o *Options) { o.Mode = production.Instant })
	const clients, each = 16, 20
	var wg sync.WaitGroup
	for range clients {
		wg.Add(1)
		go func() {
			defer wg.Done()
			ctx, done, err := s.OpenSession(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer done()
			for range each {
				tx := s.tx("near", transfer(1))
				out, err := s.SendTx(ctx, &view.SendTx{Tx: tx, WaitUntil: view.LevelExecutedOptimistic})
				var invalid *primitives.InvalidTxError
				if errors.As(err, &invalid) && invalid.Tag == primitives.TxInvalidNonce {
					continue // the clients share one key, and a later nonce was faster
				}
				if err != nil || out.Level < view.LevelExecutedOptimistic {
					t.Errorf("%v, %v", out, err)
				}
			}
		}()
	}
	wg.Wait()
	st := s.Stats()
	if st.Transactions == 0 || st.Parked != 0 || st.Sessions != 0 {
		t.Errorf("stats = %+v", st)
	}
	t.Logf("%d transactions in %d blocks", st.Transactions, st.Blocks)
}

func TestManualModeMinesRequestedBlocks(t *testing.T) {
	s := start(t, 1, func(o *Options) { o.Mode = production.Manual })
	tx := s.tx("near", transfer(1))
	if _, err := s.Submit(tx); err != nil {
		t.Fatal(err)
	}
	before := s.e.Head().Height()
	if h, hash, err := s.Mine(t.Context(), 5); err != nil || h != before+5 || hash != s.e.Head().Hash {
		t.Fatalf("mine = %d, %v, %v, want height %d", h, hash, err, before+5)
	}
	if out, err := s.e.Transactions().FullStatus(tx.Hash()); err != nil || out.Level != view.LevelFinal {
		t.Errorf("after five blocks: %v, %v, want FINAL", out.Level, err)
	}
}

// TestNodeRestartsUnderLoadAtItsHead stops a node under load. After the restart it continues at its
// head.
func TestNodeRestartsUnderLoadAtItsHead(t *testing.T) {
	disk := storage.NewMemDisk()
	var height primitives.Height
	var last *primitives.SignedTransaction
	var nonce primitives.Nonce
	for round := range 3 {
		e, store, key, checker := open(t, 2, disk, nil)
		if e.Head().Height() < height {
			t.Fatalf("the head fell from %d to %d", height, e.Head().Height())
		}
		if last != nil {
			if out, err := e.Transactions().FullStatus(last.Hash()); err != nil || out.Level < view.LevelExecutedOptimistic {
				t.Fatalf("round %d: an executed transaction is %v, %v", round, out.Level, err)
			}
		}
		n, err := Start(Options{Engine: e, Signatures: checker,
			Keys: map[primitives.AccountID]primitives.SecretKey{validator: key}, Vote: parameters.Newest(primitives.NumberingRelease),
			Delays: doomslug.Delays{Endorsement: 1e8, Skip: 1e9, MaxWait: 6e9, ChunkWait: [2]uint64{1, 3}}})
		if err != nil {
			t.Fatal(err)
		}
		s := &sandbox{Node: n, e: e, key: key, nonce: nonce}
		for range 20 {
			last = s.tx("near", transfer(1))
			if _, err := n.SendTx(t.Context(), &view.SendTx{Tx: last, WaitUntil: view.LevelExecutedOptimistic}); err != nil {
				t.Fatal(err)
			}
		}
		nonce = s.nonce
		begin := time.Now()
		if err := n.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("stopping took %v", took)
		}
		height = e.Head().Height()
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := n.Submit(last); !errors.Is(err, ErrStopped) {
			t.Errorf("submit after stop: %v, want %v", err, ErrStopped)
		}
	}
}

func TestMetricsListActorsAndPools(t *testing.T) {
	s := start(t, 2, nil)
	if _, err := s.SendTx(t.Context(), &view.SendTx{Tx: s.tx("near", transfer(1)),
		WaitUntil: view.LevelFinal}); err != nil {
		t.Fatal(err)
	}
	text := string(s.Metrics(nil))
	for _, want := range []string{
		`troupe_actor_handle_seconds_count{actor="chain"}`, `troupe_actor_alive{actor="shard",shard_id="s1"} 1`, `troupe_actor_mailbox_length{actor="mempool",shard_id="s0"}`,
		`troupe_actor_restarts_total{actor="waiter"} 0`, `near_transaction_pool_entries{shard_id="s0"} 0`, "troupe_transactions_included_total 1\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %q:\n%s", want, text)
		}
	}
}

func BenchmarkSubmitToFinal(b *testing.B) {
	s := start(b, 1, nil)
	for b.Loop() {
		if _, err := s.SendTx(b.Context(), &view.SendTx{Tx: s.tx("near", transfer(1)),
			WaitUntil: view.LevelFinal}); err != nil {
			b.Fatal(err)
		}
	}
}
