package storage

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// benchChain makes blocks of transfers with the data that the runtime creates: for each transfer a
// transaction with its outcome, a receipt that the next block executes, a refund receipt, and the
// accounts and keys that change.
type benchChain struct {
	rng      *rand.Rand
	accounts int
	zipf     float64
	last     BlockRef
	prev     []transfer
	old      map[string][]byte
	epoch    primitives.EpochID
}

type transfer struct {
	from, to int
	receipt  Receipt
	refund   bool
}

func (c *benchChain) pick() int {
	if c.zipf == 0 {
		return c.rng.IntN(c.accounts)
	}
	// Zipf 1.0 by inversion: rank is exponential in a uniform.
	return int(math.Exp(c.rng.Float64()*math.Log(float64(c.accounts)))) - 1
}

func (c *benchChain) hash() (h primitives.Hash) {
	for i := 0; i < 32; i += 8 {
		binary.LittleEndian.PutUint64(h[i:], c.rng.Uint64())
	}
	return h
}

func accountName(i int) string { return fmt.Sprintf("user%07d.test.near", i) }

// publicKey is the same at each use of the account.
func publicKey(i int) []byte {
	h := primitives.HashBytes(binary.BigEndian.AppendUint64(nil, uint64(i)))
	return append([]byte{0}, h[:]...)
}

func (c *benchChain) account() []byte {
	b := binary.LittleEndian.AppendUint64(nil, c.rng.Uint64())
	b = binary.LittleEndian.AppendUint64(b, c.rng.Uint64N(1<<20))
	b = append(b, make([]byte, 16+32)...)
	return binary.LittleEndian.AppendUint64(b, 182)
}

func str(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(s))), s...)
}

func (c *benchChain) outcome(id primitives.Hash, executor int, produced ...primitives.Hash) Outcome {
	b := binary.LittleEndian.AppendUint32(nil, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(produced)))
	for _, h := range produced {
		b = append(b, h[:]...)
	}
	b = binary.LittleEndian.AppendUint64(b, 223182562500)
	b = binary.LittleEndian.AppendUint64(b, 22318256250000000000&math.MaxUint64)
	b = binary.LittleEndian.AppendUint64(b, 1)
	b = str(b, accountName(executor))
	if len(produced) > 0 {
		b = append(append(b, 3), produced[0][:]...)
	} else {
		b = append(b, 2, 0, 0, 0, 0)
	}
	return Outcome{id, append(b, 3, 0, 0, 0, 0, 0, 0, 0)}
}

func (c *benchChain) receipt(from, to int) Receipt {
	id := c.hash()
	b := str(str(nil, accountName(from)), accountName(to))
	b = append(append(b, id[:]...), 0)
	b = append(str(b, accountName(from)), publicKey(from)...)
	b = append(b, make([]byte, 16+4+4)...)
	b = append(b, 1, 0, 0, 0, 3)
	b = binary.LittleEndian.AppendUint64(b, c.rng.Uint64N(1e12))
	return Receipt{id, append(b, make([]byte, 8)...)}
}

func (c *benchChain) block(transfers int) *Block {
	height := c.last.Height + 1
	b := &Block{Ref: BlockRef{height, c.hash()}, Prev: c.last, Timestamp: uint64(height), Ordinal: uint64(height), Epoch: c.epoch, Head: true,
		Header: make([]byte, 600), Body: make([]byte, 800), Info: make([]byte, 300), MerkleTree: make([]byte, 300)}
	for _, part := range [][]byte{b.Header, b.Body, b.Info, b.MerkleTree} {
		for i := range part {
			part[i] = byte(c.rng.Uint32())
		}
	}
	if height > 3 {
		b.Final = c.last
		b.Final.Height-- // replaced by the caller, which knows the hash
	}
	s := Shard{ID: 0, Extra: make([]byte, 200)}
	chunk := &Chunk{Hash: c.hash(), Header: make([]byte, 400)}
	if height > 2 {
		chunk.ReceiptsOf = []BlockRef{c.last}
	}
	writes := map[string][]primitives.StateChange{}
	var order []string
	write := func(key []byte, value []byte, kind primitives.CauseKind, cause primitives.Hash) {
		if writes[string(key)] == nil {
			order = append(order, string(key))
		}
		writes[string(key)] = append(writes[string(key)], primitives.StateChange{Cause: primitives.StateChangeCause{Kind: kind, Hash: cause}, Value: value})
	}
	accountKey := func(i int) []byte { return primitives.AppendAccountKey(nil, primitives.AccountID(accountName(i))) }
	var next []transfer
	var blockHash = c.hash()
	for range transfers {
		from, to := c.pick(), c.pick()
		tx := str(nil, accountName(from))
		tx = append(tx, publicKey(from)...)
		tx = binary.LittleEndian.AppendUint64(tx, c.rng.Uint64N(1<<24))
		tx = append(str(tx, accountName(to)), blockHash[:]...)
		tx = append(tx, 1, 0, 0, 0, 3)
		tx = binary.LittleEndian.AppendUint64(tx, c.rng.Uint64N(1e12))
		tx = append(tx, make([]byte, 8)...)
		sig := [2]primitives.Hash{c.hash(), c.hash()}
		tx = append(append(append(tx, 0), sig[0][:]...), sig[1][:]...)
		t := Transaction{c.hash(), tx}
		r := c.receipt(from, to)
		chunk.Transactions = append(chunk.Transactions, t)
		s.Outcomes = append(s.Outcomes, c.outcome(t.Hash, from, r.ID))
		s.Outgoing = append(s.Outgoing, r)
		write(accountKey(from), c.account(), primitives.CauseTransactionProcessing, t.Hash)
		accessKey := append(primitives.AppendAccessKeyPrefix(nil, primitives.AccountID(accountName(from))), publicKey(from)...)
		write(accessKey, append(binary.LittleEndian.AppendUint64(nil, c.rng.Uint64N(1<<24)), 1), primitives.CauseTransactionProcessing, t.Hash)
		next = append(next, transfer{from, to, r, false})
	}
	for _, t := range c.prev {
		executor := t.to
		if !t.refund {
			refund := c.receipt(t.to, t.from)
			s.Outcomes = append(s.Outcomes, c.outcome(t.receipt.ID, executor, refund.ID))
			s.Outgoing = append(s.Outgoing, refund)
			next = append(next, transfer{t.to, t.from, refund, true})
		} else {
			s.Outcomes = append(s.Outcomes, c.outcome(t.receipt.ID, executor))
		}
		write(accountKey(executor), c.account(), primitives.CauseReceiptProcessing, t.receipt.ID)
	}
	c.prev = next
	s.Chunk = chunk
	slices.Sort(order)
	for _, k := range order {
		ch := Change{KeyChanges: primitives.KeyChanges{Key: []byte(k), Changes: writes[k]}, Old: c.old[k]}
		c.old[k] = ch.Last()
		s.Changes = append(s.Changes, ch)
	}
	b.Shards = []Shard{s}
	return b
}

