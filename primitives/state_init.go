package primitives

import (
	"encoding/hex"

	"golang.org/x/crypto/sha3"
)

// DerivedAccount returns the id of the account that s makes: 0s and the hex of the last 20 bytes of keccak256 of its
// encoding (nearcore core/primitives/src/utils.rs:470).
func (s *StateInit) DerivedAccount() AccountID {
	h := sha3.NewLegacyKeccak256()
	h.Write(s.AppendBorsh(nil))
	return AccountID("0s" + hex.EncodeToString(h.Sum(nil)[12:]))
}
