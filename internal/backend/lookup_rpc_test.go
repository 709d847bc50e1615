package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/actors/node"
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/internal/trace"
	"github.com/troupe-chain/troupe/internal/viewpool"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc"
	"github.com/troupe-chain/troupe/runtime/vm"
)

// lookupClient asks a JSON-RPC server about the chain of a lookupChain.
type lookupClient struct {
	*lookupChain
	url string
}

// serve starts a node's actors and a JSON-RPC server on a loopback port. old is the node's history; nil: none.
func (r *lookupChain) serve(v *vm.VM, old History) *lookupClient {
	r.Helper()
	n, err := node.Start(node.Options{
		Engine: r.chain.Engine, Vote: r.chain.Engine.Chain().Version.Protocol, Mode: production.Manual, Limits: node.Limits{Wait: time.Minute},
		Delays:  doomslug.Delays{Endorsement: 1e8, Skip: 1e9, MaxWait: 6e9, ChunkWait: [2]uint64{1, 3}},
		Mempool: txpool.Limits{Transactions: 1000, Bytes: 100 << 20, KeyTransactions: 100},
		Exit: func(actor string, reason any, stack []byte) {
			panic(fmt.Sprintf("%s failed: %v\n%s", actor, reason, stack))
		},
	})
	if err != nil {
		r.Fatal(err)
	}
	views := viewpool.New(viewpool.Options{Timeout: time.Minute})
	r.back = New(Options{Engine: r.chain.Engine, VM: v, Genesis: &genesis.Config{}, Submit: n, Views: views, Now: time.Now, History: old})
	server, err := rpc.New(r.back, rpc.Options{PollingTimeout: time.Minute})
	if err != nil {
		r.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	r.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			r.Error(err)
		}
		if err := <-served; err != nil {
			r.Error(err)
		}
		views.Close()
		if err := n.Stop(ctx); err != nil {
			r.Error(err)
		}
	})
	return &lookupClient{r, "http://" + l.Addr().String()}
}

// ask sends a request and decodes the result. It returns the name of the error's cause; empty:
// there was no error.
func (c *lookupClient) ask(method string, params map[string]any, result any) (cause string) {
	c.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		c.Fatal(err)
	}
	reply, err := http.Post(c.url, "application/json", bytes.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = reply.Body.Close() }()
	var got struct {
		Result json.RawMessage
		Error  *struct {
			Cause struct{ Name string }
			Data  json.RawMessage
		}
	}
	if err := json.NewDecoder(reply.Body).Decode(&got); err != nil {
		c.Fatal(err)
	}
	switch {
	case got.Error != nil && got.Error.Cause.Name == "INTERNAL_ERROR":
		return fmt.Sprintf("INTERNAL_ERROR %s", got.Error.Data)
	case got.Error != nil:
		return got.Error.Cause.Name
	}
	if err := json.Unmarshal(got.Result, result); err != nil {
		c.Fatal(err)
	}
	return ""
}

// shownPath is a Merkle path of a reply.
type shownPath []struct{ Direction, Hash string }

func (p shownPath) path(t *testing.T) (out primitives.MerklePath) {
	for _, x := range p {
		h, err := primitives.ParseHash(x.Hash)
		if err != nil {
			t.Fatal(err)
		}
		item := primitives.MerklePathItem{Hash: h, Direction: primitives.Right}
		if x.Direction == "Left" {
			item.Direction = primitives.Left
		}
		out = append(out, item)
	}
	return out
}

// shownOutcome is an outcome of a reply.
type shownOutcome struct {
	ID      string
	Block   string `json:"block_hash"`
	Outcome json.RawMessage
	Proof   shownPath
}

// is returns whether a reply shows an outcome as its block has it.
func (x *shownOutcome) is(o *chainOutcome) bool {
	return x.ID == o.ID.String() && x.Block == o.block.entry.Hash.String() && bytes.Equal(x.Outcome, view.AppendOutcome(nil, &o.Outcome))
}

