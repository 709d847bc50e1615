package blockpool

import (
	"errors"

	"github.com/troupe-chain/troupe/primitives"
)

// refusals remembers the last MaxRefused blocks that were bad.
type refusals struct {
	why   map[primitives.Hash]error
	order []primitives.Hash
}

func (r *refusals) add(hash primitives.Hash, why error) {
	if _, ok := r.why[hash]; ok {
		return
	}
	if len(r.order) >= MaxRefused {
		delete(r.why, r.order[0])
		r.order = append(r.order[:0], r.order[1:]...)
	}
	r.why[hash] = why
	r.order = append(r.order, hash)
}

// descendant is why a block is bad that builds, over any number of others, on a bad one.
type descendant struct{ why error }

func (d *descendant) Error() string { return "it builds on a bad block: " + d.why.Error() }
func (d *descendant) Unwrap() error { return d.why }

// inherited is why the child of a bad block is bad.
func inherited(why error) error {
	if errors.As(why, new(*descendant)) {
		return why
	}
	return &descendant{why}
}
