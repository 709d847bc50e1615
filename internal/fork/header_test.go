package fork

import (
	"errors"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestHeaderFormsHaveTheirHashes: blocks with headers V5, V6 and V7 have the hashes that they
// state. A change of a field that the hash covers is refused.
func TestHeaderFormsHaveTheirHashes(t *testing.T) {
	for _, v := range []primitives.HeaderVersion{primitives.HeaderV5, primitives.HeaderV6, primitives.HeaderV7} {
		h := &primitives.BlockHeader{Version: v, PrevHash: primitives.Hash{1}, Signature: primitives.ZeroED25519Signature}
		h.PrevStateRoot = primitives.MerkleRoot(nil)
		if v == primitives.HeaderV7 {
			h.CertifiedEpochID, h.EndorsementStats = primitives.Hash{2}, []primitives.EndorsementStats{{Produced: 3, Expected: 4}}
		}
		text := string(view.AppendBlock(nil, "aa", &primitives.Block{Header: h.Init()}))
		if b, err := parseBlock([]byte(text)); err != nil || b.Hash() != h.Hash() {
			t.Errorf("V%d: %v", v+1, err)
		}
		split := strings.Replace(text, `"shard_split":null`, `"shard_split":[1,"mm"]`, 1)
		switch b, err := parseBlock([]byte(split)); {
		case v == primitives.HeaderV5 && (err != nil || b.Header.ShardSplit != nil): // its hash covers none
			t.Errorf("V5 with a split: %v", err)
		case v != primitives.HeaderV5 && !errors.Is(err, errHash):
			t.Errorf("V%d with a split that was not signed: %v", v+1, err)
		}
	}
}
