package blockdoc

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// messageJSON is a StreamerMessage with the values that documents decode.
type messageJSON struct {
	Block  json.RawMessage
	Shards []struct {
		Chunk *struct {
			Header       json.RawMessage
			Transactions []struct {
				Transaction json.RawMessage
				Outcome     struct {
					Execution json.RawMessage `json:"execution_outcome"`
				}
			}
			Receipts []json.RawMessage
		}
		Executed []struct {
			Execution json.RawMessage `json:"execution_outcome"`
			Receipt   json.RawMessage
		} `json:"receipt_execution_outcomes"`
	}
}

// each calls f for each of the values, with the text that package view writes of the decoded value.
func (m *messageJSON) each(d *Document, f func(what string, text json.RawMessage, ours []byte)) {
	f("block", m.Block, view.AppendBlock(nil, d.Author, d.Block))
	for k := range m.Shards {
		raw, s := &m.Shards[k], &d.Shards[k]
		if c := raw.Chunk; c != nil {
			f("chunk header", c.Header, view.AppendChunkHeader(nil, s.Chunk))
			for j := range c.Transactions {
				f("transaction", c.Transactions[j].Transaction, view.AppendSignedTransaction(nil, s.Transactions[j].SignedTransaction))
				f("outcome", c.Transactions[j].Outcome.Execution, view.AppendOutcomeProof(nil, &s.Outcomes[j]))
			}
			for j := range c.Receipts {
				f("receipt", c.Receipts[j], view.AppendReceipt(nil, s.Receipts[j].Receipt))
			}
		}
		for j := range raw.Executed {
			f("outcome", raw.Executed[j].Execution, view.AppendOutcomeProof(nil, &s.Outcomes[len(s.Transactions)+j]))
			f("receipt", raw.Executed[j].Receipt, view.AppendReceipt(nil, s.Executed[j].Receipt))
		}
	}
}

// TestDecodedValuesHaveTheTextOfNeard: the values of neard's recorded stream, from which the code and
// the block hashes of transactions are missing, have the text that neard wrote: the block, and each
// chunk header, transaction, receipt and outcome. So a reply that is made from a document equals that
// of a node with the chain. The text includes hashes, profiles and failures.
func TestDecodedValuesHaveTheTextOfNeard(t *testing.T) {
	t.Parallel()
	n := map[string]int{}
	for i, line := range readStream(t).lines {
		d, err := Parse(line)
		if err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
		var message messageJSON
		if err := json.Unmarshal(line, &message); err != nil {
			t.Fatal(err)
		}
		message.each(d, func(what string, text json.RawMessage, ours []byte) {
			want, err := sorted(text)
			if err != nil {
				t.Fatal(err)
			}
			if n[what]++; !bytes.Equal(ours, want) {
				t.Errorf("line %d: %s\n%s\nwant\n%s", i, what, ours, want)
			}
		})
		n["deployments"] += bytes.Count(line, []byte(`{"Deploy`))
		n["failures"] += bytes.Count(line, []byte(`{"Failure"`))
	}
	t.Log(n)
	for _, what := range []string{"block", "chunk header", "transaction", "outcome", "receipt", "deployments", "failures"} {
		if n[what] < 5 {
			t.Errorf("%d %s", n[what], what)
		}
	}
}

