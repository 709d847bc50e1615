package prep

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/contracts/compilebombs"
)

// TestNumberOfPiecesKeepsOutput checks that the output is the same, whatever number of pieces the
// bodies are divided into.
func TestNumberOfPiecesKeepsOutput(t *testing.T) {
	n := 0
	for i, code := range corpus(t) {
		write := func(piece int) []byte {
			e := newEmitter(june86())
			e.piece = piece
			if m, err := e.prepare(code, june86()); err == nil {
				return m.Code
			}
			return nil
		}
		whole := write(1 << 30)
		if whole != nil {
			n++
		}
		for _, piece := range []int{1, 7, 100, mostPiece} {
			if !bytes.Equal(write(piece), whole) {
				t.Errorf("module %d is another in pieces of %d bytes", i, piece)
			}
		}
	}
	if n < 100 {
		t.Errorf("%d modules", n)
	}
}

// TestPrepareAllocatesLittle checks that Prepare allocates in total not much more than twice the
// size of its output.
func TestPrepareAllocatesLittle(t *testing.T) {
	for _, s := range compilebombs.Listed() {
		if s.Name != "much call" && s.Name != "much memory.grow" {
			continue
		}
		code := s.Encode()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		m, err := Prepare(code, june86())
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if took, most := after.TotalAlloc-before.TotalAlloc, 5*uint64(len(m.Code)); took > most {
			t.Errorf("%s: %d bytes were allocated for %d, want %d at the most", s.Name, took, len(m.Code), most)
		}
	}
}