// TestEveryIDIsFoundOverRPC asks a JSON-RPC server on a loopback port for the ids of a congested
// chain, of whose blocks the oldest are collected, and compares the replies with the blocks.
func TestEveryIDIsFoundOverRPC(t *testing.T) {
	v, err := vm.New(vm.Options{Alarm: func(err error) { panic(err) }})
	if err != nil {
		t.Fatal(err)
	}
	o, course := congestedChain(2, 64, v)
	o.Store.FlatHeadBlocks = 3
	chain, err := workload.OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = chain.Close() })
	r := newLookupChain(t, chain, course, map[string]int{})
	r.run(course.Blocks)
	r.collectGarbage()
	c := r.serve(v, nil)
	s := r.gather()
	for hash, b := range s.txs {
		c.transaction(s, hash, b)
	}
	for id, o := range s.outcomes {
		c.proved(s, id, o)
	}
	for id, x := range s.receipts {
		c.shownReceipt(id, x)
		c.shownOrigin(s, id)
	}
	for _, kind := range []string{"transactions", "collected transactions", "traces", "proofs", "unknown outcomes", "receipts",
		"unknown receipts", "origins", "unknown origins"} {
		if r.counts[kind] == 0 {
			t.Errorf("%s: none", kind)
		}
	}
	t.Logf("tail %d of %d: %v", chain.Store.Tip().Tail, chain.Engine.Head().Height(), r.counts)
}

// transaction asks for a transaction by tx, EXPERIMENTAL_tx_status and, for some,
// EXPERIMENTAL_trace_tx.
func (c *lookupClient) transaction(s *chainContents, hash primitives.Hash, b *recordedBlock) {
	c.Helper()
	o := s.outcomes[hash]
	if o == nil {
		return
	}
	params := map[string]any{"tx_hash": hash.String(), "sender_account_id": string(o.Outcome.ExecutorID), "wait_until": "INCLUDED"}
	type reply struct {
		Transaction struct{ Hash string }
		Outcome     shownOutcome   `json:"transaction_outcome"`
		Outcomes    []shownOutcome `json:"receipts_outcome"`
		Receipts    []json.RawMessage
	}
	if !c.kept(b) {
		if c.counts["collected transactions"]++; c.counts["collected transactions"] <= 20 {
			params["wait_until"] = "NONE"
			for _, method := range []string{"tx", "EXPERIMENTAL_tx_status"} {
				if cause := c.ask(method, params, new(reply)); cause != "UNKNOWN_TRANSACTION" {
					c.Errorf("%s %v of collected block %d: %q", method, hash, b.entry.Height(), cause)
				}
			}
			if cause := c.ask("EXPERIMENTAL_trace_tx", map[string]any{"tx_hash": hash.String()}, new(trace.Report)); cause != "UNKNOWN_TRANSACTION" {
				c.Errorf("trace of %v in collected block %d: %q", hash, b.entry.Height(), cause)
			}
		}
		return
	}
	want := s.descendants(hash)
	for _, method := range []string{"tx", "EXPERIMENTAL_tx_status"} {
		var got reply
		if cause := c.ask(method, params, &got); cause != "" || got.Transaction.Hash != hash.String() || !got.Outcome.is(o) {
			c.Errorf("%s %v of block %d: %q, %+v", method, hash, b.entry.Height(), cause, got.Outcome)
			continue
		}
		seen := map[string]bool{}
		for i := range got.Outcomes {
			x := &got.Outcomes[i]
			if w := want[x.ID]; w == nil || !x.is(w) || seen[x.ID] {
				c.Errorf("%s %v: outcome of %s in block %s", method, hash, x.ID, x.Block)
			}
			seen[x.ID] = true
		}
		if len(seen) != len(want) {
			c.Errorf("%s %v of block %d: %d outcomes of %d", method, hash, b.entry.Height(), len(seen), len(want))
		}
		for _, text := range got.Receipts {
			var x struct {
				ID string `json:"receipt_id"`
			}
			if err := json.Unmarshal(text, &x); err != nil {
				c.Fatal(err)
			}
			if w := want[x.ID]; w == nil || !bytes.Equal(text, view.AppendReceipt(nil, s.receipts[w.ID].Receipt)) {
				c.Errorf("%s %v: receipt %s", method, hash, text)
			}
		}
		if (len(got.Receipts) > 0) != (method == "EXPERIMENTAL_tx_status" && c.showsReceipts(s, hash, b)) {
			c.Errorf("%s %v: %d receipts", method, hash, len(got.Receipts))
		}
	}
	if c.counts["transactions"]++; c.counts["transactions"]%8 == 0 {
		c.traced(s, hash, want)
	}
}

