package trie

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// judgeTrie is a slow second implementation against which Forest and Partial are compared: strings
// by hash, and every change key by key as nearcore does it (ops/insert_delete.rs, ops/squash.rs).
// It remembers what it read.
type judgeTrie struct {
	root    primitives.Hash
	known   map[primitives.Hash][]byte
	visited []primitives.Hash
	seen    map[primitives.Hash]bool
}

// newJudge takes the byte strings of a proof, which it keeps. Nothing in them is trusted except
// that a string has its hash.
func newJudge(strings [][]byte, root primitives.Hash) *judgeTrie {
	p := &judgeTrie{root: root, known: make(map[primitives.Hash][]byte, len(strings)), seen: map[primitives.Hash]bool{}}
	for _, s := range strings {
		p.known[primitives.HashBytes(s)] = s
	}
	return p
}

// Root returns the state root.
func (p *judgeTrie) Root() primitives.Hash { return p.root }

// Visited returns the hashes of the strings read so far, in the order of their first reading.
func (p *judgeTrie) Visited() []primitives.Hash { return p.visited }

// Bytes returns the string of a hash, nil if unknown; it is read only.
func (p *judgeTrie) Bytes(h primitives.Hash) []byte { return p.known[h] }

// Forget makes nothing visited.
func (p *judgeTrie) Forget() { p.visited, p.seen = nil, map[primitives.Hash]bool{} }

// Strings returns all known strings in ascending order.
func (p *judgeTrie) Strings() [][]byte {
	out := make([][]byte, 0, len(p.known))
	for _, s := range p.known {
		out = append(out, s)
	}
	slices.SortFunc(out, slices.Compare)
	return out
}

