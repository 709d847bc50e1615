package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/replay"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestBlockDocumentsAreNearcoresMessages: the document of every block of the recorded chain is
// nearcore's message with one addition: the transaction of each executed receipt, which is the one
// that EXPERIMENTAL_receipt_to_tx returns. It holds in order, and from the last block to the first
// with an empty cache. Each part equals that part of the document.
func TestBlockDocumentsAreNearcoresMessages(t *testing.T) {
	if _, err := os.Stat(filepath.Join(recorded, "stream.jsonl.gz")); err != nil {
		t.Skip("the recording is not here:", err)
	}
	rec, err := replay.Open(recorded + "index.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	named, unknown, skipped := 0, 0, 0
	_, err = replay.Run(rec, replay.Options{Par: func(n int, do func(int)) {
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() { do(i) })
		}
		wg.Wait()
	}, End: func(e *engine.Engine) error {
		config, _, err := genesis.ReadConfig(bytes.NewReader(rec.Genesis))
		if err != nil {
			return err
		}
		ctx := context.Background()
		inOrder := New(Options{Engine: e, Genesis: config, Now: time.Now})
		var want [][]byte
		if err := lines(recorded+"stream.jsonl.gz", func(line []byte) error {
			want = append(want, bytes.Clone(line))
			return nil
		}); err != nil {
			return err
		}
		docs := make([][]byte, len(want))
		for h := range want {
			if docs[h], err = inOrder.BlockDocument(ctx, primitives.Height(h), view.DocumentPart{}); err != nil {
				return err
			}
			if bytes.Equal(docs[h], []byte("null")) {
				skipped++
				continue
			}
			bare := withoutTx(t, docs[h], func(receipt, tx string) {
				id, err := primitives.ParseHash(receipt)
				if err != nil {
					t.Fatal(err)
				}
				from, err := inOrder.ReceiptToTx(ctx, &view.OriginQuery{Receipt: id})
				switch {
				case tx == "":
					if unknown++; err == nil {
						t.Errorf("block %d: receipt %s has no transaction, but its origin is %v", h, receipt, from.Transaction)
					}
				case err != nil || from.Transaction.String() != tx:
					t.Errorf("block %d: receipt %s comes from %s, want %v (%v)", h, receipt, tx, from, err)
				default:
					named++
				}
			})
			if !bytes.Equal(bare, want[h]) {
				t.Errorf("block %d: not the message and transactions: %.300s", h, bare)
			}
		}
		for h := len(docs) - 1; h >= 0; h -= 37 {
			fresh := New(Options{Engine: e, Genesis: config, Now: time.Now})
			got, err := fresh.BlockDocument(ctx, primitives.Height(h), view.DocumentPart{})
			if err != nil || !bytes.Equal(got, docs[h]) {
				t.Errorf("block %d of a node that has read none before: %v, %.300s", h, err, got)
			}
			parts(t, fresh, primitives.Height(h), docs[h])
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if named < 1000 {
		t.Errorf("%d receipts with a transaction, %d without, %d heights without a block", named, unknown, skipped)
	}
}

// withoutTx removes tx_hash from a document and calls each with every value.
func withoutTx(t *testing.T, doc []byte, each func(receipt, tx string)) []byte {
	var m struct {
		Shards []struct {
			Executed []struct {
				Outcome struct{ ID string } `json:"execution_outcome"`
				Tx      *string             `json:"tx_hash"`
			} `json:"receipt_execution_outcomes"`
		}
	}
	if err := json.Unmarshal(doc, &m); err != nil {
		t.Fatal(err)
	}
	for i := range m.Shards {
		for _, x := range m.Shards[i].Executed {
			text, tx := `,"tx_hash":null}`, ""
			if x.Tx != nil {
				tx = *x.Tx
				text = `,"tx_hash":"` + tx + `"}`
			}
			each(x.Outcome.ID, tx)
			doc = bytes.Replace(doc, []byte(text), []byte("}"), 1)
		}
	}
	return doc
}

// parts compares the parts of a document with the document.
func parts(t *testing.T, b *Backend, height primitives.Height, doc []byte) {
	var m struct {
		Block  json.RawMessage
		Shards []json.RawMessage
	}
	if err := json.Unmarshal(doc, &m); err != nil {
		t.Fatal(err)
	}
	get := func(kind view.DocumentKind, shard primitives.ShardID) string {
		got, err := b.BlockDocument(context.Background(), height, view.DocumentPart{Kind: kind, Shard: shard})
		if err != nil {
			t.Fatal(err)
		}
		return string(got)
	}
	if got := get(view.DocumentHeaders, 0); got != string(m.Block) {
		t.Errorf("block %d: headers %.200s", height, got)
	}
	for _, raw := range m.Shards {
		var s struct {
			ID    primitives.ShardID `json:"shard_id"`
			Chunk json.RawMessage
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatal(err)
		}
		if got := get(view.DocumentShard, s.ID); got != string(raw) {
			t.Errorf("block %d: shard %d %.200s", height, s.ID, got)
		}
		if got := get(view.DocumentChunk, s.ID); got != string(s.Chunk) {
			t.Errorf("block %d: chunk %d %.200s", height, s.ID, got)
		}
	}
	if got := get(view.DocumentShard, 77); got != "null" {
		t.Errorf("of a shard that is none: %.200s", got)
	}
}
