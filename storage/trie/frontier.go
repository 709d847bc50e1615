package trie

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// FrontierEntry is one line of what a trie looks like from above, on one of several levels: a maximal subtree of less than the level's
// limit of memory usage (or a single greater leaf), or a value that sits in a branch above those. Stored with each
// finalisation, the entries bring a trie back from above, as far down as somebody looks.
type FrontierEntry struct {
	Path    []byte          // nibbles, one a byte: down to the subtree's top node without its own key, or the value's key
	Hash    primitives.Hash // of the top node, or of the value
	Size    uint64          // memory usage of the subtree, or length of the value
	IsValue bool
	Data    []byte // the value, if it is short; else the loader has it
}

// AppendBorsh appends all but the path, which is the entry's key wherever it is stored.
func (e *FrontierEntry) AppendBorsh(b []byte) []byte {
	b = borsh.AppendBool(b, e.IsValue)
	b = borsh.AppendUint64(append(b, e.Hash[:]...), e.Size)
	b = borsh.AppendBool(b, e.Data != nil)
	if e.Data != nil {
		b = borsh.AppendBytes(b, e.Data)
	}
	return b
}

// DecodeBorsh reads all but the path.
func (e *FrontierEntry) DecodeBorsh(r *borsh.Reader) {
	e.IsValue, e.Hash, e.Size, e.Data = r.Bool(), primitives.ReadHash(r), r.Uint64(), nil
	if r.Option() {
		e.Data = r.BytesCopy()
	}
}

// diffPlace is a node on the way of a difference, of whose key the first skip nibbles are passed, and the levels on which it is looked at.
type diffPlace struct {
	ref  uint32
	n    node
	skip int
	on   levelSet
}

// frontierDiff compares two roots from above, on several levels at once.
type frontierDiff struct {
	f       *Forest
	path    []byte
	paths   []byte // memory for those that are noted
	put     [Levels][]FrontierEntry
	removed [Levels][][]byte
}

// pathPiece is how many bytes of paths are taken at once.
const pathPiece = 8 << 10

// copyPath is the present path, to be kept.
func (d *frontierDiff) copyPath() []byte {
	n := len(d.path)
	if cap(d.paths)-len(d.paths) < n {
		d.paths = make([]byte, 0, max(pathPiece, n))
	}
	at := len(d.paths)
	d.paths = append(d.paths, d.path...)
	return d.paths[at : at+n : at+n]
}

// levelSet is a set of levels, a bit each.
type levelSet uint

const allLevels levelSet = 1<<Levels - 1

// Frontier returns all entries of a level of r, by ascending path.
func (r *Root) Frontier(level int) ([]FrontierEntry, error) {
	put, _, err := r.FrontierSince(nil, level)
	return put, err
}

// FrontierSince returns how a level of r's frontier differs from that of an earlier (or any) root of the same forest, nil for the
// empty one: entries to put, replacing those of equal path, and paths to remove. Both are in ascending order. Between the lowest and the
// highest level a trie that is below the limit as a whole has no entries: nobody would ask for them.
func (r *Root) FrontierSince(old *Root, level int) (put []FrontierEntry, removed [][]byte, err error) {
	puts, gone, err := r.frontiersSince(old, 1<<level)
	return puts[level], gone[level], err
}

// FrontiersSince is FrontierSince of all levels, by one walk.
func (r *Root) FrontiersSince(old *Root) (put [Levels][]FrontierEntry, removed [Levels][][]byte, err error) {
	return r.frontiersSince(old, allLevels)
}

