package trie

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// referenceTrie is a slow second implementation with which Forest and Partial are compared. It
// finds strings by hash, and applies changes key by key as nearcore does (ops/insert_delete.rs,
// ops/squash.rs). It remembers which strings it read.
type referenceTrie struct {
	root    primitives.Hash
	known   map[primitives.Hash][]byte
	visited []primitives.Hash
	seen    map[primitives.Hash]bool
}

// newReference takes the byte strings of a proof, which it keeps. Nothing in them is trusted except
// that a string has its hash.
func newReference(strings [][]byte, root primitives.Hash) *referenceTrie {
	p := &referenceTrie{root: root, known: make(map[primitives.Hash][]byte, len(strings)), seen: map[primitives.Hash]bool{}}
	for _, s := range strings {
		p.known[primitives.HashBytes(s)] = s
	}
	return p
}

// Root returns the state root.
func (p *referenceTrie) Root() primitives.Hash { return p.root }

// Visited returns the hashes of the strings read so far, in the order of their first reading.
func (p *referenceTrie) Visited() []primitives.Hash { return p.visited }

// Bytes returns the string of a hash, nil if unknown; it is read only.
func (p *referenceTrie) Bytes(h primitives.Hash) []byte { return p.known[h] }

// Forget clears the list of visited strings.
func (p *referenceTrie) Forget() { p.visited, p.seen = nil, map[primitives.Hash]bool{} }

// Strings returns all known strings in ascending order.
func (p *referenceTrie) Strings() [][]byte {
	out := make([][]byte, 0, len(p.known))
	for _, s := range p.known {
		out = append(out, s)
	}
	slices.SortFunc(out, slices.Compare)
	return out
}

// read returns the string of a hash and marks it as visited.
func (p *referenceTrie) read(h primitives.Hash) ([]byte, error) {
	s, ok := p.known[h]
	if !ok {
		return nil, fmt.Errorf("%w: %v", ErrMissing, h)
	}
	if !p.seen[h] {
		p.seen[h] = true
		p.visited = append(p.visited, h)
	}
	return s, nil
}

// Node reads and decodes the node of a hash. The keys of the result are well formed.
func (p *referenceTrie) Node(h primitives.Hash) (*RawNode, error) {
	s, err := p.read(h)
	if err != nil {
		return nil, err
	}
	n := new(RawNode)
	if err := borsh.Unmarshal(s, n); err != nil {
		return nil, fmt.Errorf("%w: node %v: %w", ErrCorrupt, h, err)
	}
	if n.Kind == Leaf || n.Kind == Extension {
		if len(n.Key) == 0 || len(n.Key) > MaxKeyLen+1 || n.Kind == Extension && extNibs(n.Key).n == 0 {
			return nil, fmt.Errorf("%w: node %v has a key of %d bytes", ErrCorrupt, h, len(n.Key))
		}
	}
	return n, nil
}

// Lookup finds key.
func (p *referenceTrie) Lookup(key []byte) (v ValueID, found bool, err error) {
	if p.root.IsZero() {
		return v, false, nil
	}
	rest, h := keyNibs(key, 0), p.root
	for {
		n, err := p.Node(h)
		if err != nil {
			return v, false, err
		}
		switch n.Kind {
		case Leaf:
			return n.Value, compareNibs(rest, extNibs(n.Key)) == 0, nil
		case Extension:
			ext := extNibs(n.Key)
			if commonPrefix(rest, ext) < ext.n {
				return v, false, nil
			}
			rest, h = rest.from(ext.n), n.Child
		default:
			if rest.n == 0 {
				return n.Value, n.Kind == BranchWithValue, nil
			}
			if n.Mask>>rest.at(0)&1 == 0 {
				return v, false, nil
			}
			h, rest = n.Children[rest.at(0)], rest.from(1)
		}
	}
}

// Get returns the value of key, nil if absent.
func (p *referenceTrie) Get(key []byte) ([]byte, error) {
	v, found, err := p.Lookup(key)
	if err != nil || !found {
		return nil, err
	}
	s, err := p.read(v.Hash)
	if err == nil && s == nil {
		s = []byte{}
	}
	return s, err
}

// referenceNode is a node under change: kind leaf, branch or extension, or 0xff for an empty place.
type referenceNode struct {
	kind Kind // Branch also with a value
	key  nibs
	val  *ValueID
	kids [16]referenceLink // branch
	kid  referenceLink     // extension
	rest uint64            // memory usage of the children
}

const noReferenceNode Kind = 0xff

