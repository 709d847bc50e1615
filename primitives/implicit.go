package primitives

import (
	"encoding/hex"
	"fmt"

	"golang.org/x/crypto/sha3"
)

// Account ids derived from a key, an address or a state init (nearcore
// core/primitives/src/utils.rs:456).

// NearImplicitID returns the account of an ed25519 key: its raw bytes in hex. It panics for another
// scheme.
func NearImplicitID(k PublicKey) AccountID {
	if k.Type() != ED25519 {
		panic(fmt.Sprintf("primitives: NEAR-implicit id of a %v key", k.Type()))
	}
	return AccountID(hex.EncodeToString([]byte(k.Raw())))
}

// EthImplicitID returns the account of a secp256k1 key: 0x and its Ethereum address. It panics for
// another scheme.
func EthImplicitID(k PublicKey) AccountID {
	if k.Type() != SECP256K1 {
		panic(fmt.Sprintf("primitives: ETH-implicit id of a %v key", k.Type()))
	}
	return AccountID("0x" + keccakAddress([]byte(k.Raw())))
}

// DeterministicID returns the account of a state init, which is given in borsh (NEP-616).
func DeterministicID(borshStateInit []byte) AccountID {
	return AccountID("0s" + keccakAddress(borshStateInit))
}

// keccakAddress is the last 20 bytes of keccak256 in hex.
func keccakAddress(data []byte) string {
	h := sha3.NewLegacyKeccak256()
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil)[12:])
}

// KeyOfNearImplicit returns the ed25519 key of a NEAR-implicit account; false for other accounts.
func KeyOfNearImplicit(a AccountID) (PublicKey, bool) {
	if a.Kind(false) != NearImplicitAccount {
		return "", false
	}
	raw, err := hex.DecodeString(string(a))
	if err != nil {
		return "", false
	}
	return PublicKey(string(rune(ED25519)) + string(raw)), true
}

// DerivedAccount returns the id of the account that s makes: DeterministicID of its encoding.
func (s *StateInit) DerivedAccount() AccountID { return DeterministicID(s.AppendBorsh(nil)) }
