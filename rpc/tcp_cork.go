package rpc

import "sync"

// cork combines consecutive small writes of a connection, so that many small messages need few
// system calls. A cork belongs to the goroutine that writes.
type cork struct {
	more  bool    // the writing goroutine has announced that another write follows
	waits *[]byte // bytes that were not written yet; nil: none
}

// corkBytes is the maximum number of bytes that are combined.
const corkBytes = 16 << 10

var corks = sync.Pool{New: func() any {
	b := make([]byte, 0, corkBytes)
	return &b
}}

// write buffers b if another write follows and b fits into the buffer. Otherwise it writes the
// buffered bytes and b.
func (c *cork) write(b []byte, write func([]byte) (int, error)) (int, error) {
	if c.waits == nil {
		c.waits = corks.Get().(*[]byte)
	}
	if len(*c.waits)+len(b) > corkBytes {
		if err := c.flush(write); err != nil {
			return 0, err
		}
		return write(b)
	}
	if *c.waits = append(*c.waits, b...); !c.more {
		if err := c.flush(write); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

func (c *cork) flush(write func([]byte) (int, error)) error {
	waits := c.waits
	c.waits = nil
	var err error
	if len(*waits) > 0 {
		_, err = write(*waits)
	}
	*waits = (*waits)[:0]
	corks.Put(waits)
	return err
}
