//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/lightclient"
	"github.com/troupe-chain/troupe/primitives"
)

// canonical returns a JSON text with sorted keys and without white space.
func canonical(raw json.RawMessage) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return "not JSON: " + string(raw)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// comparison compares the replies of two nodes and counts requests.
type comparison struct {
	a, b         *process
	asked, equal int // equal: the replies had the same bytes
	untrue       int // proofs of a neard that are invalid
}

// ask requires the same reply from both nodes: the same result as JSON, or the same error and
// cause. Replies with equal JSON but different bytes are counted.
func (c *comparison) ask(t *testing.T, method string, params any) json.RawMessage {
	t.Helper()
	c.asked++
	x, err := c.a.call(method, params)
	if err != nil {
		t.Errorf("%s: error %v", method, err)
		return nil
	}
	y, err := c.b.call(method, params)
	if err != nil {
		t.Errorf("%s: error %v", method, err)
		return nil
	}
	switch {
	case x.Error != nil && y.Error != nil && x.Error.Name == y.Error.Name && x.Error.Cause.Name == y.Error.Cause.Name:
		c.equal++
	case x.Error != nil || y.Error != nil || canonical(x.Result) != canonical(y.Result):
		t.Errorf("%s %v differs:\n%s\n%s", method, asJSON(params), replyText(x), replyText(y))
	case bytes.Equal(x.Result, y.Result):
		c.equal++
	}
	return x.Result
}

// proof requires the same outcome proof from both nodes. In the first block of a shard layout neard
// uses the index that the shard had in the previous layout (view_client_actor.rs:1179), and so
// proves another shard's root if a shard with a lower index was split: then neard's proof must be
// invalid and troupe's valid.
func (c *comparison) proof(t *testing.T, params map[string]any) {
	t.Helper()
	const method = "EXPERIMENTAL_light_client_proof"
	var head struct {
		Header struct {
			Root primitives.Hash `json:"block_merkle_root"`
		} `json:"header"`
	}
	c.a.get("block", map[string]any{"block_id": params["light_client_head"]}, &head)
	nodes := [...]*process{c.a, c.b}
	var answers [2]reply
	var bare [2]string // the replies without the path
	var wrong [2]error
	o := object{}
	for i, p := range nodes {
		r, err := p.call(method, params)
		o = object{}
		if err != nil || r.Error != nil || json.Unmarshal(r.Result, &o) != nil {
			c.ask(t, method, params)
			return
		}
		_, wrong[i] = lightclient.ProvenOutcome(head.Header.Root, r.Result, true)
		delete(o, "outcome_root_proof")
		answers[i], bare[i] = r, asJSON(o)
	}
	if wrong[0] == nil && wrong[1] == nil || canonical(answers[0].Result) == canonical(answers[1].Result) && c.a.isNeard() && c.b.isNeard() {
		c.ask(t, method, params)
		return
	}
	c.asked++
	block, _ := o.at("outcome_proof")["block_hash"].(string)
	for i, p := range nodes {
		if wrong[i] != nil && (!p.isNeard() || bare[0] != bare[1] || !c.begins(block)) {
			t.Errorf("%s %v is not proven: %v\n%s\n%s", method, asJSON(params), wrong[i], replyText(answers[0]), replyText(answers[1]))
			return
		}
	}
	c.untrue++
}

// begins returns whether a block is the first of a shard layout.
func (c *comparison) begins(block string) bool {
	var at, before struct {
		Header struct {
			Prev string `json:"prev_hash"`
		} `json:"header"`
		Chunks []json.RawMessage `json:"chunks"`
	}
	c.a.get("block", map[string]any{"block_id": block}, &at)
	c.a.get("block", map[string]any{"block_id": at.Header.Prev}, &before)
	return len(at.Chunks) != len(before.Chunks)
}

// isNeard returns whether the node is a neard.
func (p *process) isNeard() bool {
	return slices.Contains(p.cmd.Args, os.Getenv("TROUPE_NEARD"))
}

