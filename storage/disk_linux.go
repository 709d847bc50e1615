package storage

import (
	"os"
	"syscall"
)

// Reserve allocates blocks. A file system that can't, or has no room, shows at the write.
func (f osFile) Reserve(size int64) { _ = syscall.Fallocate(int(f.Fd()), 0, 0, size) }

// allocate makes a file of n bytes, or fails as a write of these would.
func allocate(f *os.File, n int64) error {
	err := syscall.Fallocate(int(f.Fd()), 0, 0, n)
	if err == syscall.EOPNOTSUPP || err == syscall.EINTR {
		return fill(f, n)
	}
	return err
}

// Sync writes the data, and of the metadata what reading it back needs.
func (f osFile) Sync() error { return SyncData(f.File) }

// SyncData writes a file's data to the disk, and of its metadata what reading it back needs.
func SyncData(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return err
		}
	}
}
