package refmodel

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
)

// EthWallet is the code hash of the wallet contract of ETH-implicit accounts. The model never
// deploys that code.
var EthWallet = func() primitives.Hash {
	h, err := primitives.ParseHash("FAq9tQRbwJPTV3PQLn2F7AUD3FW2Fw1V8ZeZuazfeu1v")
	if err != nil {
		panic(err)
	}
	return h
}()

// Versions of code. Contracts of versions 0 to Versions-1 are identical, except that their method
// named "which" returns the version. Broken is the version of bytes that are not a contract. Newest
// is the version of a contract that needs the host functions of protocol 88.
const (
	Versions = 5
	Broken   = Versions
	Newest   = Versions + 1
)

// Code returns the code of a version.
func Code(version byte) []byte { return codes()[version] }

var codes = sync.OnceValue(func() (list [][]byte) {
	for n := range byte(Versions) {
		list = append(list, contracts.Version(n))
	}
	return append(list, []byte("no contract"), contracts.NewestVersion(Newest))
})

func versionOf(code []byte) byte {
	for n, c := range codes() {
		if bytes.Equal(c, code) {
			return byte(n)
		}
	}
	panic(fmt.Sprintf("rules: %d bytes of unknown code", len(code)))
}

// Program is what a contract's method run does; for Newest, also the method run88.
type Program struct {
	Steps []Step
	Trap  bool // true: the program ends with a trap
}

// Step writes an entry of contract data, or creates a promise.
type Step struct {
	Key, Value string
	To         primitives.AccountID // receiver of the promise; empty: the step writes a state entry instead
	// Derived means that the contract derives To from the state init in the first action. Only
	// run88 can do so.
	Derived bool
	Actions []primitives.Action
}

// derivedID is the register into which a contract derives an account id. Programs write nothing
// else to the register.
const derivedID = 7

// Bytes encodes the program as the input of the contract.
func (p *Program) Bytes() []byte {
	var c contracts.Program
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.To == "" {
			c.Call("storage_write", s.Key, s.Value, 1)
			continue
		}
		var batch contracts.Result
		if s.Derived {
			init := s.Actions[0].(*primitives.UniversalStateInit).Init
			c.Call("universal_state_init_to_account_id", []byte(init), derivedID)
			batch = c.Call("promise_batch_create", uint64(math.MaxUint64), derivedID)
		} else {
			batch = c.Call("promise_batch_create", string(s.To))
		}
		for _, a := range s.Actions {
			promise(&c, batch, a)
		}
	}
	if p.Trap {
		c.Trap()
	}
	return c.Bytes()
}

// promise appends to c the host call that adds an action to a promise batch.
func promise(c *contracts.Program, batch contracts.Result, a primitives.Action) {
	const name = "promise_batch_action_"
	switch a := a.(type) {
	case *primitives.CreateAccount:
		c.Call(name+"create_account", batch)
	case *primitives.DeployContract:
		c.Call(name+"deploy_contract", batch, a.Code)
	case *primitives.DeployGlobalContract:
		if a.Mode == primitives.GlobalByCodeHash {
			c.Call(name+"deploy_global_contract", batch, a.Code)
		} else {
			c.Call(name+"deploy_global_contract_by_account_id", batch, a.Code)
		}
	case *primitives.UseGlobalContract:
		if a.ID.Account == "" {
			c.Call(name+"use_global_contract", batch, a.ID.Hash[:])
		} else {
			c.Call(name+"use_global_contract_by_account_id", batch, string(a.ID.Account))
		}
	case *primitives.DeterministicStateInit:
		deposit := contracts.Amount(a.Deposit)
		var at contracts.Result
		if a.Init.Code.Account == "" {
			at = c.Call(name+"state_init", batch, a.Init.Code.Hash[:], deposit)
		} else {
			at = c.Call(name+"state_init_by_account_id", batch, string(a.Init.Code.Account), deposit)
		}
		for _, e := range a.Init.Data {
			c.Call("set_state_init_data_entry", batch, at, e.Key, e.Value)
		}
	case *primitives.UniversalStateInit:
		c.Call(name+"universal_state_init", batch, []byte(a.Init), contracts.Amount(a.Deposit))
	case *primitives.FunctionCall:
		c.Call(name+"function_call", batch, a.Method, a.Args, contracts.Amount(a.Deposit), uint64(a.Gas))
	case *primitives.Transfer:
		c.Call(name+"transfer", batch, contracts.Amount(a.Deposit))
	case *primitives.AddKey:
		if a.AccessKey.GasKey != nil {
			c.Call(name+"add_gas_key_with_full_access", batch, []byte(a.PublicKey), uint64(a.AccessKey.GasKey.NumNonces))
		} else {
			c.Call(name+"add_key_with_full_access", batch, []byte(a.PublicKey), 0)
		}
	case *primitives.DeleteKey:
		c.Call(name+"delete_key", batch, []byte(a.PublicKey))
	case *primitives.DeleteAccount:
		c.Call(name+"delete_account", batch, string(a.Beneficiary))
	case *primitives.TransferToGasKey:
		c.Call(name+"transfer_to_gas_key", batch, []byte(a.PublicKey), contracts.Amount(a.Deposit))
	case *primitives.Stake, *primitives.Delegate, *primitives.DelegateV2, *primitives.WithdrawFromGasKey:
		panic(fmt.Sprintf("rules: no promise of %T", a))
	}
}

