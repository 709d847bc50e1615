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
// Problem. Receipts of a chunk run in order. If a contract is compiled only at its first call,
// every following receipt of the chunk waits for the compiler, and compiling a contract takes far
// longer than running a small receipt.
//
// Invariants. (1) Precompilation never changes a result: it only fills the VM's cache. (2)
// Precompilation never delays the block that triggered it. (3) Bounded work: at most
// precompileWorkers compilations run, and at most precompileBytes of code is queued. (4) Code is
// compiled ahead only if its deployment or call is paid for, so that free transactions cannot keep
// the compiler busy.
//
// Outline. Most calls are known before they run: from the outgoing receipts of a block as soon as
// it is applied (precompiler.next), and from the receipts and local transactions of a block when
// its chunks arrive (precompiler.block). The methods next and block fill a precompileScan, which
// reads the code of the called accounts from the state on a goroutine of its own and queues the
// code that the VM has not compiled. Code that validators announce for shards which this node does
// not hold enters through Precompile. A receipt that is delayed or waits for data needs no scan
// when it runs, because its code was compiled when it arrived.
//
// A submitted transaction goes through PendingCompilation (precompile_pending.go) instead, before
// it enters the mempool.
//
// Rejected. Compiling at deployment only: a new VM version, or a node that caught up the shard
// after the deployment, has not compiled the code. Compiling all code of a state in advance: most
// of it is never called.

// Bounds of precompilation over all blocks. Bounds for each block would not suffice, because many
// blocks with delayed receipts could fill the queue. Code that does not fit into the queue is
// compiled at its first call.
const (
	precompileWorkers = 4        // maximum number of compilations at the same time
	precompileBytes   = 32 << 20 // maximum bytes of code that is queued or being compiled
)

// precompiler is the queue of code to compile before its first call. Its methods are safe for
// concurrent use.
type precompiler struct {
	vm    action.Precompiler // nil: the VM compiles nothing ahead
	chain string             // id of the chain
	looks sync.WaitGroup     // counts running goroutines of start

	mu      sync.Mutex
	codes   map[codeKey]bool // codes that are queued or being compiled
	bytes   int              // total size of the code in codes
	queue   []queuedCode
	workers int
}

// codeKey identifies compiled code: the hash of the code, and the rules for which it was compiled.
type codeKey struct {
	hash  primitives.Hash
	rules *parameters.Wasm
}

type queuedCode struct {
	codeKey
	from action.CodeFrom
	code []byte
}

// init sets the VM and the id of the chain.
func (h *precompiler) init(vm action.VM, chain string) {
	h.vm, _ = vm.(action.Precompiler)
	h.chain = chain
}

// accepts returns whether c is neither queued nor being compiled, and the byte bound is not
// reached.
func (h *precompiler) accepts(c codeKey) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.codes[c] && h.bytes < precompileBytes
}

// push queues a copy of code. push does nothing if the code is already queued or would exceed the
// byte bound.
func (h *precompiler) push(c codeKey, from action.CodeFrom, code []byte) {
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
	h.queue = append(h.queue, queuedCode{c, from, bytes.Clone(code)})
	if h.workers < precompileWorkers {
		h.workers++
		go h.work(h.vm) // closing the VM ends this goroutine; no code waits for its end
	}
}

func (h *precompiler) work(vm action.Precompiler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.queue) > 0 {
		c := h.queue[0]
		h.queue = h.queue[1:]
		h.mu.Unlock()
		vm.Precompile(c.from, c.code, c.rules)
		h.mu.Lock()
		delete(h.codes, c.codeKey)
		h.bytes -= len(c.code)
	}
	h.queue = nil
	h.workers--
}

// precompileScan collects the code that a block will run.
type precompileScan struct {
	entry *BlockNode // block whose states are read
	seen  map[contractKey]bool
	list  []scanItem
}

// contractKey identifies a contract within a scan: the contract of an account, or a global contract
// that the account uses.
type contractKey struct {
	account primitives.AccountID
	global  primitives.GlobalContractID
}

type scanItem struct {
	codeRef
	to   primitives.AccountID // account that runs the code
	trie state.Trie
	paid func() bool // returns whether the signer can pay for the actions; nil: the signer has paid already
}

