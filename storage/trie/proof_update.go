package trie

import (
	"bytes"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// proofUpdateNode is a node that is being changed: a leaf, a branch (possibly with a value), an
// extension, or noNode for an empty place.
type proofUpdateNode struct {
	kind Kind
	has  bool // the node has a value
	val  ValueID
	rest uint64    // memory usage of the children
	key  nibs      // own key of a leaf or an extension
	kids *[16]link // children of a branch
	kid  link      // child of an extension
}

const (
	noNode    Kind = 0xff
	maxRawLen      = 1 + 36 + 2 + 16*32 + rawUsage // maximum length of an encoding without the key
)

// link leads to a node that is being changed, or by hash to an unchanged node. The zero link leads
// nowhere.
type link struct {
	hash *primitives.Hash
	node *proofUpdateNode
}

func (l link) exists() bool { return l.hash != nil || l.node != nil }

func (n *proofUpdateNode) own() (usage uint64) {
	switch n.kind {
	case Leaf, Extension:
		usage = keyCost(hexPrefixLen(n.key.n))
	case Branch:
		usage = costNode
	}
	if n.has {
		usage += valueCost(n.val.Len)
	}
	return usage
}

func (n *proofUpdateNode) usage() uint64 { return n.own() + n.rest }

// without subtracts a child's memory usage from the memory usage of n's children.
func (n *proofUpdateNode) without(child *proofUpdateNode) error {
	u := child.usage()
	if u > n.rest {
		return fmt.Errorf("%w: a child states memory usage %d, more than the %d that the parent states for its remaining "+
			"children", ErrCorrupt, u, n.rest)
	}
	n.rest -= u
	return nil
}

// proofUpdater applies changes to the nodes of a proof, key by key, as nearcore does
// (ops/insert_delete.rs, ops/squash.rs). The memory usages, and which nodes are read, depend on
// this order.
type proofUpdater struct {
	p     *Partial
	rec   *Recording
	out   *Partial
	nodes []proofUpdateNode // preallocated nodes
	kids  [][16]link
	buf   []byte // memory for encodings
}

const nodeChunk = 64 // number of nodes that are allocated at once

func (g *proofUpdater) node(n proofUpdateNode) *proofUpdateNode {
	if len(g.nodes) == cap(g.nodes) {
		g.nodes = make([]proofUpdateNode, 0, nodeChunk)
	}
	g.nodes = append(g.nodes, n)
	return &g.nodes[len(g.nodes)-1]
}

func (g *proofUpdater) branch() *[16]link {
	if len(g.kids) == cap(g.kids) {
		g.kids = make([][16]link, 0, nodeChunk)
	}
	g.kids = g.kids[:len(g.kids)+1]
	return &g.kids[len(g.kids)-1]
}

// updater begins an update that adds about room strings. The new trie keeps strings that previous
// updates added.
func (p *Partial) updater(rec *Recording, room int) *proofUpdater {
	made := &newStrings{list: make([][]byte, 0, room), hashes: make([]primitives.Hash, 0, room)}
	if p.added != nil {
		made.list, made.hashes = append(made.list, p.added.list...), append(made.hashes, p.added.hashes...)
	}
	return &proofUpdater{p: p, rec: rec, out: &Partial{strings: p.strings, added: made}}
}

// Update returns the trie after the changes, which must be in strictly ascending order of keys.
// Update records the old nodes that Forest.Update records. p does not change. The result shares p's
// strings and keeps the values of the changes. After an error nothing has changed except rec.
// Errors: ErrOrder, ErrKeyLen, ErrMissing, ErrCorrupt.
func (p *Partial) Update(changes []Change, rec *Recording) (*Partial, error) {
	g := p.updater(rec, 4*len(changes))
	root := g.node(proofUpdateNode{kind: noNode})
	if !p.root.IsZero() {
		var err error
		if root, err = g.open(link{hash: &p.root}); err != nil {
			return nil, err
		}
	}
	for i := range changes {
		switch c := &changes[i]; {
		case len(c.Key) > MaxKeyLen:
			return nil, ErrKeyLen
		case i > 0 && bytes.Compare(changes[i-1].Key, c.Key) >= 0:
			return nil, fmt.Errorf("%w: key %x came after key %x, which is not below it", ErrOrder, c.Key, changes[i-1].Key)
		case uint64(len(c.Value)) > 1<<32-1:
			return nil, fmt.Errorf("trie: the value of key %x has %d bytes, the limit is %d", c.Key, len(c.Value), uint32(1<<32-1))
		}
	}
	for i := range changes {
		c := &changes[i]
		if c.Value == nil {
			if _, err := g.remove(root, keyNibs(c.Key, 0)); err != nil {
				return nil, err
			}
			continue
		}
		v := ValueID{uint32(len(c.Value)), g.out.added.add(c.Value)}
		if err := g.insert(root, keyNibs(c.Key, 0), v); err != nil {
			return nil, err
		}
	}
	return g.finish(root)
}

// finish encodes the new trie.
func (g *proofUpdater) finish(root *proofUpdateNode) (*Partial, error) {
	if root.kind != noNode {
		h, err := g.flatten(root)
		if err != nil {
			return nil, err
		}
		g.out.root, g.out.usage = *h, root.usage()
	}
	return g.out, nil
}

// open returns the changeable node of a link. If the node is unchanged so far, open reads it from
// the proof.
func (g *proofUpdater) open(l link) (*proofUpdateNode, error) {
	if l.node != nil {
		return l.node, nil
	}
	raw, err := g.p.node(l.hash, g.rec)
	if err != nil {
		return nil, err
	}
	n := g.node(proofUpdateNode{kind: raw.kind, has: raw.hasValue(), rest: raw.usage - raw.own()})
	if n.has {
		n.val = raw.valueID()
	}
	switch raw.kind {
	case Leaf:
		n.key = extNibs(raw.key)
	case Extension:
		n.key, n.kid = extNibs(raw.key), link{hash: raw.child()}
	default:
		n.kind, n.kids = Branch, g.branch()
		for i := range n.kids {
			n.kids[i].hash = raw.kid(byte(i))
		}
	}
	return n, nil
}

// insert sets key below n, in place.
func (g *proofUpdater) insert(n *proofUpdateNode, key nibs, v ValueID) error {
	switch n.kind {
	case noNode:
		*n = proofUpdateNode{kind: Leaf, key: key, has: true, val: v}
		return nil
	case Branch:
		if key.n == 0 {
			n.has, n.val = true, v
			return nil
		}
		l := &n.kids[key.at(0)]
		var child *proofUpdateNode
		if l.exists() {
			var err error
			if child, err = g.open(*l); err != nil {
				return err
			}
		} else {
			child = g.node(proofUpdateNode{kind: noNode})
		}
		if err := n.without(child); err != nil {
			return err
		}
		err := g.insert(child, key.from(1), v)
		n.rest += child.usage()
		*l = link{node: child}
		return err
	}
	l := commonPrefix(key, n.key)
	switch {
	case n.kind == Leaf && l == n.key.n && l == key.n:
		n.has, n.val = true, v
		return nil
	case n.kind == Extension && l == n.key.n:
		child, err := g.open(n.kid)
		if err != nil {
			return err
		}
		err = g.insert(child, key.from(l), v)
		n.rest, n.kid = child.usage(), link{node: child}
		return err
	}
	// The node's key diverges from the changed key after l nibbles. A branch is made there, below
	// an extension if l > 0.
	below := g.node(*n)
	below.key = n.key.from(l)
	branch := g.node(proofUpdateNode{kind: Branch, kids: g.branch()})
	if below.kind == Leaf && below.key.n == 0 {
		branch.has, branch.val = true, below.val
	} else {
		i := below.key.at(0)
		below.key = below.key.from(1)
		if below.kind == Extension && below.key.n == 0 {
			branch.kids[i], branch.rest = below.kid, below.rest
		} else {
			branch.kids[i], branch.rest = link{node: below}, below.usage()
		}
	}
	if err := g.insert(branch, key.from(l), v); err != nil {
		return err
	}
	if l == 0 {
		*n = *branch
	} else {
		*n = proofUpdateNode{kind: Extension, key: n.key.first(l), kid: link{node: branch}, rest: branch.usage()}
	}
	return nil
}

// remove deletes key below n, in place, and returns whether it existed.
func (g *proofUpdater) remove(n *proofUpdateNode, key nibs) (bool, error) {
	switch n.kind {
	case noNode:
		return false, nil
	case Leaf:
		if compareNibs(key, n.key) != 0 {
			return false, nil
		}
		*n = proofUpdateNode{kind: noNode}
		return true, nil
	case Extension:
		if commonPrefix(key, n.key) < n.key.n {
			return false, nil
		}
		child, err := g.open(n.kid)
		if err != nil {
			return false, err
		}
		n.kid = link{node: child}
		deleted, err := g.remove(child, key.from(n.key.n))
		n.rest = child.usage()
		if err != nil || !deleted {
			return false, err
		}
		return true, g.squash(n)
	}
	if key.n == 0 {
		if !n.has {
			return false, nil
		}
		n.has, n.val = false, ValueID{}
		return true, g.squash(n)
	}
	l := &n.kids[key.at(0)]
	if !l.exists() {
		return false, nil
	}
	child, err := g.open(*l)
	if err != nil {
		return false, err
	}
	*l = link{node: child}
	if err := n.without(child); err != nil {
		return false, err
	}
	deleted, err := g.remove(child, key.from(1))
	n.rest += child.usage()
	if err != nil || !deleted {
		return false, err
	}
	return true, g.squash(n)
}

// squash brings n into canonical form. For example, it replaces a branch that has one child and no
// value.
func (g *proofUpdater) squash(n *proofUpdateNode) error {
	if n.kind == Extension {
		return g.extend(n, n.key, n.kid)
	}
	if n.kind != Branch {
		return nil
	}
	count, last := 0, 0
	for i := range n.kids {
		if k := &n.kids[i]; k.node != nil && k.node.kind == noNode {
			*k = link{}
		} else if k.exists() {
			count, last = count+1, i
		}
	}
	switch {
	case count == 0 && !n.has:
		*n = proofUpdateNode{kind: noNode}
	case count == 0:
		*n = proofUpdateNode{kind: Leaf, has: true, val: n.val}
	case count == 1 && !n.has:
		return g.extend(n, single(byte(last)), n.kids[last])
	}
	return nil
}

// extend makes n the node that has the key ext and leads to l. extend reads l, because a leaf or an
// extension is joined with ext into one node.
func (g *proofUpdater) extend(n *proofUpdateNode, ext nibs, l link) error {
	child, err := g.open(l)
	if err != nil {
		return err
	}
	switch child.kind {
	case noNode:
		*n = proofUpdateNode{kind: noNode}
	case Leaf:
		*n = proofUpdateNode{kind: Leaf, key: concat(ext, child.key), has: true, val: child.val}
	case Branch:
		*n = proofUpdateNode{kind: Extension, key: ext, kid: link{node: child}, rest: child.usage()}
	default:
		*n = proofUpdateNode{kind: Extension, key: concat(ext, child.key), kid: child.kid, rest: child.rest}
	}
	return nil
}

// flatten encodes n and all new nodes below it.
func (g *proofUpdater) flatten(n *proofUpdateNode) (h *primitives.Hash, err error) {
	var hashes [16]*primitives.Hash
	mask := uint16(0)
	switch n.kind {
	case Extension:
		hashes[0], err = g.hashOf(n.kid)
	case Branch:
		for i := 0; i < len(n.kids) && err == nil; i++ {
			if n.kids[i].exists() {
				mask |= 1 << i
				hashes[i], err = g.hashOf(n.kids[i])
			}
		}
	}
	if err == nil && n.usage() > maxUsage {
		err = fmt.Errorf("%w: a node states memory usage %d, the limit is %d", ErrCorrupt, n.usage(), uint64(maxUsage))
	}
	if err != nil {
		return nil, err
	}
	if cap(g.buf)-len(g.buf) < maxRawLen+len(n.key.b) {
		g.buf = make([]byte, 0, max(1<<14, 2*(maxRawLen+len(n.key.b))))
	}
	from := len(g.buf)
	b := g.buf
	value := func() { b = append(borsh.AppendUint32(b, n.val.Len), n.val.Hash[:]...) }
	switch n.kind {
	case Leaf, Extension:
		l := hexPrefixLen(n.key.n)
		b = borsh.AppendUint32(append(b, byte(n.kind)), uint32(l))
		at := len(b)
		b = append(b, make([]byte, l)...)
		putHexPrefix(b[at:], n.key, n.kind == Leaf)
		if n.kind == Leaf {
			value()
		} else {
			b = append(b, hashes[0][:]...)
		}
	default:
		if n.has {
			b = append(b, byte(BranchWithValue))
			value()
		} else {
			b = append(b, byte(Branch))
		}
		b = borsh.AppendUint16(b, mask)
		for _, h := range hashes {
			if h != nil {
				b = append(b, h[:]...)
			}
		}
	}
	g.buf = borsh.AppendUint64(b, n.usage())
	made := g.out.added.add(g.buf[from:len(g.buf):len(g.buf)])
	return &made, nil
}

func (g *proofUpdater) hashOf(l link) (*primitives.Hash, error) {
	if l.node != nil {
		return g.flatten(l.node)
	}
	return l.hash, nil
}

// RetainIntervals returns the trie with only the keys in the intervals, and records what
// Forest.RetainIntervals records (nearcore ops/resharding.rs retain_multi_range). Validators use it
// to verify the state of a child of a split shard.
func (p *Partial) RetainIntervals(keep []Interval, rec *Recording) (*Partial, error) {
	g := p.updater(rec, 0)
	if p.root.IsZero() {
		return g.out, nil
	}
	re := retainer{}
	for _, i := range keep {
		re.from = append(re.from, keyNibs(i.From, 0).appendNibbles(nil))
		re.to = append(re.to, keyNibs(i.To, 0).appendNibbles(nil))
	}
	root, err := g.open(link{hash: &p.root})
	if err != nil {
		return nil, err
	}
	if err := g.retain(root, nil, &re); err != nil {
		return nil, err
	}
	return g.finish(root)
}

// retain removes from the subtree n, in place, all keys outside the intervals.
func (g *proofUpdater) retain(n *proofUpdateNode, path []byte, re *retainer) error {
	if len(path) > 2*MaxKeyLen {
		return fmt.Errorf("%w: the proof contains keys of more than %d bytes", ErrCorrupt, MaxKeyLen)
	}
	all, none := re.decide(path)
	if all {
		return nil
	}
	if none {
		*n = proofUpdateNode{kind: noNode}
		return nil
	}
	switch n.kind {
	case Leaf:
		if !re.keeps(n.key.appendNibbles(bytes.Clone(path))) {
			*n = proofUpdateNode{kind: noNode}
		}
		return nil
	case Extension:
		child, err := g.open(n.kid)
		if err != nil {
			return err
		}
		if err := g.retain(child, n.key.appendNibbles(bytes.Clone(path)), re); err != nil {
			return err
		}
		n.kid, n.rest = link{node: child}, child.usage()
		return g.squash(n)
	}
	if n.has && !re.keeps(path) {
		n.has, n.val = false, ValueID{}
	}
	n.rest = 0
	for i := range n.kids {
		if !n.kids[i].exists() {
			continue
		}
		child, err := g.open(n.kids[i])
		if err != nil {
			return err
		}
		if err := g.retain(child, append(bytes.Clone(path), byte(i)), re); err != nil {
			return err
		}
		n.kids[i] = link{node: child}
		n.rest += child.usage()
	}
	return g.squash(n)
}