// call executes a function call. It looks up the code first, then the method.
func (x *receipt) call(a *primitives.FunctionCall) *failure {
	fail := func(e primitives.FunctionCallError) *failure {
		return &failure{Tag: primitives.ActionFunctionCallError, FunctionCall: &e}
	}
	version, found := x.code()
	switch {
	case !found:
		return fail(primitives.FunctionCallError{Tag: primitives.CallCompilation, Compilation: &primitives.CompilationError{
			Tag: primitives.CompilationCodeDoesNotExist, AccountID: x.r.ReceiverID,
		}})
	case a.Method == "":
		return fail(primitives.FunctionCallError{Tag: primitives.CallMethodResolve, Method: primitives.MethodEmptyName})
	case version == Broken:
		return fail(primitives.FunctionCallError{Tag: primitives.CallCompilation, Compilation: &primitives.CompilationError{
			Tag: primitives.CompilationPrepare, Prepare: primitives.PrepareDeserialization,
		}})
	}
	if version == Newest && x.Rules < 88 {
		return fail(primitives.FunctionCallError{Tag: primitives.CallExecution, Message: "Link Error: unknown or invalid import"})
	}
	method := a.Method
	if method == "run88" && version == Newest {
		method = "run"
	}
	switch method {
	case "which":
		x.value = []byte{version}
	case "noop":
	case "div0":
		return fail(trap("An arithmetic exception, e.g. divided by zero."))
	case "run":
		p := x.Programs[string(a.Args)]
		if p == nil {
			panic("rules: an unknown program")
		}
		return x.run(p, a, fail)
	default:
		return fail(primitives.FunctionCallError{Tag: primitives.CallMethodResolve, Method: primitives.MethodNotFound})
	}
	x.account.Amount = more(x.account.Amount, a.Deposit)
	return nil
}

func trap(text string) primitives.FunctionCallError {
	return primitives.FunctionCallError{Tag: primitives.CallExecution, Message: "WebAssembly trap: " + text}
}

// code returns the version of the account's code. found is false if the code does not exist.
func (x *receipt) code() (version byte, found bool) {
	c := &x.account.Contract
	hash := c.Hash
	switch c.Kind {
	case primitives.ContractNone:
		return 0, false
	case primitives.ContractGlobalAccount:
		hash = primitives.HashBytes(x.Global[primitives.GlobalContractID{Account: c.Account}])
	case primitives.ContractLocal, primitives.ContractGlobalHash:
	}
	k, found := x.known[hash]
	if k.fresh {
		x.Fresh++
	}
	return k.version, found
}

