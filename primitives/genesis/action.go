package genesis

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
)

// Actions in the raw form of records (serde of nearcore's Action, not the RPC's ActionView).

func (c *cursor) actions() (out []primitives.Action) {
	c.array(func() { out = append(out, c.action(true)) })
	return out
}

// action reads {"Name": {...}}. If delegates is false, delegate actions are refused.
func (c *cursor) action(delegates bool) (a primitives.Action) {
	c.variant("Action", func(name string, bare bool) bool {
		if bare {
			return false
		}
		switch name {
		case "CreateAccount":
			a = new(primitives.CreateAccount)
			c.members()
		case "DeployContract":
			x := new(primitives.DeployContract)
			a = x
			c.members(field("code", set(&x.Code, c.base64)))
		case "FunctionCall":
			x := new(primitives.FunctionCall)
			a = x
			c.members(field("method_name", func() { x.Method = string(c.str()) }), field("args", set(&x.Args, c.base64)),
				field("gas", setUint(c, &x.Gas)), field("deposit", set(&x.Deposit, c.balance)))
		case "Transfer":
			x := new(primitives.Transfer)
			a = x
			c.members(field("deposit", set(&x.Deposit, c.balance)))
		case "Stake":
			x := new(primitives.Stake)
			a = x
			c.members(field("stake", set(&x.Stake, c.balance)), field("public_key", set(&x.PublicKey, c.key)))
		case "AddKey":
			x := new(primitives.AddKey)
			a = x
			c.members(field("public_key", set(&x.PublicKey, c.key)), field("access_key", set(&x.AccessKey, c.accessKey)))
		case "DeleteKey":
			x := new(primitives.DeleteKey)
			a = x
			c.members(field("public_key", set(&x.PublicKey, c.key)))
		case "DeleteAccount":
			x := new(primitives.DeleteAccount)
			a = x
			c.members(field("beneficiary_id", set(&x.Beneficiary, c.account)))
		case "DeployGlobalContract":
			x := new(primitives.DeployGlobalContract)
			a = x
			c.members(field("code", set(&x.Code, c.base64)), field("deploy_mode", set(&x.Mode, c.deployMode)))
		case "UseGlobalContract":
			x := new(primitives.UseGlobalContract)
			a = x
			c.members(field("contract_identifier", set(&x.ID, c.globalContract)))
		case "DeterministicStateInit":
			x := new(primitives.DeterministicStateInit)
			a = x
			c.members(field("state_init", set(&x.Init, c.stateInit)), field("deposit", set(&x.Deposit, c.balance)))
		case "UniversalStateInit":
			x := new(primitives.UniversalStateInit)
			a = x
			c.members(field("state_init", func() { x.Init = c.base64() }), field("deposit", set(&x.Deposit, c.balance)))
		case "TransferToGasKey":
			x := new(primitives.TransferToGasKey)
			a = x
			c.members(field("public_key", set(&x.PublicKey, c.key)), field("deposit", set(&x.Deposit, c.balance)))
		case "WithdrawFromGasKey":
			x := new(primitives.WithdrawFromGasKey)
			a = x
			c.members(field("public_key", set(&x.PublicKey, c.key)), field("amount", set(&x.Amount, c.balance)))
		case "Delegate", "DelegateV2":
			if !delegates {
				c.failf("a delegate action holds another")
				return true
			}
			a = c.delegate(name == "DelegateV2")
		default:
			return false
		}
		return true
	})
	return a
}

func (c *cursor) deployMode() (m primitives.GlobalDeployMode) {
	c.variant("GlobalContractDeployMode", func(name string, bare bool) bool {
		switch {
		case !bare:
			return false
		case name == "CodeHash":
			m = primitives.GlobalByCodeHash
		case name == "AccountId":
			m = primitives.GlobalByAccountID
		default:
			return false
		}
		return true
	})
	return m
}

func (c *cursor) stateInit() (s primitives.StateInit) {
	c.variant("DeterministicAccountStateInit", func(name string, bare bool) bool {
		if bare || name != "V1" {
			return false
		}
		c.members(field("code", set(&s.Code, c.globalContract)), field("data", set(&s.Data, c.stateEntries)))
		return true
	})
	return s
}

