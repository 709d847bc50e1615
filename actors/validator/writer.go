package validator

import (
	"sync"

	"github.com/troupe-chain/troupe/engine/consensus"
)

// writer sends what the core says, in order, once what was signed before is on disk: one write for all that has come meanwhile.
type writer struct {
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

func newWriter(save func([]byte) error, send func([]consensus.Send), fail func(error)) *writer {
	w := &writer{save: save, send: send, fail: fail, over: make(chan struct{})}
	w.wake = sync.NewCond(&w.mu)
	go w.run()
	return w
}

// put takes what one step says.
func (w *writer) put(row []byte, list []consensus.Send) {
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
func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	w.wake.Signal()
	w.mu.Unlock()
	<-w.over
}

func (w *writer) run() {
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
			if err := w.save(row); err != nil {
				w.fail(err)
				return
			}
		}
		w.send(list)
	}
}
