package stream

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// nearcore's structs (core/primitives/src/views.rs and what it contains in raw form) as
// encoding/json writes them, member by member in their order: a second encoder, independent of
// package view and of the table of orders.

type member struct {
	name  string
	value any
}

// object is a struct; a member whose value is absent is left out.
type object []member

type absent struct{}

func (o object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for _, m := range o {
		if m.value == (absent{}) {
			continue
		}
		value, err := mirrored(m.value)
		if err != nil {
			return nil, err
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		name, err := mirrored(m.name)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, name...), ':'), value...)
	}
	return append(b, '}'), nil
}

// mirrored is encoding/json's text, without escapes of HTML and of the two line separators, as in
// serde.
func mirrored(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	var out []byte
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' {
			if rest := string(text[i:min(len(text), i+6)]); rest == `\u2028` || rest == `\u2029` {
				out = append(out, string(rune(0x2028+int(rest[5]-'8')))...)
				i += 5
				continue
			}
			out = append(out, text[i])
			i++
		}
		out = append(out, text[i])
	}
	return out, nil
}

func variant(name string, members ...member) any { return object{{name, object(members)}} }

func tokens(b primitives.Balance) string {
	x := new(big.Int).SetUint64(b.Hi)
	return x.Lsh(x, 64).Add(x, new(big.Int).SetUint64(b.Lo)).String()
}

func b64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

func hashOf(code []byte) string {
	h := primitives.HashBytes(code)
	return b64(h[:])
}

func listOf[T any](all []T, one func(*T) any) []any {
	out := []any{}
	for i := range all {
		out = append(out, one(&all[i]))
	}
	return out
}

func texts(hs []primitives.Hash) []any {
	return listOf(hs, func(h *primitives.Hash) any { return h.String() })
}

func keyText(k primitives.PublicKey) string {
	text, err := k.MarshalText()
	if err != nil {
		panic(err)
	}
	return string(text)
}

func identifier(id *primitives.GlobalContractID) any {
	if id.Account != "" {
		return object{{"account_id", string(id.Account)}}
	}
	return object{{"hash", id.Hash.String()}}
}

// permission is that of a key: as a view, in which both parts are one struct, or raw, in which they
// are a list.
func permission(k *primitives.AccessKey, raw bool) any {
	var call, gas object
	if f := k.FunctionCall; f != nil {
		var allowance any
		if f.Allowance != nil {
			allowance = tokens(*f.Allowance)
		}
		names := []string{}
		call = object{{"allowance", allowance}, {"receiver_id", f.ReceiverID}, {"method_names", append(names, f.MethodNames...)}}
	}
	if g := k.GasKey; g != nil {
		gas = object{{"balance", tokens(g.Balance)}, {"num_nonces", g.NumNonces}}
	}
	switch {
	case call != nil && gas != nil && raw:
		return object{{"GasKeyFunctionCall", []any{gas, call}}}
	case call != nil && gas != nil:
		return object{{"GasKeyFunctionCall", slices.Concat(gas, call)}}
	case call != nil:
		return object{{"FunctionCall", call}}
	case gas != nil:
		return object{{"GasKeyFullAccess", gas}}
	}
	return "FullAccess"
}

func accessKeyOf(k *primitives.AccessKey, raw bool) any {
	return object{{"nonce", uint64(k.Nonce)}, {"permission", permission(k, raw)}}
}

func stateData(data []primitives.StateEntry) any {
	data = slices.Clone(data)
	// A BTreeMap of bytes.
	slices.SortFunc(data, func(x, y primitives.StateEntry) int { return bytes.Compare(x.Key, y.Key) })
	out := object{}
	for _, e := range data {
		out = append(out, member{b64(e.Key), b64(e.Value)})
	}
	return out
}

