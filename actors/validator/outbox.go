package validator

import (
	"sync"
	"time"

	"github.com/troupe-chain/troupe/engine/consensus"
	"github.com/troupe-chain/troupe/storage"
)

// outbox sends what the core says, in order, once what was signed before is on disk: one write for all that has come meanwhile. While the
// disk is full nothing is sent, and what the core says then is dropped, as if the net had lost it: a validator that cannot keep blocks
// does not sign for others what it may not have tomorrow. What it has signed is kept all the same.
type outbox struct {
	disk diskStatus
	save func([]byte) error
	send func([]consensus.Send)
	fail func(error) // what was signed can't be written, and nothing more is sent

	mu     sync.Mutex
	wake   *sync.Cond
	queue  []consensus.Send
	row    []byte // newer than what is on disk; nil: nothing is
	closed bool
	over   chan struct{}
}

// diskStatus is what a writer asks of the store.
type diskStatus interface {
	Full() (storage.Full, bool)
}

func newOutbox(disk diskStatus, save func([]byte) error, send func([]consensus.Send), fail func(error)) *outbox {
	w := &outbox{disk: disk, save: save, send: send, fail: fail, over: make(chan struct{})}
	w.wake = sync.NewCond(&w.mu)
	go w.run()
	return w
}

// put takes what one step says.
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

// close ends it: what has not been sent is not.
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
			if storage.IsFull(err) { // the whole of it is written again, with what comes meanwhile
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

// fullPause is how long the writer waits behind a row that found no room.
const fullPause = 100 * time.Millisecond

// postpone has a row written later, unless a newer one has come, and waits some time, or until the writer is closed.
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