// newScan returns an empty scan of the states of entry, which the caller holds. It returns nil if
// the VM does not support precompilation.
func (h *precompiler) newScan(entry *BlockNode) *precompileScan {
	if h.vm == nil {
		return nil
	}
	return &precompileScan{entry: entry}
}

// add records the code that actions deploy or call. The account `from` sends the actions, and the
// account `to` receives them. t is the state of the receiver's shard. paid returns whether the
// sender can pay for the actions; nil: the actions are already paid for. Deployed code is recorded
// only if the first action deploys it and the sender is the receiver. A deployment after the first
// action may not run, because an action before it may fail. A deployment on another account costs
// its sender only a tenth of the compilation, even if nothing ever calls the code.
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
			sure = false // an action before a later deployment may fail
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
		h.list = append(h.list, scanItem{x, to, t, paid})
	})
}

// runsCode returns whether the actions contain a function call.
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

// block precompiles the code that a block will run. The method reads the code from the states after
// the block's parent.
func (h *precompiler) block(p *BlockImport) {
	s := h.newScan(p.parent)
	if s == nil {
		return
	}
	for i := range p.jobs {
		in := &p.jobs[i].input
		if p.jobs[i].notHeld() {
			continue
		}
		s.addReceipts(in.Trie, in.Incoming)
		s.addLocal(in)
	}
	h.start(s, p.entry)
}

// addLocal records the transactions of a chunk that run in that chunk because the signer is also
// the receiver. A chunk may contain invalid transactions, which cost their signer nothing. So each
// transaction is recorded with a function that checks whether the signer can pay.
func (h *precompileScan) addLocal(in *apply.Input) {
	for i := range in.Transactions {
		if tx := in.Transactions[i].SignedTransaction; tx.SignerID == tx.ReceiverID {
			h.add(in.Trie, tx.SignerID, tx.ReceiverID, tx.Actions, func() bool { return in.Pays(i) })
		}
	}
}

// next precompiles the code that the outgoing receipts of an applied block run in the
// next block, for receivers in held shards.
func (h *precompiler) next(entry *BlockNode) {
	s := h.newScan(entry)
	if s == nil {
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
				s.add(entry.trieOf(to), r.PredecessorID, r.ReceiverID, a.Actions, nil)
			}
		}
	}
	h.start(s, entry)
}

// start starts a goroutine that reads the recorded code and queues the code that is not
// compiled yet. The goroutine holds the scan's states until it ends.
func (h *precompiler) start(s *precompileScan, entry *BlockNode) {
	if len(s.list) == 0 || !s.entry.Acquire() {
		return
	}
	rules, vm := &entry.Config.Wasm, h.vm
	h.looks.Go(func() {
		defer s.entry.Release()
		left := precompileBytes // number of code bytes that may still be read
		for i := range s.list {
			x := &s.list[i]
			take := func(hash primitives.Hash, code func() []byte) {
				c := codeKey{hash, rules}
				if left <= 0 || vm.Ready(hash, rules) || !h.accepts(c) || x.paid != nil && !x.paid() {
					return
				}
				if b := code(); b != nil {
					left -= len(b)
					h.push(c, action.CodeFrom{Shard: entry.Layout.ShardOf(x.to), InShard: true}, b)
				}
			}
			if x.code != nil {
				take(primitives.HashBytes(x.code), func() []byte { return x.code })
				continue
			}
			lookContractIn(x.trie, h.chain, &x.codeRef, take)
		}
	})
}

// Precompile queues codes for compilation with the head's runtime configuration. codes are what
// other validators announced as deployed in shards that this node does not hold. Compiled code
// speeds up the first witness of such a shard that calls it. Precompile returns without waiting for
// the compilations. Safe for concurrent use.
func (e *Engine) Precompile(codes [][]byte) {
	h := &e.precompiler
	if h.vm == nil {
		return
	}
	rules := &e.Head().Config.Wasm
	for _, code := range codes {
		c := codeKey{primitives.HashBytes(code), rules}
		if !h.vm.Ready(c.hash, rules) && h.accepts(c) {
			h.push(c, action.CodeFrom{}, code)
		}
	}
}
