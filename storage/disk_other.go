//go:build !linux

package storage

import "os"

// Reserve does nothing here.
func (f osFile) Reserve(int64) {}

// SyncData writes a file to the disk.
func SyncData(f *os.File) error { return f.Sync() }
