package validator

import (
	"sync"
	"time"

	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/storage"
)

// outbox sends the core's messages once the signatures in them are recorded in the journal on disk.
//
// Problem: if a validator sends a signature and crashes before the signature is recorded, it may
// sign a contradictory message after the restart. It can be slashed for that, and safety can break.
// But an fsync for each message would delay every approval.
//
// Invariants:
//   - Messages are sent in the order of the core's steps.
//   - No message leaves before the newest journal row of its step and of all earlier steps is
//     on disk.
//   - The core never waits for the disk.
//
// Outline:
//
//	put (actor): replace the pending row by the new row; append the messages
//	run (goroutine): take row and messages at once; write the row with one fsync; send the messages
//
// A row contains everything that was signed so far. So the newest row suffices, and one write
// covers all steps since the last write.
//
// While the disk is full, nothing is sent: a validator that cannot store blocks must not sign
// messages about them. The outbox drops the messages, as if the network had lost them. It keeps the
// row, and writes the row once there is disk space. Any other write error ends the outbox and halts
// the node.
//
// Rejected: one journal write for each signature. Rejected: storing the messages too. Peers request
// lost messages again.
type outbox struct {
	disk diskStatus
	rows rowWriter
	out  messageSender
	fail func(error) // called if the journal cannot be written; after that nothing is sent

	mu     sync.Mutex
	wake   *sync.Cond
	queue  []consensus.Send
	row    []byte // journal row that is not on disk yet; nil: none
	closed bool
	over   chan struct{}
}

// diskStatus is the part of the store that the outbox uses.
type diskStatus interface {
	Full() (storage.Full, bool)
}

// rowWriter is the part of the signing journal that the outbox uses.
type rowWriter interface {
	Write(row []byte) error
}

// messageSender is the part of PeerSender that the outbox uses.
type messageSender interface {
	Send([]consensus.Send)
}

func newOutbox(disk diskStatus, rows rowWriter, out messageSender, fail func(error)) *outbox {
	w := &outbox{disk: disk, rows: rows, out: out, fail: fail, over: make(chan struct{})}
	w.wake = sync.NewCond(&w.mu)
	go w.run()
	return w
}

// put adds the journal row and the messages of one step. A nil row means that the step signed
// nothing.
func (w *outbox) put(row []byte, list []consensus.Send) {
	if row == nil && len(list) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if row != nil {
		w.row = row
	}
	w.queue = append(w.queue, list...)
	w.wake.Signal()
}

// close ends the outbox and waits for its goroutine. close drops unsent messages.
func (w *outbox) close() {
	w.mu.Lock()
	w.closed = true
	w.wake.Signal()
	w.mu.Unlock()
	<-w.over
}

func (w *outbox) run() {
	defer close(w.over)
	for {
		w.mu.Lock()
		for !w.closed && len(w.queue) == 0 && w.row == nil {
			w.wake.Wait()
		}
		row, list, closed := w.row, w.queue, w.closed
		w.row, w.queue = nil, nil
		w.mu.Unlock()
		if closed {
			return
		}
		if row != nil {
			err := w.rows.Write(row)
			// the goroutine writes this row, or the row that replaces it, when there is disk space
			if storage.IsFull(err) {
				w.postpone(row)
				continue
			}
			if err != nil {
				w.fail(err)
				return
			}
		}
		if _, full := w.disk.Full(); !full {
			w.out.Send(list)
		}
	}
}

// fullPause is the time between two writes of a row while the disk is full.
const fullPause = 100 * time.Millisecond

// postpone keeps the row for the next write, unless put has stored a newer row since. postpone
// returns after fullPause or when the outbox is closed.
func (w *outbox) postpone(row []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.row == nil {
		w.row = row
	}
	wake := time.AfterFunc(fullPause, func() {
		w.mu.Lock()
		w.wake.Broadcast()
		w.mu.Unlock()
	})
	defer wake.Stop()
	for begun := time.Now(); !w.closed && time.Since(begun) < fullPause; {
		w.wake.Wait()
	}
}
