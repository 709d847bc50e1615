//go:build !linux

package storage

import "os"

// Reserve does nothing on this system.
func (f osFile) Reserve(int64) {}

// SyncData writes a file to the disk.
func SyncData(f *os.File) error { return f.Sync() }

// allocate makes a file of n bytes. It fails as a write of n bytes would.
func allocate(f *os.File, n int64) error { return fill(f, n) }
