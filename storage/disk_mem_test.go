package storage

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestMemFileMatchesRealFile: reading, growing and truncating a file in memory has the same results
// as with a file of the operating system, also at the borders of pages and with zero bytes. Save
// writes the same content.
func TestMemFileMatchesRealFile(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	sizes := []int64{0, 1, 7, pageSize - 1, pageSize, pageSize + 1, 2*pageSize - 1, 2 * pageSize, 2*pageSize + 1, 5 * pageSize}
	some := func() int64 { return max(0, sizes[rng.IntN(len(sizes))]+int64(rng.IntN(3)-1)) }
	for round := range 20 {
		d := NewMemDisk()
		name := segmentName(uint32(round))
		mem, err := d.createFile(name)
		if err != nil {
			t.Fatal(err)
		}
		real, err := os.Create(filepath.Join(t.TempDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		for step := range 200 {
			off, n := some(), int(some())
			switch rng.IntN(4) {
			case 0:
				p := make([]byte, n)
				for i := range p {
					p[i] = byte(rng.IntN(255)) + 1
				}
				if n == 0 { // the system's does not grow by nothing
					off = 0
				}
				got, gerr := mem.WriteAt(p, off)
				if want, werr := real.WriteAt(p, off); got != want || gerr != nil || werr != nil {
					t.Fatalf("round %d, step %d: %d, %v at %d written, want %d, %v", round, step, got, gerr, off, want, werr)
				}
			case 1:
				if err := mem.Truncate(off); err != nil {
					t.Fatal(err)
				}
				if err := real.Truncate(off); err != nil {
					t.Fatal(err)
				}
			default:
				a, b := bytes.Repeat([]byte{1}, n), bytes.Repeat([]byte{1}, n)
				got, gerr := mem.ReadAt(a, off)
				if want, werr := real.ReadAt(b, off); got != want || gerr != werr || !bytes.Equal(a, b) {
					t.Fatalf("round %d, step %d: %d bytes at %d: %d, %v, want %d, %v, the same: %v", round, step, n, off, got, gerr, want, werr, bytes.Equal(a, b))
				}
			}
			info, err := real.Stat()
			if err != nil {
				t.Fatal(err)
			}
			if size, err := mem.Size(); err != nil || size != info.Size() {
				t.Fatalf("round %d, step %d: size %d, %v, want %d", round, step, size, err, info.Size())
			}
			if f := d.files[name]; int64(len(f.pages)) > (f.size+2*pageSize)/pageSize {
				t.Fatalf("round %d, step %d: %d pages for %d bytes", round, step, len(f.pages), f.size)
			}
		}
		dir := t.TempDir()
		if err := d.Save(dir); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, logName, name))
		if err != nil {
			t.Fatal(err)
		}
		if want, err := os.ReadFile(real.Name()); err != nil || !bytes.Equal(got, want) {
			t.Errorf("round %d: %d bytes are saved, want %d (%v)", round, len(got), len(want), err)
		}
		if Exists(dir) {
			t.Error("who was never opened is said to be a store")
		}
		if err := real.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := (&memFile{}).Truncate(-1); err == nil {
		t.Error("cut to less than nothing")
	}
}

// TestSavedMemDiskOpens: a folder that Save wrote can be opened and has all data, also if files are
// longer than a page.
func TestSavedMemDiskOpens(t *testing.T) {
	d := NewMemDisk()
	s, refs := longStore(t, Options{Identity: testIdentity}, d, 3, 40)
	last := refs[len(refs)-1]
	big := &Block{Ref: BlockRef{last.Height + 1, hashOf("big")}, Prev: last, Epoch: hashOf("e"), Head: true, Header: bytes.Repeat([]byte("0123456789abcdef"), 3*pageSize/16)}
	if err := s.Commit(big); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := d.Save(dir); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, Options{Identity: testIdentity})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	rec, err := s.Block(big.Ref)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := rec.Header(); err != nil || !bytes.Equal(got, big.Header) {
		t.Errorf("a header of %d bytes, %v, want %d", len(got), err, len(big.Header))
	}
}
