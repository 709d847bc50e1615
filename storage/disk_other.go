//go:build !linux

package storage

// Reserve does nothing here.
func (f osFile) Reserve(int64) {}
