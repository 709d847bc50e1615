package check

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
)

// corpus splits a file into modules. Each is preceded by its length in four bytes.
func corpus(t testing.TB, data []byte) (modules [][]byte) {
	t.Helper()
	for len(data) > 0 {
		n := int(binary.LittleEndian.Uint32(data))
		modules = append(modules, data[4:4+n])
		data = data[4+n:]
	}
	return modules
}

// verdict returns the result of a module in the form of nearcore's verdicts: "ok" and a size, or
// the kind of the error.
func verdict(code []byte) (string, *Module) {
	record(code)
	m, err := Prepare(code, june(86))
	if err != nil {
		var kind primitives.PrepareError
		if !errors.As(err, &kind) {
			return "?", nil
		}
		return kind.String(), nil
	}
	return fmt.Sprintf("ok %d", m.Size), m
}

// record appends a module to the file that PREP_RECORD names, if it is set, so that nearcore's code
// can be run on the modules of these tests.
func record(code []byte) {
	file := os.Getenv("PREP_RECORD")
	if file == "" {
		return
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(code))), code...)); err != nil {
		panic(err)
	}
}

// TestVerdictsMatchNearcore compares with verdicts of nearcore's code, in PREP_CORPUS: files of
// modules (.bin) and of verdicts, one a line (.out). Not in the repository: tens of thousands of
// modules of finite-wasm's tests and random ones.
func TestVerdictsMatchNearcore(t *testing.T) {
	dir := os.Getenv("PREP_CORPUS")
	if dir == "" {
		t.Skip("PREP_CORPUS names no folder")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.bin"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out, err := os.ReadFile(strings.TrimSuffix(file, ".bin") + ".out")
		if err != nil {
			t.Fatal(err)
		}
		compare(t, filepath.Base(file), corpus(t, data), strings.Split(strings.TrimSpace(string(out)), "\n"))
	}
}

// TestRandomModulesMatchNearcore runs TestVerdictsMatchNearcore and TestAnalysisMatchesFiniteWasm
// on the modules of testdata.
func TestRandomModulesMatchNearcore(t *testing.T) {
	modules := corpus(t, testutil.Read(t, "testdata/random.bin.gz"))
	var verdicts []string
	analyses := 0
	for i, line := range strings.Split(strings.TrimSuffix(string(testutil.Read(t, "testdata/random.out.gz")), "\n"), "\n") {
		want, analysis, found := strings.Cut(line, " | ")
		verdicts = append(verdicts, want)
		if !found {
			continue
		}
		analyses++
		got, _ := analysed(modules[i])
		if got := strings.Join(got, ";") + ";"; got != kindNumbers.Replace(analysis) {
			t.Errorf("module %d:\n got %s\nwant %s", i, got, analysis)
		}
	}
	if analyses != 150 {
		t.Errorf("%d analyses, want 150", analyses)
	}
	compare(t, "random", modules, verdicts)
}

func compare(t *testing.T, name string, modules [][]byte, want []string) {
	t.Helper()
	if len(modules) != len(want) {
		t.Fatalf("%s: %d modules, %d verdicts", name, len(modules), len(want))
	}
	wrong, good := 0, 0
	for i, code := range modules {
		got, m := verdict(code)
		if got != want[i] {
			if wrong++; wrong < 10 {
				_, err := Prepare(code, june(86))
				t.Errorf("%s %d: got %s, want %s (%v)\n%x", name, i, got, want[i], err, code[:min(len(code), 400)])
			}
			continue
		}
		if m == nil {
			continue
		}
		good++
	}
	t.Logf("%s: %d modules, %d prepared, %d wrong", name, len(modules), good, wrong)
}
