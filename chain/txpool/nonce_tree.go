package txpool

import (
	"bytes"
	"encoding/binary"

	"github.com/troupe-chain/troupe/primitives"
)

// none is the null index.
const none = int32(-1)

// tree is an ordered set of hashes: a treap in one slice. The slice has no pointers, so the garbage
// collector need not scan it. A hash is both the key (all its bytes) and the priority (its last 8
// bytes), so equal sets have equal shapes. The hashes are keyed with a secret seed, so no client
// can choose keys that unbalance the tree.
type tree struct {
	nodes []node
	free  []int32
	root  int32
}

type node struct {
	key         primitives.Hash
	left, right int32
}

func newTree() tree { return tree{root: none} }

func (n *node) priority() uint64 { return binary.LittleEndian.Uint64(n.key[len(n.key)-8:]) }

func less(a, b *primitives.Hash) bool { return bytes.Compare(a[:], b[:]) < 0 }

// insert adds a key that is not in the set and returns its index. The index is stable until the
// key is removed.
func (t *tree) insert(key primitives.Hash) int32 {
	var i int32
	if n := len(t.free); n > 0 {
		i, t.free = t.free[n-1], t.free[:n-1]
	} else {
		i = int32(len(t.nodes))
		t.nodes = append(t.nodes, node{})
	}
	t.nodes[i] = node{key: key, left: none, right: none}
	t.root = t.insertAt(t.root, i)
	return i
}

func (t *tree) insertAt(at, i int32) int32 {
	if at == none {
		return i
	}
	n, a := &t.nodes[i], &t.nodes[at]
	switch {
	case n.priority() > a.priority():
		n.left, n.right = t.split(at, &n.key)
		return i
	case less(&n.key, &a.key):
		a.left = t.insertAt(a.left, i)
	default:
		a.right = t.insertAt(a.right, i)
	}
	return at
}

// split splits a subtree into the nodes with keys below key and the nodes with keys from key on.
func (t *tree) split(at int32, key *primitives.Hash) (below, above int32) {
	if at == none {
		return none, none
	}
	a := &t.nodes[at]
	if less(&a.key, key) {
		a.right, above = t.split(a.right, key)
		return at, above
	}
	below, a.left = t.split(a.left, key)
	return below, at
}

// remove deletes the node with index i.
func (t *tree) remove(i int32) {
	key, at := &t.nodes[i].key, &t.root
	for *at != i {
		if a := &t.nodes[*at]; less(key, &a.key) {
			at = &a.left
		} else {
			at = &a.right
		}
	}
	*at = t.merge(t.nodes[i].left, t.nodes[i].right)
	t.free = append(t.free, i)
}

// merge joins two subtrees. All keys of l must be below all keys of r.
func (t *tree) merge(l, r int32) int32 {
	switch {
	case l == none:
		return r
	case r == none:
		return l
	case t.nodes[l].priority() > t.nodes[r].priority():
		t.nodes[l].right = t.merge(t.nodes[l].right, r)
		return l
	}
	t.nodes[r].left = t.merge(l, t.nodes[r].left)
	return r
}

// find returns the index of key, or none.
func (t *tree) find(key *primitives.Hash) int32 {
	at := t.root
	for at != none {
		n := &t.nodes[at]
		switch bytes.Compare(key[:], n.key[:]) {
		case 0:
			return at
		case -1:
			at = n.left
		default:
			at = n.right
		}
	}
	return none
}

// after returns the index of the lowest key above key, or none.
func (t *tree) after(key *primitives.Hash) int32 {
	best, at := none, t.root
	for at != none {
		if n := &t.nodes[at]; less(key, &n.key) {
			best, at = at, n.left
		} else {
			at = n.right
		}
	}
	return best
}

// first returns the index of the lowest key, or none.
func (t *tree) first() int32 {
	at := t.root
	for at != none && t.nodes[at].left != none {
		at = t.nodes[at].left
	}
	return at
}
