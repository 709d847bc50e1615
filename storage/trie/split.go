package trie

import (
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// ErrNoSplit means that a trie has no account at which the trie could be split. nearcore then
// proposes nothing.
var ErrNoSplit = errors.New("trie: there is no account at which to split the shard")

// imbalance returns the difference of the two halves.
func imbalance(s *primitives.TrieSplit) uint64 {
	return max(s.LeftMemory, s.RightMemory) - min(s.LeftMemory, s.RightMemory)
}

// splitColumns are searched together: account, code, access keys, contract data (nearcore
// split.rs:23). In the columns of attached, the last two, keys consist of the account, a separator
// and further data.
var (
	splitColumns = [4]byte{0, 1, 2, 9}
	attached     = [2]struct {
		column    int // index of the column
		separator byte
	}{{2, 2}, {3, ','}}
)

// FindSplit returns the account that splits r into halves of about equal memory usage (nearcore
// split.rs find_trie_split). rec records the nodes that nearcore's search reads, which count
// against the chunk's limits. The error is ErrNoSplit, or an error of loading a subtree.
func (r *Root) FindSplit(rec *Recording) (primitives.TrieSplit, error) {
	f := r.forest
	return findSplit(r.ref, func(ref uint32) (splitNode[uint32], error) {
		ref, n, err := f.resolve(ref, false)
		if err != nil {
			return splitNode[uint32]{}, err
		}
		rec.node(f, ref, n)
		s := splitNode[uint32]{usage: n.usage(), child: n.child()}
		switch n.kind() {
		case kindLeaf:
			s.kind, s.key = Leaf, extNibs(n.ext())
		case kindExtension:
			s.kind, s.key = Extension, extNibs(n.ext())
		default:
			s.kind, s.mask = Branch, n.mask()
			for i := range byte(16) {
				s.kids[i] = n.kid(i)
			}
		}
		return s, nil
	})
}

// splitNode is a node as the search sees it. P is the type of references to nodes.
type splitNode[P comparable] struct {
	kind  Kind
	usage uint64
	key   nibs // own key of a leaf or an extension
	child P    // child of an extension
	mask  uint16
	kids  [16]P // children of a branch
}

// stage is the position of the search in one column (nearcore TrieDescentStage).
type stage[P comparable] struct {
	at    stageKind
	usage uint64 // memory usage of the subtree that begins here
	rest  nibs   // inside a key: the rest of that key, which is not empty
	child P      // inside the key of an extension: the extension's child
	leaf  bool
	mask  uint16
	kids  [16]P
}

type stageKind uint8

const (
	cutOff   stageKind = iota // the path does not exist in this column
	atLeaf                    // the search is at the end of a leaf's key
	inside                    // the search is before or within the key of an extension or a leaf
	atBranch                  // the search is at a branch
)

func stageOf[P comparable](n splitNode[P]) stage[P] {
	s := stage[P]{usage: n.usage}
	switch {
	case n.kind == Leaf && n.key.n == 0:
		s.at = atLeaf
	case n.kind == Leaf:
		s.at, s.rest, s.leaf = inside, n.key, true
	case n.kind == Extension:
		s.at, s.rest, s.child = inside, n.key, n.child
	default:
		s.at, s.mask, s.kids = atBranch, n.mask, n.kids
	}
	return s
}

// splitter is the descent through all columns (nearcore TrieDescent).
type splitter[P comparable] struct {
	get    func(P) (splitNode[P], error)
	stages [4]stage[P]
	path   []byte // nibbles below the column
	left   uint64 // memory usage of the keys before path
	right  uint64 // memory usage of the keys after path
	middle uint64 // memory usage of the keys that begin with path
}

func findSplit[P comparable](root P, get func(P) (splitNode[P], error)) (primitives.TrieSplit, error) {
	var zero P
	if root == zero {
		return primitives.TrieSplit{}, fmt.Errorf("%w: the trie is empty", ErrNoSplit)
	}
	s := splitter[P]{get: get}
	for i, column := range splitColumns {
		n, err := get(root)
		if err != nil {
			return primitives.TrieSplit{}, err
		}
		st := stageOf(n)
		for _, nibble := range [2]byte{column >> 4, column & 0xf} {
			if err := s.descend(&st, nibble); err != nil {
				return primitives.TrieSplit{}, err
			}
		}
		s.stages[i] = st
		s.middle += st.usage
	}
	return s.find()
}

// children returns, for each next nibble, the memory usage of what follows that nibble.
func (s *splitter[P]) children(st *stage[P]) (sums [16]uint64, err error) {
	switch {
	case st.at == inside && !st.leaf && st.rest.n == 1:
		n, err := s.get(st.child)
		sums[st.rest.at(0)] = n.usage
		return sums, err
	case st.at == inside:
		sums[st.rest.at(0)] = st.usage
	case st.at == atBranch:
		for i := range sums {
			if st.mask>>i&1 == 1 {
				n, err := s.get(st.kids[i])
				if err != nil {
					return sums, err
				}
				sums[i] = n.usage
			}
		}
	}
	return sums, nil
}

// own returns the memory usage of the current node without the nodes below it. Inside a key, the
// node itself counts as below.
func (s *splitter[P]) own(st *stage[P]) (uint64, error) {
	switch {
	case st.at == atLeaf:
		return st.usage, nil
	case st.at == atBranch:
		sums, err := s.children(st)
		return less(st.usage, sum(sums[:]), err)
	case st.at == inside && !st.leaf && st.rest.n == 1:
		n, err := s.get(st.child)
		return less(st.usage, n.usage, err)
	}
	return 0, nil
}

// less returns a-b. A negative result means that a node claims a wrong usage, and less returns
// ErrCorrupt.
func less(a, b uint64, err error) (uint64, error) {
	if err == nil && b > a {
		err = fmt.Errorf("%w: a node states memory usage %d, must be at least %d, that of its children", ErrCorrupt, a, b)
	}
	return a - b, err
}

func sum(v []uint64) (total uint64) {
	for _, x := range v {
		total += x
	}
	return total
}

// under returns the memory usage of everything whose keys continue with the nibbles of path.
func (s *splitter[P]) under(st *stage[P], path []byte) (uint64, error) {
	switch {
	case len(path) == 0:
		return st.usage, nil
	case st.at == inside:
		// As in nearcore, a node whose key ends within path counts as nothing, although the node's
		// child may continue along path.
		if commonPrefix(st.rest, pathNibs(path)) == len(path) {
			return st.usage, nil
		}
	case st.at == atBranch && st.mask>>path[0]&1 == 1:
		n, err := s.get(st.kids[path[0]])
		if err != nil {
			return 0, err
		}
		next := stageOf(n)
		return s.under(&next, path[1:])
	}
	return 0, nil
}

// descend moves one nibble down in one column.
func (s *splitter[P]) descend(st *stage[P], nibble byte) error {
	switch {
	case st.at == inside && st.rest.at(0) == nibble:
		if st.rest = st.rest.from(1); st.rest.n > 0 {
			return nil
		}
		if st.leaf {
			*st = stage[P]{at: atLeaf, usage: st.usage}
			return nil
		}
		n, err := s.get(st.child)
		*st = stageOf(n)
		return err
	case st.at == atBranch && st.mask>>nibble&1 == 1:
		n, err := s.get(st.kids[nibble])
		*st = stageOf(n)
		return err
	}
	*st = stage[P]{}
	return nil
}

// allChildren sums children over the columns.
func (s *splitter[P]) allChildren() (sums [16]uint64, err error) {
	for i := range s.stages {
		one, err := s.children(&s.stages[i])
		if err != nil {
			return sums, err
		}
		for k := range sums {
			sums[k] += one[k]
		}
	}
	return sums, nil
}

// allOwn sums own over the columns.
func (s *splitter[P]) allOwn() (total uint64, err error) {
	for i := range s.stages {
		one, err := s.own(&s.stages[i])
		if err != nil {
			return 0, err
		}
		total += one
	}
	return total, nil
}

// find descends towards the middle of the memory usage and keeps the best split on the way. Of
// equally good splits, find keeps the first.
func (s *splitter[P]) find() (best primitives.TrieSplit, err error) {
	found := false
	try := func() error {
		here, ok, err := s.best()
		if err == nil && ok && (!found || imbalance(&here) < imbalance(&best)) {
			best, found = here, true
		}
		return err
	}
	for {
		nibble, ok, err := s.next()
		if err != nil {
			return best, err
		}
		if !ok {
			break
		}
		if len(s.path) > 2*MaxKeyLen {
			return best, fmt.Errorf("%w: the trie contains account keys of more than %d bytes", ErrCorrupt, MaxKeyLen)
		}
		if err := s.step(nibble); err != nil {
			return best, err
		}
		if err := try(); err != nil {
			return best, err
		}
	}
	if len(s.path)%2 != 0 { // an account ID ends at a whole byte, so move one nibble further, into the first child
		sums, err := s.allChildren()
		if err != nil {
			return best, err
		}
		first, ok := s.firstAccount()
		if !ok {
			return best, fmt.Errorf("%w: an account key has %d nibbles, which is not a whole number of bytes", ErrNoSplit, len(s.path))
		}
		if err := s.stepBy(first, sums); err != nil {
			return best, err
		}
		if err := try(); err != nil {
			return best, err
		}
	}
	if !found || imbalance(&best) == ^uint64(0) {
		return best, ErrNoSplit
	}
	return best, nil
}

// next chooses the child that contains the middle of the memory usage. That is the first child at
// which the running sum exceeds half of the total, or else the last child that is not empty. ok is
// false where the search ends, because the accounts do not continue there.
func (s *splitter[P]) next() (nibble byte, ok bool, err error) {
	accounts := &s.stages[0]
	if accounts.at != inside && accounts.at != atBranch {
		return 0, false, nil
	}
	own, err := s.allOwn()
	if err != nil {
		return 0, false, err
	}
	half := (s.left + s.right + s.middle) / 2
	if s.left+own > half {
		return 0, false, nil
	}
	sums, err := s.allChildren()
	if err != nil {
		return 0, false, err
	}
	i, ok := middleChild(&sums, half-s.left-own)
	if !ok || accounts.at == inside && accounts.rest.at(0) != i || accounts.at == atBranch && accounts.mask>>i&1 == 0 {
		return 0, false, nil
	}
	return i, true, nil
}

// middleChild returns the first child at which the running sum exceeds threshold, or else the last
// child that is not empty.
func middleChild(sums *[16]uint64, threshold uint64) (byte, bool) {
	total := uint64(0)
	for i, v := range sums {
		if total += v; total > threshold {
			return byte(i), true
		}
	}
	for i, v := range slices.Backward(sums[:]) {
		if v > 0 {
			return byte(i), true
		}
	}
	return 0, false
}

func (s *splitter[P]) firstAccount() (byte, bool) {
	accounts := &s.stages[0]
	switch accounts.at {
	case inside:
		return accounts.rest.at(0), true
	case atBranch: // the branch has a child, unless a proof is invalid
		for i := range byte(16) {
			if accounts.mask>>i&1 == 1 {
				return i, true
			}
		}
	}
	return 0, false
}

func (s *splitter[P]) step(nibble byte) error {
	sums, err := s.allChildren()
	if err != nil {
		return err
	}
	return s.stepBy(nibble, sums)
}

// stepBy moves one nibble down in all columns. stepBy adds the memory usage of parents and lower
// siblings to the left side, and the memory usage of higher siblings to the right side.
func (s *splitter[P]) stepBy(nibble byte, sums [16]uint64) error {
	own, err := s.allOwn()
	if err != nil {
		return err
	}
	lower := sum(sums[:nibble])
	right, err := less(s.middle, lower+sums[nibble]+own, nil)
	if err != nil {
		return err
	}
	s.left += lower + own
	s.right += right
	s.middle = sums[nibble]
	for i := range s.stages {
		if err := s.descend(&s.stages[i], nibble); err != nil {
			return err
		}
	}
	s.path = append(s.path, nibble)
	return nil
}

// best returns the better of two splits at the current path. The first split is at the account
// itself, which then goes right with everything below it. The second split is after the account, at
// the account's name with "-0" appended, so that the account goes left with its keys and data. If
// both splits are equally good, best returns the first. ok is false if neither boundary is a valid
// account ID.
func (s *splitter[P]) best() (best primitives.TrieSplit, ok bool, err error) {
	if len(s.path)%2 != 0 || len(s.path) > 2*primitives.MaxAccountIDLen {
		return best, false, nil
	}
	name := string(packNibbles(s.path))
	account, bad := primitives.ParseAccountID(name)
	isAccount := bad == nil
	if isAccount {
		best, ok = primitives.TrieSplit{Boundary: account, LeftMemory: s.left, RightMemory: s.right + s.middle}, true
	}
	behind, bad := primitives.ParseAccountID(name + "-0")
	if bad != nil {
		return best, ok, nil
	}
	moved, err := s.allOwn()
	if err != nil {
		return best, false, err
	}
	if isAccount {
		for _, a := range attached {
			one, err := s.under(&s.stages[a.column], []byte{a.separator >> 4, a.separator & 0xf})
			if err != nil {
				return best, false, err
			}
			moved += one
		}
	}
	right, err := less(s.right+s.middle, moved, nil)
	if err != nil {
		return best, false, err
	}
	if b := (primitives.TrieSplit{Boundary: behind, LeftMemory: s.left + moved, RightMemory: right}); !ok ||
		imbalance(&b) < imbalance(&best) {
		best, ok = b, true
	}
	return best, ok, nil
}
