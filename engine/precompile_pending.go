package engine

import (
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
)

// CompileWait is the maximum duration of PendingCompilation.Compile. The compiler's own limits end
// each compilation earlier; this is a last resort.
const CompileWait = 5 * time.Minute

// compileRetry is the pause before code is offered again to a compiler that has a full queue.
const compileRetry = 100 * time.Millisecond

// maxCodeChanges bounds how often Compile starts over because the account has other code when the
// compilation ends.
const maxCodeChanges = 4

// PendingCompilation is the code that one transaction deploys or calls and that was not compiled
// when it was examined. The mempool holds the transaction back until the code is compiled, so that
// no chunk waits for it. Safe for concurrent use.
type PendingCompilation struct {
	e    *Engine
	vm   compilingVM
	of   primitives.AccountID // the signer
	list []codeRef

	names []byte // hashes of the code, concatenated
	bytes int    // size of the code that the transaction itself contains
}

// Code returns a name for the set of code, and the size of the code that the transaction itself
// contains.
func (u *PendingCompilation) Code() (name primitives.Hash, bytes int) {
	return primitives.HashBytes(u.names), u.bytes
}

type compilingVM interface {
	action.Warmer
	action.Preparer
}

// codeRef is code that is not compiled: the deployed bytes, or where to read them in the head's
// state.
type codeRef struct {
	code    []byte
	hash    primitives.Hash      // of code
	account primitives.AccountID // if code is nil: the account called
	// if code is nil: the global contract that the account is about to use; zero: its current
	// contract
	global primitives.GlobalContractID
}

// PendingCompilation returns the code that a transaction deploys or calls and that is not compiled;
// nil: there is none. It includes delegated actions. It cannot see what a contract deploys or
// calls. Safe for concurrent use.
func (e *Engine) PendingCompilation(tx *primitives.SignedTransaction) *PendingCompilation {
	vm, ok := e.o.VM.(compilingVM)
	if !ok {
		return nil
	}
	u := &PendingCompilation{e: e, vm: vm, of: tx.SignerID}
	u.add(tx.ReceiverID, tx.Actions)
	for _, a := range tx.Actions {
		switch a := a.(type) {
		case *primitives.Delegate:
			u.add(a.Action.ReceiverID, a.Action.Actions)
		case *primitives.DelegateV2:
			u.add(a.Action.ReceiverID, a.Action.Actions)
		default: // no other carries actions
		}
	}
	if u.list == nil {
		return nil
	}
	return u
}

// add examines actions for an account. A call runs the account's code at the head, unless an
// earlier action replaces it.
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

// codesOf calls tell with the code that actions for an account contain, without its hash, and with
// the contracts that they call.
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
			callable = nil // further calls run the same
		default: // brings no code
		}
	}
}

// Warm asks for compilation in the background and returns at once.
func (u *PendingCompilation) Warm() {
	rules := &u.e.Head().Config.Wasm
	u.each(rules, func(_ primitives.Hash, code []byte) { u.vm.Warm(u.of, code, rules) })
}

// Compile compiles the code in the background and returns when it is compiled, when that failed (a
// block that needs the code reports why), after CompileWait, or when end is closed. It then reads
// the accounts again, since they may have other code by now.
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
			done := u.vm.Warm(u.of, code, rules) // the VM keeps a copy
			select {
			case <-done: // the queue was full: not accepted
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

// each calls do with the code that is still not compiled. code is valid only during the call.
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

// lookContract calls look with the hash of the code that a call of an account would run in the
// head's state, and with a function that reads the code, valid only during the call. It skips code
// that cannot be read: a block that calls it reports that.
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

// lookContractIn is lookContract on the state of a shard.
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