func (r *Root) frontiersSince(old *Root, levels levelSet) (put [Levels][]FrontierEntry, removed [Levels][][]byte, err error) {
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

// sortDiff brings both in order and leaves of what is removed what is not put. The walk emits in order but for what a changed shape moved.
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

// below tells whether the place holds nothing or a subtree that is one entry of a level.
func (d *frontierDiff) below(p diffPlace, level int) bool {
	return p.ref == 0 || p.n.kind() == kindLeaf || p.n.usage() < d.f.levels[level]
}

// diff compares what lies at the present path.
func (d *frontierDiff) diff(old, new diffPlace) error {
	if old.ref == new.ref && old.skip == new.skip ||
		old.ref != 0 && new.ref != 0 && old.skip == 0 && new.skip == 0 && old.on&new.on != 0 && bytes.Equal(old.n.hash(), new.n.hash()) {
		old.on, new.on = old.on&^new.on, new.on&^old.on // of the others one side has ended above
	}
	for _, p := range []*diffPlace{&old, &new} {
		if p.ref == 0 {
			p.on = 0
		}
		if p.on != 0 && p.n.kind() == kindHash && !d.below(*p, bits.TrailingZeros(uint(p.on))) { // it may hide a great leaf
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
	// What is above is walked: its branches and extensions, and against it what the other has on this path.
	d.values(old, new)
	for m := old.nibbles() | new.nibbles(); m != 0; m &= m - 1 {
		i := byte(bits.TrailingZeros16(m))
		a, b := d.step(old, i), d.step(new, i)
		if a.ref == b.ref && a.skip == b.skip && a.on == b.on { // nearly all that is beside a change
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

// entries notes what ends here: on the levels on which a place is below. It goes on there no more.
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

// values compares the values of two branches above.
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

// nibbles are the nibbles by which it goes on from a place above, a bit each.
func (p diffPlace) nibbles() uint16 {
	switch {
	case p.on == 0:
		return 0
	case p.n.kind() == kindExtension:
		return 1 << extNibs(p.n.ext()).at(p.skip)
	}
	return p.n.mask()
}

// step goes one nibble down from a place above.
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

// Import makes the root that has exactly these entries, in ascending order of paths. Subtrees are loaded when first
// touched; then, as here for the whole, a hash that differs gives ErrCorrupt with the path. The loader must go on to
// yield what it would now for the range of each subtree until the subtree is loaded or changed by an update.
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
			err = fmt.Errorf("%w: %d frontier entries hash to %v, want %v", ErrCorrupt, len(entries), got, want)
		}
	}
	if err != nil {
		im.undo()
		return nil, err
	}
	return f.publish(nil, ref, id, nil), nil
}

// checkEntries wants entries below a path in ascending order.
func checkEntries(entries []FrontierEntry, below []byte) error {
	for i, e := range entries {
		if i > 0 && bytes.Compare(entries[i-1].Path, e.Path) >= 0 {
			return fmt.Errorf("%w: path %x after %x", ErrOrder, e.Path, entries[i-1].Path)
		}
		if len(e.Path) > 2*MaxKeyLen {
			return ErrKeyLen
		}
		if !bytes.HasPrefix(e.Path, below) {
			return fmt.Errorf("%w: path %x below %x", ErrCorrupt, e.Path, below)
		}
		for _, v := range e.Path {
			if v > 15 {
				return fmt.Errorf("%w: path %x", ErrCorrupt, e.Path)
			}
		}
	}
	return nil
}

// values collects the values of the entries, asking the loader for those that they lack; nil if none has one.
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
				return nil, fmt.Errorf("%w: no value at path %x", ErrCorrupt, e.Path)
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
			return nil, fmt.Errorf("%w: value at path %x", ErrCorrupt, e.Path)
		}
	}
	return data, nil
}

// importer makes the nodes above the frontier.
type importer struct {
	nodeWriter
	src     *Source
	entries []FrontierEntry
	data    [][]byte // of those that are values
}

// subtree makes the node at depth of the entries from lo to hi, which share that many nibbles.
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

// fork makes the branch at depth, where the entries part.
func (im *importer) fork(lo, hi, depth int) (uint32, error) {
	var kids [16]uint32
	var val *value
	if e := &im.entries[lo]; len(e.Path) == depth {
		if !e.IsValue {
			return 0, fmt.Errorf("%w: frontier entries below path %x", ErrCorrupt, e.Path)
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

// hashNode makes the node that stands for a subtree.
func (im *importer) hashNode(e *FrontierEntry) (uint32, error) {
	if e.IsValue {
		return 0, fmt.Errorf("%w: frontier value without children at path %x", ErrCorrupt, e.Path)
	}
	ref, n, err := im.newHashNode(e.Path, im.src)
	if err != nil {
		return 0, err
	}
	n.setUsage(e.Size)
	copy(n.hash(), e.Hash[:])
	return ref, nil
}
