package view

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// realBlocks is the folder of published blocks of mainnet and testnet. They may not be redistributed, so they
// are not part of the repository.
var realBlocks = testutil.Data("real/")

// forms are the versions of a block's header and of its chunks' that are known here.
type forms struct {
	header primitives.HeaderVersion
	chunk  primitives.ChunkInnerVersion
}

// covered are the blocks of known versions, so everything that follows from their JSON is compared.
var covered = map[string]forms{
	"mainnet-9820214-first":       {primitives.HeaderV1, primitives.ChunkInnerV1},
	"testnet-190534818":           {primitives.HeaderV5, primitives.ChunkInnerV4},
	"mainnet-151768255":           {primitives.HeaderV5, primitives.ChunkInnerV4},
	"testnet-217143860":           {primitives.HeaderV5, primitives.ChunkInnerV4},
	"testnet-217143880":           {primitives.HeaderV5, primitives.ChunkInnerV4},
	"testnet-217143901":           {primitives.HeaderV5, primitives.ChunkInnerV4},
	"testnet-217143921":           {primitives.HeaderV5, primitives.ChunkInnerV4},
	"testnet-217143934":           {primitives.HeaderV5, primitives.ChunkInnerV4},
	"testnet-234187695":           {primitives.HeaderV5, primitives.ChunkInnerV4},
	"mainnet-211846994-pv86-head": {primitives.HeaderV6, primitives.ChunkInnerV5},
	"sandbox-2.13-pv86-height10":  {primitives.HeaderV6, primitives.ChunkInnerV5},
}

// older are blocks with headers V2 to V4 and chunks V1 to V3, which no chain has that this node can
// follow. Only their outcomes and transactions are compared, whose forms have not changed.
var older = []string{
	"mainnet-34834052", "mainnet-66381607", "mainnet-70834059", "mainnet-75306841", "mainnet-82654651", "mainnet-84423722", "mainnet-93085141",
	"mainnet-100596707", "mainnet-105089746", "mainnet-105793821", "mainnet-114081912", "mainnet-114158749", "mainnet-115185108", "mainnet-115185109",
	"mainnet-115598802", "mainnet-115667764", "testnet-120572296",
}

// realBlock is a StreamerMessage.
type realBlock struct {
	Block  json.RawMessage
	Shards []struct {
		ID    primitives.ShardID `json:"shard_id"`
		Chunk *struct {
			Header       json.RawMessage
			Receipts     []json.RawMessage
			Transactions []struct {
				Transaction json.RawMessage
				Outcome     struct {
					Execution json.RawMessage `json:"execution_outcome"`
					Receipt   json.RawMessage
				}
			}
		}
		Executed []struct {
			Execution json.RawMessage `json:"execution_outcome"`
			Receipt   json.RawMessage
		} `json:"receipt_execution_outcomes"`
		Changes []json.RawMessage `json:"state_changes"`
	}
}

// compared counts what was compared, by kind.
type compared map[string]int

// TestPublicNetworkBlocksAreReproduced recomputes derived values of blocks of public networks and
// encodes their JSON again: hashes of blocks and chunks, the five roots, ids of receipts, leaves
// and paths of outcomes, signatures of transactions and of delegate actions.
func TestPublicNetworkBlocksAreReproduced(t *testing.T) {
	t.Parallel()
	testutil.Need(t, realBlocks+"README.md", "blocks of public networks are not part of the repository (docs/dev/testing.md)")
	paths, err := filepath.Glob(realBlocks + "blocks/*")
	if err != nil || len(paths) != len(covered)+len(older) {
		t.Fatalf("%d blocks, of which %d are known: %v", len(paths), len(covered)+len(older), err)
	}
	n := compared{}
	for _, path := range paths {
		name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".gz"), ".json")
		t.Run(name, func(t *testing.T) {
			text := testutil.Read(t, path)
			if strings.Contains(string(text), `"prevHash"`) {
				text = plainNames(t, text)
			}
			var b realBlock
			parse(t, text, &b)
			if b.Block == nil { // a reply of an RPC
				var reply struct{ Result json.RawMessage }
				parse(t, text, &reply)
				b.Block = reply.Result
			}
			f, known := covered[name]
			if !known && !slices.Contains(older, name) {
				t.Fatal("nothing is known of it")
			}
			if known {
				n.block(t, f, b.Block)
			}
			n.shards(t, &b, f, known)
		})
	}
	t.Logf("compared: %v", n)
	for what, least := range map[string]int{"block hashes": 11, "chunk hashes": 82, "roots": 55, "outcomes": 4493, "outcomes written again": 3385, "signatures": 1052,
		"delegations": 1601, "receipt ids": 3000, "receipts": 7052, "changes": 12_872} {
		if n[what] < least {
			t.Errorf("%d %s, want %d at least", n[what], what, least)
		}
	}
}

