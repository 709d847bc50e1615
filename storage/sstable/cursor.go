package sstable

import "bytes"

// Cursor reads the rows of a set in ascending order of their keys. A Cursor merges the runs: of
// several rows of a key it returns the newest row, and no row if the newest is a deletion. Only one
// goroutine may use a Cursor. The slices that a Cursor returns are valid until the next move.
type Cursor struct {
	set  *Set
	runs []runCursor
	// now is the run with the current row; nil means none.
	now  *runCursor
	last []byte // key of the previous row; the cursor skips older rows of this key
	err  error
}

// runCursor is a position in one run.
type runCursor struct {
	tables     []*table
	set        *Set
	table      int // index of the current table in tables
	block      int // index of the block in the table
	raw, data  []byte
	read       *table // table of the block that data holds; nil: none
	readAt     int
	at         blockCursor
	some       bool // true: the cursor is at an entry
	blockBytes []byte
}

// Cursor returns a cursor before the first row. The caller ends it by Close.
func (s *Set) Cursor() *Cursor {
	c := &Cursor{set: s.use(), runs: make([]runCursor, len(s.runs))}
	for i := range c.runs {
		c.runs[i].tables, c.runs[i].set = s.runs[i], s
	}
	return c
}

// Seek moves to the first row at or above a key. Seek returns false if there is no such row, and
// after an error.
func (c *Cursor) Seek(key []byte) bool {
	if c.err != nil {
		return false
	}
	for i := range c.runs {
		if err := c.runs[i].seek(key); err != nil {
			return c.fail(err)
		}
	}
	return c.choose(false)
}

// Next moves to the next row; the first call moves to the first row. Next returns false at the end,
// and after an error.
func (c *Cursor) Next() bool {
	if c.err != nil {
		return false
	}
	if c.now == nil {
		return c.Seek(nil)
	}
	c.last = append(c.last[:0], c.now.at.user()...)
	if err := c.now.next(); err != nil {
		return c.fail(err)
	}
	return c.choose(true)
}

func (c *Cursor) fail(err error) bool {
	c.now, c.err = nil, err
	return false
}

// choose selects the least key of the runs, and the newest row of equal keys. choose skips deleted
// rows and, if `last` is set, the rows of c.last, the key of the previous row.
func (c *Cursor) choose(last bool) bool {
	for {
		c.now = nil
		for i := range c.runs {
			r := &c.runs[i]
			if !r.some {
				continue
			}
			if c.now == nil {
				c.now = r
				continue
			}
			if d := bytes.Compare(r.at.user(), c.now.at.user()); d < 0 || d == 0 && r.at.order() > c.now.at.order() {
				c.now = r
			}
		}
		if c.now == nil {
			return false
		}
		if old := last && bytes.Equal(c.now.at.user(), c.last); !old {
			if c.now.at.put() {
				return true
			}
			c.last, last = append(c.last[:0], c.now.at.user()...), true
		}
		if err := c.now.next(); err != nil {
			return c.fail(err)
		}
	}
}

// Valid returns whether the cursor is at a row.
func (c *Cursor) Valid() bool { return c.now != nil }

// Key returns the key of the current row. The cursor must be at a row.
func (c *Cursor) Key() []byte { return c.now.at.user() }

// Value returns the value of the current row. The cursor must be at a row.
func (c *Cursor) Value() []byte { return c.now.at.value }

// Close ends the cursor's use of the set. Close returns the error that ended the iteration, if any:
// ErrMalformed, or an error of the storage.
func (c *Cursor) Close() error {
	if c.set != nil {
		c.set.Release()
		c.set = nil
	}
	return c.err
}

// seek moves to the first entry at or above a key.
func (r *runCursor) seek(key []byte) (err error) {
	lo, hi := 0, len(r.tables)
	for lo < hi { // binary search for the first table that may contain the key
		mid := int(uint(lo+hi) >> 1)
		t := r.tables[mid]
		if err := r.set.open(t); err != nil {
			return err
		}
		if len(t.blocks) == 0 || bytes.Compare(t.boundary(len(t.blocks)-1), key) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	// If the key is above the last key of this block or table, the next block or table has the
	// first entry above the key.
	for r.table = lo; r.table < len(r.tables); r.table++ {
		t := r.tables[r.table]
		if err := r.set.open(t); err != nil {
			return err
		}
		for r.block = t.find(key); r.block < len(t.blocks); r.block++ {
			if err := r.load(); err != nil {
				return err
			}
			if r.some, err = r.at.seek(key); err != nil || r.some {
				return err
			}
		}
	}
	r.some = false
	return nil
}

// next moves to the next entry.
func (r *runCursor) next() (err error) {
	if r.some, err = r.at.next(); err != nil || r.some {
		return err
	}
	for r.block++; r.table < len(r.tables); r.table, r.block = r.table+1, 0 {
		t := r.tables[r.table]
		if err := r.set.open(t); err != nil {
			return err
		}
		for ; r.block < len(t.blocks); r.block++ {
			if err := r.load(); err != nil {
				return err
			}
			if r.some, err = r.at.next(); err != nil || r.some {
				return err
			}
		}
	}
	return nil
}

// load reads the current block, unless the block is in memory, and moves to the start of the block.
func (r *runCursor) load() (err error) {
	t := r.tables[r.table]
	if r.read != t || r.readAt != r.block {
		r.read = nil
		if r.blockBytes, err = t.blocks[r.block].read(t.file, &r.raw, &r.data); err != nil {
			return err
		}
		r.read, r.readAt = t, r.block
	}
	return r.at.reset(r.blockBytes)
}
