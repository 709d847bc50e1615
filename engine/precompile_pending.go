package engine

import (
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
)

// CompileWait is the longest time that PendingCompilation.Compile takes. The compiler's own limits
// should end each compilation before CompileWait has passed.
const CompileWait = 5 * time.Minute

// compileRetry is the pause before Compile offers code again to a compiler with a full queue.
const compileRetry = 100 * time.Millisecond

// maxCodeChanges bounds the rounds of Compile. A new round starts if the called accounts got other
// code during a compilation.
const maxCodeChanges = 4

// PendingCompilation is the set of codes that one transaction deploys or calls and that were not
// compiled when the set was made. The mempool holds the transaction back until all these codes are
// compiled, so that no chunk waits for the compiler. Safe for concurrent use.
type PendingCompilation struct {
	e    *Engine
	vm   compilingVM
	of   primitives.AccountID // signer of the transaction
	to   primitives.AccountID // receiver of the transaction
	list []codeRef

	names []byte // hashes of the codes, concatenated
	bytes int    // total size of the code that the transaction itself deploys
}

// Code returns a hash that identifies the set of codes, and the total size in bytes of the code
// that the transaction itself deploys.
func (u *PendingCompilation) Code() (name primitives.Hash, bytes int) {
	return primitives.HashBytes(u.names), u.bytes
}

func (u *PendingCompilation) from() action.CodeFrom {
	return action.CodeFrom{Submitter: u.of, Shard: u.e.Head().Layout.ShardOf(u.to), InShard: true}
}

type compilingVM interface {
	action.Warmer
	action.Preparer
}

// codeRef refers to code. Either code is set: the transaction deploys this code. Or account is set:
// the code is the account's contract in the head's state.
type codeRef struct {
	code    []byte
	hash    primitives.Hash      // hash of code; zero: not computed yet
	account primitives.AccountID // account that is called, if code is nil
	// global is the global contract that the account will use, if code is nil. Zero: the account
	// keeps its contract.
	global primitives.GlobalContractID
}

// PendingCompilation returns those codes that a transaction, or a delegate action in it, deploys or
// calls and that are not compiled yet. It returns nil if all these codes are compiled.
// PendingCompilation cannot foresee what a called contract will deploy or call. Safe for concurrent
// use.
func (e *Engine) PendingCompilation(tx *primitives.SignedTransaction) *PendingCompilation {
	vm, ok := e.o.VM.(compilingVM)
	if !ok {
		return nil
	}
	u := &PendingCompilation{e: e, vm: vm, of: tx.SignerID, to: tx.ReceiverID}
	u.add(tx.ReceiverID, tx.Actions)
	for _, a := range tx.Actions {
		switch a := a.(type) {
		case *primitives.Delegate:
			u.add(a.Action.ReceiverID, a.Action.Actions)
		case *primitives.DelegateV2:
			u.add(a.Action.ReceiverID, a.Action.Actions)
		default: // only delegate actions contain actions
		}
	}
	if u.list == nil {
		return nil
	}
	return u
}

// add records the codes that actions on the account `to` deploy or call. A call runs the account's
// code at the head, unless an action before the call replaces that code.
func (u *PendingCompilation) add(to primitives.AccountID, actions []primitives.Action) {
	rules := &u.e.Head().Config.Wasm
	codesOf(to, actions, func(x codeRef) {
		if x.code != nil {
			if x.hash = primitives.HashBytes(x.code); !u.vm.Ready(x.hash, rules) {
				u.names = append(u.names, x.hash[:]...)
				u.bytes += len(x.code)
				u.list = append(u.list, x)
			}
			return
		}
		u.e.lookContract(&x, func(hash primitives.Hash, _ func() []byte) {
			if !u.vm.Ready(hash, rules) {
				u.names = append(u.names, hash[:]...)
				u.list = append(u.list, x)
			}
		})
	})
}

