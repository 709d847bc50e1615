package blockdoc

import (
	"encoding/json"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestHeaderFormIsRecognizedByHash: header decodes headers of all layouts and recognises the layout
// by the hash.
func TestHeaderFormIsRecognizedByHash(t *testing.T) {
	t.Parallel()
	for v, want := range map[primitives.HeaderVersion]headerForm{primitives.HeaderV5: headerV5, primitives.HeaderV6: headerV6, primitives.HeaderV7: headerV7,
		primitives.HeaderV8: headerV8} {
		h := &primitives.BlockHeader{Version: v, PrevHash: primitives.Hash{1}, Signature: primitives.ZeroED25519Signature}
		h.Height, h.ChunkMask, h.ChunkEndorsements = 7, []bool{true, false}, [][]byte{{5}, {}}
		if v >= primitives.HeaderV7 {
			h.CertifiedEpochID, h.EndorsementStats = primitives.Hash{2}, []primitives.EndorsementStats{{Produced: 3, Expected: 4}}
		}
		if v == primitives.HeaderV8 {
			h.ChunkExecutionRoot = primitives.Hash{5}
		}
		hash := h.Init().Hash()
		var j headerJSON
		if err := json.Unmarshal(view.AppendBlockHeader(nil, h), &j); err != nil {
			t.Fatal(err)
		}
		if got, form, err := j.header(); err != nil || form != want || got.Hash() != hash || got.Version != v {
			t.Errorf("V%d: form %d, %v", v+1, form, err)
		}
	}
}
