package apply

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/verify"
)

// BenchmarkTransfers applies chunks of native transfers between accounts of one shard, Zipf 1.0; a transfer is a transaction,
// its receipt and a refund. Signatures were checked before. Setup is outside the measured time.
func BenchmarkTransfers(b *testing.B) {
	for _, accounts := range []int{1000, 100_000, 1_000_000} {
		for name, par := range map[string]Par{"serial": nil, "parallel": goPar} {
			b.Run(fmt.Sprintf("accounts=%d/mode=%s", accounts, name), func(b *testing.B) { benchTransfers(b, accounts, par) })
		}
	}
}

// chunkTransfers is about what a chunk of 1 PGas holds.
const chunkTransfers = 1400

func benchTransfers(b *testing.B, accounts int, par Par) {
	names := make([]primitives.AccountID, accounts)
	for i := range names {
		names[i] = primitives.AccountID(fmt.Sprintf("account%06d.near", i))
	}
	n := benchNet(b, names)
	n.par = par
	rng := rand.New(rand.NewPCG(1, 2))
	pick := zipf(rng, accounts)
	key := testKey("bench").PublicKey()
	made := primitives.Nonce(0)
	chunk := func() []Transaction {
		txs := make([]Transaction, chunkTransfers)
		for i := range txs {
			made++
			from, to := names[pick()], names[pick()]
			txs[i] = Transaction{primitives.NewSignedTransaction(primitives.Transaction{
				SignerID: from, PublicKey: key, Nonce: primitives.TransactionNonce{Nonce: 1_000_000*primitives.Nonce(n.height) + made%1_000_000},
				ReceiverID: to, Actions: []primitives.Action{transfer(primitives.Yocto(uint64(i)))},
			}, primitives.ZeroED25519Signature), true}
		}
		return txs
	}
	s := &n.shards[0]
	step := func(txs []Transaction) *Result {
		n.height++
		in := n.input(0, nil)
		in.Transactions, in.Signature = txs, verify.Checked
		r, err := Apply(in)
		if err != nil {
			b.Fatal(err)
		}
		s.trie.(testTrie).root.Release()
		s.trie, s.info, s.requests = r.Trie, r.Congestion, r.BandwidthRequests
		s.incoming[0] = r.Outgoing
		return r
	}
	for range 3 {
		step(chunk())
	}
	b.ReportAllocs()
	b.ResetTimer()
	var total int
	for b.Loop() {
		b.StopTimer()
		txs := chunk()
		b.StartTimer()
		r := step(txs)
		total += chunkTransfers
		if len(r.Outcomes) < 2*chunkTransfers {
			b.Fatalf("%d outcomes: %+v", len(r.Outcomes), r.Stats)
		}
	}
	b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "transfers/s")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(total), "us/transfer")
}

// zipf draws with probability proportional to 1/(rank+1); ranks are spread over the accounts.
func zipf(rng *rand.Rand, n int) func() int {
	sums := make([]float64, n)
	total := 0.0
	for i := range sums {
		total += 1 / float64(i+1)
		sums[i] = total
	}
	at := rng.Perm(n)
	return func() int {
		i, _ := slices.BinarySearch(sums, rng.Float64()*total)
		return at[min(i, n-1)]
	}
}

// benchNet is newNet with one key for all accounts, since making keys takes long.
func benchNet(b *testing.B, names []primitives.AccountID) *net {
	n := newNet(b, primitives.SingleShardLayout())
	n.limit = 10_000_000_000_000_000
	values := map[string][]byte{}
	handle := testKey("bench").PublicKey().Handle()
	for _, id := range names {
		a := primitives.Account{Amount: primitives.NEAR(1000), StorageUsage: 182, Version: primitives.AccountV1}
		values[string(primitives.AppendAccountKey(nil, id))] = a.AppendBorsh(nil)
		k := primitives.AccessKey{}
		values[string(primitives.AppendAccessKeyKey(nil, id, handle))] = k.AppendBorsh(nil)
	}
	n.shards[0].trie = state.Trie(buildTrie(b, values))
	return n
}
