package fees

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// ErrOverflow is parameters.ErrOverflow, which wraps primitives.ErrOverflow.
var ErrOverflow = parameters.ErrOverflow

// part selects one of the three costs of a fee.
type part uint8

const (
	sendOther part = iota
	sendSelf
	exec
)

// of returns the cost of f that p selects.
func (p part) of(f *parameters.Fee) parameters.Cost {
	switch p {
	case exec:
		return f.Exec
	case sendSelf:
		return f.SendSIR
	}
	return f.SendNotSIR
}

func sendPart(senderIsReceiver bool) part {
	if senderIsReceiver {
		return sendSelf
	}
	return sendOther
}

// Send returns the cost of sending an action (one step of nearcore's total_send_fees,
// config.rs:71). The cost of a delegate action includes the cost of sending its inner actions to
// the inner receiver. senderIsReceiver compares the outer sender and receiver. As in nearcore, Send
// applies senderIsReceiver to the inner actions too.
func Send(c *parameters.RuntimeConfig, senderIsReceiver bool, a primitives.Action, receiver primitives.AccountID) (parameters.Cost, error) {
	p := sendPart(senderIsReceiver)
	if in, ok := delegated(a); ok {
		cost := p.of(c.Fees.Fee(parameters.ActionDelegate))
		inner, err := TotalSend(c, senderIsReceiver, in.actions, in.receiver)
		if err != nil {
			return parameters.Cost{}, err
		}
		return cost.Add(inner)
	}
	return flat(c, p, a, receiver)
}

// Exec returns the cost of executing an action (nearcore exec_fee, config.rs:279). The cost of a
// delegate action does not include the cost of its inner actions.
func Exec(c *parameters.RuntimeConfig, a primitives.Action, receiver primitives.AccountID) (parameters.Cost, error) {
	return flat(c, exec, a, receiver)
}

// flat returns the fee of an action without its inner actions. Only for gas keys do send and
// execution fees have different formulas.
func flat(c *parameters.RuntimeConfig, p part, a primitives.Action, receiver primitives.AccountID) (parameters.Cost, error) {
	fees := &c.Fees
	switch a := a.(type) {
	case *primitives.Transfer:
		return transfer(c, p, receiver)
	case *primitives.FunctionCall:
		n := uint64(len(a.Method)) + uint64(len(a.Args))
		return linear(fees, p, parameters.ActionFunctionCallBase, parameters.ActionFunctionCallByte, n)
	case *primitives.CreateAccount:
		return p.of(fees.Fee(parameters.ActionCreateAccount)), nil
	case *primitives.DeployContract:
		return linear(fees, p, parameters.ActionDeployContractBase, parameters.ActionDeployContractByte, uint64(len(a.Code)))
	case *primitives.Stake:
		return p.of(fees.Fee(parameters.ActionStake)), nil
	case *primitives.AddKey:
		return addKey(fees, p, a, receiver)
	case *primitives.DeleteKey:
		return p.of(fees.Fee(parameters.ActionDeleteKey)), nil
	case *primitives.DeleteAccount:
		return p.of(fees.Fee(parameters.ActionDeleteAccount)), nil
	case *primitives.Delegate, *primitives.DelegateV2:
		return p.of(fees.Fee(parameters.ActionDelegate)), nil
	case *primitives.DeployGlobalContract:
		return linear(fees, p, parameters.ActionDeployGlobalContractBase, parameters.ActionDeployGlobalContractByte, uint64(len(a.Code)))
	case *primitives.UseGlobalContract:
		return linear(fees, p, parameters.ActionUseGlobalContractBase, parameters.ActionUseGlobalContractByte, uint64(a.ID.Len()))
	case *primitives.DeterministicStateInit:
		return stateInit(fees, p, &a.Init)
	case *primitives.UniversalStateInit:
		return universalStateInit(fees, p, a.Init.Counts())
	case *primitives.TransferToGasKey:
		return gasKeyTransfer(fees, p, receiver, a.PublicKey)
	case *primitives.WithdrawFromGasKey:
		return gasKeyTransfer(fees, p, receiver, a.PublicKey)
	}
	panic(fmt.Sprintf("fees: no case for %T", a))
}

// linear returns base + n·perUnit.
func linear(fees *parameters.Fees, p part, base, perUnit parameters.ActionCost, n uint64) (parameters.Cost, error) {
	units, err := p.of(fees.Fee(perUnit)).Mul(n)
	if err != nil {
		return parameters.Cost{}, err
	}
	return p.of(fees.Fee(base)).Add(units)
}