// actionOf is ActionView, or raw the Action within a delegate action.
func actionOf(a primitives.Action, raw bool) any {
	switch a := a.(type) {
	case *primitives.CreateAccount:
		if raw {
			return variant("CreateAccount")
		}
		return "CreateAccount"
	case *primitives.DeployContract:
		if raw {
			return variant("DeployContract", member{"code", b64(a.Code)})
		}
		return variant("DeployContract", member{"code", hashOf(a.Code)})
	case *primitives.FunctionCall:
		return variant("FunctionCall", member{"method_name", a.Method}, member{"args", b64(a.Args)}, member{"gas", uint64(a.Gas)}, member{"deposit", tokens(a.Deposit)})
	case *primitives.Transfer:
		return variant("Transfer", member{"deposit", tokens(a.Deposit)})
	case *primitives.Stake:
		return variant("Stake", member{"stake", tokens(a.Stake)}, member{"public_key", keyText(a.PublicKey)})
	case *primitives.AddKey:
		return variant("AddKey", member{"public_key", keyText(a.PublicKey)}, member{"access_key", accessKeyOf(&a.AccessKey, raw)})
	case *primitives.DeleteKey:
		return variant("DeleteKey", member{"public_key", keyText(a.PublicKey)})
	case *primitives.DeleteAccount:
		return variant("DeleteAccount", member{"beneficiary_id", string(a.Beneficiary)})
	case *primitives.Delegate:
		d := &a.Action
		return variant("Delegate", member{"delegate_action", object{{"sender_id", string(d.SenderID)}, {"receiver_id", string(d.ReceiverID)}, {"actions", actionsOf(d.Actions, true)},
			{"nonce", uint64(d.Nonce)}, {"max_block_height", uint64(d.MaxBlockHeight)}, {"public_key", keyText(d.PublicKey)}}}, member{"signature", a.Signature.String()})
	case *primitives.DelegateV2:
		d := &a.Action
		nonce := variant("Nonce", member{"nonce", uint64(d.Nonce.Nonce)})
		if d.Nonce.HasIndex {
			nonce = variant("GasKeyNonce", member{"nonce", uint64(d.Nonce.Nonce)}, member{"nonce_index", d.Nonce.Index})
		}
		return variant("DelegateV2", member{"delegate_action", variant("V2", member{"sender_id", string(d.SenderID)}, member{"receiver_id", string(d.ReceiverID)}, member{"actions", actionsOf(d.Actions, true)},
			member{"nonce", nonce}, member{"max_block_height", uint64(d.MaxBlockHeight)}, member{"public_key", keyText(d.PublicKey)})}, member{"signature", a.Signature.String()})
	case *primitives.DeployGlobalContract:
		name, mode := "DeployGlobalContract", "CodeHash"
		if a.Mode == primitives.GlobalByAccountID {
			name, mode = "DeployGlobalContractByAccountId", "AccountId"
		}
		if raw {
			return variant("DeployGlobalContract", member{"code", b64(a.Code)}, member{"deploy_mode", mode})
		}
		return variant(name, member{"code", hashOf(a.Code)})
	case *primitives.UseGlobalContract:
		switch {
		case raw:
			return variant("UseGlobalContract", member{"contract_identifier", identifier(&a.ID)})
		case a.ID.Account != "":
			return variant("UseGlobalContractByAccountId", member{"account_id", string(a.ID.Account)})
		}
		return variant("UseGlobalContract", member{"code_hash", a.ID.Hash.String()})
	case *primitives.DeterministicStateInit:
		if raw {
			return variant("DeterministicStateInit", member{"state_init", variant("V1", member{"code", identifier(&a.Init.Code)}, member{"data", stateData(a.Init.Data)})}, member{"deposit", tokens(a.Deposit)})
		}
		return variant("DeterministicStateInit", member{"code", identifier(&a.Init.Code)}, member{"data", stateData(a.Init.Data)}, member{"deposit", tokens(a.Deposit)})
	case *primitives.UniversalStateInit:
		return variant("UniversalStateInit", member{"state_init", b64(a.Init)}, member{"deposit", tokens(a.Deposit)})
	case *primitives.TransferToGasKey:
		return variant("TransferToGasKey", member{"public_key", keyText(a.PublicKey)}, member{"deposit", tokens(a.Deposit)})
	case *primitives.WithdrawFromGasKey:
		return variant("WithdrawFromGasKey", member{"public_key", keyText(a.PublicKey)}, member{"amount", tokens(a.Amount)})
	}
	panic(fmt.Sprintf("%T", a))
}

