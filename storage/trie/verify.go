package trie

import (
	"bytes"
	"errors"
	"math/bits"
)

// maxPairsCheck is the memory usage below which check reads a subtree at once as pairs, even if the
// frontier is finer.
const maxPairsCheck = 64 << 10

// Verify loads up to n subtrees of r and verifies the hashes of these subtrees. Verify starts after
// the path `after`; nil: at the beginning. Verify returns the path from which to continue, or nil
// when all subtrees are done. Unless keep is set, Verify frees each subtree that it loaded, so that
// it only checks what is stored. Verify skips subtrees in memory, because each was verified when it
// was loaded. Errors: ErrCorrupt, errors of loading.
func (r *Root) Verify(after []byte, n int, keep bool) (next []byte, err error) {
	v := verifier{f: r.forest, after: after, left: n, keep: keep}
	if r.ref == 0 {
		return nil, nil
	}
	if err := v.walk(r.ref); err != nil || v.left > 0 {
		return nil, err
	}
	return v.last, nil
}

type verifier struct {
	f           *Forest
	after, last []byte
	path        []byte // memory for the path of a hash node
	left        int
	keep        bool
}

func (v *verifier) walk(ref uint32) error {
	n := v.f.arena.mem().at(ref)
	switch n.kind() {
	case kindExtension:
		return v.walk(n.child())
	case kindBranch, kindBranchValue:
		for i := range byte(16) {
			if c := n.kid(i); c != 0 && v.left > 0 {
				if err := v.walk(c); err != nil {
					return err
				}
			}
		}
	case kindHash:
		above := n.usage() >= v.f.frontier
		if v.path = n.appendHashNodePath(v.path[:0]); v.left == 0 || v.passed(v.path, above) {
			return nil
		}
		s := v.f.hashNode(n)
		top := s.row.target.Load()
		switch {
		case top != 0 && above:
			return v.walk(top) // the loaded subtree contains further hash nodes
		case top == 0 && above && v.keep:
			top, err := v.f.load(n)
			if err != nil {
				return err
			}
			return v.walk(top)
		case !v.keep:
			return v.check(FrontierEntry{Path: s.path, Hash: n.hashValue(), Size: n.usage()}, s)
		}
		v.left, v.last = v.left-1, s.path
		_, err := v.f.load(n)
		return err
	}
	return nil
}

// passed returns whether the whole subtree at path was verified by previous calls, which ended at
// v.after. `above` means that the subtree is verified in parts. In that case the subtree is not
// done if v.after lies within it.
func (v *verifier) passed(path []byte, above bool) bool {
	return v.after != nil && bytes.Compare(path, v.after) <= 0 && !(above && bytes.HasPrefix(v.after, path))
}

// check verifies a subtree and keeps nothing of it in memory. A small subtree is verified by its
// pairs. A large subtree is verified by the entries of the level below, and then each of these
// entries is checked.
func (v *verifier) check(e FrontierEntry, s *hashNode) error {
	if e.IsValue || v.left == 0 || v.passed(e.Path, e.Size >= maxPairsCheck && e.Size >= v.f.frontier) {
		return nil
	}
	n := hashNodeOf(&e)
	if e.Size >= maxPairsCheck && e.Size >= v.f.frontier {
		got, err := v.f.checked(n, &hashNode{path: e.Path, src: s.src}, true)
		if err != nil {
			return err
		}
		if len(got) > 0 {
			for i := range got {
				if err := v.check(got[i], s); err != nil {
					return err
				}
			}
			return nil
		}
	}
	v.left, v.last = v.left-1, e.Path
	_, err := v.f.checked(n, &hashNode{path: e.Path, src: s.src}, false)
	return err
}

// hashNodeOf returns a hash node, outside of any forest, for an entry.
func hashNodeOf(e *FrontierEntry) node {
	n := make(node, bodyAt+rawUsage+tailSize)
	n[0] = kindHash
	copy(n.hash(), e.Hash[:])
	n.setUsage(e.Size)
	return n
}

// checked builds a hash node's subtree from the stored entries or pairs, verifies the subtree and
// frees it again. checked returns the entries. If checked returns neither entries nor an error, no
// entries are stored or the stored entries are of another version, so nothing is verified yet.
func (f *Forest) checked(n node, s *hashNode, rows bool) ([]FrontierEntry, error) {
	src := f.source.Load()
	entries, err := f.checkedFrom(n, s, src, rows)
	if !rows && s.needsOriginal(src, err) {
		return f.checkedFrom(n, s, s.src, false)
	}
	if rows && errors.Is(err, ErrCorrupt) && n.usage() <= maxByPairs {
		return nil, nil
	}
	return entries, err
}

func (f *Forest) checkedFrom(n node, s *hashNode, src *Source, rows bool) ([]FrontierEntry, error) {
	var got loadBuffer
	err := f.fetch(&got, src, n, s, rows)
	if err != nil || rows && len(got.entries) == 0 {
		return nil, err
	}
	f.mu.Lock()
	defer f.unlock()
	mk := f.nodeWriter(n.birth())
	_, err = mk.buildLoaded(n, s, src, &got)
	mk.undo()
	return got.entries, err
}

// Preload loads the subtrees of r that have a memory usage of at least `limit` from their stored
// entries. After that, the first visit to a subtree costs only one page of entries or pairs.
// Preload continues until all these subtrees are loaded or stop returns true. par runs its calls in
// parallel.
func (r *Root) Preload(limit uint64, par func(n int, do func(i int)), stop func() bool) error {
	f := r.forest
	limit = max(limit, f.frontier)
	list := []uint32{r.ref}
	if r.ref == 0 {
		list = nil
	}
	for len(list) > 0 && !stop() { // breadth first, so that the upper levels are loaded soon
		next, errs := make([][]uint32, len(list)), make([]error, len(list))
		par(len(list), func(i int) {
			if !stop() {
				next[i], errs[i] = f.preload(list[i], limit, nil)
			}
		})
		if err := errors.Join(errs...); err != nil {
			return err
		}
		list = list[:0]
		for _, x := range next {
			list = append(list, x...)
		}
	}
	return nil
}

// preload loads ref if it is a hash node, and appends to out the subtrees below it that are still
// to be loaded.
func (f *Forest) preload(ref uint32, limit uint64, out []uint32) ([]uint32, error) {
	n := f.arena.mem().at(ref)
	if n.usage() < limit {
		return out, nil
	}
	switch n.kind() {
	case kindHash:
		top, err := f.load(n)
		if err != nil {
			return out, err
		}
		return f.hashNodesBelow(top, limit, out), nil
	case kindExtension, kindBranch, kindBranchValue:
		return f.hashNodesBelow(ref, limit, out), nil
	}
	return out, nil
}

// hashNodesBelow appends the nearest hash nodes below a node with at least limit memory usage.
func (f *Forest) hashNodesBelow(ref uint32, limit uint64, out []uint32) []uint32 {
	n := f.arena.mem().at(ref)
	if n.usage() < limit {
		return out
	}
	switch n.kind() {
	case kindHash:
		return append(out, ref)
	case kindExtension:
		return f.hashNodesBelow(n.child(), limit, out)
	case kindBranch, kindBranchValue:
		for m := n.mask(); m != 0; m &= m - 1 {
			out = f.hashNodesBelow(n.kid(byte(bits.TrailingZeros16(m))), limit, out)
		}
	}
	return out
}
