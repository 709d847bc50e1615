package engine

import "sync/atomic"

// refs counts the references to an object: the owner's reference and the references of the users.
// The code that drops the last reference frees the object.
type refs struct{ n atomic.Int64 }

// own adds the owner's reference.
func (r *refs) own() { r.n.Store(1) }

// hold adds a user's reference, which the user must drop. hold returns false if the object is
// already freed.
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

// drop removes a reference and returns whether it was the last.
func (r *refs) drop() bool { return r.n.Add(-1) == 0 }
