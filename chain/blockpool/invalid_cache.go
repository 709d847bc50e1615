package blockpool

import (
	"errors"

	"github.com/troupe-chain/troupe/primitives"
)

// invalidCache remembers the last MaxRefused invalid blocks, each with the reason.
type invalidCache struct {
	why   map[primitives.Hash]error
	order []primitives.Hash
}

func (r *invalidCache) add(hash primitives.Hash, why error) {
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

// descendant is the reason for which a descendant of an invalid block is invalid.
type descendant struct{ why error }

func (d *descendant) Error() string { return "it descends from an invalid block: " + d.why.Error() }
func (d *descendant) Unwrap() error { return d.why }

// asDescendant returns the reason for a child of an invalid block. why is the reason for its
// parent.
func asDescendant(why error) error {
	if errors.As(why, new(*descendant)) {
		return why
	}
	return &descendant{why}
}
