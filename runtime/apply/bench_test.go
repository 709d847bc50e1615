package apply

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/verify"
	"github.com/troupe-chain/troupe/storage/trie"
)

// BenchmarkTransfers applies chunks of native transfers between accounts of one shard, Zipf 1.0; a
// transfer is a transaction, its receipt and a refund. Signatures were checked before. Setup is
// outside the measured time.
func BenchmarkTransfers(b *testing.B) {
	for _, accounts := range []int{1000, 100_000, 1_000_000} {
		for name, par := range map[string]Par{"serial": nil, "parallel": goPar} {
			b.Run(fmt.Sprintf("accounts=%d/mode=%s", accounts, name), func(b *testing.B) { benchTransfers(b, accounts, par) })
		}
	}
}

// chunkTransfers is about the number of transfers in a chunk of 1 PGas. With many accounts the limit of the
// state proof is reached earlier. Then the chunks are made smaller until no receipt is delayed.
const chunkTransfers = 1400

func benchTransfers(b *testing.B, accounts int, par Par) {
	n := benchNet(b, accounts)
	n.par = par
	rng := rand.New(rand.NewPCG(1, 2))
	pick := zipf(rng, accounts)
	key := testKey("bench").PublicKey()
	made := primitives.Nonce(0)
	size := chunkTransfers
	chunk := func() []Transaction {
		txs := make([]Transaction, size)
		for i := range txs {
			made++
			from, to := benchName(pick()), benchName(pick())
			txs[i] = Transaction{primitives.NewSignedTransaction(primitives.Transaction{
				SignerID: from, PublicKey: key, Nonce: primitives.TransactionNonce{Nonce: 1_000_000*primitives.Nonce(n.height) + made%1_000_000},
				ReceiverID: to, Actions: []primitives.Action{transfer(primitives.Yocto(uint64(i)))},
			}, primitives.ZeroED25519Signature), true}
		}
		return txs
	}
	s := &n.shards[0]
	rec := s.trie.NewRecording()
	step := func(txs []Transaction) *Result {
		n.height++
		in := n.input(0, nil)
		in.Transactions, in.Signature, in.Recording = txs, verify.Checked, rec
		r, err := Apply(in)
		if err != nil {
			b.Fatal(err)
		}
		s.trie.(testTrie).root.Release()
		s.trie, s.info, s.requests = r.Trie, r.Congestion, r.BandwidthRequests
		s.incoming[0] = r.Outgoing
		rec.Reset()
		return r
	}
	for calm := 0; calm < 10; { // until no receipts are delayed and the chunks have their final size
		if r := step(chunk()); r.Stats.DelayedLen > 0 {
			calm, size = 0, max(100, size*19/20)
		} else {
			calm++
		}
	}
	runtime.GC()
	b.ReportAllocs()
	b.ResetTimer()
	var total, chunks int
	var cpu []float64 // for each chunk: microseconds per transfer
	for b.Loop() {
		b.StopTimer()
		txs := chunk()
		before := cpuTime()
		b.StartTimer()
		r := step(txs)
		cpu = append(cpu, float64((cpuTime()-before).Nanoseconds())/1000/float64(size))
		total += size
		chunks++
		if len(r.Outcomes) < 2*size {
			b.Fatalf("%d outcomes: %+v", len(r.Outcomes), r.Stats)
		}
		if r.Stats.DelayedLen > 0 {
			size = size * 99 / 100
		}
	}
	b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "transfers/s")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(total), "us/transfer")
	b.ReportMetric(float64(total)/float64(chunks), "transfers/chunk")
	// On a busy machine, processor time is more meaningful than wall time, and the best chunks are more
	// meaningful than the mean.
	slices.Sort(cpu)
	b.ReportMetric(cpu[len(cpu)/2], "cpu-us/transfer")
	b.ReportMetric(cpu[len(cpu)/10], "cpu-us-p10/transfer")
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

// benchName returns the name of an account. Names are computed on demand, because a million strings would
// be work for the garbage collector.
func benchName(i int) primitives.AccountID {
	return primitives.AccountID(fmt.Sprintf("account%06d.near", i))
}

// benchNet is newNet with the same key for all accounts, since generating keys takes long.
func benchNet(b *testing.B, accounts int) *net {
	n := newNet(b, primitives.SingleShardLayout())
	n.limit = 10_000_000_000_000_000
	a := primitives.Account{Amount: primitives.NEAR(1000), StorageUsage: 182, Version: primitives.AccountV1}
	account, handle := a.AppendBorsh(nil), testKey("bench").PublicKey().Handle()
	k := primitives.AccessKey{}
	accessKey := k.AppendBorsh(nil)
	var buf []byte
	root, err := trie.New(trie.Options{}).Build(func(yield func(k, v []byte) bool) { // names ascend
		for i := range accounts {
			if buf = primitives.AppendAccountKey(buf[:0], benchName(i)); !yield(buf, account) {
				return
			}
		}
		for i := range accounts {
			if buf = primitives.AppendAccessKeyKey(buf[:0], benchName(i), handle); !yield(buf, accessKey) {
				return
			}
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	n.shards[0].trie = state.Trie(testTrie{root})
	return n
}
