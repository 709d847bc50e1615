package engine

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// compilerVM is a VM that only records the requests to compile.
type compilerVM struct {
	action.VM
	ready     []primitives.Hash
	requested []string
	done      []chan struct{}
	full      int // number of requests to refuse, as a full queue does
}

func (v *compilerVM) Ready(code primitives.Hash, _ *parameters.Wasm) bool {
	return slices.Contains(v.ready, code)
}

func (v *compilerVM) Warm(_ action.CodeFrom, code []byte, _ *parameters.Wasm) <-chan struct{} {
	v.requested, v.done = append(v.requested, string(code)), append(v.done, make(chan struct{}))
	done := v.done[len(v.done)-1]
	if v.full > 0 {
		v.full--
		close(done)
	}
	return done
}

// makeReady ends the newest compilation; with success if ok.
func (v *compilerVM) makeReady(ok bool) {
	last := len(v.requested) - 1
	if ok {
		v.ready = append(v.ready, primitives.HashBytes([]byte(v.requested[last])))
	}
	close(v.done[last])
}

// pendingNode returns a node with two accounts, of which the first has a contract, and a VM whose
// compilations end when the test calls makeReady.
func pendingNode(t *testing.T) (*node, *compilerVM) {
	t.Helper()
	g, err := genesis.Localnet(genesis.LocalnetOptions{
		ChainID: "test-pending", Time: 1_700_000_000_000_000_000, Accounts: []primitives.AccountID{bare, owner}, Validators: 1, Shards: 2,
		Protocol: parameters.Newest(primitives.NumberingRelease),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range g.Records {
		if a, ok := r.(*genesis.AccountRecord); ok && a.AccountID == owner {
			a.Account.SetContract(primitives.AccountContract{Kind: primitives.ContractLocal, Hash: primitives.HashBytes([]byte("own"))})
			g.Records[i] = a
		}
	}
	g.Records = append(g.Records, &genesis.ContractRecord{AccountID: owner, Code: []byte("own")})
	n := openNode(t, g)
	vm := &compilerVM{ready: []primitives.Hash{primitives.HashBytes([]byte("known"))}}
	n.o.VM = vm
	return n, vm
}

const owner, bare = primitives.AccountID("test0"), primitives.AccountID("test1")

func deploys(code string) primitives.Action { return &primitives.DeployContract{Code: []byte(code)} }

func calls(to primitives.AccountID) *primitives.SignedTransaction {
	return &primitives.SignedTransaction{Transaction: primitives.Transaction{ReceiverID: to, Actions: []primitives.Action{&primitives.FunctionCall{Method: "run"}}}}
}

// runActions makes two blocks: one with a transaction of the owner for its own account, and one that runs
// the resulting receipts.
func (n *node) runActions(nonce primitives.Nonce, actions ...primitives.Action) {
	n.t.Helper()
	head, key := n.Head(), seedKey(owner)
	x := primitives.Transaction{SignerID: owner, PublicKey: key.PublicKey(), Nonce: primitives.TransactionNonce{Nonce: nonce}, ReceiverID: owner,
		BlockHash: head.Hash, Actions: actions}
	hash := x.Hash()
	n.accept(n.make(head.Hash, head.Height()+1, false, primitives.NewSignedTransaction(x, key.Sign(hash[:]))))
	for range 3 {
		n.accept(n.make(n.Head().Hash, n.Head().Height()+1, false))
	}
}

// TestPendingCompilationFindsUncompiledCode: PendingCompilation finds each code that a transaction
// or a delegate action deploys or calls if it is not compiled. Compile returns when the last code
// is compiled.
func TestPendingCompilationFindsUncompiledCode(t *testing.T) {
	n, vm := pendingNode(t)
	n.runActions(1, &primitives.DeployGlobalContract{Code: []byte("theirs"), Mode: primitives.GlobalByAccountID})
	global := primitives.GlobalContractID{Account: owner}
	call, use := &primitives.FunctionCall{Method: "run"}, &primitives.UseGlobalContract{ID: global}
	init := &primitives.DeterministicStateInit{Init: primitives.StateInit{Code: global}}
	universal := &primitives.UniversalStateInit{Init: (&primitives.UniversalStateInitV1{Code: &global}).Encode()}
	for _, c := range []struct {
		name    string
		to      primitives.AccountID
		actions []primitives.Action
		want    []string
	}{
		{"a transfer", owner, []primitives.Action{&primitives.Transfer{}}, nil},
		{"known code", bare, []primitives.Action{deploys("known")}, nil},
		{"new code", bare, []primitives.Action{deploys("new"), call}, []string{"new"}},
		{"new code for one that has some", owner, []primitives.Action{deploys("new"), call}, []string{"new"}},
		{"two codes", bare, []primitives.Action{deploys("new"), deploys("known"), &primitives.DeployGlobalContract{Code: []byte("all")}}, []string{"new", "all"}},
		{"calls of a contract", owner, []primitives.Action{call, call}, []string{"own"}},
		{"a call, then new code", owner, []primitives.Action{call, deploys("new")}, []string{"own", "new"}},
		{"calls of what is no contract", bare, []primitives.Action{call}, nil},
		{"calls of an unknown account", "nobody", []primitives.Action{call}, nil},
		{"use of global code", bare, []primitives.Action{use}, nil},
		{"use of global code, and a call", owner, []primitives.Action{use, call}, []string{"theirs"}},
		{"use of missing global code", owner, []primitives.Action{&primitives.UseGlobalContract{ID: primitives.GlobalContractID{Account: bare}}, call}, nil},
		{"an account that is created with global code", "nobody", []primitives.Action{init, call}, []string{"theirs"}},
		{"a universal account with global code", "nobody", []primitives.Action{universal, call}, []string{"theirs"}},
		{"a universal account without code", "nobody", []primitives.Action{
			&primitives.UniversalStateInit{Init: new(primitives.UniversalStateInitV1).Encode()}, &primitives.UniversalStateInit{Init: []byte{9}}, call,
		}, nil},
		{"carried for another", "nobody", []primitives.Action{&primitives.Delegate{Action: primitives.DelegateAction{ReceiverID: owner, Actions: []primitives.Action{call, deploys("new")}}}}, []string{"own", "new"}},
		{"the same in the second form", "nobody", []primitives.Action{&primitives.DelegateV2{Action: primitives.DelegateActionV2{ReceiverID: owner, Actions: []primitives.Action{deploys("new"), call}}}}, []string{"new"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				vm.requested, vm.done = nil, nil
				u := n.PendingCompilation(&primitives.SignedTransaction{Transaction: primitives.Transaction{ReceiverID: c.to, Actions: c.actions}})
				if len(vm.requested) > 0 {
					t.Errorf("%q are compiled before Warm", vm.requested)
				}
				if (u != nil) != (c.want != nil) {
					t.Fatalf("pending is %v, want %q", u != nil, c.want)
				}
				if u == nil {
					return
				}
				u.Warm()
				if !slices.Equal(vm.requested, c.want) {
					t.Errorf("%q are compiled, want %q", vm.requested, c.want)
				}
				vm.requested, vm.done = nil, nil
				done := make(chan struct{})
				go func() {
					defer close(done)
					u.Compile(nil)
				}()
				synctest.Wait()
				if !slices.Equal(vm.requested, c.want) {
					t.Errorf("%q are compiled and waited for, want %q", vm.requested, c.want)
				}
				for _, one := range slices.Backward(vm.done) {
					synctest.Wait()
					select {
					case <-done:
						t.Error("Compile returns before the last compilation")
					default:
					}
					close(one)
				}
				<-done
			})
		})
	}
	vm.ready = append(vm.ready, primitives.HashBytes([]byte("own")))
	if n.PendingCompilation(calls(owner)) != nil {
		t.Error("a contract that is compiled is not ready")
	}
}