// block compares a block and its chunk headers.
func (n compared) block(t *testing.T, f forms, text json.RawMessage) {
	var j blockJSON
	parse(t, text, &j)
	var raw struct{ Chunks []json.RawMessage }
	parse(t, text, &raw)
	b := j.valueOf(t, f.header, f.chunk) // checks the hashes, too
	n["block hashes"]++
	n["chunk hashes"] += len(b.Body.Chunks)
	if len(b.Body.Chunks) == 0 {
		t.Error("no chunks")
	}
	same := func(what string, got, want primitives.Hash) {
		t.Helper()
		n["roots"]++
		if got != want {
			t.Errorf("%s %v, want %v", what, got, want)
		}
	}
	root := func(field func(*primitives.ChunkHeader) []byte) primitives.Hash {
		leaves := make([]primitives.Hash, len(b.Body.Chunks))
		for i, c := range b.Body.Chunks {
			leaves[i] = primitives.HashBytes(field(c))
		}
		return primitives.MerkleRoot(leaves)
	}
	h := b.Header
	same("prev_state_root", root(func(c *primitives.ChunkHeader) []byte { return c.PrevStateRoot[:] }), h.PrevStateRoot)
	same("outcome_root", root(func(c *primitives.ChunkHeader) []byte { return c.PrevOutcomeRoot[:] }), h.PrevOutcomeRoot)
	same("chunk_receipts_root", root(func(c *primitives.ChunkHeader) []byte { return c.PrevOutgoingReceiptsRoot[:] }), h.PrevChunkOutgoingReceiptsRoot)
	same("chunk_tx_root", root(func(c *primitives.ChunkHeader) []byte { return c.TxRoot[:] }), h.ChunkTxRoot)
	same("chunk_headers_root", root(func(c *primitives.ChunkHeader) []byte {
		hash := c.ChunkHash()
		return borsh.AppendUint64(hash[:], uint64(c.HeightIncluded))
	}), h.ChunkHeadersRoot)
	for i, c := range b.Body.Chunks {
		if included := c.HeightIncluded == h.Height; included != h.ChunkMask[i] {
			t.Errorf("chunk %d: included %v, and the mask says %v", i, included, h.ChunkMask[i])
		}
	}
	again(t, "block", AppendBlock(nil, j.Author, b), text)
}

// byHeight is the first protocol version here whose receipt ids derive from the block's height;
// before, from its hash.
const byHeight = 77

// shards compares a message's shards.
func (n compared) shards(t *testing.T, b *realBlock, f forms, known bool) {
	var block struct {
		Header struct {
			Hash    primitives.Hash
			Height  primitives.Height
			Version uint32 `json:"latest_protocol_version"`
		}
	}
	parse(t, b.Block, &block)
	h := &block.Header
	child := func(parent primitives.Hash, index uint64) primitives.Hash {
		if h.Version >= byHeight {
			return primitives.ReceiptIDFromReceipt(parent, h.Height, index)
		}
		return primitives.HashBytes(binary.LittleEndian.AppendUint64(append(parent[:], h.Hash[:]...), index))
	}
	for i := range b.Shards {
		s := &b.Shards[i]
		var root *primitives.Hash // of the shard's outcomes
		outcome := func(text json.RawMessage) {
			t.Helper()
			var j outcomeJSON
			parse(t, text, &j)
			o := j.value(t)
			if got := o.Proof.Root(o.LeafHash()); root == nil {
				root = &got
			} else if got != *root {
				t.Errorf("shard %d: outcome %v leads to root %v, others to %v", s.ID, o.ID, got, *root)
			}
			n["outcomes"]++
			for i, id := range o.ReceiptIDs {
				n["receipt ids"]++
				if want := child(o.ID, uint64(i)); id != want {
					t.Errorf("receipt %d of %v: %v, want %v", i, o.ID, id, want)
				}
			}
			if !known && o.Metadata.Version < 3 { // with profiles of another form
				return
			}
			n["outcomes written again"]++
			again(t, "outcome", AppendOutcomeProof(nil, o), text)
		}
		if s.Chunk != nil {
			if f.header != 0 || f.chunk != 0 {
				var j chunkHeaderJSON
				parse(t, s.Chunk.Header, &j)
				again(t, "chunk header", AppendChunkHeader(nil, j.valueOf(t, f.chunk)), s.Chunk.Header)
			}
			for _, x := range s.Chunk.Transactions {
				n.transaction(t, x.Transaction)
				outcome(x.Outcome.Execution)
				if x.Outcome.Receipt != nil && string(x.Outcome.Receipt) != "null" {
					n.receipt(t, x.Outcome.Receipt)
				}
			}
			for _, r := range s.Chunk.Receipts {
				n.receipt(t, r)
			}
		}
		for _, x := range s.Executed {
			outcome(x.Execution)
			n.receipt(t, x.Receipt)
		}
		for _, text := range s.Changes {
			var j changeJSON
			parse(t, text, &j)
			n["changes"]++
			again(t, "change", AppendChange(nil, j.value(t)), text)
		}
	}
}

