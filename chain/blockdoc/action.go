package blockdoc

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// Slot is the code field of an action. The JSON contains only the hash of the code.
type Slot struct {
	Hash  primitives.Hash
	at    *[]byte
	known **primitives.Hash // the action's CodeHash, which is set while at is empty
}

// Code returns the code with this hash, or nil if it is unknown.
type Code func(primitives.Hash) []byte

// noCode is the hash of empty code. Deploying empty code is allowed.
var noCode = primitives.HashBytes(nil)

// fill copies code into the empty slots. It returns the hashes of the code that Code does not know.
func fill(slots []Slot, code Code) (missing []primitives.Hash) {
	for _, s := range slots {
		if *s.at != nil {
			continue
		}
		if s.Hash == noCode {
			*s.at, *s.known = []byte{}, nil
		} else if c := code(s.Hash); c != nil && primitives.HashBytes(c) == s.Hash {
			*s.at, *s.known = c, nil
		} else {
			missing = append(missing, s.Hash)
		}
	}
	return missing
}

type accessKeyJSON struct {
	Nonce      primitives.Nonce `json:"nonce"`
	Permission json.RawMessage  `json:"permission"`
}

func (k *accessKeyJSON) value() (out primitives.AccessKey, err error) {
	out.Nonce = k.Nonce
	if string(k.Permission) == `"FullAccess"` {
		return out, nil
	}
	var one map[string]struct {
		Allowance   *primitives.Balance `json:"allowance"`
		ReceiverID  string              `json:"receiver_id"`
		MethodNames []string            `json:"method_names"`
		Balance     primitives.Balance  `json:"balance"`
		NumNonces   uint16              `json:"num_nonces"`
	}
	if err := parse(k.Permission, &one); err != nil {
		return out, err
	}
	if len(one) != 1 {
		return out, formf("a permission of %d kinds", len(one))
	}
	for kind, p := range one {
		switch kind {
		case "FunctionCall", "GasKeyFunctionCall", "GasKeyFullAccess":
		default:
			return out, formf("permission %s", kind)
		}
		if kind != "GasKeyFullAccess" {
			out.FunctionCall = &primitives.FunctionCallPermission{Allowance: p.Allowance, ReceiverID: p.ReceiverID, MethodNames: p.MethodNames}
		}
		if kind != "FunctionCall" {
			out.GasKey = &primitives.GasKeyInfo{Balance: p.Balance, NumNonces: p.NumNonces}
		}
	}
	return out, nil
}

// actionJSON has the fields of all action views.
type actionJSON struct {
	Code        json.RawMessage      `json:"code"`
	Method      string               `json:"method_name"`
	Args        []byte               `json:"args"`
	Gas         primitives.Gas       `json:"gas"`
	Deposit     primitives.Balance   `json:"deposit"`
	Amount      primitives.Balance   `json:"amount"`
	Stake       primitives.Balance   `json:"stake"`
	Key         primitives.PublicKey `json:"public_key"`
	AccessKey   accessKeyJSON        `json:"access_key"`
	Beneficiary primitives.AccountID `json:"beneficiary_id"`
	CodeHash    primitives.Hash      `json:"code_hash"`
	Account     primitives.AccountID `json:"account_id"`
	Data        map[string][]byte    `json:"data"`
	StateInit   []byte               `json:"state_init"`
}

// actions decodes action views. slots are the code fields that the caller must fill.
func actions(list []json.RawMessage) (out []primitives.Action, slots []Slot, err error) {
	for _, text := range list {
		a, s, err := action(text)
		if err != nil {
			return nil, nil, err
		}
		out, slots = append(out, a), append(slots, s...)
	}
	return out, slots, nil
}

func action(text json.RawMessage) (primitives.Action, []Slot, error) {
	if string(text) == `"CreateAccount"` {
		return &primitives.CreateAccount{}, nil, nil
	}
	var one map[string]json.RawMessage
	if err := parse(text, &one); err != nil {
		return nil, nil, err
	}
	if len(one) != 1 {
		return nil, nil, formf("an action of %d kinds", len(one))
	}
	for kind, body := range one {
		if kind == "Delegate" || kind == "DelegateV2" {
			a, err := delegate(text)
			return a, nil, err
		}
		var j actionJSON
		if err := parse(body, &j); err != nil {
			return nil, nil, err
		}
		return j.action(kind)
	}
	panic("blockdoc: a map of one entry has none")
}

