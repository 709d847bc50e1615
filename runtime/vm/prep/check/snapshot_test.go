package check

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/bytecodealliance/wasmtime-go/v44"
)

// TestAnalysisMatchesFiniteWasmSnapshots compares the analysis with the snapshots of finite-wasm's
// tests (0.6: tests/snaps of its repository, in the folder that FINITE_WASM_SNAPS names; the
// published crate does not contain them). A snapshot is a module with instrumentation. The test
// removes and records the instrumentation, and analyses the remaining module. There every
// instruction costs 1 except else and end; here block costs nothing either.
func TestAnalysisMatchesFiniteWasmSnapshots(t *testing.T) {
	dir := os.Getenv("FINITE_WASM_SNAPS")
	if dir == "" {
		t.Skip("FINITE_WASM_SNAPS names no folder")
	}
	var n struct{ modules, refused, functions, charges, heights int }
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".snap") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, m := range snapshotModules(string(text)) {
			n.modules++
			plain, want := unmetered(m)
			code, err := wasmtime.Wat2Wasm(plain)
			if err != nil {
				return fmt.Errorf("%s, module %d: %w", path, i, err)
			}
			got, ok := metered(code)
			if !ok { // uses features that contracts may not use: SIMD, several results, other imports
				n.refused++
				continue
			}
			if len(got) != len(want) {
				t.Errorf("%s, module %d: %d functions, want %d", path, i, len(got), len(want))
				continue
			}
			for k := range want {
				n.functions++
				n.charges += len(want[k].charges)
				if g, w := fmt.Sprint(got[k].charges), fmt.Sprint(want[k].charges); g != w {
					t.Errorf("%s, module %d, function %d:\n got %s\nwant %s", path, i, k, g, w)
				}
				if got[k].locals != want[k].locals && want[k].wrapped {
					t.Errorf("%s, module %d, function %d: %d locals, want %d", path, i, k, got[k].locals, want[k].locals)
				}
				if want[k].refs { // references count 32 bytes there, 8 here
					continue
				}
				n.heights++
				if got[k].height != want[k].height {
					t.Errorf("%s, module %d, function %d: height %d, want %d", path, i, k, got[k].height, want[k].height)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d modules, %d of them with what contracts may not have; in the others %d functions, %d charges, %d heights",
		n.modules, n.refused, n.functions, n.charges, n.heights)
	if n.functions == 0 {
		t.Error("nothing was compared")
	}
}

// meter is what a function is charged: the number of the instruction and the amount; -1 is a charge
// by a count on the stack.
type meter struct {
	charges        [][2]int
	height, locals uint64
	wrapped, refs  bool
}

// snapshotModules returns the modules of a script.
func snapshotModules(text string) (out []string) {
	for from := 0; ; {
		at := strings.Index(text[from:], "(module")
		if at < 0 {
			return out
		}
		from += at
		end, depth := from, 0
		for quoted := false; ; end++ {
			switch c := text[end]; {
			case quoted && c == '\\':
				end++
			case c == '"':
				quoted = !quoted
			case quoted:
			case c == ';' && text[end+1] == ';':
				end += strings.IndexByte(text[end:], '\n')
			case c == '(':
				depth++
			case c == ')':
				depth--
			}
			if depth == 0 {
				break
			}
		}
		out = append(out, text[from:end+1])
		from = end + 1
	}
}

var (
	meterImport = regexp.MustCompile(`^  \(import "spectest" "finite_wasm_(\w+)" \(func (\$\S+ )?\(;(\d+);\)`)
	constant    = regexp.MustCompile(`^ *i64\.const (\d+)$`)
	callOf      = regexp.MustCompile(`^ *call (\S+)$`)
)

// unmetered removes the instrumentation from a module's text. The imports stay, so that the numbers
// of functions do not change.
func unmetered(text string) (plain string, functions []meter) {
	lines := strings.Split(text, "\n")
	meters := map[string]string{} // called instrumentation functions, by number and name
	for _, line := range lines {
		if m := meterImport.FindStringSubmatch(line); m != nil {
			meters[m[3]], meters[strings.TrimSpace(m[2])] = m[1], m[1]
		}
	}
	delete(meters, "")
	called := func(i int) string {
		if i < len(lines) {
			if m := callOf.FindStringSubmatch(lines[i]); m != nil {
				return meters[m[1]]
			}
		}
		return ""
	}
	number := func(i int) (n int, ok bool) {
		m := constant.FindStringSubmatch(lines[i])
		if m == nil {
			return 0, false
		}
		n, err := strconv.Atoi(m[1])
		return n, err == nil
	}
	var out []string
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if strings.HasPrefix(line, `  (import "spectest" "finite_wasm`) {
			line = strings.Replace(line, "spectest", "env", 1)
		}
		out = append(out, line)
		if !strings.HasPrefix(line, "  (func") {
			continue
		}
		var f meter
		at := 0
		var blocks []int
		// labels; the first is that of the instrumentation's block, which ends where the function does
		open := []string{""}
		if strings.Count(line, "(") > strings.Count(line, ")") { // it contains instructions
			for i++; lines[i] != "  )"; i++ {
				line := strings.TrimSpace(lines[i])
				if strings.HasPrefix(line, "(local") {
					out = append(out, line)
					f.refs = f.refs || strings.Contains(line, "ref")
					continue
				}
				if at == 0 && !f.wrapped && strings.HasPrefix(line, "block") && called(i+3) == "stack" {
					height, _ := number(i + 1)
					locals, _ := number(i + 2)
					f.wrapped, f.height, f.locals = true, uint64(height), uint64(locals)
					open[0] = labelOf(line)
					i += 3
					continue
				}
				if _, ok := number(i); ok {
					if called(i+1) == "gas" {
						n, _ := number(i)
						if next := strings.TrimSpace(lines[i+2]); strings.HasPrefix(next, "memory.grow") || strings.HasPrefix(next, "table.grow") {
							n = -1
						}
						f.charges = append(f.charges, [2]int{at, n})
						i++
						continue
					}
					if kind := called(i + 2); kind == "unstack" {
						i += 2
						continue
					} else if kind != "" && kind != "gas" && kind != "stack" {
						f.charges = append(f.charges, [2]int{at, -1})
						i += 2
						continue
					}
				}
				if f.wrapped && line == "end" && lines[i+4] == "  )" && called(i+3) == "unstack" && strings.HasPrefix(lines[i], "    end") {
					continue
				}
				switch op, _, _ := strings.Cut(line, " "); op {
				case "block":
					blocks = append(blocks, at)
					fallthrough
				case "loop", "if":
					open = append(open, labelOf(line))
				case "end":
					open = open[:len(open)-1]
				case "br", "br_if", "br_table":
					line = byDepth(line, open)
				}
				f.refs = f.refs || strings.Contains(line, "ref") || strings.HasPrefix(line, "table.get") || strings.HasPrefix(line, "table.grow")
				out = append(out, line)
				at++
			}
			out = append(out, ")")
		}
		f.refs = f.refs || strings.Contains(line, "ref")
		for _, b := range blocks { // a block, which is charged there and costs nothing here
			for k := len(f.charges) - 1; k >= 0; k-- {
				if c := &f.charges[k]; c[0] <= b && c[1] > 0 {
					c[1]--
					break
				}
			}
		}
		kept := f.charges[:0]
		for _, c := range f.charges {
			if c[1] != 0 {
				kept = append(kept, c)
			}
		}
		f.charges = kept
		functions = append(functions, f)
	}
	return strings.Join(out, "\n"), functions
}

