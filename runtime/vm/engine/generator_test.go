//go:build cgo && (linux || darwin) && (amd64 || arm64) && !noshim

package engine

import (
	"runtime"
	"strings"
	"testing"
)

// TestGenerator: on amd64 machine code is Winch's, on others Cranelift's; who made it is recognised, and code of the one does not load
// in an engine of the other.
func TestGenerator(t *testing.T) {
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
