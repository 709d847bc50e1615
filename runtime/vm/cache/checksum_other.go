//go:build !linux

package cache

import (
	"hash/crc32"
	"io"
	"os"
	"sync"
)

var buffers = sync.Pool{New: func() any { return new([256 << 10]byte) }}

// sumFile returns a file's checksum and length.
func sumFile(path string) (sum uint32, n int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = f.Close() }()
	buf := buffers.Get().(*[256 << 10]byte)
	defer buffers.Put(buf)
	for {
		k, err := f.Read(buf[:])
		sum = crc32.Update(sum, castagnoli, buf[:k])
		n += int64(k)
		if err == io.EOF {
			return sum, n, nil
		}
		if err != nil {
			return 0, 0, err
		}
	}
}
