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

// The receipts of a chunk run in turn, so code that is compiled when it is called is compiled one after the other, while all wait. What is
// going to be called is known before: from the parent's outgoing receipts as soon as that is applied, from the chunks when they are
// there. So it is compiled ahead, as much at a time as the compiler takes. A receipt that is delayed or waits for data came once, and its
// code was compiled then.

// What is compiled ahead at a time, and how many bytes of code wait for that or are looked at for a block: of all blocks, since who makes
// many with receipts that are delayed would have what they call pile up. Code that does not fit is compiled when it is called.
const (
	precompileWorkers = 4
	precompileBytes   = 32 << 20
)

// precompiler is what is being compiled ahead.
type precompiler struct {
	looks sync.WaitGroup // at states for code

	mu      sync.Mutex
	codes   map[codeKey]bool // that wait or are compiled
	bytes   int              // of those
	queue   []queuedCode
	workers int
}

// codeKey names code and the rules that it is compiled by.
type codeKey struct {
	hash  primitives.Hash
	rules *parameters.Wasm
}

type queuedCode struct {
	codeKey
	code []byte
}

// accepts tells whether code is not on its way, and there is room for more.
func (h *precompiler) accepts(c codeKey) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.codes[c] && h.bytes < precompileBytes
}

// push takes code in, which is copied, and has it compiled.
func (h *precompiler) push(vm action.Hastener, c codeKey, code []byte) {
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
		go h.work(vm) // nobody waits for it: the VM ends it when it is closed
	}
}

func (h *precompiler) work(vm action.Hastener) {
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

// precompileScan is code that a block is going to need, to be looked at.
type precompileScan struct {
	vm    action.Hastener
	entry *BlockNode // whose states are looked at
	seen  map[contractKey]bool
	list  []scanItem
}

// contractKey tells one contract of another.
type contractKey struct {
	account primitives.AccountID
	global  primitives.GlobalContractID
}

type scanItem struct {
	codeRef
	trie state.Trie
	paid func() bool // nil: it is
}

// newPrecompileScan begins to look at what is to be called by the states of an entry, which is held. nil: the VM compiles nothing.
func (e *Engine) newPrecompileScan(entry *BlockNode) *precompileScan {
	vm, ok := e.o.VM.(action.Hastener)
	if !ok {
		return nil
	}
	return &precompileScan{vm: vm, entry: entry}
}

// add takes up what actions for an account bring or call, by the state of its shard. paid tells whether somebody has paid for them; nil: yes.
// Code that they bring is taken if its deployment is sure to be executed: one behind another action, which may fail, or of another account
// costs a tenth of it, and is not called.
func (h *precompileScan) add(t state.Trie, from, to primitives.AccountID, actions []primitives.Action, paid func() bool) {
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
			sure = false // of the next
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

// runsCode tells whether there is a call among actions.
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

// precompileBlock has the code compiled that a block is about to run, whose jobs are made on the states of its parent.
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

// addLocal takes up the transactions that run in the chunk which has them: those that their signer receives. A chunk may have such as
// are not valid, which cost nobody anything.
func (h *precompileScan) addLocal(in *apply.Input) {
	for i := range in.Transactions {
		if tx := in.Transactions[i].SignedTransaction; tx.SignerID == tx.ReceiverID {
			h.add(in.Trie, tx.SignerID, tx.ReceiverID, tx.Actions, func() bool { return in.Pays(i) })
		}
	}
}

// precompileNext has the code compiled that the receipts of an applied block are going to run in the next, in shards that are held.
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

// endPause looks at what was taken up, beside the caller, and compiles what is not. The states are held until it has looked.
func (e *Engine) startPrecompile(h *precompileScan, entry *BlockNode) {
	if len(h.list) == 0 || !h.entry.Acquire() {
		return
	}
	rules := &entry.Config.Wasm
	e.precompiler.looks.Go(func() {
		defer h.entry.Release()
		left := precompileBytes // to be looked at
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

// Hasten has code compiled that validators say is deployed in a shard which is not held, by the rules of the head, so that its first call takes no longer
// than others where a witness shows it. Safe from any goroutine.
func (e *Engine) Precompile(codes [][]byte) {
	vm, ok := e.o.VM.(action.Hastener)
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
