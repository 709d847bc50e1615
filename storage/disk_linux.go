package storage

import (
	"os"
	"syscall"
)

// Reserve allocates disk blocks. It ignores errors: on a full disk the next write fails.
func (f osFile) Reserve(size int64) { _ = syscall.Fallocate(int(f.Fd()), 0, 0, size) }

// allocate makes a file of n bytes. It fails as a write of n bytes would.
func allocate(f *os.File, n int64) error {
	err := syscall.Fallocate(int(f.Fd()), 0, 0, n)
	if err == syscall.EOPNOTSUPP || err == syscall.EINTR {
		return fill(f, n)
	}
	return err
}

// Sync writes the data, and the metadata that is needed to read it back.
func (f osFile) Sync() error { return SyncData(f.File) }

// SyncData writes a file's data to the disk, and the metadata that is needed to read it back.
func SyncData(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return err
		}
	}
}