// transaction checks a signature against the given hash: the JSON lacks the block hash that is
// needed to compute it.
func (n compared) transaction(t *testing.T, text json.RawMessage) {
	t.Helper()
	var j struct {
		Actions   []json.RawMessage
		Hash      primitives.Hash
		PublicKey primitives.PublicKey `json:"public_key"`
		Signature primitives.Signature
		SignerID  primitives.AccountID `json:"signer_id"`
	}
	parse(t, text, &j)
	if n["signatures"]++; !j.Signature.Verify(j.Hash[:], j.PublicKey) {
		t.Errorf("transaction %v: its signature does not hold", j.Hash)
	}
	for _, a := range j.Actions {
		n.action(t, a)
	}
}

// receipt decodes a receipt and encodes it again, except for code, which its JSON lacks.
func (n compared) receipt(t *testing.T, text json.RawMessage) {
	t.Helper()
	var j struct {
		Predecessor primitives.AccountID `json:"predecessor_id"`
		Receiver    primitives.AccountID `json:"receiver_id"`
		ID          primitives.Hash      `json:"receipt_id"`
		Receipt     struct {
			Action *struct {
				Actions  []json.RawMessage    `json:"actions"`
				GasPrice primitives.Balance   `json:"gas_price"`
				Inputs   []primitives.Hash    `json:"input_data_ids"`
				Yield    bool                 `json:"is_promise_yield"`
				RefundTo primitives.AccountID `json:"refund_to"`
				SignerID primitives.AccountID `json:"signer_id"`
				Key      primitives.PublicKey `json:"signer_public_key"`
				Outputs  []struct {
					DataID   primitives.Hash      `json:"data_id"`
					Receiver primitives.AccountID `json:"receiver_id"`
				} `json:"output_data_receivers"`
			}
			Data *struct {
				DataID primitives.Hash `json:"data_id"`
				Data   *[]byte         `json:"data"`
				Resume bool            `json:"is_promise_resume"`
			}
		}
	}
	parse(t, text, &j)
	r := &primitives.Receipt{PredecessorID: j.Predecessor, ReceiverID: j.Receiver, ID: j.ID}
	switch {
	case j.Receipt.Data != nil:
		d := &primitives.DataReceipt{DataID: j.Receipt.Data.DataID, Resume: j.Receipt.Data.Resume}
		if j.Receipt.Data.Data != nil {
			d.Data = append([]byte{}, *j.Receipt.Data.Data...)
		}
		r.Body = d
	case j.Receipt.Action != nil:
		a := j.Receipt.Action
		body := &primitives.ActionReceipt{SignerID: a.SignerID, SignerPublicKey: a.Key, GasPrice: a.GasPrice, InputDataIDs: a.Inputs, Yield: a.Yield, RefundTo: a.RefundTo}
		for _, o := range a.Outputs {
			body.OutputDataReceivers = append(body.OutputDataReceivers, primitives.DataReceiver{DataID: o.DataID, ReceiverID: o.Receiver})
		}
		for _, x := range a.Actions {
			one := n.action(t, x)
			if one == nil {
				return
			}
			body.Actions = append(body.Actions, one)
		}
		r.Body = body
	default:
		t.Errorf("a receipt of an unknown kind: %.200s", text)
		return
	}
	n["receipts"]++
	again(t, "receipt", AppendReceipt(nil, r), text)
}

