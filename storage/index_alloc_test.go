package storage

import (
	"bytes"
	"encoding/binary"
	"testing"

	lstorage "github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
)

// TestBatchCopiesScratchMemory: columns encode keys and values in the batch's scratch memory, and
// the batch keeps its own copy of them.
func TestBatchCopiesScratchMemory(t *testing.T) {
	batch := Batch{b: make([]byte, 0, 1<<20)}
	s := FrontierNode{Level: 1, Path: []byte("a path of nibbles"), Hash: hashOf("x"), MemoryUsage: 7}
	value := packed(bytes.Repeat([]byte("value "), 20))
	key := string(s.Path)
	n := testing.AllocsPerRun(100, func() {
		putFrontierNode(&batch, 3, &s)
		flat.Put(&batch, key, &value)
		flat.Delete(&batch, key)
	})
	if n > 0 && !testutil.Racing { // the detector has some of its own
		t.Errorf("%v allocations for three writes", n)
	}
	batch.Reset()
	putFrontierNode(&batch, 3, &s)
	flat.Put(&batch, key, &value)
	flat.Delete(&batch, key)
	var other Batch
	frontier.Put(&other, frontierKey{3, s.Level, key}, &frontierValue{s.Hash, s.MemoryUsage})
	if want := flat.dbKey(key); !bytes.HasPrefix(batch.b, other.b) || !bytes.HasSuffix(batch.b, want) {
		t.Errorf("%x begins not with the frontier's %x, or does not end with %x", batch.b, other.b, want)
	}
	var got [][2][]byte
	batch.each(func(k, v []byte) { got = append(got, [2][]byte{k, v}) })
	if len(got) != 3 || got[2][1] != nil || !bytes.Equal(got[1][0], flat.dbKey(key)) {
		t.Fatalf("writes %x", got)
	}
	if v, err := unpack(nil, got[1][1]); err != nil || !bytes.Equal(v, value) {
		t.Errorf("value %q, %v", v, err)
	}
}

// BenchmarkFlatHeadBatch writes 10,000 rows as an advance of the flat head does.
func BenchmarkFlatHeadBatch(b *testing.B) {
	d, err := openLevel(lstorage.NewMemStorage(), &Options{WriteBuffer: DefaultWriteBuffer, BlockCache: DefaultBlockCache}, newDiskSpace(nil, 0))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = d.close() }()
	b.ReportAllocs()
	path, n := make([]byte, 20), uint64(0)
	for b.Loop() {
		var batch Batch
		for range 10_000 {
			n += 0x9e3779b97f4a7c15
			binary.BigEndian.PutUint64(path, n)
			putFrontierNode(&batch, 1, &FrontierNode{Level: 0, Path: path, MemoryUsage: n})
		}
		if err := d.write(&batch, false); err != nil {
			b.Fatal(err)
		}
	}
}

// TestPendingRowsKeepNoScratchMemory: the rows of a pending block do not keep the scratch memory in
// which they were encoded.
func TestPendingRowsKeepNoScratchMemory(t *testing.T) {
	var batch Batch
	long := packed(bytes.Repeat([]byte("value "), 1<<16))
	flat.Put(&batch, "key", &long)
	p := newPending(new(entry), &Block{Puts: &batch}, nil)
	if cap(p.puts.value)+cap(p.puts.key) > 0 || p.puts.Len() != 1 || p.puts.Size() != batch.Size() {
		t.Errorf("%d rows of %d bytes wait with %d bytes of scratch", p.puts.Len(), p.puts.Size(), cap(p.puts.value)+cap(p.puts.key))
	}
}
