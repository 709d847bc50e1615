package mainnetpeer

import (
	"path/filepath"
	"testing"

	"github.com/troupe-chain/troupe/chain/statesync"
	"github.com/troupe-chain/troupe/primitives"
)

// TestProofIsValidAndHeadersFollow: the proof of a chain passes all checks, has headers of all
// versions, and the served headers form a chain from the proof's last block to the head.
func TestProofIsValidAndHeadersFollow(t *testing.T) {
	c, err := New(Options{Epochs: 12, EpochLength: 20, Extra: 8, File: filepath.Join(t.TempDir(), "headers")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := statesync.UnpackProof(c.Packed)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Verify(c.GenesisHash, c.Proof.Epochs[0].Producers, primitives.Signature.Verify); err != nil {
		t.Error(err)
	}
	if len(c.Versions) != 6 || len(p.Epochs) != 12 || len(p.Epochs[0].Producers) != 4 || len(p.Epochs[11].Producers) != 100 {
		t.Errorf("%d epochs, headers by version %v, %d and %d producers", len(p.Epochs), c.Versions, len(p.Epochs[0].Producers), len(p.Epochs[11].Producers))
	}
	at, n := p.Current.First.Hash(), 0
	for list, _, err := c.After([]primitives.Hash{{1}, at}, 7); len(list) > 0 || err != nil; list, _, err = c.After([]primitives.Hash{at}, 7) {
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range list {
			if h.PrevHash != at {
				t.Fatalf("header %d does not follow", h.Height)
			}
			at, n = h.Hash(), n+1
		}
	}
	if at != c.Head.Hash() || n != 2*20+8-1 || n != c.Len() {
		t.Errorf("%d headers up to %v, want %d up to %v", n, at, 2*20+8-1, c.Head.Hash())
	}
	if c.Head.Body.Hash() != c.Head.Header.BlockBodyHash {
		t.Error("the head has another body")
	}
}
