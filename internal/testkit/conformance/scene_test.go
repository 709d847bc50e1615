package conformance

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// TestSceneTransactionsAreSignedAgain: the requests of a scene contain transactions of the fresh
// chain, valid or not as recorded, and later requests refer to their new hashes.
func TestSceneTransactionsAreSignedAgain(t *testing.T) {
	lines, _ := load(t)
	fresh := primitives.HashBytes([]byte("fresh"))
	scene := Scene{Resign: Resigner(func(primitives.Hash) primitives.Hash { return fresh })}
	sent := 0
	for i := range lines["wire2"] {
		l := &lines["wire2"][i]
		body := scene.Request(l).Body
		for _, text := range signedTexts(body) {
			raw, err := base64.StdEncoding.DecodeString(text)
			tx := new(primitives.SignedTransaction)
			if err != nil || borsh.Unmarshal(raw, tx) != nil {
				continue // a hash without its transaction
			}
			sent++
			hash := tx.Hash()
			good, bad := tx.Signature.Verify(hash[:], tx.PublicKey), strings.Contains(l.Name, "bad signature")
			if good == bad {
				t.Errorf("%v: signature valid: %v", l, good)
			}
			if tx.BlockHash != fresh {
				t.Errorf("%v: block hash %v, want %v", l, tx.BlockHash, fresh)
			}
		}
	}
	if sent != 51 {
		t.Errorf("%d transactions, want 51", sent)
	}
	// Lines 15 and 16 ask for the transaction of line 14.
	asked := scene.Request(&lines["wire2"][15]).Body
	if strings.Contains(asked, "B5AXQDsGKxmDremeEvKv6zJpLbVo9C9RNyYHN521WmXW") {
		t.Errorf("the old hash is still requested: %s", asked)
	}
}
