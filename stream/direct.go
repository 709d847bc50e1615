package stream

import (
	"fmt"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Fast encoders for parts of which a block has hundreds: outcomes, receipts and transactions with
// transfers and calls, and changes of accounts, keys and data. They write the members directly in
// the order of nearcore's structs. Package view encodes all other parts, and order.go reorders
// them. TestDirectEncodersEqualSlowReference compares both encoders.

// outcome appends an outcome with its proof. block is the encoded hash of its block.
func (e *encoder) outcome(o *view.OutcomeProof, block []byte) {
	b := append(e.b, `{"proof":[`...)
	for i := range o.Proof {
		p := &o.Proof[i]
		b = e.hash(append(append(b, comma(i)...), `{"hash":`...), &p.Hash)
		if p.Direction == primitives.Left {
			b = append(b, `,"direction":"Left"}`...)
		} else {
			b = append(b, `,"direction":"Right"}`...)
		}
	}
	b = append(append(b, `],"block_hash":`...), block...)
	b = e.hash(append(b, `,"id":`...), &o.ID)
	b = append(b, `,"outcome":{"logs":[`...)
	for i, log := range o.Outcome.Logs {
		b = view.AppendString(append(b, comma(i)...), log)
	}
	b = e.hashes(append(b, `],"receipt_ids":`...), o.Outcome.ReceiptIDs)
	b = appendUint(append(b, `,"gas_burnt":`...), o.Outcome.GasBurnt)
	b = view.AppendBalance(append(b, `,"tokens_burnt":`...), o.Outcome.TokensBurnt)
	b = view.AppendAccountID(append(b, `,"executor_id":`...), o.Outcome.ExecutorID)
	b = append(b, `,"status":`...)
	switch s := &o.Outcome.Status; s.Kind {
	case primitives.StatusFailure:
		e.b = b
		e.put("", "status", func(b []byte) []byte { return view.AppendStatus(b, s) })
		b = e.b
	case primitives.StatusSuccessReceiptID:
		b = append(e.hash(append(b, `{"SuccessReceiptId":`...), &s.ReceiptID), '}')
	default:
		b = view.AppendStatus(b, s)
	}
	e.b = append(appendMetadata(append(b, `,"metadata":`...), &o.Outcome.Metadata), "}}"...)
}

func appendMetadata(b []byte, m *primitives.ExecutionMetadata) []byte {
	if m.Version < view.FirstProfileVersion {
		return append(b, `{"version":1,"gas_profile":null}`...)
	}
	b = append(appendUint(append(b, `{"version":`...), m.Version), `,"gas_profile":[`...)
	for i := range m.Profile {
		c := &m.Profile[i]
		b = view.AppendString(append(append(b, comma(i)...), `{"cost_category":`...), c.Category)
		b = view.AppendString(append(b, `,"cost":`...), c.Cost)
		b = append(appendUint(append(b, `,"gas_used":"`...), c.Gas), `"}`...)
	}
	if m.Version < view.FirstContractsVersion {
		return append(b, "]}"...)
	}
	b = append(b, `],"contracts":[`...)
	for i := range m.Contracts {
		b = view.AppendContract(append(b, comma(i)...), &m.Contracts[i])
	}
	return append(b, "]}"...)
}

// receipt appends a receipt.
func (e *encoder) receipt(r *primitives.Receipt) {
	a, ok := r.Body.(*primitives.ActionReceipt)
	if !ok {
		e.put("", "#receipt", func(b []byte) []byte { return view.AppendReceipt(b, r) })
		return
	}
	b := view.AppendAccountID(append(e.b, `{"predecessor_id":`...), r.PredecessorID)
	b = view.AppendAccountID(append(b, `,"receiver_id":`...), r.ReceiverID)
	b = e.hash(append(b, `,"receipt_id":`...), &r.ID)
	b = view.AppendAccountID(append(b, `,"receipt":{"Action":{"signer_id":`...), a.SignerID)
	b = e.key(append(b, `,"signer_public_key":`...), a.SignerPublicKey)
	b = view.AppendBalance(append(b, `,"gas_price":`...), a.GasPrice)
	b = append(b, `,"output_data_receivers":[`...)
	for i := range a.OutputDataReceivers {
		d := &a.OutputDataReceivers[i]
		b = e.hash(append(append(b, comma(i)...), `{"data_id":`...), &d.DataID)
		b = append(view.AppendAccountID(append(b, `,"receiver_id":`...), d.ReceiverID), '}')
	}
	b = e.hashes(append(b, `],"input_data_ids":`...), a.InputDataIDs)
	e.b = append(b, `,"actions":`...)
	e.actions(a.Actions)
	b = strconv.AppendBool(append(e.b, `,"is_promise_yield":`...), a.Yield)
	if a.RefundTo != "" {
		b = view.AppendAccountID(append(b, `,"refund_to":`...), a.RefundTo)
	}
	e.b = append(b, `}},"priority":0}`...)
}

// actions appends the actions of a transaction or receipt.
func (e *encoder) actions(as []primitives.Action) {
	e.b = append(e.b, '[')
	for i, a := range as {
		e.b = append(e.b, comma(i)...)
		switch a := a.(type) {
		case *primitives.Transfer:
			e.b = view.AppendAction(e.b, a) // AppendAction appends an object with one member
		case *primitives.FunctionCall:
			b := view.AppendString(append(e.b, `{"FunctionCall":{"method_name":`...), a.Method)
			b = view.AppendBase64(append(b, `,"args":`...), a.Args)
			b = appendUint(append(b, `,"gas":`...), a.Gas)
			e.b = append(view.AppendBalance(append(b, `,"deposit":`...), a.Deposit), "}}"...)
		default:
			e.put("", "actions", func(b []byte) []byte { return view.AppendAction(b, a) })
		}
	}
	e.b = append(e.b, ']')
}

// transaction appends a transaction.
func (e *encoder) transaction(t *primitives.SignedTransaction) {
	hash := t.Hash()
	b := view.AppendAccountID(append(e.b, `{"signer_id":`...), t.SignerID)
	b = e.key(append(b, `,"public_key":`...), t.PublicKey)
	b = appendUint(append(b, `,"nonce":`...), t.Nonce.Nonce)
	b = view.AppendAccountID(append(b, `,"receiver_id":`...), t.ReceiverID)
	e.b = append(b, `,"actions":`...)
	e.actions(t.Actions)
	b = view.AppendSignature(append(e.b, `,"priority_fee":0,"signature":`...), t.Signature)
	b = e.hash(append(b, `,"hash":`...), &hash)
	if t.Nonce.HasIndex {
		b = appendUint(append(b, `,"nonce_index":`...), t.Nonce.Index)
	}
	if t.NonceMode == primitives.NonceStrict {
		b = append(b, `,"nonce_mode":"strict"`...)
	}
	e.b = append(b, '}')
}

// change appends a change.
func (e *encoder) change(c *view.Change) {
	b := append(append(append(e.b, `{"cause":{"type":"`...), view.CauseName(c.Cause.Kind)...), '"')
	if c.Cause.HasHash() {
		name := `,"receipt_hash":`
		if c.Cause.Kind == primitives.CauseTransactionProcessing {
			name = `,"tx_hash":`
		}
		b = e.hash(append(b, name...), &c.Cause.Hash)
	}
	b = append(append(b, `},"type":"`...), c.Kind.String()...)
	if c.Deletion {
		b = append(b, `_deletion","change":{"account_id":`...)
	} else {
		b = append(b, `_update","change":{"account_id":`...)
	}
	b = view.AppendAccountID(b, c.AccountID)
	switch c.Kind {
	case view.AccountChange:
		if !c.Deletion {
			b = e.account(b, &c.Account)
		}
	case view.ContractCodeChange:
		if !c.Deletion {
			b = view.AppendBase64(append(b, `,"code_base64":`...), c.Value)
		}
	case view.AccessKeyChange:
		b = e.handle(append(b, `,"public_key":`...), c.Handle)
		if !c.Deletion {
			e.b = append(b, `,"access_key":`...)
			e.accessKey(&c.AccessKey)
			b = e.b
		}
	case view.GasKeyNonceChange:
		b = e.handle(append(b, `,"public_key":`...), c.Handle)
		b = appendUint(append(b, `,"index":`...), c.Index)
		b = appendUint(append(b, `,"nonce":`...), c.Nonce)
	case view.DataChange:
		b = view.AppendBase64(append(b, `,"key_base64":`...), c.Key)
		if !c.Deletion {
			b = view.AppendBase64(append(b, `,"value_base64":`...), c.Value)
		}
	default:
		panic(fmt.Sprintf("stream: no JSON form of change kind %d", c.Kind))
	}
	e.b = append(b, "}}"...)
}

// account appends the members that follow the account's id.
func (e *encoder) account(b []byte, a *primitives.Account) []byte {
	code := a.LocalCodeHash()
	b = view.AppendBalance(append(b, `,"amount":`...), a.Amount)
	b = view.AppendBalance(append(b, `,"locked":`...), a.Locked)
	b = e.hash(append(b, `,"code_hash":`...), &code)
	b = append(appendUint(append(b, `,"storage_usage":`...), a.StorageUsage), `,"storage_paid_at":0`...)
	switch a.Contract.Kind {
	case primitives.ContractGlobalHash:
		b = e.hash(append(b, `,"global_contract_hash":`...), &a.Contract.Hash)
	case primitives.ContractGlobalAccount:
		b = view.AppendAccountID(append(b, `,"global_contract_account_id":`...), a.Contract.Account)
	case primitives.ContractNone, primitives.ContractLocal: // code_hash already describes a local contract
	default:
		panic(fmt.Sprintf("stream: no JSON form of contract kind %d", a.Contract.Kind))
	}
	if !a.IsInitialized() {
		b = appendUint(append(b, `,"state":"uninitialized","bootstrap_nonce":`...), a.BootstrapNonce)
	}
	return b
}

func (e *encoder) accessKey(k *primitives.AccessKey) {
	if k.FunctionCall == nil { // the order of the members is the same in package view
		e.b = view.AppendAccessKey(e.b, k)
		return
	}
	e.put("", "access_key", func(b []byte) []byte { return view.AppendAccessKey(b, k) })
}

func (e *encoder) hashes(b []byte, hs []primitives.Hash) []byte {
	b = append(b, '[')
	for i := range hs {
		b = e.hash(append(b, comma(i)...), &hs[i])
	}
	return append(b, ']')
}

// known caches the texts of hashes, in slots chosen by their first bytes. A message contains most
// hashes several times: each node of an outcome tree is in all proofs below it. Encoding a hash
// costs ten times as much as copying its text.
type known [1024]struct {
	hash primitives.Hash
	len  int8 // length of the hash in text; 0: the slot is empty
	text [44]byte
}

// hash appends base58 in quotes.
func (e *encoder) hash(b []byte, h *primitives.Hash) []byte {
	return append(e.base58(append(b, '"'), h), '"')
}

func (e *encoder) base58(b []byte, h *primitives.Hash) []byte {
	k := &e.known[(uint(h[0])|uint(h[1])<<8)%uint(len(e.known))]
	if k.len == 0 || k.hash != *h {
		text, _ := h.AppendText(k.text[:0]) // never fails
		k.hash, k.len = *h, int8(len(text))
	}
	return append(b, k.text[:k.len]...)
}

// key appends the text of a key in quotes.
func (e *encoder) key(b []byte, k primitives.PublicKey) []byte {
	if len(k) != 1+len(primitives.Hash{}) || k.Type() != primitives.ED25519 {
		return view.AppendKey(b, k)
	}
	h := primitives.Hash([]byte(k[1:]))
	return append(e.base58(append(b, `"ed25519:`...), &h), '"')
}

// handle appends the text of a key's handle in quotes.
func (e *encoder) handle(b []byte, h primitives.PublicKeyHandle) []byte {
	// An ed25519 key is its own handle.
	if k := primitives.PublicKey(h); len(k) == 1+len(primitives.Hash{}) && k.Type() == primitives.ED25519 {
		return e.key(b, k)
	}
	return view.AppendHandle(b, h)
}

func appendUint[T ~uint16 | ~uint32 | ~uint64](b []byte, v T) []byte {
	return strconv.AppendUint(b, uint64(v), 10)
}
