package bench

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/bandwidth"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/verify"
	"github.com/troupe-chain/troupe/runtime/vm"
	"github.com/troupe-chain/troupe/storage/trie"
)

// shardNet applies chunks of shards without blocks. Each step applies one chunk of every shard.
// shardNet passes on receipts, congestion and bandwidth requests as block headers would.
type shardNet struct {
	cfg    *parameters.RuntimeConfig
	layout primitives.ShardLayout
	height primitives.Height
	price  primitives.Balance
	limit  primitives.Gas
	keys   []primitives.PublicKey   // account i has the key with index i modulo len(keys)
	shards []shard                  // shards by shard index
	vm     *vm.VM                   // VM for contract calls; nil: there are only native transfers
	tokens [][]primitives.AccountID // ids of the token contracts by shard index
	node   *fullNode                // node of a stored state; nil: the state is created in memory
}

type shard struct {
	root     *trie.Root
	names    []int32 // numbers of the shard's accounts; nil: account i has number i
	zipf     *workload.Zipf
	info     primitives.CongestionInfo
	requests []primitives.BandwidthRequest
	incoming [][]*primitives.Receipt // receipts by index of the sending shard
}

// chunkGasLimit is the gas limit of a chunk on mainnet and in chains that init creates.
const chunkGasLimit = 1_000_000_000_000_000

func newShardNet(o *ShardOptions, rng *rand.Rand) (*shardNet, error) {
	layout, err := workload.Layout(o.Shards)
	if err != nil {
		return nil, err
	}
	n := &shardNet{
		cfg: parameters.MustGet(parameters.Release(parameters.Newest(primitives.NumberingRelease))), layout: layout,
		height: 100, price: primitives.Yocto(100_000_000),
		limit: chunkGasLimit, shards: make([]shard, o.Shards),
		keys: []primitives.PublicKey{primitives.SecretKeyFromSeed(primitives.ED25519, "bench").PublicKey()},
	}
	if o.State != "" {
		return n, n.onState(o, rng)
	}
	for i := range o.Accounts {
		at, err := layout.Index(layout.ShardOf(workload.Account(i)))
		if err != nil {
			return nil, err
		}
		n.shards[at].names = append(n.shards[at].names, int32(i))
	}
	for i := range n.shards {
		s := &n.shards[i]
		if len(s.names) < 2 {
			return nil, fmt.Errorf("bench: shard %d has %d of %d accounts, must have at least 2", i, len(s.names), o.Accounts)
		}
		s.zipf = workload.NewZipf(rng, len(s.names), o.Skew)
		s.incoming = make([][]*primitives.Receipt, o.Shards)
	}
	if o.Tokens {
		if err := n.addTokens(max(o.Contracts, 1)); err != nil {
			return nil, err
		}
	}
	for i := range n.shards {
		s := &n.shards[i]
		state := n.state(s.names)
		if o.Tokens {
			for _, id := range n.tokens[i] {
				state = withToken(state, newToken(id, o.Accounts, primitives.NEAR(1_000_000)))
			}
		}
		if s.root, err = trie.New(trie.Options{}).Build(state); err != nil {
			n.close()
			return nil, err
		}
	}
	return n, nil
}

// onState uses the state of a stored chain's last block. The chain's node stays open to load trie
// nodes. That node produces no blocks.
func (n *shardNet) onState(o *ShardOptions, rng *rand.Rand) (err error) {
	at, err := readState(o.State)
	if err != nil {
		return err
	}
	if n.node, err = openState(o.State, &at, o.Memory, "", daemon.Options{}); err != nil {
		return err
	}
	n.keys = n.keys[:0]
	for _, key := range n.node.keys {
		n.keys = append(n.keys, key.PublicKey())
	}
	n.shards[0] = shard{root: n.node.Engine.Head().Root(0).Retain(), zipf: workload.NewZipf(rng, o.Accounts, o.Skew),
		incoming: make([][]*primitives.Receipt, 1)}
	return nil
}

// load reads all accounts and keys of a chunk, so that these entries are in memory when the chunk
// is applied.
func (n *shardNet) load(txs []apply.Transaction, par apply.Par) error {
	const batch = 32
	errs := make([]error, (len(txs)+batch-1)/batch)
	one := func(i int) {
		for _, t := range txs[i*batch : min((i+1)*batch, len(txs))] {
			tx := &t.Transaction
			for _, key := range [...][]byte{primitives.AppendAccountKey(nil, tx.SignerID), primitives.AppendAccountKey(nil, tx.ReceiverID),
				primitives.AppendAccessKeyKey(nil, tx.SignerID, tx.PublicKey.Handle())} {
				if _, found, err := n.shards[0].root.Lookup(key, nil); err != nil || !found {
					errs[i] = cmp.Or(err, fmt.Errorf("bench: the stored state lacks key %x", key))
				}
			}
		}
	}
	if par != nil {
		par(len(errs), one)
	} else {
		for i := range errs {
			one(i)
		}
	}
	return errors.Join(errs...)
}

// close closes the VM and the node.
func (n *shardNet) close() {
	if n.vm != nil {
		n.vm.Close()
	}
	if n.node != nil {
		_ = n.node.stop() // an error is ignored, because the node has no unsaved data
	}
}

