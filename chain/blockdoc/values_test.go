package blockdoc

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// TestActionViewsDecodeToOriginals: the views of actions that near-primitives 0.38.0 writes
// (primitives/testdata/values.jsonl.gz) decode to the original actions. Code is found by its hash.
func TestActionViewsDecodeToOriginals(t *testing.T) {
	t.Parallel()
	n := 0
	for v := range testutil.Vectors[struct {
		Type  string          `json:"type"`
		Borsh string          `json:"borsh"` // hex
		View  json.RawMessage `json:"view"`
	}](t, "../../primitives/testdata/values.jsonl.gz") {
		if v.Type != "action" {
			continue
		}
		n++
		in, err := hex.DecodeString(v.Borsh)
		if err != nil {
			t.Fatal(err)
		}
		want := primitives.ReadAction(borsh.NewReader(in))
		list, slots, err := actions([]json.RawMessage{v.View})
		if err != nil {
			t.Errorf("%s: %v", v.View, err)
			continue
		}
		code, _ := primitives.DeployedCode(want)
		if missing := fill(slots, func(primitives.Hash) []byte { return code }); len(missing) > 0 {
			t.Errorf("%s: no code with the hashes %v", v.View, missing)
		}
		if got := primitives.AppendAction(nil, list[0]); !bytes.Equal(got, in) {
			t.Errorf("%s is read as %x, want %x", v.View, got, in)
		}
	}
	if n < 600 {
		t.Errorf("only %d actions", n)
	}
}
