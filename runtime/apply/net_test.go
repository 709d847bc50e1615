package apply

import (
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/bandwidth"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
)

// net is a chain without blocks. Each step applies one chunk of each shard and delivers the outgoing receipts
// to the chunks of the next step.
type net struct {
	t      testing.TB
	layout primitives.ShardLayout
	cfg    *parameters.RuntimeConfig
	height primitives.Height
	price  primitives.Balance
	limit  primitives.Gas
	par    Par
	clock  Clock
	vm     action.VM
	shards []netShard // by index
	nonces map[string]primitives.Nonce
	before []primitives.CongestionInfo // by shard index: the congestion info in the input of the last step
	once   bool                        // the VM counts its calls, so no chunk is applied again from its proof
}

type netShard struct {
	trie     state.Trie
	info     primitives.CongestionInfo
	requests []primitives.BandwidthRequest
	incoming [][]*primitives.Receipt // by index of the sending shard
	missing  bool                    // the next chunk is missing
	missed   uint64
	last     *Result
}

func testKey(name string) primitives.SecretKey {
	return primitives.SecretKeyFromSeed(primitives.ED25519, name)
}

// newNet returns a net with the given layout. Its accounts have 1000 N and a full access key whose seed is
// the account's name.
func newNet(t testing.TB, layout primitives.ShardLayout, accounts ...primitives.AccountID) *net {
	n := &net{
		t: t, layout: layout, cfg: parameters.MustGet(parameters.June(86)), height: 10, price: primitives.Yocto(100_000_000),
		limit: 1_000_000_000_000_000, nonces: map[string]primitives.Nonce{}, shards: make([]netShard, layout.NumShards()),
	}
	values := make([]map[string][]byte, len(n.shards))
	for i := range values {
		values[i] = map[string][]byte{}
	}
	for _, id := range accounts {
		index, err := layout.Index(layout.ShardOf(id))
		if err != nil {
			t.Fatal(err)
		}
		a := primitives.Account{Amount: primitives.NEAR(1000), StorageUsage: 182, Version: primitives.AccountV1}
		values[index][string(primitives.AppendAccountKey(nil, id))] = a.AppendBorsh(nil)
		k := primitives.AccessKey{}
		values[index][string(primitives.AppendAccessKeyKey(nil, id, testKey(string(id)).PublicKey().Handle()))] = k.AppendBorsh(nil)
	}
	for i := range n.shards {
		n.shards[i] = netShard{trie: buildTrie(t, values[i]), incoming: make([][]*primitives.Receipt, len(n.shards))}
	}
	return n
}

// tx signs a transaction with the signer's own key and next nonce.
func (n *net) tx(from, to primitives.AccountID, actions ...primitives.Action) *primitives.SignedTransaction {
	return n.txBy(testKey(string(from)), from, to, actions...)
}

func (n *net) txBy(key primitives.SecretKey, from, to primitives.AccountID, actions ...primitives.Action) *primitives.SignedTransaction {
	pk := key.PublicKey()
	slot := string(from) + string(pk)
	n.nonces[slot] = max(n.nonces[slot]+1, primitives.InitialNonce(n.height-1)+1)
	return n.sign(key, primitives.Transaction{
		SignerID: from, PublicKey: pk, Nonce: primitives.TransactionNonce{Nonce: n.nonces[slot]}, ReceiverID: to, Actions: actions,
	})
}

func (n *net) sign(key primitives.SecretKey, tx primitives.Transaction) *primitives.SignedTransaction {
	hash := tx.Hash()
	return primitives.NewSignedTransaction(tx, key.Sign(hash[:]))
}

// input returns the input of Apply for the chunk of a shard in the next block.
func (n *net) input(i int, txs []*primitives.SignedTransaction) *Input {
	s, ids := &n.shards[i], n.layout.ShardIDs()
	prev := primitives.HashBytes(borsh.AppendUint64(nil, uint64(n.height-1)))
	in := &Input{
		Trie: s.trie, Layout: n.layout, NewChunk: !s.missing, GasLimit: n.limit, Par: n.par, Clock: n.clock,
		Block: action.Block{
			Config: n.cfg, ChainID: "test-chain", ShardID: ids[i], Height: n.height, PrevHash: prev, GasPrice: n.price,
			MinimumStake: primitives.NEAR(10), RandomValue: prev, VM: n.vm,
		},
	}
	for j := range n.shards {
		in.Congestion = append(in.Congestion, ShardCongestion{ids[j], n.shards[j].info, n.shards[j].missed})
		in.Requests = append(in.Requests, bandwidth.SenderRequests{Shard: ids[j], Requests: n.shards[j].requests})
	}
	if in.NewChunk {
		in.Incoming = OrderIncoming(prev, s.incoming)
		for _, tx := range txs {
			if n.layout.ShardOf(tx.SignerID) == ids[i] {
				in.Transactions = append(in.Transactions, Transaction{tx, true})
			}
		}
	}
	return in
}

