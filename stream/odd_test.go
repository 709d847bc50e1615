package stream

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// slowly puts a text in order by a simple reference: object by object, by encoding/json.
func slowly(t *testing.T, name string, text []byte) []byte {
	t.Helper()
	switch text[0] {
	case '[':
		var list []json.RawMessage
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		var out [][]byte
		for _, v := range list {
			out = append(out, slowly(t, name, v))
		}
		return slices.Concat([]byte("["), bytes.Join(out, []byte(",")), []byte("]"))
	case '{':
	default:
		return text
	}
	type member struct {
		key  string
		text []byte
	}
	var members []member
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		members = append(members, member{key.(string), slowly(t, key.(string), v)})
	}
	rank := func(m member) int {
		if i := slices.Index(fields[name], m.key); i >= 0 {
			return i
		}
		return len(fields[name])
	}
	slices.SortStableFunc(members, func(x, y member) int {
		if name == "data" {
			a, _ := base64.StdEncoding.DecodeString(x.key)
			b, _ := base64.StdEncoding.DecodeString(y.key)
			return bytes.Compare(a, b)
		}
		return rank(x) - rank(y)
	})
	var out [][]byte
	for _, m := range members {
		out = append(out, slices.Concat(primitives.AppendJSONString(nil, m.key), []byte(":"), m.text))
	}
	return slices.Concat([]byte("{"), bytes.Join(out, []byte(",")), []byte("}"))
}

// odd makes values that no honest node or contract would make.
type odd struct{ *rand.Rand }

