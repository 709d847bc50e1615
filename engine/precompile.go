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
	hastenAtOnce = 4
	hastenBytes  = 32 << 20
)

// precompiler is what is being compiled ahead.
type precompiler struct {
	looks sync.WaitGroup // at states for code

	mu      sync.Mutex
	codes   map[hastyCode]bool // that wait or are compiled
	bytes   int                // of those
	waiting []waitingCode
	workers int
}

// hastyCode names code and the rules that it is compiled by.
type hastyCode struct {
	hash  primitives.Hash
	rules *parameters.Wasm
}

type waitingCode struct {
	hastyCode
	code []byte
}

// free tells whether code is not on its way, and there is room for more.
func (h *precompiler) free(c hastyCode) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.codes[c] && h.bytes < hastenBytes
}

// push takes code in, which is copied, and has it compiled.
func (h *precompiler) push(vm action.Hastener, c hastyCode, code []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.codes[c] || h.bytes+len(code) > hastenBytes {
		return
	}
	if h.codes == nil {
		h.codes = map[hastyCode]bool{}
	}
	h.codes[c] = true
	h.bytes += len(code)
	h.waiting = append(h.waiting, waitingCode{c, bytes.Clone(code)})
	if h.workers < hastenAtOnce {
		h.workers++
		go h.work(vm) // nobody waits for it: the VM ends it when it is closed
	}
}

func (h *precompiler) work(vm action.Hastener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.waiting) > 0 {
		c := h.waiting[0]
		h.waiting = h.waiting[1:]
		h.mu.Unlock()
		vm.Precompile(c.code, c.rules)
		h.mu.Lock()
		delete(h.codes, c.hastyCode)
		h.bytes -= len(c.code)
	}
	h.waiting = nil
	h.workers--
}

// hastening is code that a block is going to need, to be looked at.
type hastening struct {
	vm    action.Hastener
	entry *BlockNode // whose states are looked at
	seen  map[hasteKey]bool
	list  []hasty
}

// hasteKey tells one contract of another.
type hasteKey struct {
	account primitives.AccountID
	global  primitives.GlobalContractID
}

type hasty struct {
	unready
	trie state.Trie
	paid func() bool // nil: it is
}

// hasten begins to look at what is to be called by the states of an entry, which is held. nil: the VM compiles nothing.
func (e *Engine) hasten(entry *BlockNode) *hastening {
	vm, ok := e.o.VM.(action.Hastener)
	if !ok {
		return nil
	}
	return &hastening{vm: vm, entry: entry}
}

// add takes up what actions for an account bring or call, by the state of its shard. paid tells whether somebody has paid for them; nil: yes.
// Code that they bring is taken if its deployment is sure to be executed: one behind another action, which may fail, or of another account
// costs a tenth of it, and is not called.
func (h *hastening) add(t state.Trie, from, to primitives.AccountID, actions []primitives.Action, paid func() bool) {
	if !runsCode(actions) {
		return
	}
	_, sure := actions[0].(*primitives.DeployContract)
	sure = sure && from == to
	codesOf(to, actions, func(x unready) {
		if x.code != nil {
			if !sure {
				return
			}
			sure = false // of the next
		}
		if x.code == nil && paid == nil {
			key := hasteKey{x.account, x.global}
			if h.seen[key] {
				return
			}
			if h.seen == nil {
				h.seen = map[hasteKey]bool{}
			}
			h.seen[key] = true
		}
		h.list = append(h.list, hasty{x, t, paid})
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

func (h *hastening) addReceipts(t state.Trie, list []*primitives.Receipt) {
	for _, r := range list {
		if a, is := r.Body.(*primitives.ActionReceipt); is {
			h.add(t, r.PredecessorID, r.ReceiverID, a.Actions, nil)
		}
	}
}

// hastenBlock has the code compiled that a block is about to run, whose jobs are made on the states of its parent.
func (e *Engine) hastenBlock(p *BlockImport) {
	h := e.hasten(p.parent)
	if h == nil {
		return
	}
	for i := range p.jobs {
		in := &p.jobs[i].input
		if p.jobs[i].idle() {
			continue
		}
		h.addReceipts(in.Trie, in.Incoming)
		h.addLocal(in)
	}
	e.hurry(h, p.entry)
}

// addLocal takes up the transactions that run in the chunk which has them: those that their signer receives. A chunk may have such as
// are not valid, which cost nobody anything.
func (h *hastening) addLocal(in *apply.Input) {
	for i := range in.Transactions {
		if tx := in.Transactions[i].SignedTransaction; tx.SignerID == tx.ReceiverID {
			h.add(in.Trie, tx.SignerID, tx.ReceiverID, tx.Actions, func() bool { return in.Pays(i) })
		}
	}
}

// hastenNext has the code compiled that the receipts of an applied block are going to run in the next, in shards that are held.
func (e *Engine) hastenNext(entry *BlockNode) {
	h := e.hasten(entry)
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
	e.hurry(h, entry)
}

// hurry looks at what was taken up, beside the caller, and compiles what is not. The states are held until it has looked.
func (e *Engine) hurry(h *hastening, entry *BlockNode) {
	if len(h.list) == 0 || !h.entry.Acquire() {
		return
	}
	rules := &entry.Config.Wasm
	e.haste.looks.Go(func() {
		defer h.entry.Release()
		left := hastenBytes // to be looked at
		for i := range h.list {
			x := &h.list[i]
			take := func(hash primitives.Hash, code func() []byte) {
				c := hastyCode{hash, rules}
				if left <= 0 || h.vm.Ready(hash, rules) || !e.haste.free(c) || x.paid != nil && !x.paid() {
					return
				}
				if b := code(); b != nil {
					left -= len(b)
					e.haste.push(h.vm, c, b)
				}
			}
			if x.code != nil {
				take(primitives.HashBytes(x.code), func() []byte { return x.code })
				continue
			}
			lookContractIn(x.trie, e.chain.ID, &x.unready, take)
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
		c := hastyCode{primitives.HashBytes(code), rules}
		if !vm.Ready(c.hash, rules) && e.haste.free(c) {
			e.haste.push(vm, c, code)
		}
	}
}