// codesOf calls the function tell for each code that the actions deploy on the account `to`, and
// for each contract that the actions call there. codesOf leaves codeRef.hash zero.
func codesOf(to primitives.AccountID, actions []primitives.Action, tell func(codeRef)) {
	callable := []codeRef{{account: to}}
	for _, a := range actions {
		if code, ok := primitives.DeployedCode(a); ok {
			tell(codeRef{code: code})
		}
		switch a := a.(type) {
		case *primitives.DeployContract:
			callable = nil
		case *primitives.UseGlobalContract:
			callable = []codeRef{{account: to, global: a.ID}}
		case *primitives.DeterministicStateInit:
			callable = append(callable, codeRef{account: to, global: a.Init.Code})
		case *primitives.UniversalStateInit:
			if init, err := a.Init.Decode(); err == nil && init.Code != nil {
				callable = append(callable, codeRef{account: to, global: *init.Code})
			}
		case *primitives.FunctionCall:
			for _, x := range callable {
				tell(x)
			}
			callable = nil // later calls run the same code
		default: // the action neither deploys, selects nor calls code
		}
	}
}

// Warm asks the VM to compile the codes in the background, and returns at once.
func (u *PendingCompilation) Warm() {
	rules := &u.e.Head().Config.Wasm
	u.each(rules, func(_ primitives.Hash, code []byte) { u.vm.Warm(u.from(), code, rules) })
}

// Compile compiles the codes in the background and waits until they are compiled. Compile also
// returns after CompileWait, or when end is closed. A failed compilation counts as done: the block
// that needs the code reports the error. After a compilation Compile reads the accounts' codes
// again, because the codes may have changed.
func (u *PendingCompilation) Compile(end <-chan struct{}) {
	limit := time.NewTimer(CompileWait)
	defer limit.Stop()
	tried := map[primitives.Hash]bool{}
	for rounds := 0; rounds < maxCodeChanges; {
		rules := &u.e.Head().Config.Wasm
		var under []<-chan struct{}
		full := false
		u.each(rules, func(hash primitives.Hash, code []byte) {
			if tried[hash] {
				return
			}
			done := u.vm.Warm(u.from(), code, rules) // the VM keeps a copy
			select {
			case <-done: // already done: the code was compiled before, or the VM's queue is full
				full = !u.vm.Ready(hash, rules) || full
			default:
				tried[hash] = true
				under = append(under, done)
			}
		})
		if len(under) == 0 && !full {
			return
		}
		if len(under) > 0 {
			rounds++
		}
		for _, done := range under {
			select {
			case <-done:
			case <-end:
				return
			case <-limit.C:
				return
			}
		}
		if full {
			pause := time.NewTimer(compileRetry)
			select {
			case <-pause.C:
			case <-end:
				pause.Stop()
				return
			case <-limit.C:
				pause.Stop()
				return
			}
		}
	}
}

// each calls the function do for each code that is not compiled yet. The bytes are valid only
// during the call.
func (u *PendingCompilation) each(rules *parameters.Wasm, do func(hash primitives.Hash, code []byte)) {
	for i := range u.list {
		x := &u.list[i]
		if x.code != nil {
			if !u.vm.Ready(x.hash, rules) {
				do(x.hash, x.code)
			}
			continue
		}
		u.e.lookContract(x, func(hash primitives.Hash, code func() []byte) {
			if u.vm.Ready(hash, rules) {
				return
			}
			if code := code(); code != nil {
				do(hash, code)
			}
		})
	}
}

// lookContract finds the code that a call of x runs in the head's state. It calls the function look
// with the code's hash and a function that reads the code, which is valid only during this call. If
// the code cannot be read, lookContract does not call look; the block that calls the code reports
// the error.
func (e *Engine) lookContract(x *codeRef, look func(hash primitives.Hash, code func() []byte)) {
	head, err := e.acquireHead()
	if err != nil {
		return
	}
	defer head.Release()
	i, err := head.Layout.Index(head.Layout.ShardOf(x.account))
	if err != nil {
		return
	}
	lookContractIn(head.trieOf(i), e.chain.ID, x, look)
}

// lookContractIn does the same as lookContract on the state t of a shard.
func lookContractIn(t state.Trie, chainID string, x *codeRef, look func(hash primitives.Hash, code func() []byte)) {
	u := state.NewUnrecorded(t)
	var hash primitives.Hash
	var key []byte
	var err error
	if x.global != (primitives.GlobalContractID{}) {
		hash, key, err = action.GlobalContract(u, &x.global)
	} else {
		var account primitives.Account
		if found, err := u.Account(x.account, &account); err != nil || !found {
			return
		}
		hash, key, err = action.ContractOf(u, chainID, x.account, &account.Contract)
	}
	if err != nil || key == nil {
		return
	}
	look(hash, func() []byte {
		code, err := u.Code(hash, key)
		if err != nil {
			return nil
		}
		return code
	})
}
