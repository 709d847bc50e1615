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
	for v := primitives.HeaderV1; v <= primitives.HeaderV8; v++ {
		h := &primitives.BlockHeader{Version: v, PrevHash: primitives.Hash{1}, Signature: primitives.ZeroED25519Signature}
		h.Height, h.ChunkMask, h.ChunksIncluded = 7, []bool{true, false}, 1
		if v >= primitives.HeaderV3 {
			h.BlockOrdinal, h.PrevHeight = 9, 6
		}
		if v >= primitives.HeaderV5 {
			h.ChunkEndorsements = [][]byte{{5}, {}}
		}
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
		if got, err := j.header(); err != nil || got.Hash() != hash || got.Version != v {
			t.Errorf("V%d: %+v, %v", v+1, got, err)
		}
	}
}
