package capture

import (
	"io"
	"sync"
)

// maxQueued is the maximum number of bytes that wait to be written.
const maxQueued = 64 << 20

// queue writes to out in its own goroutine, so that callers of Write do not wait for the disk.
type queue struct {
	out  io.Writer
	most int

	mu     sync.Mutex
	wake   *sync.Cond
	list   [][]byte
	bytes  int
	err    error
	closed bool
	over   chan struct{}
}

func newQueue(out io.Writer, most int) *queue {
	q := &queue{out: out, most: most, over: make(chan struct{})}
	q.wake = sync.NewCond(&q.mu)
	go q.run()
	return q
}

// room returns whether n more bytes may be queued. An empty queue accepts any number.
func (q *queue) room(n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes == 0 || q.bytes+n <= q.most
}

// Write queues b, which must not change afterwards. Write returns the error of an earlier write to
// out.
func (q *queue) Write(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return 0, q.err
	}
	q.list = append(q.list, b)
	q.bytes += len(b)
	q.wake.Signal()
	return len(b), nil
}

func (q *queue) run() {
	defer close(q.over)
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for len(q.list) == 0 && !q.closed {
			q.wake.Wait()
		}
		if len(q.list) == 0 {
			return
		}
		b := q.list[0]
		q.list[0] = nil
		q.list = q.list[1:]
		err := q.err
		q.mu.Unlock()
		if err == nil {
			_, err = q.out.Write(b)
		}
		q.mu.Lock()
		q.bytes -= len(b)
		q.err = err
	}
}

// end waits until everything is written, and returns the first error of a write.
func (q *queue) end() error {
	q.mu.Lock()
	q.closed = true
	q.wake.Signal()
	q.mu.Unlock()
	<-q.over
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}
