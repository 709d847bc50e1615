package primitives

import (
	"encoding/hex"
	"fmt"

	"golang.org/x/crypto/sha3"
)

// Account ids that a key, an address or a state init implies (nearcore
// core/primitives/src/utils.rs:456).

// NearImplicitID returns the account of an ed25519 key: its raw bytes in hex. Another scheme
// panics.
func NearImplicitID(k PublicKey) AccountID {
	if k.Type() != ED25519 {
		panic(fmt.Sprintf("primitives: NEAR-implicit id of a %v key", k.Type()))
	}
	return AccountID(hex.EncodeToString([]byte(k.Raw())))
}

// EthImplicitID returns the account of a secp256k1 key: 0x and its Ethereum address. Another scheme
// panics.
func EthImplicitID(k PublicKey) AccountID {
	if k.Type() != SECP256K1 {
		panic(fmt.Sprintf("primitives: ETH-implicit id of a %v key", k.Type()))
	}
	return AccountID("0x" + keccakAddress([]byte(k.Raw())))
}

// DeterministicID returns the account of a state init, given in borsh (NEP-616).
func DeterministicID(borshStateInit []byte) AccountID {
	return AccountID("0s" + keccakAddress(borshStateInit))
}

// keccakAddress is the last 20 bytes of keccak256 in hex.
func keccakAddress(data []byte) string {
	h := sha3.NewLegacyKeccak256()
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil)[12:])
}

// KeyOfNearImplicit returns the ed25519 key that a NEAR-implicit account stands for; false for
// other accounts.
func KeyOfNearImplicit(a AccountID) (PublicKey, bool) {
	if a.Kind() != NearImplicitAccount {
		return "", false
	}
	raw, err := hex.DecodeString(string(a))
	if err != nil {
		return "", false
	}
	return PublicKey(string(rune(ED25519)) + string(raw)), true
}
