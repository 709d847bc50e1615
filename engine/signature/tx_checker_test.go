package signature

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/troupe-chain/troupe/engine/parallel"
	"github.com/troupe-chain/troupe/primitives"
)

func signed(t testing.TB, n int) []*primitives.SignedTransaction {
	t.Helper()
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "alice")
	txs := make([]*primitives.SignedTransaction, n)
	for i := range txs {
		tx := primitives.Transaction{SignerID: "alice.near", PublicKey: key.PublicKey(), ReceiverID: "bob.near",
			Nonce: primitives.TransactionNonce{Nonce: primitives.Nonce(i)}}
		h := tx.Hash()
		txs[i] = primitives.NewSignedTransaction(tx, key.Sign(h[:]))
	}
	return txs
}

func spoiled(tx *primitives.SignedTransaction) *primitives.SignedTransaction {
	sig := []byte(tx.Signature)
	sig[len(sig)-40] ^= 1
	return primitives.NewSignedTransaction(tx.Transaction, primitives.Signature(sig))
}

func TestCheckRefusesSpoiledSignature(t *testing.T) {
	c := New()
	defer c.Close()
	txs := signed(t, 200)
	bad := spoiled(txs[7])
	txs[100] = bad
	for i, got := range c.CheckAll(txs) {
		if want := i != 100; got != want {
			t.Errorf("transaction %d: %v, want %v", i, got, want)
		}
	}
	if !c.Known(txs[7]) {
		t.Error("a valid signature is not remembered")
	}
	if c.Known(bad) || c.Check(bad) {
		t.Error("another signature of a good transaction passes")
	}
}

func TestClosedCheckerStillChecks(t *testing.T) {
	c := New()
	txs := signed(t, 100)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range txs {
				if !c.Check(txs[(i*7+w)%len(txs)]) {
					t.Errorf("transaction %d is refused", i)
				}
			}
		}()
	}
	c.Close()
	wg.Wait()
	if !c.Check(signed(t, 1)[0]) || c.Check(spoiled(txs[0])) {
		t.Error("a closed checker returns a wrong result")
	}
}

func BenchmarkCheckAll(b *testing.B) {
	for _, n := range []int{1, 16, 64, 1024} {
		b.Run(fmt.Sprintf("op=all/batch=%d", n), func(b *testing.B) {
			txs := signed(b, n)
			c := New()
			defer c.Close()
			for b.Loop() {
				c.young = map[primitives.Hash]primitives.Signature{}
				c.CheckAll(txs)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/signature")
		})
	}
}

// TestVerifierPanicReachesCaller: a panic of the verifier is raised on the goroutine of the check's
// caller, with the stack of the worker. The worker and other checks continue.
func TestVerifierPanicReachesCaller(t *testing.T) {
	c := New()
	defer c.Close()
	good := c.verify
	c.verify = func(s primitives.Signature, data []byte, k primitives.PublicKey) bool {
		if k == "" {
			panic("a key that breaks the verifier")
		}
		return good(s, data, k)
	}
	txs := signed(t, 2)
	fine, bad := txs[0], txs[1]
	bad.PublicKey = ""
	for name, f := range map[string]func(){
		"Check": func() { c.Check(bad) }, "CheckAll": func() { c.CheckAll([]*primitives.SignedTransaction{bad}) },
	} {
		func() {
			defer func() {
				if p, ok := recover().(*parallel.Panic); !ok || !bytes.Contains(p.Stack, []byte("TestVerifierPanicReachesCaller.func")) {
					t.Errorf("%s: the panic %v does not reach the caller with its stack", name, p)
				}
			}()
			f()
		}()
	}
	if !c.Check(fine) {
		t.Error("a valid signature is refused after a panic")
	}
}

// TestUnsignedIsRefusedAfterAllowlistEnds: a block that contains the transaction stays valid.
func TestUnsignedIsRefusedAfterAllowlistEnds(t *testing.T) {
	c := New()
	defer c.Close()
	good := signed(t, 1)[0]
	tx := primitives.NewSignedTransaction(good.Transaction, primitives.ZeroED25519Signature)
	for i, accounts := range [][]primitives.AccountID{nil, {"alice.near"}, {"bob.near"}, {"alice.near"}, nil} {
		c.AllowUnsigned(accounts, false)
		if got, want := c.CheckNew(tx), i == 1 || i == 3; got != want {
			t.Errorf("step %d: %v, want %v", i, got, want)
		}
		if got, want := c.Check(tx), i > 0; got != want {
			t.Errorf("step %d: in a block %v, want %v", i, got, want)
		}
	}
	if !c.CheckNew(good) {
		t.Error("a signed transaction is refused")
	}
}

// TestAllowOnceAcceptsOneUnsigned: AllowOnce accepts exactly one transaction, until it is called
// again.
func TestAllowOnceAcceptsOneUnsigned(t *testing.T) {
	c := New()
	defer c.Close()
	txs := signed(t, 2)
	one := primitives.NewSignedTransaction(txs[0].Transaction, primitives.ZeroED25519Signature)
	other := primitives.NewSignedTransaction(txs[1].Transaction, primitives.ZeroED25519Signature)
	hash := one.Hash()
	c.AllowOnce(&hash)
	if !c.CheckNew(one) || c.CheckNew(other) || c.CheckNew(spoiled(txs[0])) {
		t.Errorf("allowed: %v, want true; another %v, another signature %v, want false", c.CheckNew(one),
			c.CheckNew(other), c.CheckNew(spoiled(txs[0])))
	}
	c.AllowOnce(nil)
	if c.CheckNew(one) || !c.Check(one) {
		t.Errorf("afterwards CheckNew %v, want false; in a block %v, want true", c.CheckNew(one), c.Check(one))
	}
}

// TestCheckDoesNotWaitForBusyWorkers: Check does not wait for a worker, even if all are busy. The
// caller of CheckAll verifies one transaction itself.
func TestCheckDoesNotWaitForBusyWorkers(t *testing.T) {
	c := New()
	defer c.Close()
	release, verify := make(chan struct{}), c.verify
	txs := signed(t, runtime.GOMAXPROCS(0)+3)
	held := map[primitives.Signature]bool{}
	for _, tx := range txs[2:] {
		held[tx.Signature] = true
	}
	c.verify = func(s primitives.Signature, message []byte, key primitives.PublicKey) bool {
		if held[s] {
			<-release
		}
		return verify(s, message, key)
	}
	done := make(chan []bool)
	go func() { done <- c.CheckAll(txs[2:]) }() // one transaction for each worker, and one for the caller
	for len(c.queue) > 0 {
		runtime.Gosched()
	}
	if !c.Check(txs[0]) || !c.CheckAll(txs[1:2])[0] {
		t.Error("a valid signature is refused")
	}
	close(release)
	for i, ok := range <-done {
		if !ok {
			t.Errorf("transaction %d is refused", i)
		}
	}
}

// TestKnownSignatureNeedsItsKey: a remembered signature does not make the same transaction with
// another key valid.
func TestKnownSignatureNeedsItsKey(t *testing.T) {
	c := New()
	defer c.Close()
	good := signed(t, 1)[0]
	if !c.Check(good) {
		t.Fatal("a good signature is refused")
	}
	tx := good.Transaction
	tx.PublicKey = primitives.SecretKeyFromSeed(primitives.ED25519, "mallory").PublicKey()
	other := primitives.NewSignedTransaction(tx, good.Signature)
	if c.Known(other) || c.Check(other) || c.CheckAll([]*primitives.SignedTransaction{other})[0] {
		t.Error("a signature is accepted with another key")
	}
}