// draw returns the number of a random account of the shard.
func (s *shard) draw(rng *rand.Rand) int {
	i := s.zipf.Draw(rng)
	if s.names != nil {
		return int(s.names[i])
	}
	return i
}

// state yields the accounts, each with 1000 NEAR and a key, in ascending order of trie keys.
func (n *shardNet) state(names []int32) iter.Seq2[[]byte, []byte] {
	ids := make([]string, len(names))
	for i, at := range names {
		ids[i] = string(workload.Account(int(at)))
	}
	slices.SortFunc(ids, strings.Compare)
	account := primitives.Account{Amount: primitives.NEAR(1000),
		StorageUsage: primitives.AccountStorage + primitives.FullAccessKeyStorage, Version: primitives.AccountV1}
	accountValue, keyValue := account.AppendBorsh(nil), (&primitives.AccessKey{}).AppendBorsh(nil)
	handle := n.keys[0].Handle()
	return func(yield func(k, v []byte) bool) {
		var key []byte
		for _, id := range ids {
			if key = primitives.AppendAccountKey(key[:0], primitives.AccountID(id)); !yield(bytes.Clone(key), accountValue) {
				return
			}
		}
		for _, id := range ids {
			if key = primitives.AppendAccessKeyKey(key[:0], primitives.AccountID(id), handle); !yield(bytes.Clone(key), keyValue) {
				return
			}
		}
	}
}

// chunk returns transfers signed by accounts of a shard. The share cross of the transfers goes to
// accounts of other shards. Signatures are empty, because the benchmark does not check signatures.
func (n *shardNet) chunk(rng *rand.Rand, i, size int, cross float64) []apply.Transaction {
	s := &n.shards[i]
	out := make([]apply.Transaction, size)
	for k := range out {
		at := i
		if len(n.shards) > 1 && rng.Float64() < cross {
			at = (i + 1 + rng.IntN(len(n.shards)-1)) % len(n.shards)
		}
		to := &n.shards[at]
		from := s.draw(rng)
		tx := primitives.Transaction{
			SignerID: workload.Account(from), PublicKey: n.keys[from%len(n.keys)],
			Nonce: primitives.TransactionNonce{Nonce: primitives.InitialNonce(n.height+1) + primitives.Nonce(k) + 1},
		}
		if n.vm != nil {
			n.call(rng, &tx, n.tokens[at][rng.IntN(len(n.tokens[at]))], to)
		} else {
			tx.ReceiverID = workload.Account(to.draw(rng))
			tx.Actions = []primitives.Action{&primitives.Transfer{Deposit: primitives.Yocto(1 + rng.Uint64N(1_000_000))}}
		}
		out[k] = apply.Transaction{Valid: true, SignedTransaction: primitives.NewSignedTransaction(tx, primitives.ZeroED25519Signature)}
	}
	return out
}

// step applies the next block's chunks, in parallel if par is not nil.
func (n *shardNet) step(txs [][]apply.Transaction, par apply.Par) ([]*apply.Result, error) {
	n.height++
	results := make([]*apply.Result, len(n.shards))
	errs := make([]error, len(n.shards))
	one := func(i int) { results[i], errs[i] = apply.Apply(n.input(i, txs[i], par)) }
	if par != nil && len(n.shards) > 1 {
		par(len(n.shards), one)
	} else {
		for i := range n.shards {
			one(i)
		}
	}
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("bench: apply block %d in shard %d: %w", n.height, i, err)
		}
	}
	for i := range n.shards {
		s := &n.shards[i]
		s.root.Release()
		s.root, s.info, s.requests = engine.TrieRoot(results[i].Trie), results[i].Congestion, results[i].BandwidthRequests
		for from, r := range results {
			s.incoming[from] = r.OutgoingByShard[i].Receipts
		}
	}
	return results, nil
}

func (n *shardNet) input(i int, txs []apply.Transaction, par apply.Par) *apply.Input {
	s, ids := &n.shards[i], n.layout.ShardIDs()
	prev := primitives.HashBytes(borsh.AppendUint64(nil, uint64(n.height-1)))
	in := &apply.Input{
		Trie: engine.StateTrie(s.root), Layout: n.layout, NewChunk: true, GasLimit: n.limit, Par: par, Signature: verify.Checked,
		Transactions: txs, Incoming: apply.OrderIncoming(prev, s.incoming),
		Block: action.Block{
			Config: n.cfg, ChainID: "bench", ShardID: ids[i], Height: n.height, PrevHash: prev, GasPrice: n.price,
			MinimumStake: primitives.NEAR(10), RandomValue: prev,
		},
	}
	if n.vm != nil {
		in.Block.VM = n.vm
	}
	for j := range n.shards {
		in.Congestion = append(in.Congestion, apply.ShardCongestion{Shard: ids[j], Info: n.shards[j].info})
		in.Requests = append(in.Requests, bandwidth.SenderRequests{Shard: ids[j], Requests: n.shards[j].requests})
	}
	return in
}

// roots returns the state root of each shard.
func (n *shardNet) roots() []primitives.Hash {
	out := make([]primitives.Hash, len(n.shards))
	for i := range n.shards {
		out[i] = n.shards[i].root.Hash()
	}
	return out
}