// step applies the next block's chunks and returns the results by shard index.
func (n *net) step(txs ...*primitives.SignedTransaction) []*Result {
	n.t.Helper()
	n.height++
	for i := range n.shards {
		n.shards[i].missed++
		if !n.shards[i].missing {
			n.shards[i].missed = 0
		}
	}
	n.before = nil
	for i := range n.shards {
		n.before = append(n.before, n.shards[i].info)
	}
	results := make([]*Result, len(n.shards))
	for i := range n.shards {
		in := n.input(i, txs)
		r, err := Apply(in)
		if err != nil {
			n.t.Fatalf("height %d shard %d: %v", n.height, i, err)
		}
		if !n.once {
			fromProof(n.t, in, r)
		}
		results[i] = r
	}
	for i, r := range results {
		s := &n.shards[i]
		s.trie, s.last = r.Trie, r
		if s.missing {
			continue
		}
		s.info, s.requests = r.Congestion, r.BandwidthRequests
		for j := range s.incoming {
			s.incoming[j] = nil
		}
	}
	for i, r := range results {
		for j := range r.OutgoingByShard {
			to := &n.shards[j]
			to.incoming[i] = append(to.incoming[i], r.OutgoingByShard[j].Receipts...)
		}
	}
	return results
}

// settle steps without transactions until no receipts are left, and returns all results.
func (n *net) settle() (all [][]*Result) {
	n.t.Helper()
	for range 50 {
		results := n.step()
		all = append(all, results)
		quiet := true
		for i, r := range results {
			quiet = quiet && len(r.Outcomes) == 0 && len(r.Outgoing) == 0 && r.Stats.DelayedLen == 0 && n.shards[i].info.ReceiptBytes == 0
		}
		if quiet {
			return all
		}
	}
	n.t.Fatal("does not settle")
	return nil
}

func (n *net) view(id primitives.AccountID) *state.TrieUpdate {
	i, err := n.layout.Index(n.layout.ShardOf(id))
	if err != nil {
		n.t.Fatal(err)
	}
	return state.NewUnrecorded(n.shards[i].trie)
}

// account reads an account; nil if there is none.
func (n *net) account(id primitives.AccountID) *primitives.Account {
	n.t.Helper()
	var a primitives.Account
	found, err := n.view(id).Account(id, &a)
	if err != nil {
		n.t.Fatal(err)
	}
	if !found {
		return nil
	}
	return &a
}

func (n *net) accessKey(id primitives.AccountID, pk primitives.PublicKey) *primitives.AccessKey {
	n.t.Helper()
	var k primitives.AccessKey
	found, err := n.view(id).AccessKey(id, pk.Handle(), &k)
	if err != nil {
		n.t.Fatal(err)
	}
	if !found {
		return nil
	}
	return &k
}

func transfer(yocto primitives.Balance) *primitives.Transfer {
	return &primitives.Transfer{Deposit: yocto}
}

func balance(text string) primitives.Balance { return primitives.MustParseBalance(text) }

// findOutcome returns the outcome with an id.
func findOutcome(t testing.TB, results []*Result, id primitives.Hash) *primitives.OutcomeWithID {
	t.Helper()
	for _, r := range results {
		for i := range r.Outcomes {
			if r.Outcomes[i].ID == id {
				return &r.Outcomes[i]
			}
		}
	}
	t.Fatalf("no outcome of %v", id)
	return nil
}

func statusText(s *primitives.ExecutionStatus) string {
	if s.Kind == primitives.StatusFailure {
		return string(s.Failure)
	}
	return fmt.Sprintf("%d %q", s.Kind, s.Value)
}