// action decodes an action, encodes it again, and verifies delegate actions; nil: its JSON is
// incomplete.
func (n compared) action(t *testing.T, text json.RawMessage) primitives.Action {
	t.Helper()
	if string(text) == `"CreateAccount"` {
		return &primitives.CreateAccount{}
	}
	var one map[string]json.RawMessage
	parse(t, text, &one)
	for kind, body := range one {
		var j struct {
			Method      string               `json:"method_name"`
			Args        []byte               `json:"args"`
			Gas         primitives.Gas       `json:"gas"`
			Deposit     primitives.Balance   `json:"deposit"`
			Stake       primitives.Balance   `json:"stake"`
			Key         primitives.PublicKey `json:"public_key"`
			AccessKey   accessKeyJSON        `json:"access_key"`
			Beneficiary primitives.AccountID `json:"beneficiary_id"`
		}
		if kind != "Delegate" {
			parse(t, body, &j)
		}
		var a primitives.Action
		switch kind {
		case "DeployContract":
			n["of code the hash alone"]++
			return nil
		case "FunctionCall":
			a = &primitives.FunctionCall{Method: j.Method, Args: j.Args, Gas: j.Gas, Deposit: j.Deposit}
		case "Transfer":
			a = &primitives.Transfer{Deposit: j.Deposit}
		case "Stake":
			a = &primitives.Stake{Stake: j.Stake, PublicKey: j.Key}
		case "AddKey":
			a = &primitives.AddKey{PublicKey: j.Key, AccessKey: j.AccessKey.value(t)}
		case "DeleteKey":
			a = &primitives.DeleteKey{PublicKey: j.Key}
		case "DeleteAccount":
			a = &primitives.DeleteAccount{Beneficiary: j.Beneficiary}
		case "Delegate":
			if a = n.delegate(t, text); a == nil {
				return nil
			}
		default:
			t.Errorf("no reader of action %s", kind)
			return nil
		}
		n["actions"]++
		again(t, "action", AppendAction(nil, a), text)
		return a
	}
	return nil
}

// delegate decodes a delegate action in the form of state records and verifies its signature.
func (n compared) delegate(t *testing.T, text json.RawMessage) primitives.Action {
	t.Helper()
	record, err := genesis.ParseRecord([]byte(`{"PostponedReceipt":{"predecessor_id":"aa","receiver_id":"bb","receipt_id":"` + primitives.Hash{}.String() +
		`","receipt":{"Action":{"signer_id":"aa","signer_public_key":"ed25519:11111111111111111111111111111111","gas_price":"1","output_data_receivers":[],"input_data_ids":[],"actions":[` +
		string(text) + `]}}}}`))
	if err != nil {
		t.Errorf("%v in %.300s", err, text)
		return nil
	}
	a := record.(*genesis.PostponedReceiptRecord).Receipt.Body.(*primitives.ActionReceipt).Actions[0]
	d, ok := a.(*primitives.Delegate)
	if !ok {
		t.Errorf("it is %T", a)
		return nil
	}
	hash := d.Action.SignedHash()
	holds := d.Signature.Verify(hash[:], d.Action.PublicKey)
	if n["delegations"]++; holds == isForged(d) {
		t.Errorf("the signature of what %s delegates holds: %v", d.Action.SenderID, holds)
	}
	return a
}

