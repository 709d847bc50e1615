//go:build cgo && (linux || darwin) && (amd64 || arm64) && !noshim

package engine

import (
	"bytes"
	"debug/elf"
	"runtime"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
)

// TestCodeGeneratorIsRecognised checks that machine code is Winch's on amd64 and Cranelift's
// elsewhere, that its generator is recognised, and that code of one generator does not load in an
// engine of the other.
func TestCodeGeneratorIsRecognised(t *testing.T) {
	want := Cranelift
	if runtime.GOARCH == "amd64" {
		want = Winch
	}
	if got := Wanted(); got != want {
		t.Fatalf("wanted is %s, not %s", got, want)
	}
	if got := Generator(); got != want {
		t.Fatalf("the generator is %s, want %s", got, want)
	}
	other, err := New(Options{Functions: functions, Exports: Exports{Gas: "gas", Stack: "stack"}, Cranelift: true})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	e := newEngine(t)
	made := func(e *Engine, want string) []byte {
		t.Helper()
		a, err := e.Compile(probe)
		if err != nil || madeBy(a) != want {
			t.Fatalf("made by %s, want %s (%v)", madeBy(a), want, err)
		}
		return a
	}
	ours, theirs := made(e, want), made(other, Cranelift)
	for _, c := range []struct {
		e        *Engine
		artifact []byte
		loads    bool
	}{{e, ours, true}, {other, theirs, true}, {e, theirs, want == Cranelift}, {other, ours, want == Cranelift}} {
		m, err := c.e.Load(c.artifact)
		if (err == nil) != c.loads {
			t.Errorf("by %s: %v, want it to load: %v", madeBy(c.artifact), err, c.loads)
		}
		if err == nil {
			m.Close()
		} else if !strings.Contains(err.Error(), "load: ") {
			t.Error(err)
		}
	}
	for _, broken := range [][]byte{nil, []byte("none"), ours[:len(ours)/2], ours[:200]} {
		if got := madeBy(broken); got != Cranelift {
			t.Errorf("%d bytes are made by %s", len(broken), got)
		}
	}
}

// TestCodeWithoutOffsetTableRunsTheSame checks that this version of the library can omit the table
// of wasm offsets, that machine code and traps are the same without it, and that both kinds of
// artifact load.
func TestCodeWithoutOffsetTableRunsTheSame(t *testing.T) {
	if !Mapless() {
		t.Fatal("Mapless is false: the library cannot omit the table of offsets")
	}
	code := contracts.Large(30_000, 1)
	with, without := bare(Generator() == Winch, false, chosen()), bare(Generator() == Winch, true, chosen())
	defer with.Close()
	defer without.Close()
	made := func(e *Engine) (*elf.File, []byte) {
		t.Helper()
		a, err := e.compile(code)
		if err != nil {
			t.Fatal(err)
		}
		f, err := elf.NewFile(bytes.NewReader(a))
		if err != nil {
			t.Fatal(err)
		}
		return f, a
	}
	whole, a := made(with)
	part, b := made(without)
	if !mapped(a) || mapped(b) || !mapped([]byte("none")) {
		t.Errorf("has the table: %v as the library makes it, %v without", mapped(a), mapped(b))
	}
	if cut := withoutMap(bytes.Clone(a)); len(b) > len(cut) {
		t.Errorf("%d bytes, %d where the table is taken out", len(b), len(cut))
	}
	same := 0
	for _, s := range whole.Sections {
		switch s.Name {
		case ".text", ".wasmtime.traps", ".rodata.wasm", ".wasmtime.info":
			x, _ := s.Data()
			y, err := part.Section(s.Name).Data()
			if err != nil || len(x) == 0 && s.Name != ".rodata.wasm" || !bytes.Equal(x, y) {
				t.Errorf("section %s has %d bytes, without the table %d different ones (%v)", s.Name, len(x), len(y), err)
			}
			same++
		}
	}
	if same < 3 {
		t.Errorf("only %d sections are known", same)
	}
	for _, artifact := range [][]byte{a, b} {
		m, err := newEngine(t).Load(artifact)
		if err == nil {
			m.Close()
		} else if !strings.Contains(err.Error(), "link: ") { // this engine has other host functions
			t.Error(err)
		}
	}
}
