package blockdoc

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestOversizedDocumentIsNotDecoded: a document with too many shards or bytes is refused before it
// is decoded. A transaction above the maximum size is not hashed with each ancestor.
func TestOversizedDocumentIsNotDecoded(t *testing.T) {
	t.Parallel()
	many := `{"chunks":[` + strings.Repeat("{},", maxShards) + `{}],"header":{}}`
	if _, err := ParseBlock([]byte(many)); !errors.Is(err, ErrForm) || !strings.Contains(err.Error(), "chunks") {
		t.Errorf("chunks: %v", err)
	}
	d := new(Document)
	for i := range maxShards + 1 {
		if err := d.AddShard(json.RawMessage(`{"shard_id":1}`)); (err != nil) != (i == maxShards) {
			t.Fatalf("shard %d: %v", i, err)
		}
	}
	d = &Document{size: MaxDocument - 20}
	if err := d.AddShard(json.RawMessage(`{"shard_id":1}`)); err != nil {
		t.Fatal(err)
	}
	if err := d.AddChunk(json.RawMessage(`{"author":"a"}`)); !errors.Is(err, ErrForm) {
		t.Errorf("more bytes: %v", err)
	}
	own := primitives.Transaction{SignerID: "a", ReceiverID: "b", PublicKey: primitives.SecretKeyFromSeed(primitives.ED25519, "a").PublicKey(),
		Actions: []primitives.Action{&primitives.FunctionCall{Method: "m", Args: make([]byte, maxTransaction)}}}
	hashed := 0
	err := (&Transaction{SignedTransaction: &primitives.SignedTransaction{Transaction: own}}).Complete(nil, func(yield func(primitives.Hash) bool) {
		hashed++
		yield(primitives.Hash{})
	})
	if !errors.Is(err, ErrLacks) || hashed != 0 {
		t.Errorf("a long transaction: %v, hashed for blocks %d times", err, hashed)
	}
}

// TestBodyLongerThanHeaderIsNotSearched: transactions or receipts that are longer than the chunk
// header declares are refused before their hashes are searched. So a feed with false data costs no
// more work than the chunk itself.
func TestBodyLongerThanHeaderIsNotSearched(t *testing.T) {
	t.Parallel()
	s := readStream(t)
	b := newBooks()
	b.blocks = s.before
	ids := s.layout.ShardIDs()
	txs, receipts := 0, 0
	for _, line := range s.lines[1:400] {
		d, err := Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		b.learn(d)
		k := b.known(&s.layout)
		for i, h := range d.Block.Body.Chunks {
			shard := d.Shard(h.ShardID)
			if shard == nil || shard.Chunk == nil || h.HeightIncluded != d.Block.Header.Height {
				continue
			}
			hashed := 0
			chunks := func(held primitives.ShardID) error {
				_, err := d.Chunks(k.Code, func(each func(primitives.Hash) bool) { hashed++; k.Ancestors(each) }, &Wanted{Layout: s.layout, Held: []primitives.ShardID{held}})
				return err
			}
			was := h.EncodedLength
			var lie *MismatchError
			if list := shard.Transactions; len(list) > 0 && len(list[0].Slots) == 0 {
				h.EncodedLength = uint64(len(list[0].SignedTransaction.AppendBorsh(nil)) - 1)
				if err := chunks(ids[i]); !errors.As(err, &lie) && !errors.Is(err, ErrLacks) || hashed > 0 {
					t.Fatalf("block %d: %v, blocks were hashed for %d times", d.Block.Header.Height, err, hashed)
				}
				txs++
			}
			if list := shard.Receipts; len(list) > 0 && len(list[0].Slots) == 0 {
				h.EncodedLength = 1
				if err := chunks(ids[(i+1)%len(ids)]); !errors.As(err, &lie) && !errors.Is(err, ErrLacks) {
					t.Fatalf("block %d: %v", d.Block.Header.Height, err)
				}
				receipts++
			}
			h.EncodedLength = was
		}
	}
	if txs < 100 || receipts < 100 {
		t.Errorf("%d chunks with transactions and %d with receipts were looked at", txs, receipts)
	}
}

// TestDenseDocumentIsNotDecoded: a text of many small values, which takes far more memory decoded than as
// text, is refused before it is decoded. Long strings may contain anything.
func TestDenseDocumentIsNotDecoded(t *testing.T) {
	t.Parallel()
	const n = 4 * freeValues
	for _, text := range []string{
		`{"block":{"chunks":[` + strings.Repeat("0,", n) + `0],"header":{}}}`,
		`{"shards":[` + strings.Repeat("{},", n) + `{}]}`,
		`{"block":{"x":[` + strings.Repeat("[[[]]],", n) + `0]}}`,
		`{"block":{"x":{"logs":[` + strings.Repeat(`"\\",`, n) + `0]}}}`,
	} {
		for name, f := range map[string]func() error{
			"a document": func() error { _, err := Parse([]byte(text)); return err },
			"a block":    func() error { _, err := ParseBlock([]byte(text)); return err },
			"a shard":    func() error { return new(Document).AddShard([]byte(text)) },
			"a chunk":    func() error { return new(Document).AddChunk([]byte(text)) },
		} {
			if err := f(); !errors.Is(err, ErrForm) || !strings.Contains(err.Error(), "values in") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for _, text := range []string{`{"x":"` + strings.Repeat(`,[{\"`, n) + `"}`, strings.Repeat(" ", 8*n), `{"x":"` + strings.Repeat(",", n), `"\`} {
		if err := bounded([]byte(text)); err != nil {
			t.Errorf("%.20s: %v", text, err)
		}
	}
}
