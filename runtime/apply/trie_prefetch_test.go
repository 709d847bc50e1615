package apply

import (
	"sync"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
)

// coldTrie is a trie that reports to be cold. It stores the keys that are looked up without a recording.
type coldTrie struct {
	testTrie
	cold bool
	mu   *sync.Mutex
	seen map[string]bool
}

func newColdTrie(t state.Trie, cold bool) coldTrie {
	return coldTrie{t.(testTrie), cold, new(sync.Mutex), map[string]bool{}}
}

func (t coldTrie) Cold() bool { return t.cold }

func (t coldTrie) Lookup(key []byte, rec state.Recording) (state.ValueRef, bool, error) {
	if rec == nil {
		t.mu.Lock()
		t.seen[string(key)] = true
		t.mu.Unlock()
	}
	return t.testTrie.Lookup(key, rec)
}

// TestChunksAccountsAndKeysArePrefetched checks that with a cold trie all accounts and access keys
// of the shard that the transactions and receipts of a chunk name are prefetched, and no others,
// and that the result and the recording do not change.
func TestChunksAccountsAndKeysArePrefetched(t *testing.T) {
	t.Parallel()
	w := newRandomWorkload(t, threeShards(), 3)
	reached := 0
	for range 8 {
		var txs []*primitives.SignedTransaction
		for range 20 {
			txs = append(txs, w.transaction())
		}
		w.height++
		var inputs []*Input
		for i := range w.shards {
			inputs = append(inputs, w.input(i, txs))
		}
		w.height--
		results := w.step(txs...)
		for i, in := range inputs {
			in.Congestion = nil
			for j := range w.shards {
				in.Congestion = append(in.Congestion, ShardCongestion{w.layout.ShardIDs()[j], w.before[j], w.shards[j].missed})
			}
			in.Par = goPar
			plain := in.Trie
			for _, cold := range []bool{true, false} {
				trie := newColdTrie(plain, cold)
				in.Trie = trie
				got, err := Apply(in)
				if err != nil {
					t.Fatal(err)
				}
				sameResult(t, got, results[i])
				want := map[string]bool{}
				for _, tx := range in.Transactions {
					want[string(primitives.AppendAccountKey(nil, tx.SignerID))] = true
					want[string(primitives.AppendAccessKeyKey(nil, tx.SignerID, tx.PublicKey.Handle()))] = true
					if w.layout.ShardOf(tx.ReceiverID) == in.Block.ShardID {
						want[string(primitives.AppendAccountKey(nil, tx.ReceiverID))] = true
					}
				}
				for _, r := range in.Incoming {
					want[string(primitives.AppendAccountKey(nil, r.ReceiverID))] = true
				}
				missed := 0
				for key := range want {
					if !trie.seen[key] {
						missed++
					}
				}
				if cold && missed > 0 || !cold && len(want) > 0 && missed == 0 {
					t.Errorf("cold %v: %d of %d keys were not looked up ahead", cold, missed, len(want))
				}
				reached += len(want)
			}
		}
	}
	if reached < 200 {
		t.Errorf("%d keys: the test reaches too little", reached)
	}
}
