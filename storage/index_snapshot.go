package storage

import (
	"bytes"
	"fmt"
	"sync"
)

// pooledSnapshot is a snapshot of the index, taken between two steps, with a pool of cursors over
// the snapshot. Cursors are reused because creating one visits each table, which takes longer than
// loading a subtree.
type pooledSnapshot struct {
	snap snapshot
	at   BlockRef // flat head when the snapshot was taken

	mu   sync.Mutex
	free []cursor
	uses int // number of readers, plus one while this is the store's newest snapshot
}

// freeCursors is the largest number of pooled cursors. Each holds a block of some tables in memory.
const freeCursors = 16

// snapshotPool holds the newest snapshot of a store.
type snapshotPool struct {
	mu    sync.Mutex
	now   *pooledSnapshot // newest snapshot; nil: no read since the last write to the index
	steps int
}

// current returns a snapshot of db that contains the last step. The caller must call done on the
// snapshot.
func (x *snapshotPool) current(db index) (*pooledSnapshot, error) {
	x.mu.Lock()
	r, steps := x.now, x.steps
	if r != nil {
		r.use()
	}
	x.mu.Unlock()
	if r != nil {
		return r, nil
	}
	snap, err := db.snapshot()
	if err != nil {
		return nil, err
	}
	var cell flatHeadCell
	if _, err := getCell(snap, cellFlatHead, &cell); err != nil {
		snap.release()
		return nil, err
	}
	r = &pooledSnapshot{snap: snap, at: cell.Block, uses: 1}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.now == nil && x.steps == steps {
		x.now = r
		r.use()
	}
	return r, nil
}

// drop drops the current snapshot after a step.
func (x *snapshotPool) drop() {
	x.mu.Lock()
	old := x.now
	x.now, x.steps = nil, x.steps+1
	x.mu.Unlock()
	if old != nil {
		old.done()
	}
}

func (r *pooledSnapshot) use() {
	r.mu.Lock()
	r.uses++
	r.mu.Unlock()
}

// done ends one use. The last use releases the snapshot.
func (r *pooledSnapshot) done() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.uses--; r.uses > 0 {
		return
	}
	for _, cur := range r.free {
		_ = cur.done() // a cursor with an error is not reused
	}
	r.free = nil
	r.snap.release()
}

// cursor returns a cursor at an arbitrary position.
func (r *pooledSnapshot) cursor() cursor {
	r.mu.Lock()
	n := len(r.free)
	if n == 0 {
		r.mu.Unlock()
		return r.snap.iterate(nil, nil)
	}
	defer r.mu.Unlock()
	cur := r.free[n-1]
	r.free = r.free[:n-1]
	return cur
}

// scanFunc calls yield for the rows in [lo, hi), until yield returns false or an error. A nil hi
// means the end of the index. Key and value are valid during the call only.
type scanFunc func(lo, hi []byte, yield func(key, value []byte) (more bool, err error)) (more bool, err error)

// scan is a scanFunc that uses a pooled cursor.
func (r *pooledSnapshot) scan(lo, hi []byte,
	yield func(key, value []byte) (more bool, err error)) (more bool, err error) {
	cur := r.cursor()
	more, ended, err := scanBy(cur, lo, hi, yield)
	if ended {
		return more, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.free) < freeCursors {
		r.free = append(r.free, cur)
		return more, err
	}
	_ = cur.done()
	return more, err
}

// scanBy is a scanFunc on a cursor. ended says that the cursor was released, at its end or after an
// error.
func scanBy(cur cursor, lo, hi []byte,
	yield func(key, value []byte) (more bool, err error)) (more, ended bool, err error) {
	more = true
	ok := cur.seek(lo)
	for ; ok && more && err == nil && (hi == nil || bytes.Compare(cur.key(), hi) < 0); ok = cur.next() {
		more, err = yield(cur.key(), cur.value())
	}
	if ok {
		return more, false, err
	}
	if derr := cur.done(); derr != nil && err == nil {
		err = derr
	}
	return more, true, err
}

// loadRange yields the rows of Flat in a range. Key and value are valid only during the call of
// yield.
func loadRange(scan scanFunc, rg flatRange, yield func(key, value []byte) bool) (more bool, err error) {
	hi := append([]byte{flat.id}, rg.hi...)
	if rg.hi == "" {
		hi = []byte{flat.id + 1}
	}
	var key, value []byte
	return scan(append([]byte{flat.id}, rg.lo...), hi, func(row, packed []byte) (bool, error) {
		if key = row[1:]; len(key) >= 9 && shardBound(key[0]) {
			key = append([]byte{key[0]}, key[9:]...)
		}
		if value, err = unpack(value, packed); err != nil {
			return false, fmt.Errorf("%s %x: %w", flat.name, key, damaged("%w", err))
		}
		return yield(key, value), nil
	})
}
