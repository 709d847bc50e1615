//go:build cgo && (linux || darwin) && (amd64 || arm64) && !noshim

package engine

import (
	"bytes"
	"debug/elf"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
)

// TestWithoutMapRemovesOnlyTheTable checks that withoutMap removes the table and keeps everything
// else, with the same alignment, and that it does not change a damaged artifact.
func TestWithoutMapRemovesOnlyTheTable(t *testing.T) {
	e := bare(Generator() == Winch, false, chosen())
	defer e.Close()
	before, err := e.compile(contracts.Large(30_000, 1))
	if err != nil {
		t.Fatal(err)
	}
	after := withoutMap(bytes.Clone(before)) // withoutMap modifies its argument
	if len(after) > len(before)*7/10 {
		t.Errorf("%d bytes of %d remain, want at most 70 %%", len(after), len(before))
	}
	read := func(b []byte) []*elf.Section {
		f, err := elf.NewFile(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		return f.Sections
	}
	was, is := read(before), read(after)
	if len(was) != len(is) {
		t.Fatalf("%d sections, want %d", len(is), len(was))
	}
	for i, s := range was {
		x, _ := s.Data()
		y, err := is[i].Data()
		if s.Name == ".wasmtime.addrmap" {
			x = nil
		}
		if err != nil || is[i].Name != s.Name || !bytes.Equal(x, y) || s.Addralign > 1 && is[i].Offset%s.Addralign != s.Offset%s.Addralign {
			t.Errorf("section %d is %v, want %v, with the same %d bytes (%v)", i, is[i].SectionHeader, s.SectionHeader, len(x), err)
		}
	}
	if !Whole(before) || Whole(after) || !Whole([]byte("none")) || Whole(nil) {
		t.Error("Whole is wrong for a whole or a cut artifact")
	}
	if again := withoutMap(bytes.Clone(after)); !bytes.Equal(again, after) {
		t.Error("something more is taken out the second time")
	}
	broken := func(b []byte) {
		defer func() {
			if p := recover(); p != nil {
				t.Errorf("%x: %v", b[:min(len(b), 64)], p)
			}
		}()
		withoutMap(bytes.Clone(b))
	}
	for n := 0; n < len(before); n += 1 + n/8 {
		broken(before[:n])
	}
	end := len(before) - 12*64
	for i := range before[end:] {
		for _, v := range []byte{0, 1, 0x7f, 0xff} {
			b := bytes.Clone(before)
			b[end+i] = v
			broken(b)
			b = bytes.Clone(before)
			b[i%64] = v
			broken(b)
		}
	}
}
