package engine

import (
	"bytes"
	"sync"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
)

// Precompilation of contracts.
//
// Problem. Receipts of a chunk run in order. Code that is compiled on its first call is compiled
// serially, and every receipt after it waits. Compiling a contract takes far longer than running a
// small receipt.
//
// Invariants. (1) Precompilation never changes a result: it only fills the VM's cache. (2) It never
// delays the block that triggered it. (3) Bounded work: at most precompileWorkers compilations run,
// and at most precompileBytes of code is queued. (4) Code is compiled ahead only if its deployment
// or call is paid for, so that free transactions cannot keep the compiler busy.
//
// Outline. Most calls are known before they run: from the outgoing receipts of a block as soon as
// it is applied (precompileNext), and from the receipts and local transactions of a block when its
// chunks arrive (precompileBlock). Both fill a precompileScan, which reads the code of the called
// accounts from the state on a goroutine of its own and queues what the VM has not compiled. Code
// that validators announce for shards which this node does not hold enters through Precompile. A
// receipt that is delayed or waits for data was seen when it arrived, and its code was compiled
// then.
//
// A submitted transaction goes through PendingCompilation (precompile_pending.go) instead, before
// it enters the mempool.
//
// Rejected. Compiling at deployment only: a new VM version, or a node that caught up the shard
// later, has not compiled the code. Compiling all code of a state in advance: most of it is never
// called.

// Bounds of ahead-of-time compilation: code compiled at a time, and bytes of code queued or
// examined for a block. The byte bound covers all blocks, because a producer of many blocks with
// delayed receipts could otherwise pile up code. Code beyond the bound is compiled when it is
// called.
const (
	precompileWorkers = 4
	precompileBytes   = 32 << 20
)

// precompiler is the queue of code that is compiled ahead of its first call.
type precompiler struct {
	looks sync.WaitGroup // running scans of states for code

	mu      sync.Mutex
	codes   map[codeKey]bool // queued or being compiled
	bytes   int              // their total size
	queue   []queuedCode
	workers int
}

// codeKey is the identity of compiled code: its hash and the rules that it is compiled for.
type codeKey struct {
	hash  primitives.Hash
	rules *parameters.Wasm
}

type queuedCode struct {
	codeKey
	code []byte
}

// accepts reports whether code is not queued and there is room for more.
func (h *precompiler) accepts(c codeKey) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.codes[c] && h.bytes < precompileBytes
}

// push queues a copy of code, unless it is queued or there is no room.
func (h *precompiler) push(vm action.Precompiler, c codeKey, code []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.codes[c] || h.bytes+len(code) > precompileBytes {
		return
	}
	if h.codes == nil {
		h.codes = map[codeKey]bool{}
	}
	h.codes[c] = true
	h.bytes += len(code)
	h.queue = append(h.queue, queuedCode{c, bytes.Clone(code)})
	if h.workers < precompileWorkers {
		h.workers++
		go h.work(vm) // not waited for: closing the VM ends it
	}
}

func (h *precompiler) work(vm action.Precompiler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.queue) > 0 {
		c := h.queue[0]
		h.queue = h.queue[1:]
		h.mu.Unlock()
		vm.Precompile(c.code, c.rules)
		h.mu.Lock()
		delete(h.codes, c.codeKey)
		h.bytes -= len(c.code)
	}
	h.queue = nil
	h.workers--
}

// precompileScan collects code that a block is going to need.
type precompileScan struct {
	vm    action.Precompiler
	entry *BlockNode // the node with the states to read
	seen  map[contractKey]bool
	list  []scanItem
}

// contractKey identifies a contract within a scan.
type contractKey struct {
	account primitives.AccountID
	global  primitives.GlobalContractID
}

type scanItem struct {
	codeRef
	trie state.Trie
	paid func() bool // reports whether the sender can pay; nil: it has paid
}

// newPrecompileScan starts a scan on the states of an entry, which the caller holds. nil: the VM
// does not compile.
func (e *Engine) newPrecompileScan(entry *BlockNode) *precompileScan {
	vm, ok := e.o.VM.(action.Precompiler)
	if !ok {
		return nil
	}
	return &precompileScan{vm: vm, entry: entry}
}