// run executes a program. If run fails, the caller must revert the world.
func (x *receipt) run(p *Program, a *primitives.FunctionCall, fail func(primitives.FunctionCallError) *failure) *failure {
	amount := more(x.account.Amount, a.Deposit)
	var made []*primitives.Receipt
	var register primitives.AccountID // content of register derivedID; empty: not set
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.To == "" {
			old, there := x.account.Data[s.Key]
			if x.account.Usage += uint64(len(s.Value)); there {
				x.account.Usage -= uint64(len(old))
			} else {
				x.account.Usage += uint64(len(s.Key)) + bytesOfRecord
			}
			x.account.Data[s.Key] = s.Value
			continue
		}
		to := s.To
		if s.Derived { // bytes that are not a canonical state init leave the register unchanged
			if init := s.Actions[0].(*primitives.UniversalStateInit).Init; isCanonical(init) {
				register = universalID(init)
			}
			if to = register; to == "" {
				text := fmt.Sprintf("Accessed invalid register id: %d", derivedID)
				return fail(primitives.FunctionCallError{Tag: primitives.CallExecution, Message: text})
			}
		}
		for _, a := range s.Actions {
			text := ""
			if f, ok := a.(*primitives.FunctionCall); ok && f.Method == "" {
				text = "Tried to call an empty method name."
			} else if paid := deposits([]primitives.Action{a}); amount.Less(paid) {
				text = "Exceeded the account balance."
			} else {
				amount = less(amount, paid)
			}
			if text != "" {
				return fail(primitives.FunctionCallError{Tag: primitives.CallExecution, Message: text})
			}
		}
		made = append(made, &primitives.Receipt{PredecessorID: x.r.ReceiverID, ReceiverID: to, Body: &primitives.ActionReceipt{
			SignerID: x.b.SignerID, SignerPublicKey: x.b.SignerPublicKey, Actions: s.Actions, V2: true,
		}})
	}
	if p.Trap {
		return fail(trap("An `unreachable` opcode was executed."))
	}
	for i := range p.Steps {
		x.notePromised(&p.Steps[i])
	}
	x.account.Amount = amount
	x.made = append(x.made, made...)
	return nil
}

// notePromised counts the state inits among the actions of a promise, by kind, in Promised.
func (x *receipt) notePromised(s *Step) {
	for _, a := range s.Actions {
		switch a := a.(type) {
		case *primitives.DeterministicStateInit:
			x.Promised["deterministic"]++
		case *primitives.UniversalStateInit:
			switch {
			case !isCanonical(a.Init):
				x.Promised["malformed"]++
			case universalID(a.Init) != s.To:
				x.Promised["wrong receiver"]++
			case s.Derived:
				x.Promised["derived"]++
			default:
				x.Promised["universal"]++
			}
		default: // the remaining actions create no account
		}
	}
}

// String describes a program.
func (p *Program) String() string {
	var b strings.Builder
	for i := range p.Steps {
		if s := &p.Steps[i]; s.To == "" {
			fmt.Fprintf(&b, "write %s; ", s.Key)
		} else {
			fmt.Fprintf(&b, "promise %s (derived %t): %s; ", s.To, s.Derived, Actions(s.Actions))
		}
	}
	if p.Trap {
		b.WriteString("trap")
	}
	return b.String()
}

// Actions describes actions briefly.
func Actions(actions []primitives.Action) string {
	var list []string
	for _, a := range actions {
		text := strings.TrimPrefix(fmt.Sprintf("%T", a), "*primitives.")
		switch a := a.(type) {
		case *primitives.DeployContract:
			text += fmt.Sprintf(" %d", versionOf(a.Code))
		case *primitives.DeployGlobalContract:
			text += fmt.Sprintf(" %d mode %d", versionOf(a.Code), a.Mode)
		case *primitives.UseGlobalContract:
			text += " " + globalName(a.ID)
		case *primitives.DeterministicStateInit:
			text += fmt.Sprintf(" %s, %v", globalName(a.Init.Code), a.Deposit)
		case *primitives.UniversalStateInit:
			text += fmt.Sprintf(" %s, %v", initName(a.Init), a.Deposit)
		case *primitives.FunctionCall:
			text += fmt.Sprintf(" %s, %v", a.Method, a.Deposit)
		case *primitives.Transfer:
			text += fmt.Sprintf(" %v", a.Deposit)
		case *primitives.Delegate:
			text += fmt.Sprintf(" %s to %s: [%s]", a.Action.SenderID, a.Action.ReceiverID, Actions(a.Action.Actions))
		case *primitives.DelegateV2:
			text += fmt.Sprintf(" %s to %s: [%s]", a.Action.SenderID, a.Action.ReceiverID, Actions(a.Action.Actions))
		default: // an error of another kind is described by its type name
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

func globalName(id primitives.GlobalContractID) string {
	if id.Account != "" {
		return "of " + string(id.Account)
	}
	for n, c := range codes() {
		if primitives.HashBytes(c) == id.Hash {
			return fmt.Sprintf("version %d", n)
		}
	}
	return id.Hash.String()
}
