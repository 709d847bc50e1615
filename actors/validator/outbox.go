package validator

import (
	"sync"
	"time"

	"github.com/troupe-chain/troupe/engine/consensus"
	"github.com/troupe-chain/troupe/storage"
)

// outbox sends the core's messages after what was signed is on disk.
//
// Problem: a validator that sends a signature and crashes before it is on disk may sign
// something contradictory after the restart, and be slashed or break safety. An fsync for each
// message would delay every vote.
//
// Invariants:
//   - Messages leave in the order of the core's steps.
//   - No message leaves before the newest journal row of its step and of all earlier steps is
//     on disk.
//   - The core never waits for the disk.
//
// Outline:
//
//	put (actor): replace the pending row by the newer one; append the messages
//	run (goroutine): take row and messages at once; write the row with one fsync; send the messages
//
// A row holds everything signed so far, so the newest one suffices, and one write serves all
// steps since the last.
//
// While the disk is full nothing is sent: a validator that cannot keep blocks must not sign for
// others what it may not have tomorrow. Messages are dropped, as if the network had lost them,
// but the row is kept and written once there is room. Any other write error ends the outbox and
// halts the node.
//
// Rejected: one journal write per signature; a write-ahead log of messages, since peers ask
// again anyway.
type outbox struct {
	disk diskStatus
	save func([]byte) error
	send func([]consensus.Send)
	fail func(error) // the journal cannot be written; nothing more is sent

	mu     sync.Mutex
	wake   *sync.Cond
	queue  []consensus.Send
	row    []byte // newer than what is on disk; nil: none is
	closed bool
	over   chan struct{}
}

// diskStatus is the part of the store that the outbox reads.
type diskStatus interface {
	Full() (storage.Full, bool)
}

func newOutbox(disk diskStatus, save func([]byte) error, send func([]consensus.Send), fail func(error)) *outbox {
	w := &outbox{disk: disk, save: save, send: send, fail: fail, over: make(chan struct{})}
	w.wake = sync.NewCond(&w.mu)
	go w.run()
	return w
}

// put takes the row and the messages of one step. A nil row means that nothing was signed.
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

// close ends the outbox. Messages that have not been sent are dropped.
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
			err := w.save(row)
			if storage.IsFull(err) { // written again as a whole, with what comes meanwhile
				w.postpone(row)
				continue
			}
			if err != nil {
				w.fail(err)
				return
			}
		}
		if _, full := w.disk.Full(); !full {
			w.send(list)
		}
	}
}

// fullPause is how long the outbox waits after a row found no room.
const fullPause = 100 * time.Millisecond

// postpone keeps the row unless a newer one has come, and waits for fullPause or until close.
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