// TestPublicEpochApprovalsAreValid verifies the approvals in headers of five epochs of mainnet
// against their validators, and the hash of the next epoch's validators. The headers are V4, whose
// hashes are not supported here.
func TestPublicEpochApprovalsAreValid(t *testing.T) {
	t.Parallel()
	testutil.Need(t, realBlocks+"README.md", "blocks of public networks are not part of the repository (docs/dev/testing.md)")
	type header struct {
		Approvals  []*primitives.Signature
		EpochID    primitives.Hash   `json:"epoch_id"`
		NextID     primitives.Hash   `json:"next_epoch_id"`
		NextBPHash primitives.Hash   `json:"next_bp_hash"`
		PrevHash   primitives.Hash   `json:"prev_hash"`
		PrevHeight primitives.Height `json:"prev_height"`
		Height     primitives.Height
	}
	validators := map[primitives.Hash][]primitives.ValidatorStake{}
	var headers []header
	paths, err := filepath.Glob(realBlocks + "epochs/*/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text := testutil.Read(t, path)
		if filepath.Base(path) != "validators.json" {
			var h header
			parse(t, text, &h)
			headers = append(headers, h)
			continue
		}
		var reply struct{ Result []stakeJSON }
		parse(t, text, &reply)
		validators[hash(t, filepath.Base(filepath.Dir(path)))] = stakes(reply.Result)
	}
	approvals, named := 0, 0
	for i := range headers {
		h := &headers[i]
		inner := primitives.NewApprovalInner(h.PrevHash, h.PrevHeight, h.Height)
		signed := inner.SignedBytes(h.Height)
		for k, a := range h.Approvals {
			if a == nil {
				continue
			}
			of := validators[h.EpochID]
			if k >= len(of) { // at the end of an epoch those of the next one approve, too
				continue
			}
			if approvals++; !a.Verify(signed, of[k].PublicKey) {
				t.Errorf("block %d: approval %d does not hold", h.Height, k)
			}
		}
		if next := validators[h.NextID]; next != nil {
			if named++; primitives.BlockProducersHash(next) != h.NextBPHash {
				t.Errorf("block %d: next_bp_hash is another", h.Height)
			}
		}
	}
	if approvals != 3568 || named != 39 {
		t.Errorf("%d approvals, %d hashes of validators", approvals, named)
	}
	t.Logf("%d approvals and %d hashes of validators in %d headers", approvals, named, len(headers))
}

// isForged returns whether d is the one that was sent with a key and signature of zeros.
func isForged(d *primitives.Delegate) bool {
	return d.Signature == primitives.ZeroED25519Signature
}

// absentThen are members that the JSON of an earlier release may lack, with their values.
var absentThen = map[string]string{
	"shard_split": "null", "proposed_split": "null", "chunk_endorsements": "null", "epoch_sync_data_hash": "null", "priority": "0",
	"is_promise_yield": "false", "is_promise_resume": "false", "contracts": "null", "storage_paid_at": "0", "nonce_mode": "null",
	"block_body_hash": "null", "prev_height": "null", "block_ordinal": "null",
	"bandwidth_requests": "null", "congestion_info": `{"allowed_shard":0,"buffered_receipts_gas":"0","delayed_receipts_gas":"0","receipt_bytes":0}`,
	"challenges_result": "[]", "timestamp_nanosec": "",
}

// again compares encoded JSON with its source as values.
func again(t *testing.T, what string, got, want []byte) {
	t.Helper()
	read := func(text []byte) (v any) {
		d := json.NewDecoder(strings.NewReader(string(text)))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%s: %v in %.300s", what, err, text)
		}
		return v
	}
	for _, difference := range differences(what, read(got), read(want)) {
		t.Error(difference)
	}
}

func differences(path string, got, want any) (out []string) {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s is %v, want %v", path, got, want)}
		}
		for k, x := range w {
			if y, ok := g[k]; ok {
				out = append(out, differences(path+"."+k, y, x)...)
			} else {
				out = append(out, fmt.Sprintf("%s.%s is not written", path, k))
			}
		}
		for k, y := range g {
			if _, ok := w[k]; !ok {
				text, _ := json.Marshal(y)
				if then, ok := absentThen[k]; !ok || then != "" && string(text) != then {
					out = append(out, fmt.Sprintf("%s.%s is written, %s", path, k, text))
				}
			}
		}
		return out
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return []string{fmt.Sprintf("%s is %.300v, want %.300v", path, got, want)}
		}
		for i := range w {
			out = append(out, differences(fmt.Sprintf("%s[%d]", path, i), g[i], w[i])...)
		}
		return out
	}
	if got != want {
		return []string{fmt.Sprintf("%s is %.300v, want %.300v", path, got, want)}
	}
	return nil
}

// plainNames restores names and values that a client has changed: heightIncluded is
// height_included, and a timestamp without its last digits is taken from its text.
func plainNames(t *testing.T, text []byte) []byte {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	var walk func(any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			out := map[string]any{}
			for k, x := range v {
				var b strings.Builder
				for i, r := range k {
					if r >= 'A' && r <= 'Z' && k[0] >= 'a' {
						if i > 0 {
							b.WriteByte('_')
						}
						r += 'a' - 'A'
					}
					b.WriteRune(r)
				}
				out[b.String()] = walk(x)
			}
			if exact, ok := out["timestamp_nanosec"].(string); ok {
				out["timestamp"] = json.Number(exact)
			}
			return out
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		}
		return v
	}
	out, err := json.Marshal(walk(v))
	if err != nil {
		t.Fatal(err)
	}
	return out
}
