package trie

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// FrontierEntry describes a subtree or a value of the trie by its place and hash. The frontier is
// the set of all such entries, in several levels. A level has the maximal subtrees with a memory
// usage below the level's limit, the single leaves above the limit, and the values of the branches
// above these subtrees. The entries are stored when the flat head advances. After a start, the trie
// is rebuilt from the entries from the top, only as deep as the trie is read.
type FrontierEntry struct {
	// Path is the path to the subtree's top node, without the node's own key. For a value, Path is
	// the value's key. Each byte is a nibble.
	Path    []byte
	Hash    primitives.Hash // hash of the top node, or of the value
	Size    uint64          // memory usage of the subtree, or length of the value
	IsValue bool
	Data    []byte // the value, if it is short; nil: Source.Load yields it
}

// AppendBorsh appends everything except the path, which is the key under which the entry is stored.
func (e *FrontierEntry) AppendBorsh(b []byte) []byte {
	b = borsh.AppendBool(b, e.IsValue)
	b = borsh.AppendUint64(append(b, e.Hash[:]...), e.Size)
	b = borsh.AppendBool(b, e.Data != nil)
	if e.Data != nil {
		b = borsh.AppendBytes(b, e.Data)
	}
	return b
}

// DecodeBorsh reads everything except the path.
func (e *FrontierEntry) DecodeBorsh(r *borsh.Reader) {
	e.IsValue, e.Hash, e.Size, e.Data = r.Bool(), primitives.ReadHash(r), r.Uint64(), nil
	if r.Option() {
		e.Data = r.BytesCopy()
	}
}

// diffPlace is a position in one of the two tries that are compared. The position is at a node,
// below the first skip nibbles of the node's key. on has the levels on which the position is still
// compared.
type diffPlace struct {
	ref  uint32
	n    node
	skip int
	on   levelSet
}

// The frontier.
//
// Problem: a state of many gigabytes must be usable right after a start, with its root hash
// verified, and memory must hold only the part that is used. Reading the whole flat state at start
// would take minutes, and storing all nodes would multiply the writes.
//
// Invariants: on each level that has entries, the entries cover all keys of the trie without
// overlap. Every entry has the hash and memory usage of its subtree. So a load can verify the data
// that it read against the entry, and the root's entry is verified against the block.
//
// Outline: level i has the maximal subtrees with a memory usage below DefaultFrontier * 16^i. The
// highest level has only the root. A start reads the root's entry and makes a hash node of that
// entry. To load a hash node, the loader reads the entries within the node's subtree, on the
// highest level that divides the subtree. These entries become hash nodes in turn. A hash node
// below the limit of the lowest level is loaded from the pairs of the flat state. When the flat
// head advances, FrontiersSince computes the changed entries of all levels in one walk over both
// versions.
//
// Rejected: only one level, because for a large state reading its entries would take minutes;
// storing nodes by hash, as in nearcore's State column, because every update would write all nodes
// on the paths of its keys.

// frontierDiff compares two roots from the top, on several levels at once.
type frontierDiff struct {
	f       *Forest
	path    []byte
	paths   []byte // memory from which copyPath allocates
	put     [Levels][]FrontierEntry
	removed [Levels][][]byte
}

// pathPiece is the number of bytes of paths that are allocated at once.
const pathPiece = 8 << 10

// copyPath returns a copy of the current path.
func (d *frontierDiff) copyPath() []byte {
	n := len(d.path)
	if cap(d.paths)-len(d.paths) < n {
		d.paths = make([]byte, 0, max(pathPiece, n))
	}
	at := len(d.paths)
	d.paths = append(d.paths, d.path...)
	return d.paths[at : at+n : at+n]
}

// levelSet is a bit set of levels.
type levelSet uint

const allLevels levelSet = 1<<Levels - 1

// Frontier returns all entries of a level of r, by ascending path.
func (r *Root) Frontier(level int) ([]FrontierEntry, error) {
	put, _, err := r.FrontierSince(nil, level)
	return put, err
}