// BenchmarkCommit stores blocks of transfers and advances the flat head as the engine does. It
// reports how much was written to the disk.
func BenchmarkCommit(b *testing.B) {
	const accounts = 1_000_000
	for _, transfers := range []int{1, 1000} {
		for _, zipf := range []float64{0, 1} {
			b.Run(fmt.Sprintf("op=commit/transfers=%d/accounts=%d/zipf=%v", transfers, accounts, zipf), func(b *testing.B) {
				c := &benchChain{rng: rand.New(rand.NewPCG(1, 2)), accounts: accounts, zipf: zipf, old: map[string][]byte{}, epoch: hashOf("epoch")}
				s, err := Open(b.TempDir(), Options{Identity: testIdentity})
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = s.Close() }()
				g := &Block{Ref: BlockRef{1, hashOf("g")}, Epoch: c.epoch, Head: true}
				if err := s.Import(g, nil, func(func(Pair) error) error { return nil }); err != nil {
					b.Fatal(err)
				}
				c.last = g.Ref
				refs := []BlockRef{g.Ref}
				before := s.Stats()
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					blk := c.block(transfers)
					if len(refs) > 2 {
						blk.Final = refs[len(refs)-2]
					} else {
						blk.Final = BlockRef{}
					}
					c.last = blk.Ref
					refs = append(refs, blk.Ref)
					b.StartTimer()
					if err := s.Commit(blk); err != nil {
						b.Fatal(err)
					}
					if upto, due := s.FlatHeadDue(); due {
						if err := s.AdvanceFlatHead(upto, nil); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.StopTimer()
				after := s.Stats()
				n := float64(b.N * transfers)
				b.ReportMetric(float64(after.LogBytes-before.LogBytes)/n, "logB/transfer")
				b.ReportMetric(float64(after.IndexBytes-before.IndexBytes)/n, "indexB/transfer")
				b.ReportMetric(float64(after.LogBytes-before.LogBytes+after.IndexBytes-before.IndexBytes)/n, "B/transfer")
				b.ReportMetric(n/b.Elapsed().Seconds(), "transfers/s")
			})
		}
	}
}

// BenchmarkStalledFinality stores 10,000 blocks of ten transfers, none of which becomes final, and
// then advances the flat head over all of them. It reports the cost of a block at the beginning and
// at the end, the cost of the advance, and the cost of a restart in the middle.
func BenchmarkStalledFinality(b *testing.B) {
	const blocks, part = 10_000, 1000
	for b.Loop() {
		c := &benchChain{rng: rand.New(rand.NewPCG(1, 2)), accounts: 100_000, zipf: 1, old: map[string][]byte{}, epoch: hashOf("epoch")}
		dir, o := b.TempDir(), Options{Identity: testIdentity, NoSync: true}
		s, err := Open(dir, o)
		if err != nil {
			b.Fatal(err)
		}
		g := &Block{Ref: BlockRef{1, hashOf("g")}, Epoch: c.epoch, Head: true}
		if err := s.Import(g, nil, func(func(Pair) error) error { return nil }); err != nil {
			b.Fatal(err)
		}
		c.last = g.Ref
		var took [blocks / part]time.Duration
		for n := range blocks {
			blk := c.block(10)
			blk.Final = BlockRef{}
			if n == blocks-1 {
				blk.Final = c.last
			}
			c.last = blk.Ref
			begun := time.Now()
			if err := s.Commit(blk); err != nil {
				b.Fatal(err)
			}
			s.FlatHeadDue()
			took[n/part] += time.Since(begun)
		}
		heap := func() float64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return float64(m.HeapAlloc) / (1 << 20)
		}
		c = nil
		b.ReportMetric(heap(), "MiB-heap")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		s = nil
		begun := time.Now()
		if s, err = Open(dir, o); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(begun).Seconds(), "s/start")
		b.ReportMetric(heap(), "MiB-heap-start")
		begun = time.Now()
		if err := s.AdvanceFlatHead(s.Tip().Final, nil); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(begun).Seconds(), "s/fold")
		b.ReportMetric(float64(took[0].Microseconds())/part, "us/block-first")
		b.ReportMetric(float64(took[len(took)-1].Microseconds())/part, "us/block-last")
		b.ReportMetric(float64(took[len(took)-1])/float64(took[0]), "last/first")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