// stateEntries reads a map from base64 to base64. The result is sorted by key. Of equal keys the
// last counts, as in Rust.
func (c *cursor) stateEntries() (out []primitives.StateEntry) {
	c.object(func(key []byte) bool {
		k := cursor{b: primitives.AppendJSONString(nil, string(key))}
		e := primitives.StateEntry{Key: k.base64()}
		if k.err != nil {
			c.fail(k.err)
			return true
		}
		e.Value = c.field(string(key)).base64()
		i, found := slices.BinarySearchFunc(out, e, func(a, b primitives.StateEntry) int { return slices.Compare(a.Key, b.Key) })
		if found {
			out[i] = e
		} else {
			out = slices.Insert(out, i, e)
		}
		return true
	})
	return out
}

// delegate reads a Delegate action, or a DelegateV2 action if v2 is set. The two differ in the
// nonce, and V2's payload is wrapped in an enum.
func (c *cursor) delegate(v2 bool) primitives.Action {
	var d primitives.DelegateActionV2
	var sig primitives.Signature
	nonce := func() { d.Nonce.Nonce = primitives.Nonce(c.uint(64)) }
	if v2 {
		nonce = set(&d.Nonce, c.transactionNonce)
	}
	payload := func() {
		c.members(
			field("sender_id", set(&d.SenderID, c.account)),
			field("receiver_id", set(&d.ReceiverID, c.account)),
			field("actions", func() { c.array(func() { d.Actions = append(d.Actions, c.action(false)) }) }),
			field("nonce", nonce),
			field("max_block_height", setUint(c, &d.MaxBlockHeight)),
			field("public_key", set(&d.PublicKey, c.key)),
		)
	}
	c.members(
		field("signature", set(&sig, c.signature)),
		field("delegate_action", func() {
			if !v2 {
				payload()
				return
			}
			c.variant("VersionedDelegateActionPayload", func(name string, bare bool) bool {
				if bare || name != "V2" {
					return false
				}
				payload()
				return true
			})
		}),
	)
	if v2 {
		return &primitives.DelegateV2{Action: d, Signature: sig}
	}
	return &primitives.Delegate{Signature: sig, Action: primitives.DelegateAction{
		SenderID: d.SenderID, ReceiverID: d.ReceiverID, Actions: d.Actions, Nonce: d.Nonce.Nonce,
		MaxBlockHeight: d.MaxBlockHeight, PublicKey: d.PublicKey,
	}}
}

func (c *cursor) transactionNonce() (n primitives.TransactionNonce) {
	c.variant("TransactionNonce", func(name string, bare bool) bool {
		switch {
		case bare:
			return false
		case name == "Nonce":
			c.members(field("nonce", setUint(c, &n.Nonce)))
		case name == "GasKeyNonce":
			n.HasIndex = true
			c.members(field("nonce", setUint(c, &n.Nonce)), field("nonce_index", setUint(c, &n.Index)))
		default:
			return false
		}
		return true
	})
	return n
}

// actionNames are the variants of Action by tag.
var actionNames = [...]string{"CreateAccount", "DeployContract", "FunctionCall", "Transfer", "Stake", "AddKey", "DeleteKey",
	"DeleteAccount", "Delegate", "DeployGlobalContract", "UseGlobalContract", "DeterministicStateInit", "TransferToGasKey",
	"WithdrawFromGasKey", "DelegateV2", "UniversalStateInit"}