// FrontierSince returns how a level of r's frontier differs from that of another root of the same
// forest (nil: the empty trie). put has entries that are new or replace the entry with the same
// path; removed has paths without an entry now. put and removed are ascending. A whole trie whose
// memory usage is below the level's limit has no entries on that level, since nothing would ever
// read them. The lowest and the highest level are exceptions.
func (r *Root) FrontierSince(old *Root, level int) (put []FrontierEntry, removed [][]byte, err error) {
	puts, gone, err := r.frontiersSince(old, 1<<level)
	return puts[level], gone[level], err
}

// FrontiersSince does the same as FrontierSince for all levels, in one walk.
func (r *Root) FrontiersSince(old *Root) (put [Levels][]FrontierEntry, removed [Levels][][]byte, err error) {
	return r.frontiersSince(old, allLevels)
}

func (r *Root) frontiersSince(old *Root,
	levels levelSet) (put [Levels][]FrontierEntry, removed [Levels][][]byte, err error) {
	d := frontierDiff{f: r.forest}
	place := func(r *Root) (p diffPlace) {
		if r == nil || r.ref == 0 {
			return p
		}
		p.ref, p.n, p.on = r.ref, d.f.arena.mem().at(r.ref), levels
		for level := 1; level < Top; level++ {
			if r.usage < d.f.levels[level] {
				p.on &^= 1 << level
			}
		}
		return p
	}
	a, b := place(old), place(r)
	if err := d.diff(a, b); err != nil {
		return put, removed, err
	}
	for level := range Levels {
		sortDiff(&d.put[level], &d.removed[level])
	}
	return d.put, d.removed, nil
}

// sortDiff sorts both lists by path and deletes from removed the paths that are in put. The lists
// are nearly sorted: the walk emits in order except where the trie's shape changed.
func sortDiff(put *[]FrontierEntry, removed *[][]byte) {
	slices.SortFunc(*put, func(x, y FrontierEntry) int { return bytes.Compare(x.Path, y.Path) })
	slices.SortFunc(*removed, bytes.Compare)
	i := 0
	*removed = slices.DeleteFunc(*removed, func(path []byte) bool {
		for i < len(*put) && bytes.Compare((*put)[i].Path, path) < 0 {
			i++
		}
		return i < len(*put) && bytes.Equal((*put)[i].Path, path)
	})
}

// below returns whether the place is empty, or a subtree that is one entry of a level.
func (d *frontierDiff) below(p diffPlace, level int) bool {
	return p.ref == 0 || p.n.kind() == kindLeaf || p.n.usage() < d.f.levels[level]
}

// diff compares the two nodes at the current path.
func (d *frontierDiff) diff(old, new diffPlace) error {
	if old.ref == new.ref && old.skip == new.skip ||
		old.ref != 0 && new.ref != 0 && old.skip == 0 && new.skip == 0 && old.on&new.on != 0 &&
			bytes.Equal(old.n.hash(), new.n.hash()) {
		old.on, new.on = old.on&^new.on, new.on&^old.on // the other levels were compared higher up already
	}
	for _, p := range []*diffPlace{&old, &new} {
		if p.ref == 0 {
			p.on = 0
		}
		// Resolve a hash node, unless it stands for a large leaf.
		if p.on != 0 && p.n.kind() == kindHash && !d.below(*p, bits.TrailingZeros(uint(p.on))) {
			var err error
			if p.ref, p.n, err = d.f.resolve(p.ref, false); err != nil {
				return err
			}
		}
	}
	d.entries(&old, &new)
	if old.on|new.on == 0 {
		return nil
	}
	// Both sides are above the limit of some level: walk their branches and extensions together.
	d.values(old, new)
	for m := old.nibbles() | new.nibbles(); m != 0; m &= m - 1 {
		i := byte(bits.TrailingZeros16(m))
		a, b := d.step(old, i), d.step(new, i)
		if a.ref == b.ref && a.skip == b.skip && a.on == b.on { // nearly all children are equal
			continue
		}
		d.path = append(d.path, i)
		err := d.diff(a, b)
		d.path = d.path[:len(d.path)-1]
		if err != nil {
			return err
		}
	}
	return nil
}