// labelOf returns the label of a block; empty if it has none.
func labelOf(line string) string {
	if words := strings.Fields(line); len(words) > 1 && words[1][0] == '$' {
		return words[1]
	}
	return ""
}

// byDepth replaces the labels of a branch by depths.
func byDepth(line string, open []string) string {
	words := strings.Fields(line)
	for i, w := range words {
		for k := len(open) - 1; k >= 0 && w[0] == '$'; k-- {
			if open[k] == w {
				words[i] = strconv.Itoa(len(open) - 1 - k)
				break
			}
		}
	}
	return strings.Join(words, " ")
}

// metered returns the charges of the analysis. ok is false if the module is not valid as a
// contract.
func metered(code []byte) (out []meter, ok bool) {
	w := june(86)
	m := newModule(code, unlimited())
	m.costs = costsOf(w)
	m.take = func(b *body) *Error {
		f := meter{height: b.a.maxHeight, locals: uint64(len(b.typ.Params))}
		for _, g := range b.groups {
			f.locals += uint64(g.N)
		}
		numbers := map[uint32]int{}
		for off, n := b.first, 0; int(off) < len(b.r.buf); n++ {
			numbers[off] = n
			off += instructionLen(b.r.buf[off:])
		}
		for _, p := range b.a.join() {
			switch {
			case p.kind == dead:
			case p.linear:
				f.charges = append(f.charges, [2]int{numbers[p.off], -1})
			case p.count > 0:
				f.charges = append(f.charges, [2]int{numbers[p.off], int(p.count)})
			}
		}
		out = append(out, f)
		return nil
	}
	if err := m.run(); err != nil {
		return nil, false
	}
	return out, true
}

// instructionLen returns the length of a valid instruction that contracts may use.
func instructionLen(b []byte) uint32 {
	n := 1
	leb := func() (v uint32) {
		for shift := 0; ; shift += 7 {
			c := b[n]
			n++
			v |= uint32(c&0x7f) << shift
			if c < 0x80 {
				return v
			}
		}
	}
	switch op := b[0]; {
	case op == 0x02 || op == 0x03 || op == 0x04: // block, loop, if
		leb()
	case op == 0x0c || op == 0x0d || op == 0x10 || op >= 0x20 && op <= 0x26 || op == 0xd2: // br, call, locals, globals, tables, ref.func
		leb()
	case op == 0x0e: // br_table
		for k := leb() + 1; k > 0; k-- {
			leb()
		}
	case op == 0x11: // call_indirect
		leb()
		leb()
	case op == 0x1c: // select with types
		n += int(leb())
	case op >= 0x28 && op <= 0x3e: // loads and stores
		leb()
		leb()
	case op == 0x3f || op == 0x40 || op == 0xd0: // memory.size, memory.grow, ref.null
		n++
	case op == 0x41 || op == 0x42:
		leb()
	case op == 0x43:
		n += 4
	case op == 0x44:
		n += 8
	case op == 0xfc:
		switch leb() {
		case 8, 10, 12, 14: // memory.init, memory.copy, table.init, table.copy
			leb()
			leb()
		case 9, 11, 13, 15, 16, 17:
			leb()
		}
	}
	return uint32(n)
}
