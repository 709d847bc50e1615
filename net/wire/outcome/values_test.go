package outcome

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// TestValuesAreThoseOfNearPrimitives: near-primitives 0.38.0 writes every error and every view of
// an action (primitives/testdata/values.jsonl.gz). The forms read each of them to its end and write
// the same bytes.
func TestValuesAreThoseOfNearPrimitives(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for v := range testutil.Vectors[struct {
		Type      string `json:"type"`
		Borsh     string `json:"borsh"`      // hex
		ViewBorsh string `json:"view_borsh"` // hex
	}](t, "../../../primitives/testdata/values.jsonl.gz") {
		text, read := v.Borsh, failure
		switch v.Type {
		case "error":
		case "action":
			text, read = v.ViewBorsh, actionView
		default:
			continue
		}
		seen[v.Type]++
		in, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		r := borsh.NewReader(in)
		if got := read(r, nil); r.Close() != nil || !bytes.Equal(got, in) {
			t.Errorf("%s %s becomes %x, %v", v.Type, text, got, r.Err())
		}
	}
	if seen["error"] < 1000 || seen["action"] < 600 {
		t.Errorf("only %v", seen)
	}
}
