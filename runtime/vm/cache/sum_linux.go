package cache

import (
	"fmt"
	"hash/crc32"
	"os"
	"syscall"
)

// sumFile returns a file's checksum and length. The file is mapped whole at once, not copied: it is what takes the time of loading an
// artifact of some megabytes.
func sumFile(path string) (sum uint32, n int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return 0, 0, err
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED|syscall.MAP_POPULATE)
	if err != nil {
		return 0, 0, fmt.Errorf("map %s: %w", path, err)
	}
	sum = crc32.Checksum(b, castagnoli)
	return sum, int64(len(b)), syscall.Munmap(b)
}
