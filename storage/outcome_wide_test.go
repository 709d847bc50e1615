package storage

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
)

// countedFile counts the bytes that are read of it.
type countedFile struct {
	file
	read *atomic.Int64
}

func (f countedFile) ReadAt(p []byte, off int64) (int, error) {
	f.read.Add(int64(len(p)))
	return f.file.ReadAt(p, off)
}

// countedDisk opens such files.
type countedDisk struct {
	disk
	read *atomic.Int64
}

func (d countedDisk) openFile(name string) (file, error) {
	f, err := d.disk.openFile(name)
	return countedFile{f, d.read}, err
}

// TestReceiptOfWideBlockReadsPart: if the shard of an outcome has sent more receipts than the cache
// holds, finding one of them reads only the part of the block that contains it. If it read all that
// was sent, a status with a thousand receipts would decompress the block a thousand times.
func TestReceiptOfWideBlockReadsPart(t *testing.T) {
	s, err := OpenMemory(NewMemDisk(), Options{Identity: testIdentity})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	last := BlockRef{1, hashOf("g")}
	if err := s.Import(&Block{Ref: last, Epoch: hashOf("epoch"), Head: true, Shards: []Shard{{ID: 0}}}, nil, func(func(Pair) error) error { return nil }); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	const receipts, size = 3000, 4 << 10
	id := hashOf("outcome")
	for h := range 4 {
		b := &Block{Ref: BlockRef{last.Height + 1, hashOf("wide", h)}, Prev: last, Ordinal: uint64(h + 2), Epoch: hashOf("epoch"), Head: true}
		b.Final = b.Ref
		sh := Shard{ID: 0, Extra: []byte("extra"), Chunk: &Chunk{Hash: hashOf("chunk", h), Header: []byte("header")}}
		if h == 0 {
			sh.Outcomes = []Outcome{{ID: id, Value: id[:]}}
			for i := range receipts {
				value := make([]byte, size)
				for k := range value {
					value[k] = byte(rng.Uint32())
				}
				sh.Outgoing = append(sh.Outgoing, Receipt{ID: hashOf("receipt", i), Value: value})
			}
		}
		b.Shards = []Shard{sh}
		if err := s.Commit(b); err != nil {
			t.Fatal(err)
		}
		last = b.Ref
	}
	if err := s.AdvanceFlatHead(last, nil); err != nil {
		t.Fatal(err)
	}
	by, err := s.Find().Outcome(id)
	if err != nil || len(by) != 1 {
		t.Fatal(by, err)
	}
	read := new(atomic.Int64)
	s.log.disk = countedDisk{s.log.disk, read}
	s.log.mu.Lock()
	for _, f := range s.log.open {
		f.f = countedFile{f.f, read}
	}
	s.log.mu.Unlock()
	const sought = 20
	for i := range sought {
		want := hashOf("receipt", i*receipts/sought)
		got, err := s.Find().ReceiptOf(want, &by[0])
		if err != nil || len(got) != 1 || got[0].Block.Ref() != by[0].Block.Ref() || got[0].Index != i*receipts/sought || !got[0].Canonical {
			t.Fatalf("receipt %d: %+v, %v", i, got, err)
		}
	}
	if n := read.Load(); n == 0 || n > sought*4*frameSize {
		t.Errorf("%d bytes were read for %d receipts of a block that has sent %d", n, sought, receipts*size)
	}
}
