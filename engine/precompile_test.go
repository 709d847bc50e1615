package engine

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// precompileVM is a VM that only records what it is requested to precompile. Its compilations end when
// the test closes end.
type precompileVM struct {
	action.VM
	ready     []primitives.Hash
	requested chan string
	end       chan struct{}
	all       sync.WaitGroup
}

func (v *precompileVM) Ready(code primitives.Hash, _ *parameters.Wasm) bool {
	return slices.Contains(v.ready, code)
}

func (v *precompileVM) Precompile(_ action.CodeFrom, code []byte, _ *parameters.Wasm) {
	v.all.Add(1)
	defer v.all.Done()
	v.requested <- string(code)
	<-v.end
}

// wantPrecompiled checks that exactly these codes are being compiled, all at the same time, and then ends the
// compilations.
func (v *precompileVM) wantPrecompiled(t *testing.T, n *node, what string, codes ...string) {
	t.Helper()
	n.precompiler.looks.Wait()
	var got []string
	for range codes {
		select {
		case code := <-v.requested:
			got = append(got, code)
		case <-time.After(time.Minute):
			t.Fatalf("%s: %q are compiled ahead, want %q", what, got, codes)
		}
	}
	close(v.end)
	v.all.Wait()
	select {
	case code := <-v.requested:
		t.Errorf("%s: %q is compiled ahead too", what, code)
	default:
	}
	if slices.Sort(got); !slices.Equal(got, codes) {
		t.Errorf("%s: %q are compiled ahead, want %q", what, got, codes)
	}
	v.end = make(chan struct{})
}

// signed returns a transaction signed with the key of from.
func (n *node) signed(from, to primitives.AccountID, nonce primitives.Nonce, actions ...primitives.Action) *primitives.SignedTransaction {
	key := seedKey(from)
	x := primitives.Transaction{SignerID: from, PublicKey: key.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: nonce}, ReceiverID: to,
		BlockHash: n.Head().Hash, Actions: actions}
	hash := x.Hash()
	return primitives.NewSignedTransaction(x, key.Sign(hash[:]))
}

// TestCalledCodeIsPrecompiledOnce: the codes that an applied block's receipts, or an arriving
// block's receipts and transactions, call are compiled in parallel in advance. A compiled code is
// not compiled again. States are held only while they are read.
func TestCalledCodeIsPrecompiledOnce(t *testing.T) {
	n, _ := pendingNode(t)
	n.runActions(1, &primitives.DeployGlobalContract{Code: []byte("theirs"), Mode: primitives.GlobalByAccountID})
	vm := &precompileVM{requested: make(chan string, 10), end: make(chan struct{})}
	n.setVM(vm)
	call, use := &primitives.FunctionCall{Method: "run", Gas: 10e12}, &primitives.UseGlobalContract{ID: primitives.GlobalContractID{Account: owner}}
	next := func(txs ...*primitives.SignedTransaction) (*primitives.Block, []*primitives.Chunk) {
		return n.make(n.Head().Hash, n.Head().Height()+1, false, txs...)
	}

	to := func(to primitives.AccountID, nonce primitives.Nonce, actions ...primitives.Action) *primitives.SignedTransaction {
		return n.signed(owner, to, nonce, actions...)
	}
	n.accept(next(to(bare, 2, &primitives.Transfer{}), to(bare, 3, use, call), to(bare, 4, use, call, call), to(bare, 5, deploys("not theirs to deploy"), call), to(bare, 6, deploys("idle"))))
	vm.wantPrecompiled(t, n, "receipts of an applied block", "theirs")

	block, chunks := next(to(owner, 7, deploys("new"), call), to(owner, 8, deploys("idle")), to(owner, 9, call), to(bare, 10, use, call))
	begin := func() {
		t.Helper()
		before := n.Head().refs.Load()
		p, err := n.BeginImport(block, chunks, true)
		if err != nil {
			t.Fatal(err)
		}
		n.precompiler.looks.Wait()
		p.Drop()
		if after := n.Head().refs.Load(); after != before {
			t.Errorf("%d holders of the states before, %d after", before, after)
		}
	}
	begin()
	vm.wantPrecompiled(t, n, "a block's receipts and transactions", "new", "own", "theirs")
	unpaid := n.signed(owner, owner, 10, deploys("nobody pays"), call)
	unpaid.Signature = n.signed(owner, owner, 11).Signature
	block, chunks = n.make(n.Head().Hash, n.Head().Height()+1, false, to(owner, 7, deploys("new"), call), to(owner, 8, deploys("new"), call), unpaid,
		to(owner, 1, deploys("old nonce"), call), to(owner, 1<<60, deploys("no nonce"), call), to(owner, 9, deploys("newer"), &primitives.Transfer{}, call),
		to(owner, 10, &primitives.Transfer{}, deploys("behind what may fail"), call))
	begin()
	vm.wantPrecompiled(t, n, "a block with transactions that are not valid, that may fail, and with code twice", "new", "newer", "theirs")
	vm.ready = []primitives.Hash{primitives.HashBytes([]byte("own")), primitives.HashBytes([]byte("new")), primitives.HashBytes([]byte("newer"))}
	begin()
	vm.wantPrecompiled(t, n, "a block of which one code is not compiled", "theirs")
}