// entries handles the levels on which old or new is one entry, because its memory usage is below
// the limit. entries emits these entries and ends the comparison on these levels.
func (d *frontierDiff) entries(old, new *diffPlace) {
	var path []byte
	for m := old.on | new.on; m != 0; m &= m - 1 {
		level := bits.TrailingZeros(uint(m))
		bit := levelSet(1) << level
		was, is := old.on&bit != 0 && d.below(*old, level), new.on&bit != 0 && d.below(*new, level)
		if !was && !is {
			continue
		}
		if path == nil {
			path = d.copyPath()
		}
		if was {
			d.removed[level] = append(d.removed[level], path)
			old.on &^= bit
		}
		if is {
			d.put[level] = append(d.put[level], FrontierEntry{Path: path, Hash: new.n.hashValue(), Size: new.n.usage()})
			new.on &^= bit
		}
	}
}

// values emits the difference between the values of two branches above the limit.
func (d *frontierDiff) values(old, new diffPlace) {
	has := func(p diffPlace) levelSet {
		if p.on != 0 && p.n.kind() == kindBranchValue {
			return p.on
		}
		return 0
	}
	was, is := has(old), has(new)
	if was != 0 && is != 0 && bytes.Equal(old.n.valueHash(), new.n.valueHash()) {
		was, is = was&^is, is&^was
	}
	if was|is == 0 {
		return
	}
	path := d.copyPath()
	e := FrontierEntry{Path: path, IsValue: true}
	if is != 0 {
		copy(e.Hash[:], new.n.valueHash())
		if e.Size = uint64(new.n.valueLen()); !new.n.large() {
			e.Data = bytes.Clone(d.f.valueOf(new.n))
		}
	}
	for level := range Levels {
		switch bit := levelSet(1) << level; {
		case is&bit != 0:
			d.put[level] = append(d.put[level], e)
		case was&bit != 0:
			d.removed[level] = append(d.removed[level], path)
		}
	}
}

// nibbles returns the nibbles by which a place above the limit continues, as a bit set.
func (p diffPlace) nibbles() uint16 {
	switch {
	case p.on == 0:
		return 0
	case p.n.kind() == kindExtension:
		return 1 << extNibs(p.n.ext()).at(p.skip)
	}
	return p.n.mask()
}

// step moves one nibble down from a place above the limit.
func (d *frontierDiff) step(p diffPlace, nibble byte) diffPlace {
	if p.on == 0 {
		return diffPlace{}
	}
	var next uint32
	if p.n.kind() == kindExtension {
		ext := extNibs(p.n.ext()).from(p.skip)
		if ext.at(0) != nibble {
			return diffPlace{}
		}
		if ext.n > 1 {
			return diffPlace{p.ref, p.n, p.skip + 1, p.on}
		}
		next = p.n.child()
	} else if next = p.n.kid(nibble); next == 0 {
		return diffPlace{}
	}
	return diffPlace{ref: next, n: d.f.arena.mem().at(next), on: p.on}
}

// Import makes the root whose frontier on one level has exactly these entries, which must be in
// ascending order of paths. Subtrees are loaded when first visited. If the root's hash is not want,
// Import returns ErrCorrupt. If a read after Import loads a subtree that does not have its entry's
// hash, the read returns ErrCorrupt with the path. The loader must keep yielding the current pairs
// of each subtree's range until the subtree is loaded or changed by an update.
func (f *Forest) Import(entries []FrontierEntry, want primitives.Hash) (*Root, error) {
	if err := checkEntries(entries, nil); err != nil {
		return nil, err
	}
	entries = slices.Clone(entries)
	for i := range entries {
		entries[i].Path = bytes.Clone(entries[i].Path)
	}
	src := f.source.Load()
	data, err := src.values(entries)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.unlock()
	id := f.nextID()
	im := importer{nodeWriter: f.nodeWriter(id), src: src, entries: entries, data: data}
	var ref uint32
	if len(entries) > 0 {
		ref, err = im.subtree(0, len(entries), 0)
	}
	if err == nil {
		var got primitives.Hash
		if ref != 0 {
			got = f.arena.mem().at(ref).hashValue()
		}
		if got != want {
			err = fmt.Errorf("%w: %d frontier entries give the root %v, expected %v", ErrCorrupt, len(entries), got, want)
		}
	}
	if err != nil {
		im.undo()
		return nil, err
	}
	return f.publish(nil, ref, id, nil), nil
}

