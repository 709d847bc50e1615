package cache

import (
	"fmt"
	"hash/crc32"
	"os"
	"syscall"
)

// sumWindow is the number of bytes of a file that are mapped at a time. An artifact may have 80 MB,
// and mapped pages count as memory of this process.
const sumWindow = 4 << 20

// sumFile returns a file's checksum and length. sumFile maps the file piece by piece instead of
// copying it, because the checksum takes most of the time of loading an artifact of some megabytes.
func sumFile(path string) (sum uint32, n int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	for size := info.Size(); n < size; {
		length := min(size-n, sumWindow)
		b, err := syscall.Mmap(int(f.Fd()), n, int(length), syscall.PROT_READ, syscall.MAP_SHARED|syscall.MAP_POPULATE)
		if err != nil {
			return 0, 0, fmt.Errorf("map %s: %w", path, err)
		}
		sum = crc32.Update(sum, castagnoli, b)
		n += length
		if err := syscall.Munmap(b); err != nil {
			return 0, 0, err
		}
	}
	return sum, n, nil
}