func appendAction(b []byte, a primitives.Action) []byte {
	b = append(append(append(b, `{"`...), actionNames[a.Tag()]...), `":`...)
	switch a := a.(type) {
	case *primitives.CreateAccount:
		b = append(b, '{')
	case *primitives.DeployContract:
		b = appendBase64(b, `{"code":`, a.Code)
	case *primitives.FunctionCall:
		b = appendBase64(appendText(b, `{"method_name":`, a.Method), `,"args":`, a.Args)
		b = appendAmount(appendUint(b, `,"gas":`, uint64(a.Gas)), `,"deposit":`, a.Deposit)
	case *primitives.Transfer:
		b = appendAmount(b, `{"deposit":`, a.Deposit)
	case *primitives.Stake:
		b = appendText(appendAmount(b, `{"stake":`, a.Stake), `,"public_key":`, a.PublicKey.String())
	case *primitives.AddKey:
		b = appendText(b, `{"public_key":`, a.PublicKey.String())
		b = appendAccessKey(append(b, `,"access_key":`...), &a.AccessKey)
	case *primitives.DeleteKey:
		b = appendText(b, `{"public_key":`, a.PublicKey.String())
	case *primitives.DeleteAccount:
		b = appendText(b, `{"beneficiary_id":`, string(a.Beneficiary))
	case *primitives.DeployGlobalContract:
		mode := "CodeHash"
		if a.Mode == primitives.GlobalByAccountID {
			mode = "AccountId"
		}
		b = appendText(appendBase64(b, `{"code":`, a.Code), `,"deploy_mode":`, mode)
	case *primitives.UseGlobalContract:
		b = a.ID.AppendJSON(append(b, `{"contract_identifier":`...))
	case *primitives.DeterministicStateInit:
		b = a.Init.Code.AppendJSON(append(b, `{"state_init":{"V1":{"code":`...))
		b = append(b, `,"data":{`...)
		for i, e := range a.Init.Data {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendBase64(append(appendBase64(b, "", e.Key), ':'), "", e.Value)
		}
		b = appendAmount(b, `}}},"deposit":`, a.Deposit)
	case *primitives.UniversalStateInit:
		b = appendAmount(appendBase64(b, `{"state_init":`, a.Init), `,"deposit":`, a.Deposit)
	case *primitives.TransferToGasKey:
		b = appendAmount(appendText(b, `{"public_key":`, a.PublicKey.String()), `,"deposit":`, a.Deposit)
	case *primitives.WithdrawFromGasKey:
		b = appendAmount(appendText(b, `{"public_key":`, a.PublicKey.String()), `,"amount":`, a.Amount)
	case *primitives.Delegate:
		d := &a.Action
		b = appendDelegateHead(append(b, `{"delegate_action":`...), d.SenderID, d.ReceiverID, d.Actions)
		b = appendUint(b, `,"nonce":`, uint64(d.Nonce))
		b = appendDelegateTail(b, d.MaxBlockHeight, d.PublicKey)
		b = appendText(b, `,"signature":`, a.Signature.String())
	case *primitives.DelegateV2:
		d := &a.Action
		b = appendDelegateHead(append(b, `{"delegate_action":{"V2":`...), d.SenderID, d.ReceiverID, d.Actions)
		if d.Nonce.HasIndex {
			b = appendUint(b, `,"nonce":{"GasKeyNonce":{"nonce":`, uint64(d.Nonce.Nonce))
			b = appendUint(b, `,"nonce_index":`, uint64(d.Nonce.Index))
		} else {
			b = appendUint(b, `,"nonce":{"Nonce":{"nonce":`, uint64(d.Nonce.Nonce))
		}
		b = appendDelegateTail(append(b, "}}"...), d.MaxBlockHeight, d.PublicKey)
		b = appendText(append(b, '}'), `,"signature":`, a.Signature.String())
	default:
		panic(fmt.Sprintf("genesis: no JSON form of action %T", a))
	}
	return append(b, "}}"...)
}

func appendDelegateHead(b []byte, sender, receiver primitives.AccountID, actions []primitives.Action) []byte {
	b = appendText(appendText(b, `{"sender_id":`, string(sender)), `,"receiver_id":`, string(receiver))
	return appendList(b, `,"actions":`, actions, appendAction)
}

func appendDelegateTail(b []byte, maxHeight primitives.Height, key primitives.PublicKey) []byte {
	b = strconv.AppendUint(append(b, `,"max_block_height":`...), uint64(maxHeight), 10)
	return append(appendText(b, `,"public_key":`, key.String()), '}')
}