func (o odd) text() string {
	var b strings.Builder
	for range o.IntN(6) {
		b.WriteString([]string{"", `"`, `\`, `\"`, `"}],`, `{"a":[`, "\x00", "\x1f", "\b\f\n\r\t", "\x7f", "\u2028\u2029", "<&>", "\ufeff", "\U0010ffff", "a,b:c", "ÿ", `\u0041`,
			strings.Repeat("x", o.IntN(70))}[o.IntN(18)])
	}
	return b.String()
}

func (o odd) bytes() []byte {
	b := make([]byte, []int{0, 0, 1, 2, 3, 31, 32, 33, 200}[o.IntN(9)])
	for i := range b {
		b[i] = byte(o.Uint32())
	}
	return b
}

func (o odd) hash() (h primitives.Hash) {
	for i := o.IntN(33); i < len(h); i++ {
		h[i] = []byte{0, 1, 0xff, byte(o.Uint32())}[o.IntN(4)]
	}
	return h
}

func (o odd) number() uint64 {
	return []uint64{0, 1, 1<<53 + 1, ^uint64(0), o.Uint64()}[o.IntN(5)]
}

func (o odd) tokens() primitives.Balance {
	return []primitives.Balance{{}, {Lo: 1}, {Hi: 1}, primitives.MaxBalance, {Hi: o.Uint64(), Lo: o.Uint64()}}[o.IntN(5)]
}

func (o odd) key() primitives.PublicKey {
	raw := make([]byte, 33)
	copy(raw[1:], o.bytes())
	var k primitives.PublicKey
	h := primitives.HashBytes(raw)
	if err := k.UnmarshalText([]byte("ed25519:" + h.String())); err != nil {
		panic(err)
	}
	return k
}

func (o odd) accessKey() (k primitives.AccessKey) {
	k.Nonce = primitives.Nonce(o.number())
	if o.IntN(2) == 0 {
		k.FunctionCall = &primitives.FunctionCallPermission{ReceiverID: "b.near", MethodNames: []string{o.text(), o.text()}}
		if allowance := o.tokens(); o.IntN(2) == 0 {
			k.FunctionCall.Allowance = &allowance
		}
	}
	if o.IntN(2) == 0 {
		k.GasKey = &primitives.GasKeyInfo{Balance: o.tokens(), NumNonces: uint16(o.Uint32())}
	}
	return k
}

// actions returns one of each kind; within delegate actions those that are allowed there.
func (o odd) actions(within bool) []primitives.Action {
	init := primitives.StateInit{Code: primitives.GlobalContractID{Hash: o.hash()}}
	for i := range o.IntN(70) {
		init.Data = append(init.Data, primitives.StateEntry{Key: append([]byte{byte(4 * i), byte(i >> 6)}, o.bytes()...), Value: o.bytes()})
	}
	id := primitives.GlobalContractID{Hash: o.hash()}
	if o.IntN(2) == 0 {
		id.Account = "b.near"
	}
	out := []primitives.Action{
		&primitives.CreateAccount{}, &primitives.DeployContract{Code: o.bytes()}, &primitives.Transfer{Deposit: o.tokens()},
		&primitives.FunctionCall{Method: o.text(), Args: o.bytes(), Gas: primitives.Gas(o.number()), Deposit: o.tokens()},
		&primitives.Stake{Stake: o.tokens(), PublicKey: o.key()}, &primitives.AddKey{PublicKey: o.key(), AccessKey: o.accessKey()},
		&primitives.DeleteKey{PublicKey: o.key()}, &primitives.DeleteAccount{Beneficiary: "b.near"},
		&primitives.DeployGlobalContract{Code: o.bytes(), Mode: primitives.GlobalDeployMode(o.IntN(2))}, &primitives.UseGlobalContract{ID: id},
		&primitives.DeterministicStateInit{Init: init, Deposit: o.tokens()}, &primitives.TransferToGasKey{PublicKey: o.key(), Deposit: o.tokens()},
		&primitives.WithdrawFromGasKey{PublicKey: o.key(), Amount: o.tokens()},
		&primitives.UniversalStateInit{Init: o.bytes(), Deposit: o.tokens()},
	}
	if within {
		return out
	}
	return append(out,
		&primitives.Delegate{Signature: primitives.ZeroED25519Signature, Action: primitives.DelegateAction{SenderID: "a.near", ReceiverID: "b.near",
			Actions: o.actions(true), PublicKey: o.key(), Nonce: primitives.Nonce(o.number())}},
		&primitives.DelegateV2{Signature: primitives.ZeroED25519Signature, Action: primitives.DelegateActionV2{SenderID: "a.near", ReceiverID: "b.near",
			Actions: o.actions(true), PublicKey: o.key(), Nonce: primitives.TransactionNonce{Nonce: 3, Index: 1, HasIndex: o.IntN(2) == 0}}})
}

func (o odd) transaction() *primitives.SignedTransaction {
	tx := primitives.Transaction{Version: primitives.TransactionV1, SignerID: "a.near", ReceiverID: "b.near", PublicKey: o.key(), Actions: o.actions(false),
		NonceMode: primitives.NonceMode(o.IntN(2)), Nonce: primitives.TransactionNonce{Nonce: primitives.Nonce(o.number()), Index: 2, HasIndex: o.IntN(2) == 0}}
	return primitives.NewSignedTransaction(tx, primitives.ZeroED25519Signature)
}

func (o odd) receipt() *primitives.Receipt {
	r := &primitives.Receipt{PredecessorID: "a.near", ReceiverID: "b.near", ID: o.hash()}
	switch o.IntN(4) {
	case 0:
		r.Body = &primitives.DataReceipt{DataID: o.hash(), Data: o.bytes(), Resume: o.IntN(2) == 0}
	case 1:
		r.Body = &primitives.DataReceipt{DataID: o.hash()}
	case 2:
		r.Body = &primitives.GlobalContractDistribution{V2: o.IntN(2) == 0, ID: primitives.GlobalContractID{Hash: o.hash()}, Code: o.bytes(), Nonce: o.number(),
			AlreadyDelivered: []primitives.ShardID{1, 2}}
	default:
		r.Body = &primitives.ActionReceipt{SignerID: "a.near", SignerPublicKey: o.key(), GasPrice: o.tokens(), Actions: o.actions(false), InputDataIDs: []primitives.Hash{o.hash()},
			OutputDataReceivers: []primitives.DataReceiver{{DataID: o.hash(), ReceiverID: "c.near"}}, Yield: o.IntN(2) == 0, RefundTo: "d.near"}
	}
	return r
}

func (o odd) outcome(id primitives.Hash) primitives.OutcomeWithID {
	x := primitives.OutcomeWithID{ID: id, Outcome: primitives.Outcome{ExecutorID: "b.near", GasBurnt: primitives.Gas(o.number()), TokensBurnt: o.tokens(),
		Status: primitives.ExecutionStatus{Kind: primitives.StatusSuccessValue, Value: o.bytes()}}}
	for range o.IntN(4) {
		x.Logs, x.ReceiptIDs = append(x.Logs, o.text()), append(x.ReceiptIDs, o.hash())
	}
	x.Metadata = primitives.ExecutionMetadata{Version: uint32(1 + o.IntN(4)), Profile: []primitives.CostEntry{{Category: "ACTION_COST", Cost: o.text(), Gas: 3}},
		Contracts: []primitives.AccountContract{{}, {Kind: primitives.ContractGlobalHash, Hash: o.hash()}}}
	switch o.IntN(3) {
	case 0:
		x.Status = primitives.ExecutionStatus{Kind: primitives.StatusSuccessReceiptID, ReceiptID: o.hash()}
	case 1:
		x.Status = primitives.ExecutionStatus{Kind: primitives.StatusFailure, Failure: slices.Concat([]byte(`{"ActionError":{"index":0,"kind":{"FunctionCallError":{"ExecutionError":`),
			primitives.AppendJSONString(nil, o.text()), []byte(`}}}}`))}
	}
	return x
}

// digest returns the Digest of a block of two shards and one with a missing chunk. The receipts of
// one shard are those that another sent, as in the engine.
func (o odd) digest() *Digest {
	header := (&primitives.BlockHeader{Version: primitives.HeaderV6, Signature: primitives.ZeroED25519Signature}).Init()
	m := &Block{Author: "v.near", Hash: o.hash(), Block: &primitives.Block{Header: header}}
	details := make([]Details, 3)
	var all []*primitives.Receipt
	for range 4 {
		all = append(all, o.receipt())
	}
	for i := range details {
		s, d := Shard{ID: primitives.ShardID(i), Author: "p.near"}, &details[i]
		d.Receipts, d.Local, d.Instant = map[primitives.Hash]*primitives.Receipt{}, all[1:3], all[3:]
		if i != 2 {
			s.Chunk = &primitives.Chunk{Header: primitives.ChunkHeader{Signature: primitives.ZeroED25519Signature, ChunkHeaderInner: primitives.ChunkHeaderInner{
				Version: primitives.ChunkInnerV5, BandwidthRequests: []primitives.BandwidthRequest{{ToShard: 1}}}}}
			s.Chunk.PrevOutgoingReceipts = all
			for range o.IntN(4) {
				tx := o.transaction()
				s.Chunk.Transactions = append(s.Chunk.Transactions, tx)
				if o.IntN(3) > 0 {
					s.Outcomes = append(s.Outcomes, o.outcome(tx.Hash()))
				}
			}
		}
		for k, r := range all {
			if r.ID = primitives.HashBytes([]byte{byte(k)}); o.IntN(4) > 0 {
				s.Outcomes, d.Receipts[r.ID] = append(s.Outcomes, o.outcome(r.ID)), r
			}
		}
		if o.IntN(2) == 0 {
			d.Origins = map[primitives.Hash]primitives.Hash{all[0].ID: o.hash()}
		}
		value := o.bytes()
		d.Changes = []primitives.KeyChanges{{Key: primitives.AppendContractDataKey(nil, "b.near", o.bytes()), Changes: []primitives.StateChange{
			{Cause: primitives.StateChangeCause{Kind: primitives.CauseReceiptProcessing, Hash: o.hash()}, Value: value},
			{Cause: primitives.StateChangeCause{Kind: primitives.CauseInitialState}}}}}
		m.Shards = append(m.Shards, s)
	}
	return NewDigest(m, func() ([]Details, error) { return details, nil })
}

// plainly is a shard's text by the slow reference.
func plainly(t *testing.T, m *Block, s *Shard, d *Details) []byte {
	all := func(n int, one func(i int) []byte) []byte {
		var out [][]byte
		for i := range n {
			out = append(out, one(i))
		}
		return slices.Concat([]byte("["), bytes.Join(out, []byte(",")), []byte("]"))
	}
	receipts := func(rs []*primitives.Receipt) []byte {
		return all(len(rs), func(i int) []byte { return slowly(t, "#receipt", view.AppendReceipt(nil, rs[i])) })
	}
	proven := Proven(m, s)
	outcome := func(o *view.OutcomeProof) []byte { return slowly(t, "#outcome", view.AppendOutcomeProof(nil, o)) }
	chunk, left := []byte("null"), proven
	if s.Chunk != nil {
		h := s.Chunk.Header
		h.HeightIncluded = 0
		var txs [][]byte
		for _, tx := range s.Chunk.Transactions { // nearcore removes each outcome from its map
			if i := slices.IndexFunc(left, func(o view.OutcomeProof) bool { return o.ID == tx.Hash() }); i >= 0 {
				txs = append(txs, slices.Concat([]byte(`{"transaction":`), slowly(t, "#transaction", view.AppendSignedTransaction(nil, tx)),
					[]byte(`,"outcome":{"execution_outcome":`), outcome(&left[i]), []byte(`,"receipt":null}}`)))
				left = slices.Concat(left[:i], left[i+1:])
			}
		}
		chunk = slices.Concat([]byte(`{"author":"`+string(s.Author)+`","header":`), slowly(t, "#chunk", view.AppendChunkHeader(nil, &h)), []byte(`,"transactions":[`),
			bytes.Join(txs, []byte(",")), []byte(`],"receipts":`), receipts(s.Chunk.PrevOutgoingReceipts), []byte(`,"local_receipts":`), receipts(d.Local),
			[]byte(`,"instant_receipts":`), receipts(d.Instant), []byte("}"))
	}
	executed := all(len(left), func(i int) []byte {
		origin := ""
		if tx, ok := d.Origins[left[i].ID]; ok {
			origin = `,"tx_hash":"` + tx.String() + `"`
		}
		if d.Origins != nil && d.Origins[left[i].ID].IsZero() {
			origin = `,"tx_hash":null`
		}
		return slices.Concat([]byte(`{"execution_outcome":`), outcome(&left[i]), []byte(`,"receipt":`), slowly(t, "#receipt", view.AppendReceipt(nil, d.Receipts[left[i].ID])),
			[]byte(origin+"}"))
	})
	var changes []view.Change
	for i := range d.Changes {
		var err error
		if changes, err = view.AppendKeyChanges(changes, &d.Changes[i]); err != nil {
			t.Fatal(err)
		}
	}
	changed := all(len(changes), func(i int) []byte { return slowly(t, "#change", view.AppendChange(nil, &changes[i])) })
	return slices.Concat([]byte(`{"shard_id":`+strconv.Itoa(int(s.ID))+`,"chunk":`), chunk, []byte(`,"receipt_execution_outcomes":`), executed, []byte(`,"state_changes":`), changed, []byte("}"))
}

// plain is the whole message by the slow reference.
func plain(t *testing.T, d *Digest) []byte {
	details, err := d.details()
	if err != nil {
		t.Fatal(err)
	}
	b := slices.Concat([]byte(`{"block":{"author":"`+string(d.Author)+`","header":`), slowly(t, "#header", view.AppendBlockHeader(nil, d.Block.Block.Header)), []byte(`,"chunks":[]},"shards":[`))
	for i := range d.Shards {
		b = slices.Concat(b, []byte(comma(i)), plainly(t, d.Block, &d.Shards[i], &details[i]))
	}
	return append(b, "]}"...)
}

// TestOddMessagesEqualSlowReference: for blocks with all kinds of actions and receipts, with odd
// logs, names and numbers, the text is that of the slow reference: made at once and in halves, by
// many goroutines, and unchanged while others are made in the same memory.
func TestOddMessagesEqualSlowReference(t *testing.T) {
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			type made struct{ got, want []byte }
			var held []made
			for seed := range 25 {
				d := odd{rand.New(rand.NewPCG(uint64(seed), uint64(g)))}.digest()
				want := plain(t, d)
				got, err := d.MessageJSON(nil)
				if err != nil || !json.Valid(got) {
					t.Errorf("%v, of %s", err, got)
					return
				}
				held = append(held, made{got, want})
				details, _ := d.details()
				if got, err := AppendMessage([]byte("x"), d.Block, details); err != nil || !bytes.Equal(got[1:], want) {
					t.Errorf("encoded at once: %v\n got %s\nwant %s", err, got[1:], want)
				}
				for _, m := range held {
					if !bytes.Equal(m.got, m.want) {
						t.Errorf("\n got %s\nwant %s", m.got, m.want)
						return
					}
				}
			}
		})
	}
	all.Wait()
}

// TestOddValuesSurviveOtherParser: an outcome, a call and a number survive encoding and decoding by
// another parser.
func TestOddValuesSurviveOtherParser(t *testing.T) {
	for seed := range uint64(300) {
		o := odd{rand.New(rand.NewPCG(seed, 9))}
		out := o.outcome(o.hash())
		var x struct {
			ID      string
			Outcome struct {
				Logs   []string
				Tokens string `json:"tokens_burnt"`
			}
		}
		text := view.NewEncoder(view.StructOrder).OutcomeProof(nil, &view.OutcomeProof{OutcomeWithID: out})
		if err := json.Unmarshal(text, &x); err != nil {
			t.Fatal(err)
		}
		tokens := new(big.Int).SetUint64(out.TokensBurnt.Hi)
		tokens.Add(tokens.Lsh(tokens, 64), new(big.Int).SetUint64(out.TokensBurnt.Lo))
		if x.ID != out.ID.String() || !slices.Equal(x.Outcome.Logs, out.Logs) && len(out.Logs) > 0 || x.Outcome.Tokens != tokens.String() {
			t.Errorf("%+v, of %+v", x, out)
		}
		call := &primitives.FunctionCall{Method: o.text(), Args: o.bytes()}
		var y []struct {
			FunctionCall struct {
				Method string `json:"method_name"`
				Args   []byte
			}
		}
		if err := json.Unmarshal(view.NewEncoder(view.StructOrder).Actions(nil, []primitives.Action{call}), &y); err != nil || len(y) != 1 ||
			y[0].FunctionCall.Method != call.Method || !bytes.Equal(y[0].FunctionCall.Args, call.Args) {
			t.Errorf("%+v, of %+v: %v", y, call, err)
		}
	}
}

// TestRepeatedTransactionIsShownOnce: a chunk may hold a transaction twice, and only the first has
// an outcome. nearcore removes it from its map and shows it once, with its receipt.
func TestRepeatedTransactionIsShownOnce(t *testing.T) {
	o := odd{rand.New(rand.NewPCG(1, 1))}
	x := o.transaction().Transaction
	x.ReceiverID = x.SignerID
	tx := primitives.NewSignedTransaction(x, primitives.ZeroED25519Signature)
	d := o.digest()
	s := &d.Shards[0]
	first := o.outcome(tx.Hash())
	first.Status = primitives.ExecutionStatus{Kind: primitives.StatusSuccessReceiptID, ReceiptID: primitives.Hash{5}}
	s.Outcomes = []primitives.OutcomeWithID{first}
	s.Chunk.Transactions = []*primitives.SignedTransaction{tx, tx}
	got, err := d.MessageJSON(nil)
	if want := plain(t, d); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v\n got %s\nwant %s", err, got, want)
	}
	n := 0
	for range s.Locals() {
		n++
	}
	if n != 1 {
		t.Errorf("%d local receipts, want 1", n)
	}
}

// TestAppendCopiesSharedText: appending a line end to the shared text does not write into it.
func TestAppendCopiesSharedText(t *testing.T) {
	d := odd{rand.New(rand.NewPCG(2, 2))}.digest()
	text := func() []byte {
		b, err := d.MessageJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	line := append(text(), '\n')
	if _ = append(text(), ','); line[len(line)-1] != '\n' {
		t.Error("another has written into it")
	}
	n, err := d.Message(&view.Subscription{Topic: view.TopicMessages})
	if err != nil {
		t.Fatal(err)
	}
	line = append(n.Body, '\n')
	if _ = append(n.Body, ','); line[len(line)-1] != '\n' {
		t.Error("another has written into a notice")
	}
}