func asJSON(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

func replyText(r reply) string {
	if r.Error != nil {
		return fmt.Sprintf("error %s %s %s", r.Error.Name, r.Error.Cause.Name, tail(string(r.Error.Data), 500))
	}
	return string(r.Result[:min(len(r.Result), 3000)])
}

// blocks compares every block of a range of heights, its chunks, and the state changes in it. It
// returns the number of blocks.
func (c *comparison) blocks(t *testing.T, from, to, shards int) (n int) {
	t.Helper()
	for h := from; h <= to; h++ {
		raw := c.ask(t, "block", map[string]any{"block_id": h})
		if raw == nil {
			continue // neither node has a block of that height
		}
		n++
		c.ask(t, "EXPERIMENTAL_changes_in_block", map[string]any{"block_id": h})
		for shard := range shards {
			c.ask(t, "chunk", map[string]any{"block_id": h, "shard_id": shard})
		}
	}
	return n
}

// state compares queries at one block: accounts, keys, prices, validators, changes, configurations.
func (c *comparison) state(t *testing.T, height uint64, accounts []string, contract string) {
	t.Helper()
	at := func(kind string, more map[string]any) map[string]any {
		q := map[string]any{"request_type": kind, "block_id": height}
		for k, v := range more {
			q[k] = v
		}
		return q
	}
	for _, id := range accounts {
		for _, kind := range []string{"view_account", "view_access_key_list", "view_code"} {
			c.ask(t, "query", at(kind, map[string]any{"account_id": id}))
		}
		c.ask(t, "query", at("view_state", map[string]any{"account_id": id, "prefix_base64": ""}))
	}
	c.ask(t, "query", at("view_account", map[string]any{"account_id": "nobody.near"}))
	for _, method := range []string{"ft_total_supply", "nothing"} {
		c.ask(t, "query", at("call_function", map[string]any{"account_id": contract, "method_name": method, "args_base64": "e30="}))
	}
	for _, kind := range []string{"account_changes", "all_access_key_changes", "data_changes", "contract_code_changes"} {
		q := map[string]any{"block_id": height, "changes_type": kind, "account_ids": accounts}
		if kind == "data_changes" {
			q["key_prefix_base64"] = ""
		}
		c.ask(t, "EXPERIMENTAL_changes", q)
	}
	c.ask(t, "gas_price", []any{height})
	// counters of the current epoch change with each block
	if epoch := c.epochOf(t, height); epoch != c.epochOf(t, c.a.head("final").Header.Height) {
		c.together(t, "validators", map[string]any{"epoch_id": epoch})
	}
	c.ask(t, "EXPERIMENTAL_validators_ordered", map[string]any{"block_id": height})
	c.ask(t, "EXPERIMENTAL_protocol_config", map[string]any{"block_id": height})
	c.ask(t, "EXPERIMENTAL_genesis_config", map[string]any{})
	for shard := range 4 {
		c.ask(t, "EXPERIMENTAL_congestion_level", map[string]any{"block_id": height, "shard_id": shard})
	}
	c.ask(t, "block", map[string]any{"block_id": 1_000_000_000})
	c.ask(t, "block", map[string]any{"block_id": "11111111111111111111111111111111"})
}

// proofs compares accounts and their state proofs at the newest final block. A troupe has proofs
// only for recent blocks.
func (c *comparison) proofs(t *testing.T, accounts []string) {
	t.Helper()
	for _, id := range accounts {
		h := c.a.head("final").Header.Height
		c.b.reaches(h, time.Minute)
		c.ask(t, "query", map[string]any{"request_type": "view_state", "block_id": h, "account_id": id, "prefix_base64": "", "include_proof": true})
	}
}

// epochOf returns the epoch id of a block.
func (c *comparison) epochOf(t *testing.T, height uint64) string {
	t.Helper()
	var h struct {
		Header struct {
			Epoch string `json:"epoch_id"`
		} `json:"header"`
	}
	c.a.get("block", map[string]any{"block_id": height}, &h)
	return h.Header.Epoch
}

// transaction compares the replies about a transaction and each of its receipts, and their light
// client proofs.
func (c *comparison) transaction(t *testing.T, hash, sender, lightHead string) {
	t.Helper()
	raw := c.ask(t, "EXPERIMENTAL_tx_status", map[string]any{"tx_hash": hash, "sender_account_id": sender, "wait_until": "FINAL"})
	c.ask(t, "tx", map[string]any{"tx_hash": hash, "sender_account_id": sender, "wait_until": "FINAL"})
	var view struct {
		Receipts []struct {
			ID       string `json:"id"`
			Executor struct {
				Account string `json:"executor_id"`
			} `json:"outcome"`
		} `json:"receipts_outcome"`
	}
	if err := json.Unmarshal(raw, &view); err != nil {
		t.Errorf("%s: error %v", hash, err)
		return
	}
	c.proof(t, map[string]any{"type": "transaction", "transaction_hash": hash, "sender_id": sender, "light_client_head": lightHead})
	for _, r := range view.Receipts {
		c.ask(t, "EXPERIMENTAL_receipt", map[string]any{"receipt_id": r.ID})
		c.proof(t, map[string]any{"type": "receipt", "receipt_id": r.ID, "receiver_id": r.Executor.Account, "light_client_head": lightHead})
	}
}

// together is ask for replies that change with the head: it repeats both requests if the nodes may
// have answered at different heads.
func (c *comparison) together(t *testing.T, method string, params any) json.RawMessage {
	t.Helper()
	for range 20 {
		x, err := c.a.call(method, params)
		if err != nil {
			break
		}
		if y, err := c.b.call(method, params); err == nil && x.Error == nil && y.Error == nil && bytes.Equal(x.Result, y.Result) {
			c.asked++
			c.equal++
			return x.Result
		}
		time.Sleep(50 * time.Millisecond)
	}
	return c.ask(t, method, params)
}

// lightClient follows both nodes with next_light_client_block from the first block to the end, and
// returns the number of light client blocks.
func (c *comparison) lightClient(t *testing.T, from string) (n int) {
	t.Helper()
	for range 50 {
		raw := c.together(t, "next_light_client_block", map[string]any{"last_block_hash": from})
		var next struct {
			Inner struct {
				Height uint64 `json:"height"`
			} `json:"inner_lite"`
		}
		if json.Unmarshal(raw, &next) != nil || next.Inner.Height == 0 {
			return n
		}
		n++
		var h head
		c.a.get("block", map[string]any{"block_id": next.Inner.Height}, &h)
		if h.Header.Hash == from {
			return n
		}
		from = h.Header.Hash
	}
	return n
}
