package check

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// analysed returns the analysis of each body in the form of a .dump file: frame and operand stack,
// then the points.
func analysed(code []byte) (lines []string, points int) {
	w := june(86)
	m := newModule(code, w.Limits)
	m.costs = costsOf(w)
	m.take = func(b *body) *Error {
		height := b.a.maxHeight
		var line strings.Builder
		fmt.Fprintf(&line, "%d %d", b.frameSize(), height)
		for _, p := range b.a.join() {
			constant, linear := uint64(p.count)*m.costs.op, uint64(0)
			if p.linear {
				constant, linear = m.costs.bulkBase, m.costs.bulkUnit
			}
			fmt.Fprintf(&line, " %d:%d:%d:%d", p.off, constant, linear, p.kind)
			points++
		}
		lines = append(lines, line.String())
		return nil
	}
	if m.run() != nil {
		return nil, 0
	}
	return lines, points
}

// kindNumbers maps finite-wasm's names of kinds to our numbers.
var kindNumbers = strings.NewReplacer(":Pure", ":0", ":Unreachable", ":1", ":PreControlFlow", ":2", ":PostControlFlow", ":3",
	":BetweenControlFlow", ":4", ":MemoryInit", ":5", ":MemoryCopy", ":5", ":MemoryFill", ":5", ":MemoryGrow", ":5",
	":TableInit", ":5", ":TableCopy", ":5", ":TableFill", ":5", ":TableGrow", ":5")

// TestAnalysisMatchesFiniteWasm compares every point with the analysis of the crate finite-wasm
// 0.6.1 with nearcore's costs. The .dump file beside a file of modules in PREP_CORPUS has a line
// for each module ("-" if it is invalid) with a part for each body.
func TestAnalysisMatchesFiniteWasm(t *testing.T) {
	dir := os.Getenv("PREP_CORPUS")
	if dir == "" {
		t.Skip("PREP_CORPUS names no folder")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.dump"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		dump, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(strings.TrimSuffix(file, ".dump") + ".bin")
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Split(strings.TrimSuffix(kindNumbers.Replace(string(dump)), "\n"), "\n")
		bodies, points := 0, 0
		for i, code := range corpus(t, data) {
			got, n := analysed(code)
			points += n
			bodies += len(got)
			if _, err := Prepare(code, june(86)); kindOf(err) == primitives.PrepareSerialization {
				continue // refused before any body is read
			}
			lines := strings.FieldsFunc(want[i], func(r rune) bool { return r == ';' })
			if want[i] == "-" {
				lines = nil
			}
			if len(lines) != len(got) {
				t.Fatalf("%s %d: %d bodies, want %d", filepath.Base(file), i, len(got), len(lines))
			}
			for k, line := range lines {
				if got[k] != line {
					t.Errorf("%s %d body %d:\n got %s\nwant %s", filepath.Base(file), i, k, got[k], line)
				}
			}
		}
		t.Logf("%s: %d bodies, %d points", filepath.Base(file), bodies, points)
	}
}