func (j *actionJSON) action(kind string) (a primitives.Action, slots []Slot, err error) {
	code := func(at *[]byte, known **primitives.Hash) (err error) {
		slots, err = j.slot(at, known)
		return err
	}
	switch kind {
	case "DeployContract":
		x := new(primitives.DeployContract)
		a, err = x, code(&x.Code, &x.CodeHash)
	case "DeployGlobalContract":
		x := &primitives.DeployGlobalContract{Mode: primitives.GlobalByCodeHash}
		a, err = x, code(&x.Code, &x.CodeHash)
	case "DeployGlobalContractByAccountId":
		x := &primitives.DeployGlobalContract{Mode: primitives.GlobalByAccountID}
		a, err = x, code(&x.Code, &x.CodeHash)
	case "UseGlobalContract":
		a = &primitives.UseGlobalContract{ID: primitives.GlobalContractID{Hash: j.CodeHash}}
	case "UseGlobalContractByAccountId":
		a = &primitives.UseGlobalContract{ID: primitives.GlobalContractID{Account: j.Account}}
	case "DeterministicStateInit":
		x := &primitives.DeterministicStateInit{Deposit: j.Deposit}
		a = x
		if err = parse(j.Code, &x.Init.Code); err != nil {
			break
		}
		for k, v := range j.Data {
			key, e := base64.StdEncoding.DecodeString(k)
			if e != nil {
				return nil, nil, formf("key of a deterministic state: %v", e)
			}
			x.Init.Data = append(x.Init.Data, primitives.StateEntry{Key: key, Value: v})
		}
		slices.SortFunc(x.Init.Data, func(a, b primitives.StateEntry) int { return bytes.Compare(a.Key, b.Key) })
	case "UniversalStateInit":
		a = &primitives.UniversalStateInit{Init: j.StateInit, Deposit: j.Deposit}
	case "FunctionCall":
		a = &primitives.FunctionCall{Method: j.Method, Args: j.Args, Gas: j.Gas, Deposit: j.Deposit}
	case "Transfer":
		a = &primitives.Transfer{Deposit: j.Deposit}
	case "Stake":
		a = &primitives.Stake{Stake: j.Stake, PublicKey: j.Key}
	case "AddKey":
		var k primitives.AccessKey
		k, err = j.AccessKey.value()
		a = &primitives.AddKey{PublicKey: j.Key, AccessKey: k}
	case "DeleteKey":
		a = &primitives.DeleteKey{PublicKey: j.Key}
	case "DeleteAccount":
		a = &primitives.DeleteAccount{Beneficiary: j.Beneficiary}
	case "TransferToGasKey":
		a = &primitives.TransferToGasKey{PublicKey: j.Key, Deposit: j.Deposit}
	case "WithdrawFromGasKey":
		a = &primitives.WithdrawFromGasKey{PublicKey: j.Key, Amount: j.Amount}
	default:
		err = formf("action %s", kind)
	}
	if err != nil {
		return nil, nil, err
	}
	return a, slots, nil
}

// slot returns the slot of a code field, and sets the field's hash.
func (j *actionJSON) slot(at *[]byte, known **primitives.Hash) ([]Slot, error) {
	var hash []byte
	if err := parse(j.Code, &hash); err != nil {
		return nil, err
	}
	if len(hash) != len(primitives.Hash{}) {
		return nil, formf("code of %d bytes, want its hash", len(hash))
	}
	h := primitives.Hash(hash)
	*known = &h
	return []Slot{{Hash: h, at: at, known: known}}, nil
}

// delegate decodes the view of a delegate action. This view contains contract code itself, while
// the views of other actions contain only the code's hash. State records contain a delegate action
// in the same form as this view. So delegate wraps the view in a state record and decodes the
// record.
func delegate(text []byte) (primitives.Action, error) {
	const before = `{"PostponedReceipt":{"predecessor_id":"aa","receiver_id":"bb","receipt_id":"11111111111111111111111111111111",` +
		`"receipt":{"Action":{"signer_id":"aa","signer_public_key":"ed25519:11111111111111111111111111111111","gas_price":"1",` +
		`"output_data_receivers":[],"input_data_ids":[],"actions":[`
	record, err := genesis.ParseRecord(slices.Concat([]byte(before), text, []byte(`]}}}}`)))
	if err != nil {
		return nil, formf("delegate action: %v", err)
	}
	if r, ok := record.(*genesis.PostponedReceiptRecord); ok {
		if b, ok := r.Receipt.Body.(*primitives.ActionReceipt); ok && len(b.Actions) == 1 {
			return b.Actions[0], nil
		}
	}
	return nil, formf("delegate action: not an action")
}
