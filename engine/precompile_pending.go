package engine

import (
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
)

// CompileWait is the longest that Unready.Compile takes. The compiler's own limits end each compilation before; this is for what
// nobody thought of.
const CompileWait = 5 * time.Minute

// compileRetry is the pause before code is given to a compiler once more that has too much to do.
const compileRetry = 100 * time.Millisecond

// maxCodeChanges is how often it may be found that an account has other code by the time that its code is compiled.
const maxCodeChanges = 4

// PendingCompilation is code that a transaction deploys or calls and that was not compiled when it was looked at. Safe from any goroutine.
type PendingCompilation struct {
	e    *Engine
	vm   compilingVM
	of   primitives.AccountID // the signer
	list []codeRef

	names []byte // hashes of the code
	bytes int    // of the code that the transaction brings
}

// Code names the code, in its order. bytes is how much of it the transaction brings.
func (u *PendingCompilation) Code() (name primitives.Hash, bytes int) {
	return primitives.HashBytes(u.names), u.bytes
}

type compilingVM interface {
	action.Warmer
	action.Preparer
}

// codeRef is code that is not compiled: what a transaction deploys, or where it stands at the head.
type codeRef struct {
	code    []byte
	hash    primitives.Hash             // of code
	account primitives.AccountID        // if code is nil: whose contract it is, or in whose shard
	global  primitives.GlobalContractID // that the account is about to use; zero: what it has
}

// PendingCompilation returns the code that a transaction deploys or calls and that is not compiled; nil: there is none. It looks into delegate
// actions. What a contract deploys or calls is not seen from here. Safe from any goroutine.
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

// add looks at actions for an account. What a call runs is what stands at the head, unless an action before it brings other code.
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

// codesOf tells what code actions for an account bring, without its hash, and what they call.
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
		case *primitives.FunctionCall:
			for _, x := range callable {
				tell(x)
			}
			callable = nil // the same
		default: // brings no code
		}
	}
}

// Warm asks for the code to be compiled in the background, and waits for nothing.
func (u *PendingCompilation) Warm() {
	rules := &u.e.Head().Config.Wasm
	u.each(rules, func(_ primitives.Hash, code []byte) { u.vm.Warm(u.of, code, rules) })
}

// Compile has the code compiled in the background and returns when that is done, when it has failed, of which a block that needs the
// code will say more, or when end is closed. It looks again at what accounts have then, since that may be another contract meanwhile.
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
			done := u.vm.Warm(u.of, code, rules) // which keeps a copy
			select {
			case <-done: // too many wait there: it was not taken
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

// each shows what is still not compiled. code is gone when do returns.
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

// lookContract shows the hash of the code that a call of an account would run by the state of the head, and what reads it, which is
// gone when look returns. What can't be read is not looked at: a block that calls it will say so.
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

// lookContractIn is lookContract by the state of a shard.
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
