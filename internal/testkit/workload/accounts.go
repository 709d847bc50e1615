package workload

import (
	"fmt"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
)

// Validator produces all blocks of a chain. Treasury receives the protocol's share of the rewards.
// They are different accounts, because otherwise the header's total supply would not be exact.
const (
	Validator primitives.AccountID = "validator.near"
	Treasury  primitives.AccountID = "near"
)

// Account returns the name of account i. The first letters of the names are spread over the
// alphabet, so that every shard has some of the accounts.
func Account(i int) primitives.AccountID {
	return primitives.AccountID(string(rune('a'+i%26)) + strconv.Itoa(i) + ".w")
}

// Layout returns a shard layout that divides the accounts about equally. shards must be from 1 to
// 26.
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

// keyring caches keys by key type and seed, because deriving a key takes as long as signing.
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

// sharedSeed is the seed of the one key that all accounts have with Options.OneKey.
const sharedSeed = "workload"

// StakeKey returns the key with which an account stakes. The key is derived from the account's
// name, so that a test can sign for every validator.
func StakeKey(id primitives.AccountID) primitives.SecretKey {
	return primitives.SecretKeyFromSeed(primitives.ED25519, "stake "+string(id))
}