// showsReceipts returns whether EXPERIMENTAL_tx_status shows receipts of a transaction: neard
// leaves out the first one of an account to itself.
func (c *lookupClient) showsReceipts(s *chainContents, hash primitives.Hash, b *recordedBlock) bool {
	n := len(s.descendants(hash))
	for i := range b.entry.Shards {
		if x := b.entry.Shards[i].Chunk; x != nil {
			for _, tx := range x.Transactions {
				if tx.Hash() == hash && tx.SignerID == tx.ReceiverID {
					return n > 1
				}
			}
		}
	}
	return n > 0
}

// descendants returns the outcomes of the receipts that come from an outcome, by id.
func (s *chainContents) descendants(id primitives.Hash) map[string]*chainOutcome {
	out := map[string]*chainOutcome{}
	for ids := slices.Clone(s.outcomes[id].Outcome.ReceiptIDs); len(ids) > 0; {
		id := ids[len(ids)-1]
		ids = ids[:len(ids)-1]
		if x := s.outcomes[id]; x != nil && out[id.String()] == nil {
			out[id.String()] = x
			ids = append(ids, x.Outcome.ReceiptIDs...)
		}
	}
	return out
}

// traced asks for the trace of a transaction, which runs it again.
func (c *lookupClient) traced(s *chainContents, hash primitives.Hash, want map[string]*chainOutcome) {
	c.Helper()
	var got trace.Report
	switch cause := c.ask("EXPERIMENTAL_trace_tx", map[string]any{"tx_hash": hash.String()}, &got); {
	case cause == "GARBAGE_COLLECTED_BLOCK" && c.isNearTail(s, hash, want):
		c.counts["traces that need collected blocks"]++
		return
	case cause != "":
		c.Errorf("trace of %v in block %d: %s", hash, s.outcomes[hash].block.entry.Height(), cause)
		return
	}
	for i := range got.Outcomes {
		x := &got.Outcomes[i]
		w := want[x.ID]
		if x.ID == hash.String() {
			w = s.outcomes[hash]
		}
		if w == nil || x.Block != w.block.entry.Hash.String() || x.Gas != uint64(w.Outcome.GasBurnt) ||
			x.Executor != string(w.Outcome.ExecutorID) || !slices.Equal(x.Logs, w.Outcome.Logs) {
			c.Errorf("trace of %v: outcome of %s", hash, x.ID)
		}
	}
	if len(got.Outcomes) != len(want)+1 {
		c.Errorf("trace of %v: %d outcomes, want %d", hash, len(got.Outcomes), len(want)+1)
	}
	c.counts["traces"]++
}

// isNearTail returns whether a chunk that ran a transaction or one of its receipts takes receipts
// in from below the tail: its shard has had no chunk between.
func (c *lookupClient) isNearTail(s *chainContents, hash primitives.Hash, want map[string]*chainOutcome) bool {
	tail := c.chain.Store.Tip().Tail
	near := func(o *chainOutcome) bool {
		for _, b := range s.canonical {
			e := b.entry
			if e.Height() <= tail || e.Height() >= o.block.entry.Height() {
				continue
			}
			for i := range e.Shards {
				older, _ := o.block.entry.Layout.Ancestors(o.shard)
				if e.Shards[i].Chunk != nil && (e.Shards[i].ID == o.shard || slices.Contains(older, e.Shards[i].ID)) {
					return false
				}
			}
		}
		return true
	}
	for _, o := range want {
		if near(o) {
			return true
		}
	}
	return near(s.outcomes[hash])
}

