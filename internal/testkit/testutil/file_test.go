package testutil

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// write puts a text into two files, one of them packed.
func write(t *testing.T, text string) []string {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "plain.jsonl"), filepath.Join(dir, "packed.jsonl.gz")}
	for i, b := range [][]byte{[]byte(text), packed.Bytes()} {
		if err := os.WriteFile(files[i], b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestEachReaderReturnsTheSameText reads the same text with every function.
func TestEachReaderReturnsTheSameText(t *testing.T) {
	long := strings.Repeat("a", 1<<20)
	text := `{"made_by":1}` + "\n" + `{"N":2}` + "\n" + `{"S":"` + long + `"}` + "\n"
	type value struct {
		N int
		S string
	}
	for _, path := range write(t, text) {
		Need(t, path, "it was written just now")
		if got := string(Read(t, path)); got != text {
			t.Errorf("%s: Read gave %d bytes, want %d", path, len(got), len(text))
		}
		var lines []byte
		last := 0
		for n, line := range Lines(t, path) {
			if n != last+1 {
				t.Errorf("%s: line %d after line %d", path, n, last)
			}
			lines, last = append(append(lines, line...), '\n'), n
		}
		if string(lines) != text {
			t.Errorf("%s: Lines gave %d bytes, want %d", path, len(lines), len(text))
		}
		var values, vectors []value
		for v := range Values[value](t, path) {
			values = append(values, *v)
		}
		for v := range Vectors[value](t, path) {
			vectors = append(vectors, *v)
		}
		want := []value{{}, {N: 2}, {S: long}}
		if !slices.Equal(values, want) || !slices.Equal(vectors, want[1:]) {
			t.Errorf("%s: %d values and %d vectors, want %d and one less", path, len(values), len(vectors), len(want))
		}
		for range Values[value](t, path) {
			break
		}
		for range Lines(t, path) {
			break
		}
	}
}

func TestMissingFileSkipsTheTest(t *testing.T) {
	var skipped bool
	t.Run("missing", func(t *testing.T) {
		defer func() { skipped = t.Skipped() }()
		Need(t, filepath.Join(t.TempDir(), "none"), "this is what is tested")
	})
	if !skipped {
		t.Error("the test went on without its file")
	}
}