// transfer returns the fee of a transfer (core/parameters/src/cost.rs:722). A transfer to an
// implicit id also pays for creating the account, even if the account exists. If the id is
// NEAR-implicit, the transfer also pays for adding the key.
func transfer(c *parameters.RuntimeConfig, p part, receiver primitives.AccountID) (parameters.Cost, error) {
	cost := p.of(c.Fees.Fee(parameters.ActionTransfer))
	kind := receiver.Kind(c.Version.Has(parameters.UniversalAccounts))
	if kind == primitives.NamedAccount || kind == primitives.EthImplicitAccount && !c.Wasm.EthImplicitAccounts {
		return cost, nil
	}
	cost, err := cost.Add(p.of(c.Fees.Fee(parameters.ActionCreateAccount)))
	if err != nil || kind != primitives.NearImplicitAccount {
		return cost, err
	}
	return cost.Add(p.of(c.Fees.Fee(parameters.ActionAddFullAccessKey)))
}

// stateInit counts the entries and the bytes of their keys and values. The code identifier is free.
func stateInit(fees *parameters.Fees, p part, s *primitives.StateInit) (parameters.Cost, error) {
	var bytes uint64 // all bytes are in memory, so the sum fits
	for i := range s.Data {
		bytes += uint64(len(s.Data[i].Key)) + uint64(len(s.Data[i].Value))
	}
	cost, err := linear(fees, p, parameters.ActionDeterministicStateInitBase, parameters.ActionDeterministicStateInitByte, bytes)
	if err != nil {
		return parameters.Cost{}, err
	}
	entries, err := p.of(fees.Fee(parameters.ActionDeterministicStateInitEntry)).Mul(uint64(len(s.Data)))
	if err != nil {
		return parameters.Cost{}, err
	}
	return cost.Add(entries)
}

// universalStateInit counts the bytes, entries and keys of the state init. Each key costs what adding
// a full-access key costs (near-parameters 0.38.0 src/cost.rs:958).
func universalStateInit(fees *parameters.Fees, p part, n primitives.StateInitCounts) (parameters.Cost, error) {
	sum := p.of(fees.Fee(parameters.ActionUniversalStateInitBase))
	for _, term := range [...]struct {
		cost parameters.ActionCost
		n    uint64
	}{
		{parameters.ActionUniversalStateInitByte, n.Bytes},
		{parameters.ActionUniversalStateInitEntry, n.Entries},
		{parameters.ActionAddFullAccessKey, n.Keys},
	} {
		cost, err := p.of(fees.Fee(term.cost)).Mul(term.n)
		if err != nil {
			return parameters.Cost{}, err
		}
		if sum, err = sum.Add(cost); err != nil {
			return parameters.Cost{}, err
		}
	}
	return sum, nil
}

// addKey returns the fee of a full-access or function-call key. A gas key adds the fees of its
// balance and nonces.
func addKey(fees *parameters.Fees, p part, a *primitives.AddKey, receiver primitives.AccountID) (parameters.Cost, error) {
	cost := p.of(fees.Fee(parameters.ActionAddFullAccessKey))
	if perm := a.AccessKey.FunctionCall; perm != nil {
		var n uint64
		for _, name := range perm.MethodNames {
			n += uint64(len(name)) + 1 // each name counts with a terminating zero
		}
		var err error
		cost, err = linear(fees, p, parameters.ActionAddFunctionCallKeyBase, parameters.ActionAddFunctionCallKeyByte, n)
		if err != nil {
			return parameters.Cost{}, err
		}
	}
	if a.AccessKey.GasKey == nil {
		return cost, nil
	}
	var extra GasKeyFee
	var err error
	if p == exec {
		extra, err = GasKeyAddExec(fees, len(receiver), a.PublicKey.TrieIDLen(), a.AccessKey.GasKey.NumNonces)
	} else {
		extra.PerByte, err = GasKeyAddSend(fees, p == sendSelf)
	}
	if err != nil {
		return parameters.Cost{}, err
	}
	if cost, err = cost.Add(extra.Base); err != nil {
		return parameters.Cost{}, err
	}
	return cost.Add(extra.PerByte)
}

func gasKeyTransfer(fees *parameters.Fees, p part, receiver primitives.AccountID, key primitives.PublicKey) (parameters.Cost, error) {
	var f GasKeyFee
	var err error
	if p == exec {
		f, err = GasKeyTransferExec(fees, len(receiver), key.TrieIDLen())
	} else {
		f, err = GasKeyTransferSend(fees, p == sendSelf, key.TrieIDLen())
	}
	if err != nil {
		return parameters.Cost{}, err
	}
	return f.Base.Add(f.PerByte)
}

// inner is the part of a delegate action, of either version, that fees depend on.
type inner struct {
	sender, receiver primitives.AccountID
	actions          []primitives.Action
	key              primitives.PublicKey
}

// delegated returns the inner part of a delegate action; ok is false for other actions.
func delegated(a primitives.Action) (in inner, ok bool) {
	if v1, ok := a.(*primitives.Delegate); ok {
		d := &v1.Action
		return inner{d.SenderID, d.ReceiverID, d.Actions, d.PublicKey}, true
	}
	if v2, ok := a.(*primitives.DelegateV2); ok {
		d := &v2.Action
		return inner{d.SenderID, d.ReceiverID, d.Actions, d.PublicKey}, true
	}
	return inner{}, false
}