// setVM changes the VM of an open engine.
func (n *node) setVM(vm action.VM) {
	n.o.VM = vm
	n.precompiler.init(vm, n.chain.ID)
}

// TestPrecompileIsBoundedOverAllBlocks: the bounds of running compilations and of queued bytes
// apply to all blocks together, and no code is compiled twice. Code that exceeds the bounds is
// refused until earlier compilations end.
func TestPrecompileIsBoundedOverAllBlocks(t *testing.T) {
	vm := &precompileVM{requested: make(chan string, 100), end: make(chan struct{})}
	h := precompiler{vm: vm}
	rules := &parameters.MustGet(parameters.Release(86)).Wasm
	push := func(n byte, size int) {
		code := make([]byte, size)
		code[0] = n
		c := codeKey{primitives.Hash{n}, rules}
		for range 2 {
			h.push(c, action.CodeFrom{}, code)
		}
		if h.accepts(c) {
			t.Errorf("code %d would be accepted twice", n)
		}
	}
	for n := range byte(precompileWorkers + 3) {
		push(n, 1000)
	}
	push(100, precompileBytes-(precompileWorkers+3)*1000) // exactly fills the byte bound
	push(101, 1)
	for range precompileWorkers {
		<-vm.requested
	}
	select {
	case <-vm.requested:
		t.Error("more than precompileWorkers compilations run at a time")
	case <-time.After(50 * time.Millisecond):
	}
	close(vm.end)
	for range 4 {
		<-vm.requested
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		h.mu.Lock()
		empty := h.workers == 0 && h.bytes == 0 && len(h.codes) == 0
		h.mu.Unlock()
		if empty {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d workers, %d bytes", h.workers, h.bytes)
		}
	}
	push(102, 1)
	if <-vm.requested; len(vm.requested) > 0 {
		t.Error("code above the byte bound was compiled")
	}
}

// waitingVM is a precompileVM whose Ready blocks for one code until the test releases it.
type waitingVM struct {
	precompileVM
	at   primitives.Hash
	look chan struct{}
}

func (v *waitingVM) Ready(code primitives.Hash, rules *parameters.Wasm) bool {
	if code == v.at {
		<-v.look
	}
	return v.precompileVM.Ready(code, rules)
}

// TestPrecompileReadsStateWhileTrimEvicts: the codes called by an applied block's receipts are read
// from the states after that block, even while trim evicts the states before it.
func TestPrecompileReadsStateWhileTrimEvicts(t *testing.T) {
	const there = primitives.AccountID("00.test1") // in the first shard, which the test changes only in part
	accounts := []primitives.AccountID{bare, owner}
	for i := range 40 {
		accounts = append(accounts, primitives.AccountID(fmt.Sprintf("%02d.test1", i)), primitives.AccountID(fmt.Sprintf("test1%02d", i)))
	}
	g, err := genesis.Localnet(genesis.LocalnetOptions{
		ChainID: "test-precompile", Time: 1_700_000_000_000_000_000, Accounts: accounts, Validators: 1, Shards: 2,
		Protocol: parameters.Newest(primitives.NumberingRelease),
	})
	if err != nil {
		t.Fatal(err)
	}
	n := openWith(t, g, storage.NewMemDisk(), storage.Options{}, trie.Options{Poison: true, Frontier: 256})
	vm := &waitingVM{precompileVM{requested: make(chan string, 10), end: make(chan struct{})},
		primitives.HashBytes([]byte("more")), make(chan struct{})}
	n.setVM(&precompileVM{ready: []primitives.Hash{primitives.HashBytes([]byte("theirs"))}, end: make(chan struct{})})
	n.runActions(1, &primitives.DeployGlobalContract{Code: []byte("theirs"), Mode: primitives.GlobalByAccountID})
	n.runActions(2, deploys("more"))
	if err := n.AdvanceFlatHead(); err != nil { // so that trim may evict the nodes unchanged since then
		t.Fatal(err)
	}
	n.setVM(vm)
	n.o.StateBytes = 1
	call, use := &primitives.FunctionCall{Method: "run", Gas: 10e12}, &primitives.UseGlobalContract{ID: primitives.GlobalContractID{Account: owner}}
	n.accept(n.make(n.Head().Hash, n.Head().Height()+1, false, n.signed(there, owner, 1, call), n.signed(owner, there, 3, use, call)))
	if n.Evicted() == 0 {
		t.Fatal("nothing was evicted")
	}
	close(vm.look)
	vm.wantPrecompiled(t, n, "receipts of a block whose states were trimmed", "more", "theirs")
}

// TestAnnouncedCodeIsPrecompiledOnce: code that peers announce is compiled unless it is compiled
// already. Without a VM nothing happens.
func TestAnnouncedCodeIsPrecompiledOnce(t *testing.T) {
	n, _ := pendingNode(t)
	n.setVM(nil)
	n.Precompile([][]byte{[]byte("one")})
	vm := &precompileVM{ready: []primitives.Hash{primitives.HashBytes([]byte("ready"))},
		requested: make(chan string, 10), end: make(chan struct{})}
	n.setVM(vm)
	n.Precompile([][]byte{[]byte("two"), []byte("ready"), []byte("one"), []byte("two")})
	vm.wantPrecompiled(t, n, "announced code", "one", "two")
}