// add records the code that actions for an account deploy or call, by the state t of its shard.
// paid reports whether the actions are paid for; nil: they are. Deployed code is compiled only if
// its deployment is certain to execute. A deployment after another action may fail, and one by
// another account costs a tenth of the compilation and is not called.
func (h *precompileScan) add(
	t state.Trie,
	from, to primitives.AccountID,
	actions []primitives.Action,
	paid func() bool,
) {
	if !runsCode(actions) {
		return
	}
	_, sure := actions[0].(*primitives.DeployContract)
	sure = sure && from == to
	codesOf(to, actions, func(x codeRef) {
		if x.code != nil {
			if !sure {
				return
			}
			sure = false // not of the next one
		}
		if x.code == nil && paid == nil {
			key := contractKey{x.account, x.global}
			if h.seen[key] {
				return
			}
			if h.seen == nil {
				h.seen = map[contractKey]bool{}
			}
			h.seen[key] = true
		}
		h.list = append(h.list, scanItem{x, t, paid})
	})
}

// runsCode reports whether the actions contain a function call.
func runsCode(actions []primitives.Action) bool {
	for _, a := range actions {
		if _, is := a.(*primitives.FunctionCall); is {
			return true
		}
	}
	return false
}

func (h *precompileScan) addReceipts(t state.Trie, list []*primitives.Receipt) {
	for _, r := range list {
		if a, is := r.Body.(*primitives.ActionReceipt); is {
			h.add(t, r.PredecessorID, r.ReceiverID, a.Actions, nil)
		}
	}
}

// precompileBlock compiles the code that a block is about to run. Its jobs have the states of its
// parent.
func (e *Engine) precompileBlock(p *BlockImport) {
	h := e.newPrecompileScan(p.parent)
	if h == nil {
		return
	}
	for i := range p.jobs {
		in := &p.jobs[i].input
		if p.jobs[i].notHeld() {
			continue
		}
		h.addReceipts(in.Trie, in.Incoming)
		h.addLocal(in)
	}
	e.startPrecompile(h, p.entry)
}

// addLocal records transactions that run in their own chunk, because the signer is the receiver. A
// chunk may contain invalid ones, which cost their signer nothing.
func (h *precompileScan) addLocal(in *apply.Input) {
	for i := range in.Transactions {
		if tx := in.Transactions[i].SignedTransaction; tx.SignerID == tx.ReceiverID {
			h.add(in.Trie, tx.SignerID, tx.ReceiverID, tx.Actions, func() bool { return in.Pays(i) })
		}
	}
}

// precompileNext compiles the code that the outgoing receipts of an applied block will run in the
// next one, for shards that are held.
func (e *Engine) precompileNext(entry *BlockNode) {
	h := e.newPrecompileScan(entry)
	if h == nil {
		return
	}
	for i := range entry.Shards {
		if entry.Shards[i].Chunk == nil {
			continue
		}
		for _, r := range entry.Shards[i].Outgoing {
			a, is := r.Body.(*primitives.ActionReceipt)
			if !is || !runsCode(a.Actions) {
				continue
			}
			if to, err := entry.Layout.Index(entry.Layout.ShardOf(r.ReceiverID)); err == nil && entry.Shards[to].Held() {
				h.add(entry.trieOf(to), r.PredecessorID, r.ReceiverID, a.Actions, nil)
			}
		}
	}
	e.startPrecompile(h, entry)
}

// startPrecompile reads the recorded code on another goroutine and queues what is not compiled. The
// states are held until it ends.
func (e *Engine) startPrecompile(h *precompileScan, entry *BlockNode) {
	if len(h.list) == 0 || !h.entry.Acquire() {
		return
	}
	rules := &entry.Config.Wasm
	e.precompiler.looks.Go(func() {
		defer h.entry.Release()
		left := precompileBytes // budget of code bytes to read
		for i := range h.list {
			x := &h.list[i]
			take := func(hash primitives.Hash, code func() []byte) {
				c := codeKey{hash, rules}
				if left <= 0 || h.vm.Ready(hash, rules) || !e.precompiler.accepts(c) || x.paid != nil && !x.paid() {
					return
				}
				if b := code(); b != nil {
					left -= len(b)
					e.precompiler.push(h.vm, c, b)
				}
			}
			if x.code != nil {
				take(primitives.HashBytes(x.code), func() []byte { return x.code })
				continue
			}
			lookContractIn(x.trie, e.chain.ID, &x.codeRef, take)
		}
	})
}

// Precompile compiles code that validators announced as deployed in a shard which this node does
// not hold, by the rules of the head. The first call in a witness then needs no compilation. It
// returns at once. Safe for concurrent use.
func (e *Engine) Precompile(codes [][]byte) {
	vm, ok := e.o.VM.(action.Precompiler)
	if !ok {
		return
	}
	rules := &e.Head().Config.Wasm
	for _, code := range codes {
		c := codeKey{primitives.HashBytes(code), rules}
		if !vm.Ready(c.hash, rules) && e.precompiler.accepts(c) {
			e.precompiler.push(vm, c, code)
		}
	}
}
