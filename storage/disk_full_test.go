package storage

import (
	"errors"
	"syscall"
	"testing"
)

// TestFirstStartOnFullDiskIsAnError: creating a store on a full disk returns an error that says so.
// Once there is room, the same folder can be used.
func TestFirstStartOnFullDiskIsAnError(t *testing.T) {
	refused := 0
	for left := int64(0); ; left = left + left/8 + 7 {
		dir := t.TempDir()
		d := &faultDisk{disk: osDisk{dir}}
		d.left.Store(left)
		_, err := growCrashChain(t, d, 0)
		if err == nil {
			break // enough to begin with
		}
		refused++
		if !errors.Is(err, ErrFull) || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("room for %d bytes: %v, want ErrFull", left, err)
		}
		if _, err := growCrashChain(t, osDisk{dir}, 3); err != nil {
			t.Errorf("room for %d bytes, then enough: %v", left, err)
		}
	}
	if refused < 20 {
		t.Errorf("only %d sizes were too small", refused)
	}
}