// referenceLink leads to a node under change, or by hash to one that is as it was.
type referenceLink struct {
	hash  primitives.Hash
	node  *referenceNode
	exist bool
}

func (n *referenceNode) own() (usage uint64) {
	switch n.kind {
	case Leaf:
		usage = keyCost(hexPrefixLen(n.key.n))
	case Extension:
		usage = keyCost(hexPrefixLen(n.key.n))
	case Branch:
		usage = costNode
	}
	if n.val != nil {
		usage += valueCost(n.val.Len)
	}
	return usage
}

func (n *referenceNode) usage() uint64 { return n.own() + n.rest }

// without takes a child's usage off that of n's children.
func (n *referenceNode) without(child *referenceNode) error {
	u := child.usage()
	if u > n.rest {
		return fmt.Errorf("%w: a child uses %d of its parent's %d", ErrCorrupt, u, n.rest)
	}
	n.rest -= u
	return nil
}

// open makes the node of a referenceLink changeable, reading it if it is as it was.
func (p *referenceTrie) open(l referenceLink) (*referenceNode, error) {
	if l.node != nil {
		return l.node, nil
	}
	raw, err := p.Node(l.hash)
	if err != nil {
		return nil, err
	}
	n := &referenceNode{kind: raw.Kind}
	switch raw.Kind {
	case Leaf:
		n.key, n.val = extNibs(raw.Key), &raw.Value
	case Extension:
		n.key, n.kid = extNibs(raw.Key), referenceLink{hash: raw.Child, exist: true}
	default:
		n.kind = Branch
		if raw.Kind == BranchWithValue {
			n.val = &raw.Value
		}
		for i := range n.kids {
			n.kids[i] = referenceLink{hash: raw.Children[i], exist: raw.Mask>>i&1 == 1}
		}
	}
	if n.rest = raw.MemoryUsage - n.own(); n.rest > raw.MemoryUsage {
		return nil, fmt.Errorf("%w: node %v claims a memory usage of %d", ErrCorrupt, l.hash, raw.MemoryUsage)
	}
	return n, nil
}

// Update returns the trie after the changes, which it applies in their order. p remembers what was
// read.
func (p *referenceTrie) Update(changes []Change) (*referenceTrie, error) {
	root := &referenceNode{kind: noReferenceNode}
	if !p.root.IsZero() {
		var err error
		if root, err = p.open(referenceLink{hash: p.root, exist: true}); err != nil {
			return nil, err
		}
	}
	out := &referenceTrie{known: make(map[primitives.Hash][]byte, len(p.known)), seen: map[primitives.Hash]bool{}}
	for h, s := range p.known {
		out.known[h] = s
	}
	for _, c := range changes {
		var err error
		if c.Value == nil {
			_, err = p.remove(root, keyNibs(c.Key, 0))
		} else {
			v := newValue(c.Value)
			out.known[v.Hash] = slices.Clone(c.Value)
			err = p.insert(root, keyNibs(c.Key, 0), v.ValueID)
		}
		if err != nil {
			return nil, err
		}
	}
	if root.kind != noReferenceNode {
		out.root = out.flatten(root)
	}
	return out, nil
}

// insert sets key below n, in place.
func (p *referenceTrie) insert(n *referenceNode, key nibs, v ValueID) error {
	switch n.kind {
	case noReferenceNode:
		*n = referenceNode{kind: Leaf, key: key, val: &v}
		return nil
	case Branch:
		if key.n == 0 {
			n.val = &v
			return nil
		}
		child := &referenceNode{kind: noReferenceNode}
		if l := n.kids[key.at(0)]; l.exist {
			var err error
			if child, err = p.open(l); err != nil {
				return err
			}
		}
		if err := n.without(child); err != nil {
			return err
		}
		err := p.insert(child, key.from(1), v)
		n.rest += child.usage()
		n.kids[key.at(0)] = referenceLink{node: child, exist: true}
		return err
	}
	l := commonPrefix(key, n.key)
	switch {
	case n.kind == Leaf && l == n.key.n && l == key.n:
		n.val = &v
		return nil
	case n.kind == Extension && l == n.key.n:
		child, err := p.open(n.kid)
		if err != nil {
			return err
		}
		err = p.insert(child, key.from(l), v)
		n.rest, n.kid = child.usage(), referenceLink{node: child, exist: true}
		return err
	}
	// The node parts from the key after l nibbles: a branch comes there, below an extension if l > 0.
	below := *n
	below.key = n.key.from(l)
	branch := &referenceNode{kind: Branch}
	if below.kind == Leaf && below.key.n == 0 {
		branch.val = below.val
	} else {
		i := below.key.at(0)
		below.key = below.key.from(1)
		if below.kind == Extension && below.key.n == 0 {
			branch.kids[i], branch.rest = below.kid, below.rest
		} else {
			branch.kids[i], branch.rest = referenceLink{node: &below, exist: true}, below.usage()
		}
	}
	if err := p.insert(branch, key.from(l), v); err != nil {
		return err
	}
	if l == 0 {
		*n = *branch
	} else {
		*n = referenceNode{kind: Extension, key: n.key.first(l), kid: referenceLink{node: branch, exist: true}, rest: branch.usage()}
	}
	return nil
}

