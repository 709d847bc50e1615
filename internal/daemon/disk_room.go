package daemon

import (
	"errors"
	"time"

	"github.com/troupe-chain/troupe/storage"
)

// ErrRoom says that a disk that was full has room, and that the node is to be stopped and started
// again to write.
var ErrRoom = errors.New("the disk has room again: the node begins again to write")

// fullReminder is how often the log repeats that the disk is full.
const fullReminder = time.Minute

// room takes up that the disk is full, or has room again (nil).
func (h *Daemon) room(f *storage.Full) {
	switch {
	case f == nil:
		h.log.Info("the disk has room again: writing goes on")
	case f.Reopen:
		h.begin()
	default:
		h.sayFull(f)
	}
}

// begin has the node started anew.
func (h *Daemon) begin() {
	if !h.again {
		h.log.Error("the disk has room again; restart the node, which takes no writes before")
		return
	}
	select {
	case h.failed <- ErrRoom:
	default: // it ends already
	}
}

// sayFull says it, and again for as long as it is so.
func (h *Daemon) sayFull(f *storage.Full) {
	h.log.Errorf("the disk is full: %v. No blocks are stored and no transactions are taken; reads go on. Make room, and writing goes on by itself", f.Err)
	time.AfterFunc(fullReminder, func() {
		select {
		case <-h.upkeep: // it has ended
			return
		default:
		}
		if now, is := h.store.Full(); is && now.Since.Equal(f.Since) {
			h.sayFull(f)
		}
	})
}
