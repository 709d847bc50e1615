package trie

import (
	"bytes"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// Interval is the range of keys from From (inclusive) to To (exclusive).
type Interval struct{ From, To []byte }

// sharedColumns are inherited by both children of a split shard: the delayed queue, yields that may
// time out, the bandwidth scheduler, global contracts. leftColumns, the buffered receipts, are
// inherited by the left child only. Keys of all other columns begin with an account, and go to the
// child that has the account (nearcore ops/resharding.rs:33).
var (
	sharedColumns = []primitives.TrieColumn{
		primitives.ColDelayedReceipt, primitives.ColPromiseYieldIndices, primitives.ColPromiseYieldTimeout,
		primitives.ColBandwidthScheduler, primitives.ColGlobalContractCode, primitives.ColGlobalContractNonce,
	}
	leftColumns = []primitives.TrieColumn{
		primitives.ColBufferedReceiptIndices, primitives.ColBufferedReceipt, primitives.ColBufferedGroups,
		primitives.ColBufferedGroup,
	}
	accountColumns = []primitives.TrieColumn{
		primitives.ColAccount, primitives.ColContractCode, primitives.ColAccessKey,
		primitives.ColReceivedData, primitives.ColPostponedReceiptID, primitives.ColPendingDataCount,
		primitives.ColPostponedReceipt, primitives.ColContractData, primitives.ColPromiseYieldReceipt,
		primitives.ColPromiseYieldStatus, primitives.ColYieldIDToDataID, primitives.ColDataIDToYieldID,
	}
)

// SplitIntervals returns the keys that the left or the right child keeps when a shard is split at
// boundary.
func SplitIntervals(boundary primitives.AccountID, left bool) (out []Interval) {
	whole := func(columns []primitives.TrieColumn) {
		for _, c := range columns {
			out = append(out, Interval{[]byte{byte(c)}, []byte{byte(c) + 1}})
		}
	}
	for _, c := range accountColumns {
		at := append([]byte{byte(c)}, boundary...)
		if left {
			out = append(out, Interval{[]byte{byte(c)}, at})
		} else {
			out = append(out, Interval{at, []byte{byte(c) + 1}})
		}
	}
	whole(sharedColumns)
	if left {
		whole(leftColumns)
	}
	return out
}

// Kept returns whether one of the intervals contains the key.
func Kept(keep []Interval, key []byte) bool {
	for i := range keep {
		if bytes.Compare(keep[i].From, key) <= 0 && bytes.Compare(key, keep[i].To) < 0 {
			return true
		}
	}
	return false
}

// RetainIntervals derives a root with only those keys of r that are in one of the intervals. rec
// records the nodes that nearcore reads (ops/resharding.rs). These nodes are the root, every child
// of a node in which an interval begins or ends, and the nodes that are merged (squashed) when
// branches lose children.
func (f *Forest) RetainIntervals(r *Root, keep []Interval, rec *Recording) (*Root, error) {
	if r.forest != f {
		panic("trie: root of another forest")
	}
	f.mu.Lock()
	defer f.unlock()
	id := f.nextID()
	// Do not reuse f.killed as Update does: publish keeps the slice re.killed in the new root.
	re := retainer{updater: updater{nodeWriter: f.nodeWriter(id), rec: rec}}
	for _, i := range keep {
		re.from = append(re.from, keyNibs(i.From, 0).appendNibbles(nil))
		re.to = append(re.to, keyNibs(i.To, 0).appendNibbles(nil))
	}
	var ref uint32
	var err error
	if r.ref != 0 {
		var s sub
		if err = re.touch(r.ref); err == nil {
			s, err = re.retain(r.ref, nil)
		}
		if err == nil {
			ref, err = re.commit(&s)
		}
	}
	if err != nil {
		re.undo()
		return nil, err
	}
	return f.publish(r, ref, id, re.killed), nil
}

type retainer struct {
	updater
	from, to [][]byte // bounds of the intervals in nibbles
}

// keeps returns whether an interval contains the key.
func (re *retainer) keeps(path []byte) bool {
	for i := range re.from {
		if bytes.Compare(re.from[i], path) <= 0 && bytes.Compare(path, re.to[i]) < 0 {
			return true
		}
	}
	return false
}

// decide returns whether all keys below path stay, or none does. If all and none are false, some
// keys may stay.
func (re *retainer) decide(path []byte) (all, none bool) {
	none = true
	for i := range re.from {
		switch {
		case bytes.HasPrefix(re.from[i], path) || bytes.HasPrefix(re.to[i], path):
			none = false
		case bytes.Compare(re.from[i], path) <= 0 && bytes.Compare(path, re.to[i]) < 0:
			return true, false
		}
	}
	return false, none
}

// discard records that the new version contains nothing of the subtree at ref.
func (re *retainer) discard(ref uint32) {
	d := deadOf(ref, re.mem.at(ref))
	d.flags |= deadDeep
	re.killed = append(re.killed, d)
}

// look records the read of a child, because nearcore loads a child before nearcore decides whether
// to keep it. Without a recorder the child is not loaded.
func (re *retainer) look(ref uint32) error {
	if re.rec == nil {
		return nil
	}
	return re.touch(ref)
}

// retain returns the subtree at ref with only the keys in the intervals.
func (re *retainer) retain(ref uint32, path []byte) (sub, error) {
	unchanged := sub{kind: subOld, ref: ref}
	all, none := re.decide(path)
	if all {
		return unchanged, nil
	}
	if none {
		re.discard(ref)
		return sub{}, nil
	}
	top, n, err := re.open(ref)
	if err != nil {
		return sub{}, err
	}
	replaced := func() {
		re.kill(top)
		if top != ref {
			re.kill(ref)
		}
	}
	switch n.kind() {
	case kindLeaf:
		if re.keeps(extNibs(n.ext()).appendNibbles(bytes.Clone(path))) {
			return unchanged, nil
		}
		replaced()
		return sub{}, nil
	case kindExtension:
		child := n.child()
		if err := re.look(child); err != nil {
			return sub{}, err
		}
		s, err := re.retain(child, extNibs(n.ext()).appendNibbles(bytes.Clone(path)))
		if err != nil || s.kind == subOld && s.ref == child {
			return unchanged, err
		}
		replaced()
		return re.prepend(extNibs(n.ext()), s)
	}
	var res [16]sub
	var val *value
	count, changed := 0, false
	if n.hasValue() {
		if re.keeps(path) {
			v := re.forest.oldValue(n)
			val = &v
		} else {
			changed = true
		}
	}
	for i := range byte(16) {
		child := n.kid(i)
		if child == 0 {
			continue
		}
		if err := re.look(child); err != nil {
			return sub{}, err
		}
		if res[i], err = re.retain(child, append(bytes.Clone(path), i)); err != nil {
			return sub{}, err
		}
		if res[i].kind != subNone {
			count++
		}
		changed = changed || res[i].kind != subOld
	}
	if !changed {
		return unchanged, nil
	}
	replaced()
	return re.join(0, new([16]cursor), &res, 0xffff, val, count, false)
}

// Inherit makes a root that equals r, a root of another forest that the source lends. Nothing is
// copied at first. When a subtree is first read, a few nodes of the subtree are copied, without
// hashing them again.
func (f *Forest) Inherit(r *Root) (*Root, error) {
	f.mu.Lock()
	defer f.unlock()
	id := f.nextID()
	if r.ref == 0 {
		return f.publish(nil, 0, id, nil), nil
	}
	mk := f.nodeWriter(id)
	ref, err := mk.hashNode(r.forest.arena.mem().at(r.ref), nil)
	if err != nil {
		mk.undo()
		return nil, err
	}
	mk.done()
	return f.publish(nil, ref, id, nil), nil
}

// hashNode makes a hash node that replaces n, which lies at path.
func (mk *nodeWriter) hashNode(n node, path []byte) (uint32, error) {
	ref, c, err := mk.newHashNode(path, mk.forest.source.Load())
	if err != nil {
		return 0, err
	}
	c.setUsage(n.usage())
	copy(c.hash(), n.hash())
	return ref, nil
}

// copyBorrowed copies the top of the subtree of the hash node n from the root that the source
// lends, for the child of a split shard. copyBorrowed returns 0 if that root is gone. The caller
// holds the writer's lock.
func (f *Forest) copyBorrowed(n node, s *hashNode, src *Source) (ref uint32, err error) {
	if src.Borrow == nil {
		return 0, nil
	}
	err = src.Borrow(func(r *Root) error {
		at, err := r.at(s.path)
		if err != nil {
			return err
		}
		mk := f.nodeWriter(n.birth())
		made, err := mk.copy(r.forest, at, s.path, copyLevels)
		if err == nil && !bytes.Equal(mk.mem.at(made).hash(), n.hash()) {
			err = fmt.Errorf("%w: the copied subtree at path %x does not have the hash that it has in the split shard's trie", ErrCorrupt, s.path)
		}
		if err != nil {
			mk.undo()
			return err
		}
		mk.done()
		ref = made
		s.row.target.Store(ref)
		return nil
	})
	return ref, err
}

// at returns the node at a path, which has one nibble in each byte. The path must end where the
// node's own key begins.
func (r *Root) at(path []byte) (uint32, error) {
	ref := r.ref
	for len(path) > 0 && ref != 0 {
		_, n, err := r.forest.resolve(ref, false)
		if err != nil {
			return 0, err
		}
		switch n.kind() {
		case kindExtension:
			ext := extNibs(n.ext()).appendNibbles(nil)
			if !bytes.HasPrefix(path, ext) {
				return 0, fmt.Errorf("%w: there is no node at the end of path %x", ErrCorrupt, path)
			}
			ref, path = n.child(), path[len(ext):]
		case kindBranch, kindBranchValue:
			ref, path = n.kid(path[0]), path[1:]
		default:
			ref = 0
		}
	}
	if ref == 0 {
		return 0, fmt.Errorf("%w: there is no node at the end of path %x", ErrCorrupt, path)
	}
	return ref, nil
}

// copyLevels is the number of levels above the frontier that are copied at once. That is about 16
// nodes, with up to 16 hash nodes below each.
const copyLevels = 2

// copy copies the node at ref of the forest other, and nodes below that node. A subtree that is
// loaded as one unit is copied completely. Of a larger subtree, the given number of levels is
// copied, with hash nodes below.
func (mk *nodeWriter) copy(other *Forest, ref uint32, path []byte, levels int) (uint32, error) {
	_, n, err := other.resolve(ref, false)
	if err != nil {
		return 0, err
	}
	above := n.kind() != kindLeaf && n.usage() >= mk.forest.frontier
	below := func(c uint32, path []byte) (uint32, error) {
		if k := other.arena.mem().at(c); above && (levels == 1 || k.usage() < mk.forest.frontier) {
			return mk.hashNode(k, path)
		}
		return mk.copy(other, c, path, levels-1)
	}
	var kids [16]uint32
	for i := range byte(16) {
		if c := n.kid(i); c != 0 {
			if kids[i], err = below(c, append(path[:len(path):len(path)], i)); err != nil {
				return 0, err
			}
		}
	}
	var v value
	extra := 0
	if n.hasValue() {
		v = other.oldValue(n)
		v.shared = false
		extra = valueSize(&v)
	}
	var child uint32
	if n.kind() == kindExtension {
		if child, err = below(n.child(), extNibs(n.ext()).appendNibbles(path[:len(path):len(path)])); err != nil {
			return 0, err
		}
	}
	made, c, err := mk.alloc(n.kind(), n.mask(), n.extLen(), extra)
	if err != nil {
		return 0, err
	}
	copy(c.hash(), n.hash())
	copy(c.raw(), n.raw())
	c.setKids(&kids)
	c.setChild(child)
	if n.hasValue() {
		mk.setValue(c, &v)
	}
	return made, nil
}
