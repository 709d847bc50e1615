package engine

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
)

// mismatch is the error for a stored block whose stored changes do not lead to its state root.
type mismatch struct {
	w     *waiting
	shard int
	got   primitives.Hash
}

func (m *mismatch) Error() string {
	s := &m.w.entry.Shards[m.shard]
	return fmt.Sprintf(
		"shard %d of block %v has state root %v, but its stored changes lead to %v",
		s.ID,
		m.w.rec.Ref(),
		s.Extra.StateRoot,
		m.got,
	)
}

func (m *mismatch) Unwrap() error { return ErrInconsistent }

// explained returns err. If err contains a mismatch, explained adds a diagnosis of which stored
// data is wrong. explained writes nothing to disk.
func (e *Engine) explained(err error) error {
	var m *mismatch
	if !errors.As(err, &m) {
		return err
	}
	var says []string
	cerr := Catch(func() (err error) { says, err = e.explain(m); return err })
	if cerr != nil {
		says = append(says, fmt.Sprintf("applying the block again failed: %v", cerr))
	}
	return fmt.Errorf("%w; %s; nothing was changed on disk: keep a copy of the data folder for a report, then restore a snapshot",
		err, strings.Join(says, "; "))
}

// explain diagnoses a mismatch. Each stored change contains the old value of its key. explain
// checks that this value equals the value in the parent's state. Then it applies the chunk again.
func (e *Engine) explain(m *mismatch) (says []string, err error) {
	s, prev := &m.w.entry.Shards[m.shard], &m.w.prev[m.shard]
	stored, err := m.w.rec.Changes(s.ID)
	if err != nil {
		return nil, err
	}
	// Each old value equals the value in the parent's state, unless the change or the parent's
	// state was damaged on disk.
	moved := 0
	for i := range stored {
		old, err := prev.root.Get(stored[i].Key, nil)
		if err != nil {
			return says, err
		}
		if !bytes.Equal(old, stored[i].Old) || (old == nil) != (stored[i].Old == nil) {
			if moved == 0 {
				says = append(
					says,
					fmt.Sprintf(
						"key %s had the value %s when the block was applied; in its parent's state it has %s%s",
						excerpt(stored[i].Key),
						excerpt(stored[i].Old),
						excerpt(old),
						firstDifference(stored[i].Old, old),
					),
				)
			}
			moved++
		}
	}
	says = append(
		says,
		fmt.Sprintf("%d of %d stored changes replace a value that differs from the parent's state", moved, len(stored)),
	)
	if !m.w.parent.Acquire() {
		return says, errors.New("the parent's state is no longer in memory")
	}
	parent := &State{BlockNode: m.w.parent}
	defer parent.Release()
	job, err := e.jobForReapply(m.w.entry, parent, s.ID)
	if err != nil {
		return says, err
	}
	r, err := apply.Apply(&job.input)
	if err != nil {
		return says, err
	}
	defer release(r.Trie)
	switch root := r.Trie.Root(); root {
	case s.Extra.StateRoot:
		says = append(says, "applying the chunk again gives the block's root: the stored changes are wrong")
	case m.got:
		says = append(
			says,
			"applying the chunk again gives the root of the stored changes: "+
				"the block's root, or an input of its computation, is wrong",
		)
	default:
		says = append(says, fmt.Sprintf("applying the chunk again gives a third root, %v: the parent's state is wrong", root))
	}
	differ := 0
	for i, n := 0, max(len(stored), len(r.Changes)); i < n; i++ {
		if i < len(stored) && i < len(r.Changes) && bytes.Equal(stored[i].Key, r.Changes[i].Key) &&
			bytes.Equal(stored[i].Last(), r.Changes[i].Last()) {
			continue
		}
		if differ++; differ > 1 {
			continue
		}
		if i < len(stored) {
			says = append(says, fmt.Sprintf("stored is key %s = %s", excerpt(stored[i].Key), excerpt(stored[i].Last())))
		}
		if i < len(r.Changes) {
			says = append(says, fmt.Sprintf("applied is key %s = %s", excerpt(r.Changes[i].Key), excerpt(r.Changes[i].Last())))
		}
		if i < len(stored) && i < len(r.Changes) {
			if bytes.Equal(stored[i].Key, r.Changes[i].Key) {
				says[len(says)-1] += firstDifference(stored[i].Last(), r.Changes[i].Last())
			} else {
				says[len(says)-1] += firstDifference(stored[i].Key, r.Changes[i].Key)
			}
		}
	}
	return append(says, fmt.Sprintf("%d changes differ", differ)), nil
}

// Bounds of what a diagnosis prints of a key or value, in bytes. A value may have megabytes.
const (
	maxExcerpt    = 256 // maximum number of bytes from the start of a value
	maxDifference = 32  // maximum number of bytes from the first differing byte on
)

// excerpt returns the first bytes of a key or value in hex. If excerpt cuts off the rest, it adds
// the length.
func excerpt(b []byte) string {
	if len(b) <= maxExcerpt {
		return fmt.Sprintf("%x", b)
	}
	return fmt.Sprintf("%x... (%d bytes)", b[:maxExcerpt], len(b))
}

// firstDifference describes where two keys or values begin to differ. It returns an empty string if
// the excerpts of a and b show the difference, or if a and b are equal.
func firstDifference(a, b []byte) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	if n < maxExcerpt || bytes.Equal(a, b) {
		return ""
	}
	part := func(x []byte) []byte { return x[n:min(n+maxDifference, len(x))] }
	return fmt.Sprintf(" (from byte %d on: %x and %x)", n, part(a), part(b))
}
