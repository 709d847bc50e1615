package daemon

import (
	"errors"
	"time"

	"github.com/troupe-chain/troupe/storage"
)

// ErrDiskFreed is delivered by Failed when a full disk has space again, and the node must be
// restarted in order to write.
var ErrDiskFreed = errors.New("the disk has space again: restart the node to write")

// fullReminder is the interval at which the log repeats that the disk is full.
const fullReminder = time.Minute

// onDiskFull handles a full disk. f is nil if the disk has space again.
func (h *Daemon) onDiskFull(f *storage.Full) {
	switch {
	case f == nil:
		h.log.Info("the disk has space again: writing continues")
	case f.Reopen:
		h.restartForDisk()
	default:
		h.logDiskFull(f)
	}
}

// restartForDisk requests a restart, or logs that one is needed.
func (h *Daemon) restartForDisk() {
	if !h.restarts {
		h.log.Error("the disk has space again; restart the node, which stays read-only until then")
		return
	}
	select {
	case h.failed <- ErrDiskFreed:
	default: // the node is already stopping
	}
}

// logDiskFull logs that the disk is full. logDiskFull repeats the message while the disk is full.
func (h *Daemon) logDiskFull(f *storage.Full) {
	h.log.Errorf("the disk is full: %v. The node stores no blocks and accepts no transactions; reads work. Free space "+
		"on the disk: writing then continues by itself", f.Err)
	time.AfterFunc(fullReminder, func() {
		select {
		case <-h.upkeep: // the node has stopped
			return
		default:
		}
		if now, is := h.store.DiskSpace().Full(); is && now.Since.Equal(f.Since) {
			h.logDiskFull(f)
		}
	})
}
