package daemon

import (
	"errors"
	"time"

	"github.com/troupe-chain/troupe/storage"
)

// ErrDiskFreed is sent by Failed when a full disk has space again and the node must be restarted to
// write.
var ErrDiskFreed = errors.New("the disk has space again: restart the node to write")

// fullReminder is how often the log repeats that the disk is full.
const fullReminder = time.Minute

// onDiskFull handles a full disk, or its end (nil).
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
	default: // the node stops already
	}
}

// logDiskFull logs that the disk is full, and repeats it while it is.
func (h *Daemon) logDiskFull(f *storage.Full) {
	h.log.Errorf("the disk is full: %v. The node stores no blocks and accepts no transactions; reads work. Free space on the disk: writing then continues by itself", f.Err)
	time.AfterFunc(fullReminder, func() {
		select {
		case <-h.upkeep: // the node has stopped
			return
		default:
		}
		if now, is := h.store.Full(); is && now.Since.Equal(f.Since) {
			h.logDiskFull(f)
		}
	})
}
