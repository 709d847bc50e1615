package workload

import (
	"fmt"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
)

// Validator makes all blocks of a chain, Treasury gets the protocol's part of its rewards. They are
// different accounts, so that the header's total supply is exact.
const (
	Validator primitives.AccountID = "validator.near"
	Treasury  primitives.AccountID = "near"
)

// Account is the name of account i. First letters go around, so every shard has its part.
func Account(i int) primitives.AccountID {
	return primitives.AccountID(string(rune('a'+i%26)) + strconv.Itoa(i) + ".w")
}

// Layout cuts the names into shards of about the same size; at most 26.
func Layout(shards int) (primitives.ShardLayout, error) {
	if shards < 1 || shards > 26 {
		return primitives.ShardLayout{}, fmt.Errorf("workload: the number of shards is %d, must be from 1 to 26", shards)
	}
	boundaries := make([]primitives.AccountID, shards-1)
	for i := range boundaries {
		boundaries[i] = primitives.AccountID(string(rune('a'+26*(i+1)/shards)) + "0")
	}
	return primitives.MultiShardLayoutAt(boundaries)
}

// keyring makes keys from seeds, once each: deriving one takes as long as signing.
type keyring map[string]primitives.SecretKey

func (k keyring) get(t primitives.KeyType, seed string) primitives.SecretKey {
	at := string(rune(t)) + seed
	key, ok := k[at]
	if !ok {
		key = primitives.SecretKeyFromSeed(t, seed)
		k[at] = key
	}
	return key
}

// sharedSeed is the seed of the key that all accounts have where Options.OneKey says so.
const sharedSeed = "workload"

// StakeKey is the key that an account stakes with. It follows from the name, so a test can sign for
// every validator.
func StakeKey(id primitives.AccountID) primitives.SecretKey {
	return primitives.SecretKeyFromSeed(primitives.ED25519, "stake "+string(id))
}
