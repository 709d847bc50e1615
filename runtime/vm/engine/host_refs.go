package engine

import "sync/atomic"

// refs counts who needs a thing: its owner and its users. What is there only because of them goes
// with the last.
type refs struct{ n atomic.Int64 }

// own counts the owner.
func (r *refs) own() { r.n.Store(1) }

// hold counts a user, who calls drop afterwards; false if the last one is gone.
func (r *refs) hold() bool {
	for {
		n := r.n.Load()
		if n <= 0 {
			return false
		}
		if r.n.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// drop tells whether it was the last.
func (r *refs) drop() bool { return r.n.Add(-1) == 0 }