func actionsOf(as []primitives.Action, raw bool) []any {
	return listOf(as, func(a *primitives.Action) any { return actionOf(*a, raw) })
}

func transactionOf(t *primitives.SignedTransaction) any {
	index, mode := any(absent{}), any(absent{})
	if t.Nonce.HasIndex {
		index = t.Nonce.Index
	}
	if t.NonceMode == primitives.NonceStrict {
		mode = "strict"
	}
	hash := t.Hash()
	return object{{"signer_id", string(t.SignerID)}, {"public_key", keyText(t.PublicKey)}, {"nonce", uint64(t.Nonce.Nonce)}, {"receiver_id", string(t.ReceiverID)}, {"actions", actionsOf(t.Actions, false)},
		{"priority_fee", 0}, {"signature", t.Signature.String()}, {"hash", hash.String()}, {"nonce_index", index}, {"nonce_mode", mode}}
}

func receiptOf(r *primitives.Receipt) any {
	var body any
	switch x := r.Body.(type) {
	case *primitives.ActionReceipt:
		refund := any(absent{})
		if x.RefundTo != "" {
			refund = string(x.RefundTo)
		}
		body = variant("Action", member{"signer_id", string(x.SignerID)}, member{"signer_public_key", keyText(x.SignerPublicKey)}, member{"gas_price", tokens(x.GasPrice)},
			member{"output_data_receivers", listOf(x.OutputDataReceivers, func(d *primitives.DataReceiver) any {
				return object{{"data_id", d.DataID.String()}, {"receiver_id", string(d.ReceiverID)}}
			})}, member{"input_data_ids", texts(x.InputDataIDs)}, member{"actions", actionsOf(x.Actions, false)}, member{"is_promise_yield", x.Yield}, member{"refund_to", refund})
	case *primitives.DataReceipt:
		var data any
		if x.Data != nil {
			data = b64(x.Data)
		}
		body = variant("Data", member{"data_id", x.DataID.String()}, member{"data", data}, member{"is_promise_resume", x.Resume})
	case *primitives.GlobalContractDistribution:
		nonce := any(absent{})
		if x.V2 {
			nonce = x.Nonce
		}
		body = variant("GlobalContractDistribution", member{"id", identifier(&x.ID)}, member{"target_shard", uint64(x.TargetShard)},
			member{"already_delivered_shards", listOf(x.AlreadyDelivered, func(s *primitives.ShardID) any { return uint64(*s) })}, member{"code", hashOf(x.Code)}, member{"nonce", nonce})
	}
	return object{{"predecessor_id", string(r.PredecessorID)}, {"receiver_id", string(r.ReceiverID)}, {"receipt_id", r.ID.String()}, {"receipt", body}, {"priority", 0}}
}

func contractOf(c *primitives.AccountContract) any {
	switch c.Kind {
	case primitives.ContractLocal:
		return object{{"local", c.Hash.String()}}
	case primitives.ContractGlobalHash:
		return object{{"global_hash", c.Hash.String()}}
	case primitives.ContractGlobalAccount:
		return object{{"global_account_id", string(c.Account)}}
	}
	return nil
}

