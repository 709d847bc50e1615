package storage

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"testing"
)

// TestSnapshotStreamIsEqual takes a snapshot stream while blocks are committed, the flat head
// advances and old blocks are removed. The received store equals the original as of that moment,
// for every kind of read. With the log records after the stream's end it continues as the original
// did.
func TestSnapshotStreamIsEqual(t *testing.T) {
	for seed := uint64(1); seed <= 3; seed++ {
		m := newModel(t, seed)
		o := testOptions()
		s, err := Open(t.TempDir(), o)
		if err != nil {
			t.Fatal(err)
		}
		importGenesis(t, s, m)
		grow := func(n int) {
			for range n {
				b := m.overlay(s.Tip().Head, true)
				if err := s.Commit(b); err != nil {
					t.Fatal(err)
				}
				m.add(b)
				if m.rng.IntN(5) == 0 {
					if err := s.AdvanceFlatHead(s.Tip().Final, nil); err != nil && !errors.Is(err, ErrOrder) {
						t.Fatal(err)
					}
				}
			}
		}
		grow(60)
		c, err := s.SnapshotStream()
		if err != nil {
			t.Fatal(err)
		}
		at := s.Tip()
		grow(60) // beside it
		if _, err := s.CollectGarbage(GCOptions{KeepEpochs: 1, MaxHeights: 1000}); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if n, err := c.WriteTo(&b); err != nil || n == 0 {
			t.Fatal(n, err)
		}
		c.Close()
		dir := filepath.Join(t.TempDir(), "data")
		if err := Receive(dir, testIdentity, bytes.NewReader(b.Bytes())); err != nil {
			t.Fatal(err)
		}
		r, err := Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Tip(); got.Head != at.Head || got.Final != at.Final || got.FlatHead != at.FlatHead || got.Tail != at.Tail {
			t.Fatalf("seed %d: the clone stands at %+v, want %+v", seed, got, at)
		}
		if end, err := r.Log().End(); err != nil || end != c.End {
			t.Fatalf("its log ends at %v, want %v: %v", end, c.End, err)
		}
		if _, err := s.Log().Records(c.End, func(x LogRecord) bool {
			block, err := Unpack(x.Payload)
			if err == nil {
				err = r.Commit(block)
			}
			if err != nil {
				t.Fatal(err)
			}
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if r.Tip().Head != s.Tip().Head {
			t.Fatalf("seed %d: the clone came to %v, want %v", seed, r.Tip().Head, s.Tip().Head)
		}
		for ref, want := range m.blocks {
			got, err := r.Block(ref)
			if errors.Is(err, ErrGone) || errors.Is(err, ErrNotFound) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if header, err := got.Header(); err != nil || !bytes.Equal(header, want.block.Header) {
				t.Fatalf("block %v: header %q, %v", ref, header, err)
			}
		}
		if err := errors.Join(r.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
		// What is changed or cut is refused.
		raw := b.Bytes()
		for range 6 {
			bad := bytes.Clone(raw)
			bad[m.rng.IntN(len(bad))] ^= 1 << m.rng.IntN(8)
			if err := Receive(filepath.Join(t.TempDir(), "data"), testIdentity, bytes.NewReader(bad)); err == nil {
				t.Fatal("a changed clone was taken")
			}
			if err := Receive(filepath.Join(t.TempDir(), "data"), testIdentity, io.LimitReader(bytes.NewReader(raw), int64(m.rng.IntN(len(raw))))); err == nil {
				t.Fatal("a clone without its end was taken")
			}
		}
		other := testIdentity
		other.ChainID = "another"
		if err := Receive(filepath.Join(t.TempDir(), "data"), other, bytes.NewReader(raw)); !errors.Is(err, ErrForeign) {
			t.Fatalf("of another chain: %v", err)
		}
	}
}