// TestDecodedOldValuesHaveTheRecordedMembers: the values of blocks of mainnet and testnet from protocol
// 29 on have all members that the releases of their time wrote, with the same values. So the hash of a
// chunk header is right in each of its layouts.
func TestDecodedOldValuesHaveTheRecordedMembers(t *testing.T) {
	t.Parallel()
	n := map[string]int{}
	layouts := map[chunkLayout]bool{}
	for name, text := range realDocuments(t) {
		d, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var message messageJSON
		if err := json.Unmarshal(text, &message); err != nil {
			t.Fatal(err)
		}
		message.each(d, func(what string, text json.RawMessage, ours []byte) {
			n[what]++
			if err := same(what, text, ours); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		for i, c := range d.Block.Body.Chunks {
			layouts[chunkLayout{c.Version, c.Form}] = true
			if c.ChunkHash() != d.chunks[i] {
				t.Errorf("%s: chunk %v has the hash %v", name, d.chunks[i], c.ChunkHash())
			}
		}
		for i := range d.Shards {
			if c := d.Shards[i].Chunk; c != nil {
				layouts[chunkLayout{c.Version, c.Form}] = true
			}
		}
	}
	t.Log(n, layouts)
	if len(layouts) < 3 || n["outcome"] < 700 {
		t.Errorf("layouts %v, %v", layouts, n)
	}
}

// TestViewedChunksHaveOnlyTheirReceipts: the receipts of chunks of mainnet's first layouts have the root
// that the chunk header names, although the feeds of that time listed local receipts among them.
func TestViewedChunksHaveOnlyTheirReceipts(t *testing.T) {
	t.Parallel()
	var layout primitives.ShardLayout
	const text = `{"V1":{"boundary_accounts":["aurora","aurora-0","kkuuue2akv_1630967379.near"],"shards_split_map":[[0,1,2,3]],"to_parent_shard_map":[0,0,0,0],"version":1}}`
	if err := json.Unmarshal([]byte(text), &layout); err != nil {
		t.Fatal(err)
	}
	chunks, removed := 0, 0
	for name, text := range realDocuments(t) {
		d, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		b := newBooks()
		b.learn(d)
		if len(d.Block.Header.ChunkMask) != layout.NumShards() {
			continue
		}
		for i := range d.Shards {
			s := &d.Shards[i]
			_, c := d.ViewedChunk(s.ID)
			if c == nil {
				continue
			}
			lacks := false
			for _, x := range s.Receipts {
				lacks = lacks || len(fill(x.Slots, func(h primitives.Hash) []byte { return b.code[h] })) > 0
			}
			chunks++
			removed += len(s.Receipts) - len(c.PrevOutgoingReceipts)
			// These versions have only the first layout of action receipts, which the views decode to.
			if root, _ := chain.OutgoingReceiptsRoot(c.PrevOutgoingReceipts, layout); !lacks && root != c.Header.PrevOutgoingReceiptsRoot {
				t.Errorf("%s: shard %d: the root of %d receipts of %d differs", name, s.ID, len(c.PrevOutgoingReceipts), len(s.Receipts))
			}
		}
	}
	if t.Logf("%d chunks, %d receipts removed", chunks, removed); chunks < 20 || removed < 5 {
		t.Errorf("%d chunks, %d receipts removed", chunks, removed)
	}
}

// TestRecordedRepliesAreMadeAgain: the replies of mainnet's RPC to block, chunk and tx of 2022 and 2023
// decode to values with the same text, but for members that later releases have added.
func TestRecordedRepliesAreMadeAgain(t *testing.T) {
	t.Parallel()
	needShared(t)
	paths, err := filepath.Glob(real + "wormhole-rpc-replies/*.json")
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, path := range paths {
		text := testutil.Read(t, path)
		var j struct{ Result json.RawMessage }
		var r struct {
			Header, Chunks, Transaction json.RawMessage
			TransactionOutcome          json.RawMessage   `json:"transaction_outcome"`
			ReceiptsOutcome             []json.RawMessage `json:"receipts_outcome"`
			Receipts                    []json.RawMessage
		}
		if err := json.Unmarshal(text, &j); err != nil {
			t.Fatal(err)
		}
		if j.Result == nil {
			continue // an error
		}
		if err := json.Unmarshal(j.Result, &r); err != nil {
			t.Fatal(err)
		}
		made := func(what string, text json.RawMessage, ours []byte) {
			t.Helper()
			n[what]++
			if err := same(what, text, ours); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		switch {
		case r.Chunks != nil:
			d, err := ParseBlock(j.Result)
			if err != nil {
				t.Fatal(err)
			}
			made("block", j.Result, view.AppendBlock(nil, d.Author, d.Block))
		case r.Header != nil:
			d := &Document{Block: &primitives.Block{Header: new(primitives.BlockHeader)}}
			if err := d.AddChunk(j.Result); err != nil {
				t.Fatal(err)
			}
			d.Block.Header.Height = d.Shards[0].Chunk.HeightIncluded
			author, c := d.ViewedChunk(d.Shards[0].ID)
			made("chunk", j.Result, view.AppendChunk(nil, author, c))
		default:
			x, err := transaction(r.Transaction)
			if err != nil {
				t.Fatal(err)
			}
			made("transaction", r.Transaction, view.AppendSignedTransaction(nil, x.SignedTransaction))
			for _, text := range append(r.ReceiptsOutcome, r.TransactionOutcome) {
				o, err := outcome(text)
				if err != nil {
					t.Fatal(err)
				}
				made("outcome", text, view.AppendOutcomeProof(nil, o))
			}
			for _, text := range r.Receipts {
				x, err := receipt(text)
				if err != nil {
					t.Fatal(err)
				}
				made("receipt", text, view.AppendReceipt(nil, x.Receipt))
			}
		}
	}
	t.Log(n)
	for _, what := range []string{"block", "chunk", "transaction", "outcome"} {
		if n[what] < 5 {
			t.Errorf("%d %s", n[what], what)
		}
	}
}