func outcomeOf(o *view.OutcomeProof) any {
	var status any = "Unknown"
	switch s := &o.Outcome.Status; s.Kind {
	case primitives.StatusFailure:
		status = object{{"Failure", json.RawMessage(s.Failure)}}
	case primitives.StatusSuccessValue:
		status = object{{"SuccessValue", b64(s.Value)}}
	case primitives.StatusSuccessReceiptID:
		status = object{{"SuccessReceiptId", s.ReceiptID.String()}}
	}
	m := &o.Outcome.Metadata
	version, profile, contracts := max(1, m.Version), any(nil), any(absent{})
	if m.Version >= 2 || m.Profile != nil { // version 1 has one only in old views
		profile = listOf(m.Profile, func(c *primitives.CostEntry) any {
			return object{{"cost_category", c.Category}, {"cost", c.Cost}, {"gas_used", fmt.Sprint(uint64(c.Gas))}}
		})
	}
	if m.Version >= 4 {
		contracts = listOf(m.Contracts, func(c *primitives.AccountContract) any { return contractOf(c) })
	}
	logs := []string{}
	return object{{"proof", listOf(o.Proof, func(p *primitives.MerklePathItem) any {
		side := "Right"
		if p.Direction == primitives.Left {
			side = "Left"
		}
		return object{{"hash", p.Hash.String()}, {"direction", side}}
	})}, {"block_hash", o.BlockHash.String()}, {"id", o.ID.String()}, {"outcome", object{{"logs", append(logs, o.Outcome.Logs...)}, {"receipt_ids", texts(o.Outcome.ReceiptIDs)},
		{"gas_burnt", uint64(o.Outcome.GasBurnt)}, {"tokens_burnt", tokens(o.Outcome.TokensBurnt)}, {"executor_id", string(o.Outcome.ExecutorID)}, {"status", status},
		{"metadata", object{{"version", version}, {"gas_profile", profile}, {"contracts", contracts}}}}}}
}

var causes = []string{"not_writable_to_disk", "initial_state", "transaction_processing", "action_receipt_processing_started", "action_receipt_gas_reward", "receipt_processing", "postponed_receipt",
	"updated_delayed_receipts", "validator_accounts_update", "migration", "bandwidth_scheduler_state_update", "bandwidth_scheduler_state_update"}

func changeOf(c *view.Change) any {
	cause := object{{"type", causes[c.Cause.Kind]}}
	switch causes[c.Cause.Kind] {
	case "transaction_processing":
		cause = append(cause, member{"tx_hash", c.Cause.Hash.String()})
	case "action_receipt_processing_started", "action_receipt_gas_reward", "receipt_processing", "postponed_receipt":
		cause = append(cause, member{"receipt_hash", c.Cause.Hash.String()})
	}
	kind, change := "", object{{"account_id", string(c.AccountID)}}
	handle := func() string {
		text, err := c.Handle.MarshalText()
		if err != nil {
			panic(err)
		}
		return string(text)
	}
	switch c.Kind {
	case view.AccountChange:
		if kind = "account"; !c.Deletion {
			hash, global, account := primitives.Hash{}, any(absent{}), any(absent{})
			switch a := &c.Account.Contract; a.Kind {
			case primitives.ContractLocal:
				hash = a.Hash
			case primitives.ContractGlobalHash:
				global = a.Hash.String()
			case primitives.ContractGlobalAccount:
				account = string(a.Account)
			}
			change = append(change, member{"amount", tokens(c.Account.Amount)}, member{"locked", tokens(c.Account.Locked)}, member{"code_hash", hash.String()}, member{"storage_usage", uint64(c.Account.StorageUsage)},
				member{"storage_paid_at", 0}, member{"global_contract_hash", global}, member{"global_contract_account_id", account})
			if !c.Account.IsInitialized() {
				change = append(change, member{"state", "uninitialized"}, member{"bootstrap_nonce", uint64(c.Account.BootstrapNonce)})
			}
		}
	case view.AccessKeyChange:
		kind, change = "access_key", append(change, member{"public_key", handle()})
		if !c.Deletion {
			change = append(change, member{"access_key", accessKeyOf(&c.AccessKey, false)})
		}
	case view.GasKeyNonceChange:
		kind, change = "gas_key_nonce", append(change, member{"public_key", handle()}, member{"index", c.Index}, member{"nonce", uint64(c.Nonce)})
	case view.DataChange:
		if kind, change = "data", append(change, member{"key_base64", b64(c.Key)}); !c.Deletion {
			change = append(change, member{"value_base64", b64(c.Value)})
		}
	case view.ContractCodeChange:
		if kind = "contract_code"; !c.Deletion {
			change = append(change, member{"code_base64", b64(c.Value)})
		}
	}
	return object{{"cause", cause}, {"type", kind + map[bool]string{false: "_update", true: "_deletion"}[c.Deletion]}, {"change", change}}
}
