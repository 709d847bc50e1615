package storage

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// slowIndex takes its time for what is not synced, which is what removes rows, and counts it.
type slowIndex struct {
	index
	pieces atomic.Int32
	first  func()
}

func (x *slowIndex) write(b *Batch, synced bool) error {
	if !synced && x.pieces.Add(1) == 1 {
		x.first()
	}
	if !synced {
		time.Sleep(3 * time.Millisecond) // so that the goroutine that waits for the lock gets it next
	}
	return x.index.write(b, synced)
}

// untrackingStore has a shard of 16 pieces that leaves.
func untrackingStore(t *testing.T) *Store {
	s, err := OpenMemory(NewMemDisk(), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	g := &Block{Ref: BlockRef{1, hashOf("a")}, Epoch: hashOf("epoch"), Head: true, Shards: []Shard{{ID: 0}, {ID: 1}}}
	err = s.Import(g, nil, func(put func(Pair) error) error {
		long := make([]byte, 200)
		for i := range 16 * historyBatch / 220 {
			if err := put(Pair{1, fmt.Appendf(nil, "\x00p%0200d", i), long[:8]}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.BeginUntrack(1, AccountRange{Lo: "m"}); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestHeaderWriteWaitsForOneDeletionPiece: a write of headers waits for one piece of a shard's
// deletion, not for all of it.
func TestHeaderWriteWaitsForOneDeletionPiece(t *testing.T) {
	s := untrackingStore(t)
	at := make(chan int32, 1)
	slow := &slowIndex{index: s.db}
	slow.first = func() {
		go func() {
			var b Batch
			HeaderHeight.Put(&b, BlockRef{2, hashOf("b")}, &Raw{})
			if err := s.PutHeaders(&b); err != nil {
				t.Error(err)
			}
			at <- slow.pieces.Load()
		}()
	}
	s.db = slow
	if err := s.FinishUntrack(); err != nil {
		t.Fatal(err)
	}
	if n, all := <-at, slow.pieces.Load(); all < 10 || n > all/2 {
		t.Errorf("headers were written after piece %d of %d", n, all)
	}
	cur := s.db.iterate([]byte{flat.id}, []byte{flat.id + 1})
	if cur.next() {
		t.Errorf("row %x of the shard is still there", cur.key())
	}
	if err := cur.done(); err != nil {
		t.Error(err)
	}
}

// TestStagedRowsSurviveRunningDeletion: rows that Stage writes between two pieces of a shard's
// deletion are not removed by the later pieces.
func TestStagedRowsSurviveRunningDeletion(t *testing.T) {
	s := untrackingStore(t)
	var r *shardDeletion
	for range 3 {
		if more, err := s.deletePiece(&r); err != nil || !more {
			t.Fatal(more, err)
		}
	}
	at, key := s.view.Load().flatHead, []byte("\x00x")
	if _, err := s.Stage(1, at, AccountRange{Lo: "m"}); err != nil {
		t.Fatal(err)
	}
	if err := s.StagePart(1, at, 0, func(put func(key, value []byte) error) error { return put(key, []byte("1")) }); err != nil {
		t.Fatal(err)
	}
	for more, err := true, error(nil); more; {
		if more, err = s.deletePiece(&r); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.InstallShard(1, nil); err != nil {
		t.Fatal(err)
	}
	if v, err := s.ValueAt(at, 1, key); err != nil || string(v) != "1" {
		t.Errorf("%q, %v", v, err)
	}
}