// TestCompileReturnsWhenNothingIsPending: Compile returns exactly when the compiler has finished,
// the code has changed, or the caller gives up.
func TestCompileReturnsWhenNothingIsPending(t *testing.T) {
	begin := func(u *PendingCompilation, end <-chan struct{}) (done chan struct{}) {
		done = make(chan struct{})
		go func() {
			defer close(done)
			u.Compile(end)
		}()
		synctest.Wait()
		return done
	}
	ended := func(done chan struct{}) bool {
		synctest.Wait()
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
	for name, test := range map[string]func(t *testing.T, n *node, vm *compilerVM, u *PendingCompilation){
		"it has failed": func(t *testing.T, _ *node, vm *compilerVM, u *PendingCompilation) {
			done := begin(u, nil)
			vm.makeReady(false)
			if !ended(done) || len(vm.requested) != 1 {
				t.Errorf("it is requested for %q, and goes on", vm.requested)
			}
		},
		"the compiler has too much to do": func(t *testing.T, _ *node, vm *compilerVM, u *PendingCompilation) {
			vm.full = 3
			done := begin(u, nil)
			for range 3 {
				if ended(done) {
					t.Fatal("what the compiler did not take is let go")
				}
				time.Sleep(compileRetry)
				synctest.Wait()
			}
			vm.makeReady(true)
			if !ended(done) || len(vm.requested) != 4 {
				t.Errorf("it was requested for %d times, want 4", len(vm.requested))
			}
		},
		"the account has other code by then": func(t *testing.T, n *node, vm *compilerVM, u *PendingCompilation) {
			done := begin(u, nil)
			vm.ready = append(vm.ready, primitives.HashBytes([]byte("own")))
			was := vm.done[0]
			n.runActions(1, deploys("newer"))
			close(was)
			synctest.Wait()
			if got := vm.requested[len(vm.requested)-1]; ended(done) || got != "newer" {
				t.Fatalf("it has ended, or waits for %q", got)
			}
			vm.makeReady(true)
			if !ended(done) {
				t.Error("it waits for more")
			}
		},
		"the account is gone by then": func(t *testing.T, n *node, vm *compilerVM, u *PendingCompilation) {
			done := begin(u, nil)
			n.runActions(1, &primitives.DeleteAccount{Beneficiary: bare})
			if n.PendingCompilation(calls(owner)) != nil {
				t.Error("the account is still there")
			}
			vm.makeReady(false)
			if !ended(done) {
				t.Error("it waits for the code of nobody")
			}
		},
		"nobody waits any more": func(t *testing.T, _ *node, vm *compilerVM, u *PendingCompilation) {
			end := make(chan struct{})
			done := begin(u, end)
			close(end)
			if !ended(done) {
				t.Error("it waits on")
			}
		},
		"nobody waits any more for a compiler with too much to do": func(t *testing.T, _ *node, vm *compilerVM, u *PendingCompilation) {
			vm.full = 1 << 30
			end := make(chan struct{})
			done := begin(u, end)
			close(end)
			if !ended(done) {
				t.Error("it waits on")
			}
		},
		"it neither ends nor fails": func(t *testing.T, _ *node, _ *compilerVM, u *PendingCompilation) {
			done := begin(u, nil)
			time.Sleep(CompileWait - time.Second)
			if ended(done) {
				t.Error("the shard was untracked before the next sync point")
			}
			time.Sleep(time.Second)
			if !ended(done) {
				t.Error("it waits for ever")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, vm := pendingNode(t)
			synctest.Test(t, func(t *testing.T) {
				u := n.PendingCompilation(calls(owner))
				if u == nil {
					t.Fatal("a contract that is not compiled is ready")
				}
				t.Log(name)
				test(t, n, vm, u)
			})
		})
	}
}
