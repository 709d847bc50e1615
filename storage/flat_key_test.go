package storage

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestColumnsAreShardsOrAccounts: every column that a trie key may have belongs to an account or to
// a shard. Without this check, a new column that neither list names would be treated as one of
// accounts, so that all shards would share its rows.
func TestColumnsAreShardsOrAccounts(t *testing.T) {
	known := 0
	for c := range 256 {
		column := primitives.TrieColumn(c)
		_, err := primitives.ParseTrieKey([]byte{byte(c)})
		unknown := err != nil && !column.HasAccount() && !shardBound(byte(c))
		if unknown {
			continue
		}
		known++
		if column.HasAccount() == shardBound(byte(c)) {
			t.Errorf("column %d: of an account %v, of a shard %v; want one of them", c, column.HasAccount(), shardBound(byte(c)))
		}
	}
	if known != 22 {
		t.Errorf("%d columns, want nearcore's 22", known)
	}
}
