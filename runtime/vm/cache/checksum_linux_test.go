package cache

import (
	"bytes"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestSumFileMapsBoundedWindow checks the checksum and length of files, also of sizes around
// sumWindow, and that no more than sumWindow bytes of the file are mapped at a time.
func TestSumFileMapsBoundedWindow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	var unmeasured error // why the most memory so far cannot be reset
	for _, size := range []int{0, 1, sumWindow - 1, sumWindow, sumWindow + 1, 3 * sumWindow, 16*sumWindow + 4097} {
		b := bytes.Repeat([]byte("artifact"), size/8+1)[:size]
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		want := crc32.Checksum(b, castagnoli)
		// the most so far is what there is now
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
			unmeasured = err
		}
		before := line(t, "VmRSS:")
		if sum, n, err := sumFile(path); err != nil || sum != want || n != int64(size) {
			t.Errorf("%d bytes: %x, %d, %v", size, sum, n, err)
		}
		if more := line(t, "VmHWM:") - before; unmeasured == nil && more > 4*sumWindow {
			t.Errorf("%d bytes were %d of this process's memory", size, more)
		}
	}
	if unmeasured != nil && !t.Failed() {
		t.Skipf("the sums are right; the memory was not measured, which needs a kernel with CONFIG_PROC_PAGE_MONITOR and a writable /proc: %v", unmeasured)
	}
}

// line returns the value, in bytes, of a line in /proc/self/status.
func line(t *testing.T, name string) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = bytes.Cut(text, []byte(name))
	kb, err := strconv.Atoi(string(bytes.Fields(text)[0]))
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}
