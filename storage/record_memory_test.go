package storage

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// sizedBlock is a block with items of so many bytes in all of its sections.
func sizedBlock(rng *rand.Rand, prev BlockRef, sizes []int) *Block {
	ref := BlockRef{prev.Height + 1, hashOf("sized", rng.Uint64())}
	some := func() []byte {
		b := make([]byte, sizes[rng.IntN(len(sizes))])
		for i, x := 0, rng.Uint64(); i < len(b); i++ {
			x = x*6364136223846793005 + 1
			b[i] = byte(x>>60) % byte(1+i>>12&7) // some of it is compressed
		}
		return b
	}
	b := &Block{Ref: ref, Prev: prev, Ordinal: uint64(ref.Height), Epoch: hashOf("epoch"), Head: true, Header: some(), Body: some(), Info: some(), MerkleTree: some()}
	for id := range primitives.ShardID(2) {
		sh := Shard{ID: id, Extra: some(), Other: some(), Chunk: &Chunk{Hash: hashOf("chunk", ref.Hash, id), Header: some()}}
		for i := range 3 {
			tx := hashOf("tx", ref.Hash, id, i)
			sh.Outcomes = append(sh.Outcomes, Outcome{ID: tx, Value: some()})
			sh.Outgoing = append(sh.Outgoing, Receipt{ID: hashOf("receipt", ref.Hash, id, i), Value: some()})
			sh.Chunk.Transactions = append(sh.Chunk.Transactions, Transaction{Hash: tx, Value: some()})
		}
		b.Shards = append(b.Shards, sh)
	}
	return b
}

// TestRecordBuffersAreReused: records are encoded in buffers that all stores share and reuse. Each
// record has the content of its own block, whatever was encoded before or is being encoded at the
// same time. The buffers of a long record are not kept.
func TestRecordBuffersAreReused(t *testing.T) {
	var all sync.WaitGroup
	for g := range 3 {
		all.Go(func() {
			disk, rng := NewMemDisk(), rand.New(rand.NewPCG(uint64(g), 1))
			s, err := OpenMemory(disk, Options{Identity: testIdentity, NoCompression: g == 1})
			if err != nil {
				t.Error(err)
				return
			}
			last := BlockRef{1, hashOf("g", g)}
			if err := s.Import(&Block{Ref: last, Epoch: hashOf("epoch"), Head: true, Shards: []Shard{{ID: 0}, {ID: 1}}}, nil, func(func(Pair) error) error { return nil }); err != nil {
				t.Error(err)
				return
			}
			var blocks []*Block
			for i := range 40 {
				sizes := []int{0, 1, 100, 511, 513, 5000}
				switch {
				case i%13 == 5:
					sizes = []int{frameSize - 3, frameSize, frameSize + 1, pageSize, 3 * pageSize}
				case i == 20:
					sizes = []int{maxBuffered / 8}
				}
				b := sizedBlock(rng, last, sizes)
				alone, _ := b.encodeWith(g == 1).bytes() // in memory of its own
				if err := s.Commit(b); err != nil {
					t.Error(err)
					return
				}
				e := s.tree.get(b.Ref.Hash).entry
				raw, err := s.log.read(e.at, len(alone))
				// its first byte says whether the record before is synced
				if raw[0] = alone[0]; err != nil || !bytes.Equal(raw, alone) {
					t.Errorf("block %d of store %d is another in used memory: %v", i, g, err)
				}
				blocks, last = append(blocks, b), b.Ref
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if s, err = OpenMemory(disk, Options{Identity: testIdentity}); err != nil {
				t.Error(err)
				return
			}
			for _, b := range blocks {
				if err := sameBlock(s, b); err != nil {
					t.Errorf("store %d, block %d: %v", g, b.Ref.Height, err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for range 100 {
		if b := writeBufs.Get().(*[]byte); cap(*b) > maxBuffered {
			t.Fatalf("%d bytes are kept", cap(*b))
		}
		if b := recordBufs.Get().(*recordBuffers); cap(b.data)+cap(b.raw)+cap(b.payload) > maxBuffered {
			t.Fatalf("%d, %d and %d bytes are kept", cap(b.data), cap(b.raw), cap(b.payload))
		}
	}
}

// sameBlock compares what is stored of a block.
func sameBlock(s *Store, b *Block) error {
	rec, err := s.Block(b.Ref)
	if err != nil {
		return err
	}
	for name, x := range map[string]struct {
		want []byte
		got  func() ([]byte, error)
	}{"header": {b.Header, rec.Header}, "body": {b.Body, rec.Body}, "info": {b.Info, rec.Info}} {
		if got, err := x.got(); err != nil || !bytes.Equal(got, x.want) {
			return fmt.Errorf("%s of %d bytes, want %d: %w", name, len(got), len(x.want), err)
		}
	}
	for i := range b.Shards {
		sh := &b.Shards[i]
		for k := range sh.Outcomes {
			if o, err := rec.Outcome(sh.ID, k); err != nil || o.ID != sh.Outcomes[k].ID || !bytes.Equal(o.Value, sh.Outcomes[k].Value) {
				return fmt.Errorf("shard %d, outcome %d: %d bytes, want %d: %w", sh.ID, k, len(o.Value), len(sh.Outcomes[k].Value), err)
			}
			if x, err := rec.Transaction(sh.ID, k); err != nil || x.Hash != sh.Chunk.Transactions[k].Hash || !bytes.Equal(x.Value, sh.Chunk.Transactions[k].Value) {
				return fmt.Errorf("shard %d, transaction %d: %d bytes: %w", sh.ID, k, len(x.Value), err)
			}
		}
	}
	return nil
}

// TestIdleStoreKeepsNoBuffers: a store that has written a long record keeps no buffers for it,
// because a process may have a thousand idle stores.
func TestIdleStoreKeepsNoBuffers(t *testing.T) {
	const stores, long = 20, 1 << 20
	heap := func() uint64 {
		var m runtime.MemStats
		for range 3 { // what pools have goes with the second
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	header := make([]byte, long)
	for i := range header {
		header[i] = byte(i * i >> 3)
	}
	var all []*Store
	open := func() *Store {
		s, err := OpenMemory(NewMemDisk(), Options{Identity: testIdentity, NoCompression: true})
		if err != nil {
			t.Fatal(err)
		}
		first := BlockRef{1, hashOf("g")}
		if err := s.Import(&Block{Ref: first, Epoch: hashOf("epoch"), Head: true}, nil, func(func(Pair) error) error { return nil }); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for range stores {
		all = append(all, open())
	}
	before := heap()
	for _, s := range all {
		if err := s.Commit(&Block{Ref: BlockRef{2, hashOf("long")}, Prev: BlockRef{1, hashOf("g")}, Epoch: hashOf("epoch"), Head: true, Header: header}); err != nil {
			t.Fatal(err)
		}
	}
	if after := heap(); after > before+stores*(long+long/4) {
		t.Errorf("%d stores with a record of 1 MiB each have %d KiB more", stores, (after-before)>>10)
	}
	for _, s := range all {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
