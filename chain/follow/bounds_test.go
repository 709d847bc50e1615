package follow

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestBounds: what is told of too many shards, or in too many bytes altogether, is refused before it is read; and a transaction longer than any is not
// hashed by each block.
func TestBounds(t *testing.T) {
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
	asked := 0
	err := (&Transaction{SignedTransaction: &primitives.SignedTransaction{Transaction: own}}).Complete(nil, func(yield func(primitives.Hash) bool) {
		asked++
		yield(primitives.Hash{})
	})
	if !errors.Is(err, ErrLacks) || asked != 0 {
		t.Errorf("a long transaction: %v, asked for blocks %d times", err, asked)
	}
}
