package wire

import (
	"net"
	"runtime"
	"testing"
)

// TestAnnouncedBytesTakeNoMemory: the bytes that were sent are appended, and announced bytes take
// no memory.
func TestAnnouncedBytesTakeNoMemory(t *testing.T) {
	const first = 64 << 10
	r, w := net.Pipe()
	go func() {
		_, _ = w.Write(make([]byte, 100))
		_ = w.Close()
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := ReadGrowing(r, nil, MaxFrame, first)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; err == nil || n > 1<<20 {
		t.Errorf("%d bytes for 100 of %d, %v", n, MaxFrame, err)
	}
	if b, err := ReadGrowing(r, nil, 0, first); b == nil || len(b) != 0 || err != nil {
		t.Errorf("nothing: %v, %v", b, err)
	}
	sent := make([]byte, 300_001)
	for i := range sent {
		sent[i] = byte(i * 7)
	}
	for _, first := range []int{first, 1, len(sent), 2 * len(sent)} {
		r, w = net.Pipe()
		go func() { _, _ = w.Write(sent) }()
		b, err := ReadGrowing(r, []byte("ab"), len(sent), first)
		if err != nil || string(b) != "ab"+string(sent) || cap(b) > 2+len(sent)+2*first {
			t.Errorf("first %d: %d bytes of room for %d, %v", first, len(b), cap(b), err)
		}
	}
}
