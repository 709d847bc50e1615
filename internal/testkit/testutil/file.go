// Package testutil contains helpers of tests in several packages: reading files of testdata,
// addresses, recorded frames, and time limits.
//
//	in      the path of a file; files whose names end in .gz are decompressed
//	out     its text, its lines or the JSON values in it
//	state   none; files are closed when the test ends
//	bound   maxLine bytes for a line of Lines
//	errors  end the test
package testutil

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"strings"
	"testing"
)

// maxLine is far above the longest line of a recording, which has 4.8 MB.
const maxLine = 64 << 20

// Need skips the test if the file does not exist. why is the reason for which that is acceptable.
func Need(t testing.TB, path, why string) {
	t.Helper()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not here: %s", path, why)
	}
}

// Open returns a reader of a file's text, decompressed if the name ends in .gz. The test closes the
// file when it ends.
func Open(t testing.TB, path string) io.Reader {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if !strings.HasSuffix(path, ".gz") {
		return f
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return z
}

// Read returns the whole text of a file, decompressed if the name ends in .gz.
func Read(t testing.TB, path string) []byte {
	t.Helper()
	text, err := io.ReadAll(Open(t, path))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return text
}

// Lines yields the lines of a file without line feeds, numbered from 1. A line is valid until the
// next one.
func Lines(t testing.TB, path string) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		t.Helper()
		lines := bufio.NewScanner(Open(t, path))
		lines.Buffer(nil, maxLine)
		for n := 1; lines.Scan(); n++ {
			if !yield(n, lines.Bytes()) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
}

// Values yields the JSON values of a file, one a line.
func Values[T any](t testing.TB, path string) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		t.Helper()
		decode(t, path, json.NewDecoder(Open(t, path)), 1, yield)
	}
}

// Vectors yields the Values of a file of internal/testkit/oracle, without the first one, which describes
// how the file was made.
func Vectors[T any](t testing.TB, path string) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		t.Helper()
		values := json.NewDecoder(Open(t, path))
		if err := values.Decode(new(struct{})); err != nil {
			t.Fatalf("%s: header: %v", path, err)
		}
		decode(t, path, values, 2, yield)
	}
}

// decode calls yield for each remaining JSON value of a file. n is the number of the next line.
func decode[T any](t testing.TB, path string, values *json.Decoder, n int, yield func(*T) bool) {
	t.Helper()
	for ; ; n++ {
		v := new(T)
		if err := values.Decode(v); err == io.EOF {
			return
		} else if err != nil {
			t.Fatalf("%s, line %d: %v", path, n, err)
		}
		if !yield(v) {
			return
		}
	}
}

// Data returns the path of a file or folder among the recordings that are too large for the
// repository: below the folder that TROUPE_DATA names, by default shared/data beside the checkout.
// The path need not exist; Need skips a test without it.
func Data(name string) string {
	if dir := os.Getenv("TROUPE_DATA"); dir != "" {
		return strings.TrimSuffix(dir, "/") + "/" + name
	}
	up := "../"
	for range 8 {
		if _, err := os.Stat(up + "go.mod"); err == nil {
			break
		}
		up += "../"
	}
	return up + "../shared/data/" + name
}