// proved asks for a light client's proof of an outcome and verifies it by the headers.
func (c *lookupClient) proved(s *chainContents, id primitives.Hash, o *chainOutcome) {
	c.Helper()
	final := c.chain.Engine.Final()
	params := map[string]any{"light_client_head": final.Hash.String()}
	if s.txs[id] != nil {
		params["type"], params["transaction_hash"], params["sender_id"] = "transaction", id.String(), string(o.Outcome.ExecutorID)
	} else {
		params["type"], params["receipt_id"], params["receiver_id"] = "receipt", id.String(), string(o.Outcome.ExecutorID)
	}
	var got struct {
		Outcome     shownOutcome `json:"outcome_proof"`
		Outcomes    shownPath    `json:"outcome_root_proof"`
		HeaderProof shownPath    `json:"block_proof"`
		Header      struct {
			Lite struct {
				Root string `json:"outcome_root"`
			} `json:"inner_lite"`
		} `json:"block_header_lite"`
	}
	cause := c.ask("light_client_proof", params, &got)
	switch {
	case !c.kept(o.block):
		if cause != "UNKNOWN_TRANSACTION_OR_RECEIPT" {
			c.Errorf("proof of outcome %v of collected block %d: %q", id, o.block.entry.Height(), cause)
		}
		c.counts["unknown outcomes"]++
		return
	case !s.confirmed(o, final.Height):
		if cause != "NOT_CONFIRMED" && !strings.Contains(cause, "not on current chain") {
			c.Errorf("proof of outcome %v, which no final block has: %q", id, cause)
		}
		return
	case cause != "":
		c.Errorf("proof of outcome %v of block %d: %s", id, o.block.entry.Height(), cause)
		return
	}
	var in *recordedBlock
	for _, b := range s.canonical {
		if b.entry.Hash.String() == got.Outcome.Block {
			in = b
		}
	}
	if in == nil || got.Outcome.ID != id.String() || !bytes.Equal(got.Outcome.Outcome, view.AppendOutcome(nil, &o.Outcome)) {
		c.Errorf("proof of outcome %v: %+v", id, got.Outcome)
		return
	}
	chunk := got.Outcome.Proof.path(c.T).Root(o.LeafHash())
	root := got.Outcomes.path(c.T).Root(primitives.HashBytes(chunk[:]))
	if h := in.entry.Header(); root != h.PrevOutcomeRoot || got.Header.Lite.Root != root.String() {
		c.Errorf("proof of outcome %v does not lead to the root in block %d", id, h.Height)
	}
	if path := got.HeaderProof.path(c.T); in.entry.Hash == final.Hash {
		if len(path) > 0 {
			c.Errorf("proof of the light client's head has %d steps", len(path))
		}
	} else if path.Root(in.entry.Hash) != c.blocks[final.Hash].entry.Header().BlockMerkleRoot {
		c.Errorf("proof of block %d does not lead to the root in block %d", in.entry.Height(), final.Height)
	}
	c.counts["proofs"]++
}

// shownReceipt asks for a receipt.
func (c *lookupClient) shownReceipt(id primitives.Hash, x *chainReceipt) {
	c.Helper()
	var got json.RawMessage
	cause := c.ask("EXPERIMENTAL_receipt", map[string]any{"receipt_id": id.String()}, &got)
	switch {
	case cause == "UNKNOWN_RECEIPT" && (x.Receipt == nil || !c.isStored(x)):
		c.counts["unknown receipts"]++
	case cause == "" && x.Receipt != nil && bytes.Equal(got, view.AppendReceipt(nil, x.Receipt)):
		c.counts["receipts"]++
	default:
		c.Errorf("receipt %v, sent %v, taken from the queue %v: %q, %s", id, heightOf(x.sent), heightOf(x.queued), cause, got)
	}
}

// shownOrigin asks which transaction a receipt comes from.
func (c *lookupClient) shownOrigin(s *chainContents, id primitives.Hash) {
	c.Helper()
	tx, whole := s.origin(id, c.kept)
	var got struct {
		Transaction string `json:"transaction_hash"`
		Sender      string `json:"sender_account_id"`
	}
	switch cause := c.ask("EXPERIMENTAL_receipt_to_tx", map[string]any{"receipt_id": id.String()}, &got); {
	case cause == "" && got.Transaction == tx.String() && got.Sender == string(s.outcomes[tx].Outcome.ExecutorID):
		c.counts["origins"]++
	case cause == "UNKNOWN_RECEIPT" && !whole:
		c.counts["unknown origins"]++
	default:
		c.Errorf("origin of %v: %q, %+v, want %v", id, cause, got, tx)
	}
}