// read returns the string of a hash and marks it as visited.
func (p *judgeTrie) read(h primitives.Hash) ([]byte, error) {
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
func (p *judgeTrie) Node(h primitives.Hash) (*RawNode, error) {
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
func (p *judgeTrie) Lookup(key []byte) (v ValueID, found bool, err error) {
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
func (p *judgeTrie) Get(key []byte) ([]byte, error) {
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

// judgeNode is a node under change: kind leaf, branch or extension, or 0xff for an empty place.
type judgeNode struct {
	kind Kind // Branch also with a value
	key  nibs
	val  *ValueID
	kids [16]judgeLink // branch
	kid  judgeLink     // extension
	rest uint64        // memory usage of the children
}

const noJudgeNode Kind = 0xff

// judgeLink leads to a node under change, or by hash to one that is as it was.
type judgeLink struct {
	hash  primitives.Hash
	node  *judgeNode
	exist bool
}

func (n *judgeNode) own() (usage uint64) {
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

func (n *judgeNode) usage() uint64 { return n.own() + n.rest }

// without takes a child's usage off that of n's children.
func (n *judgeNode) without(child *judgeNode) error {
	u := child.usage()
	if u > n.rest {
		return fmt.Errorf("%w: a child uses %d of its parent's %d", ErrCorrupt, u, n.rest)
	}
	n.rest -= u
	return nil
}

// open makes the node of a judgeLink changeable, reading it if it is as it was.
func (p *judgeTrie) open(l judgeLink) (*judgeNode, error) {
	if l.node != nil {
		return l.node, nil
	}
	raw, err := p.Node(l.hash)
	if err != nil {
		return nil, err
	}
	n := &judgeNode{kind: raw.Kind}
	switch raw.Kind {
	case Leaf:
		n.key, n.val = extNibs(raw.Key), &raw.Value
	case Extension:
		n.key, n.kid = extNibs(raw.Key), judgeLink{hash: raw.Child, exist: true}
	default:
		n.kind = Branch
		if raw.Kind == BranchWithValue {
			n.val = &raw.Value
		}
		for i := range n.kids {
			n.kids[i] = judgeLink{hash: raw.Children[i], exist: raw.Mask>>i&1 == 1}
		}
	}
	if n.rest = raw.MemoryUsage - n.own(); n.rest > raw.MemoryUsage {
		return nil, fmt.Errorf("%w: node %v claims a memory usage of %d", ErrCorrupt, l.hash, raw.MemoryUsage)
	}
	return n, nil
}

// Update returns the trie with the changes made in their order. p remembers what was read.
func (p *judgeTrie) Update(changes []Change) (*judgeTrie, error) {
	root := &judgeNode{kind: noJudgeNode}
	if !p.root.IsZero() {
		var err error
		if root, err = p.open(judgeLink{hash: p.root, exist: true}); err != nil {
			return nil, err
		}
	}
	out := &judgeTrie{known: make(map[primitives.Hash][]byte, len(p.known)), seen: map[primitives.Hash]bool{}}
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
	if root.kind != noJudgeNode {
		out.root = out.flatten(root)
	}
	return out, nil
}

// insert sets key below n, in place.
func (p *judgeTrie) insert(n *judgeNode, key nibs, v ValueID) error {
	switch n.kind {
	case noJudgeNode:
		*n = judgeNode{kind: Leaf, key: key, val: &v}
		return nil
	case Branch:
		if key.n == 0 {
			n.val = &v
			return nil
		}
		child := &judgeNode{kind: noJudgeNode}
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
		n.kids[key.at(0)] = judgeLink{node: child, exist: true}
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
		n.rest, n.kid = child.usage(), judgeLink{node: child, exist: true}
		return err
	}
	// The node parts from the key after l nibbles: a branch comes there, below an extension if l > 0.
	below := *n
	below.key = n.key.from(l)
	branch := &judgeNode{kind: Branch}
	if below.kind == Leaf && below.key.n == 0 {
		branch.val = below.val
	} else {
		i := below.key.at(0)
		below.key = below.key.from(1)
		if below.kind == Extension && below.key.n == 0 {
			branch.kids[i], branch.rest = below.kid, below.rest
		} else {
			branch.kids[i], branch.rest = judgeLink{node: &below, exist: true}, below.usage()
		}
	}
	if err := p.insert(branch, key.from(l), v); err != nil {
		return err
	}
	if l == 0 {
		*n = *branch
	} else {
		*n = judgeNode{kind: Extension, key: n.key.first(l), kid: judgeLink{node: branch, exist: true}, rest: branch.usage()}
	}
	return nil
}

// remove deletes key below n, in place, and returns whether it existed.
func (p *judgeTrie) remove(n *judgeNode, key nibs) (bool, error) {
	switch n.kind {
	case noJudgeNode:
		return false, nil
	case Leaf:
		if compareNibs(key, n.key) != 0 {
			return false, nil
		}
		*n = judgeNode{kind: noJudgeNode}
		return true, nil
	case Extension:
		if commonPrefix(key, n.key) < n.key.n {
			return false, nil
		}
		child, err := p.open(n.kid)
		if err != nil {
			return false, err
		}
		n.kid = judgeLink{node: child, exist: true}
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
	*l = judgeLink{node: child, exist: true}
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
func (p *judgeTrie) squash(n *judgeNode) error {
	if n.kind == Extension {
		return p.extend(n, n.key, n.kid)
	}
	count, last := 0, 0
	for i := range n.kids {
		if k := &n.kids[i]; k.node != nil && k.node.kind == noJudgeNode {
			*k = judgeLink{}
		} else if k.exist {
			count, last = count+1, i
		}
	}
	switch {
	case count == 0 && n.val == nil:
		*n = judgeNode{kind: noJudgeNode}
	case count == 0:
		*n = judgeNode{kind: Leaf, val: n.val}
	case count == 1 && n.val == nil:
		return p.extend(n, single(byte(last)), n.kids[last])
	}
	return nil
}

// extend makes n what ext above the child is, reading the child.
func (p *judgeTrie) extend(n *judgeNode, ext nibs, l judgeLink) error {
	child, err := p.open(l)
	if err != nil {
		return err
	}
	switch child.kind {
	case noJudgeNode:
		*n = judgeNode{kind: noJudgeNode}
	case Leaf:
		*n = judgeNode{kind: Leaf, key: concat(ext, child.key), val: child.val}
	case Branch:
		*n = judgeNode{kind: Extension, key: ext, kid: judgeLink{node: child, exist: true}, rest: child.usage()}
	default:
		*n = judgeNode{kind: Extension, key: concat(ext, child.key), kid: child.kid, rest: child.rest}
	}
	return nil
}

// flatten encodes n and what is new below it.
func (p *judgeTrie) flatten(n *judgeNode) primitives.Hash {
	hashOf := func(l judgeLink) primitives.Hash {
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