// remove deletes key below n, in place, and returns whether it existed.
func (p *referenceTrie) remove(n *referenceNode, key nibs) (bool, error) {
	switch n.kind {
	case noReferenceNode:
		return false, nil
	case Leaf:
		if compareNibs(key, n.key) != 0 {
			return false, nil
		}
		*n = referenceNode{kind: noReferenceNode}
		return true, nil
	case Extension:
		if commonPrefix(key, n.key) < n.key.n {
			return false, nil
		}
		child, err := p.open(n.kid)
		if err != nil {
			return false, err
		}
		n.kid = referenceLink{node: child, exist: true}
		deleted, err := p.remove(child, key.from(n.key.n))
		n.rest = child.usage()
		if err != nil || !deleted {
			return false, err
		}
		return true, p.squash(n)
	}
	if key.n == 0 {
		if n.val == nil {
			return false, nil
		}
		n.val = nil
		return true, p.squash(n)
	}
	l := &n.kids[key.at(0)]
	if !l.exist {
		return false, nil
	}
	child, err := p.open(*l)
	if err != nil {
		return false, err
	}
	*l = referenceLink{node: child, exist: true}
	if err := n.without(child); err != nil {
		return false, err
	}
	deleted, err := p.remove(child, key.from(1))
	n.rest += child.usage()
	if err != nil || !deleted {
		return false, err
	}
	return true, p.squash(n)
}

// squash gives n the one form that its content has (nearcore ops/squash.rs).
func (p *referenceTrie) squash(n *referenceNode) error {
	if n.kind == Extension {
		return p.extend(n, n.key, n.kid)
	}
	count, last := 0, 0
	for i := range n.kids {
		if k := &n.kids[i]; k.node != nil && k.node.kind == noReferenceNode {
			*k = referenceLink{}
		} else if k.exist {
			count, last = count+1, i
		}
	}
	switch {
	case count == 0 && n.val == nil:
		*n = referenceNode{kind: noReferenceNode}
	case count == 0:
		*n = referenceNode{kind: Leaf, val: n.val}
	case count == 1 && n.val == nil:
		return p.extend(n, single(byte(last)), n.kids[last])
	}
	return nil
}

// extend makes n what ext above the child is, reading the child.
func (p *referenceTrie) extend(n *referenceNode, ext nibs, l referenceLink) error {
	child, err := p.open(l)
	if err != nil {
		return err
	}
	switch child.kind {
	case noReferenceNode:
		*n = referenceNode{kind: noReferenceNode}
	case Leaf:
		*n = referenceNode{kind: Leaf, key: concat(ext, child.key), val: child.val}
	case Branch:
		*n = referenceNode{kind: Extension, key: ext, kid: referenceLink{node: child, exist: true}, rest: child.usage()}
	default:
		*n = referenceNode{kind: Extension, key: concat(ext, child.key), kid: child.kid, rest: child.rest}
	}
	return nil
}

// flatten encodes n and what is new below it.
func (p *referenceTrie) flatten(n *referenceNode) primitives.Hash {
	hashOf := func(l referenceLink) primitives.Hash {
		if l.node != nil {
			return p.flatten(l.node)
		}
		return l.hash
	}
	raw := RawNode{Kind: n.kind, MemoryUsage: n.usage()}
	if n.val != nil {
		raw.Value = *n.val
	}
	switch n.kind {
	case Leaf, Extension:
		raw.Key = make([]byte, hexPrefixLen(n.key.n))
		putHexPrefix(raw.Key, n.key, n.kind == Leaf)
		if n.kind == Extension {
			raw.Child = hashOf(n.kid)
		}
	default:
		if n.val != nil {
			raw.Kind = BranchWithValue
		}
		for i, l := range n.kids {
			if l.exist {
				raw.Mask |= 1 << i
				raw.Children[i] = hashOf(l)
			}
		}
	}
	s := borsh.Marshal(&raw)
	h := primitives.HashBytes(s)
	p.known[h] = s
	return h
}
