package storage

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"
	"weak"
)

// TestBodiesAreFreedWhenFlatHeadPasses: of a committed block the store keeps only the changes in
// memory, and these only until the flat head passes the block. Otherwise a thousand blocks of large
// transactions would stay in memory long after they are in the log and the index.
func TestBodiesAreFreedWhenFlatHeadPasses(t *testing.T) {
	const blocks, size = 12, 300 << 10
	s, err := OpenMemory(NewMemDisk(), Options{Identity: testIdentity, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	c := &benchChain{rng: rand.New(rand.NewPCG(1, 2)), accounts: 20, zipf: 1, old: map[string][]byte{}, epoch: hashOf("epoch")}
	g := &Block{Ref: BlockRef{1, hashOf("g")}, Epoch: c.epoch, Head: true}
	if err := s.Import(g, nil, func(func(Pair) error) error { return nil }); err != nil {
		t.Fatal(err)
	}
	c.last = g.Ref
	var encoded, changed []weak.Pointer[byte]
	var refs []BlockRef
	for n := range blocks {
		b := c.block(1)
		if b.Final = (BlockRef{}); n > 0 {
			b.Final = c.last
		}
		c.last = b.Ref
		sh := &b.Shards[0]
		tx, code := make([]byte, size), bytes.Repeat([]byte{byte(n + 1)}, size)
		sh.Chunk.Transactions = append(sh.Chunk.Transactions, Transaction{Hash: c.hash(), Value: tx})
		last := &sh.Changes[len(sh.Changes)-1].Changes[0]
		last.Value = code
		encoded, changed = append(encoded, weak.Make(&tx[0])), append(changed, weak.Make(&code[0]))
		refs = append(refs, b.Ref)
		if err := s.Commit(b); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	held := func(list []weak.Pointer[byte]) (n int) {
		for _, p := range list {
			if p.Value() != nil {
				n++
			}
		}
		return n
	}
	if n := held(encoded); n > 0 {
		t.Errorf("%d of %d encoded transactions are held behind Commit", n, blocks)
	}
	const folded = blocks - 3
	if err := s.AdvanceFlatHead(refs[folded-1], nil); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	if n := held(changed[:folded-1]); n > 0 { // the last one is the base
		t.Errorf("changes of %d of %d folded blocks are held", n, folded)
	}
	want := 0
	for _, p := range s.tree.sorted() {
		want += p.bytes
	}
	if n := len(s.resident.list); n != blocks-folded || s.resident.bytes != want {
		t.Errorf("%d bodies with %d bytes in memory, want %d with %d", n, s.resident.bytes, blocks-folded, want)
	}
	runtime.KeepAlive(s)
}