// checkEntries returns an error unless the entries lie below a path and ascend.
func checkEntries(entries []FrontierEntry, below []byte) error {
	for i, e := range entries {
		if i > 0 && bytes.Compare(entries[i-1].Path, e.Path) >= 0 {
			return fmt.Errorf("%w: frontier path %x after path %x", ErrOrder, e.Path, entries[i-1].Path)
		}
		if len(e.Path) > 2*MaxKeyLen {
			return ErrKeyLen
		}
		if !bytes.HasPrefix(e.Path, below) {
			return fmt.Errorf("%w: frontier path %x lies within the entry of path %x", ErrCorrupt, e.Path, below)
		}
		for _, v := range e.Path {
			if v > 15 {
				return fmt.Errorf("%w: malformed frontier path %x", ErrCorrupt, e.Path)
			}
		}
	}
	return nil
}

// values returns the values of those entries that are values. The loader reads a value that the
// entry does not contain. values returns nil if no entry is a value.
func (src *Source) values(entries []FrontierEntry) ([][]byte, error) {
	var data [][]byte
	for i := range entries {
		e := &entries[i]
		if !e.IsValue {
			continue
		}
		if data == nil {
			data = make([][]byte, len(entries))
		}
		if data[i] = e.Data; e.Data == nil && e.Size > 0 {
			load := src.Load
			if load == nil || len(e.Path)%2 != 0 {
				return nil, fmt.Errorf("%w: there is no value at frontier path %x", ErrCorrupt, e.Path)
			}
			key := packNibbles(e.Path)
			err := load(key, append(bytes.Clone(key), 0), func(_, value []byte) bool {
				data[i] = bytes.Clone(value)
				return false
			})
			if err != nil {
				return nil, err
			}
		}
		if primitives.HashBytes(data[i]) != e.Hash || uint64(len(data[i])) != e.Size {
			return nil, fmt.Errorf("%w: the value at frontier path %x does not match its entry", ErrCorrupt, e.Path)
		}
	}
	return data, nil
}

// importer makes the nodes above the frontier.
type importer struct {
	nodeWriter
	src     *Source
	entries []FrontierEntry
	data    [][]byte // bytes of those entries that are values
}

// subtree makes the node at depth for entries[lo:hi], whose paths share the first depth nibbles.
func (im *importer) subtree(lo, hi, depth int) (uint32, error) {
	first, last := im.entries[lo].Path, im.entries[hi-1].Path
	part := depth
	for part < len(first) && part < len(last) && first[part] == last[part] {
		part++
	}
	var ref uint32
	var err error
	if hi-lo == 1 {
		ref, err = im.hashNode(&im.entries[lo])
	} else {
		ref, err = im.fork(lo, hi, part)
	}
	if err != nil || part == depth {
		return ref, err
	}
	return im.extension(pathNibs(first[depth:part]), ref)
}

// fork makes the branch at depth, where the entries diverge.
func (im *importer) fork(lo, hi, depth int) (uint32, error) {
	var kids [16]uint32
	var val *value
	if e := &im.entries[lo]; len(e.Path) == depth {
		if !e.IsValue {
			return 0, fmt.Errorf("%w: there are frontier entries below the entry of path %x", ErrCorrupt, e.Path)
		}
		val = &value{ValueID: ValueID{uint32(e.Size), e.Hash}, data: im.data[lo]}
		lo++
	}
	for lo < hi {
		nibble, end := im.entries[lo].Path[depth], lo+1
		for end < hi && im.entries[end].Path[depth] == nibble {
			end++
		}
		var err error
		if kids[nibble], err = im.subtree(lo, end, depth+1); err != nil {
			return 0, err
		}
		lo = end
	}
	return im.branch(&kids, val, im.usageOf(&kids), nil)
}

// hashNode makes the hash node of an entry.
func (im *importer) hashNode(e *FrontierEntry) (uint32, error) {
	if e.IsValue {
		return 0, fmt.Errorf("%w: the frontier value at path %x has no children", ErrCorrupt, e.Path)
	}
	ref, n, err := im.newHashNode(e.Path, im.src)
	if err != nil {
		return 0, err
	}
	n.setUsage(e.Size)
	copy(n.hash(), e.Hash[:])
	return ref, nil
}
