package trie

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/primitives"
)

// MaxKeyLen bounds keys, in bytes. nearcore's longest keys have less than 2200 bytes: a contract
// data key of 2048 bytes and its account ID.
const MaxKeyLen = 16 << 10

// DefaultFrontier is the memory usage below which a subtree is one entry of the frontier's lowest
// level. Such a subtree is loaded as a whole.
const DefaultFrontier = 4 << 10

// Levels of the frontier. The limit of each level is 16 times that of the level below, because a
// branch has 16 children. The highest level has no limit, so its only entry is the root. Each load
// thus reads a few dozen entries or pairs, whatever the size of the state.
const (
	Levels = 8
	Top    = Levels - 1
)

// Errors. ErrCorrupt means that stored data does not have the expected hash, and that the node
// cannot continue with it.
var (
	ErrCorrupt = errors.New("trie: data does not match its hash")
	ErrOrder   = errors.New("trie: the keys are not ascending")
	ErrKeyLen  = fmt.Errorf("trie: a key is longer than %d bytes", MaxKeyLen)
)

// Loader yields this trie's pairs with from <= key < to in ascending order, until yield returns
// false. A nil to means no upper bound. A Loader reads stored flat values. For a subtree that no
// update has touched since the subtree became a hash node, the stored values are still the
// subtree's pairs. A Loader must be safe for concurrent use. The slices that it yields may be
// reused after yield returns.
type Loader func(from, to []byte, yield func(key, value []byte) bool) error

// Origin lends a root of another forest whose subtrees equal the subtrees of this forest's root: it
// passes the other root to the function use, if that root still exists.
type Origin func(use func(*Root) error) error

// Rows yields the stored entries of a level of the frontier below a path, ascending, until yield
// returns false. The entries may be of a version other than that of the source's pairs, since the
// forest uses entries only if they have the expected hash. Yielding no entries at all is not an
// error. An entry is valid during the call only.
type Rows func(level int, path []byte, yield func(FrontierEntry) bool) error

// Source is where a forest loads subtrees that are not in memory. All pairs of a Source are of one
// version: a load that reads after the flat head has advanced still gets the pairs of the Source's
// version.
type Source struct {
	Load   Loader
	Rows   Rows   // nil: all subtrees are loaded as pairs
	Borrow Origin // lends subtrees of another forest, which are copied without hashing; nil: none
	// Stale returns a source, early, that is cheaper to read but may have the data of a past
	// version. A subtree from early is used only if the subtree has the expected hash. The reader
	// then calls done, with right set if the hash was the expected hash. If Stale or early is nil,
	// there is no such source. The field Stale of early is nil.
	Stale func() (early *Source, done func(right bool))
}

// Options of a forest. The zero value is usable for a forest that loads nothing.
type Options struct {
	Frontier uint64 // limit of the frontier's lowest level; 0: DefaultFrontier
	Loader   Loader // reads the pairs of subtrees that are not in memory; needed only for Import
	UserData any    // returned by Forest.UserData; not used by this package
	Poison   bool   // fill freed memory with a pattern, so that tests detect a use after free
}

// Forest holds the nodes of all versions of one shard's trie.
type Forest struct {
	userData any
	frontier uint64 // levels[0]
	levels   [Levels]uint64
	source   atomic.Pointer[Source]

	mu           sync.Mutex // held by the writer; guards the fields down to abandoned, except the atomics
	arena        *arena
	larges       table[large]
	hashNodes    hashNodeTable
	sources      table[heldSource] // sources with which hash nodes were made
	newestSource *heldSource       // source of the newest hash node; nil: dropped
	newestAt     uint32            // index of newestSource in sources
	lastID       uint64
	clock        atomic.Uint64 // copy of lastID for readers
	lastLoad     atomic.Uint64 // value of clock when a subtree was last loaded
	roots        int           // number of held roots
	largeBytes   uint64
	made         []uint32 // memory that each nodeWriter reuses
	killed       []dead   // memory that each updater reuses

	abandoned bool // set by Abandon: nodes of released roots are not freed one by one

	pendingMu sync.Mutex
	pending   []*Root // released roots whose nodes are not freed yet
}

// New returns a forest without roots.
func New(o Options) *Forest {
	if o.Frontier == 0 {
		o.Frontier = DefaultFrontier
	}
	f := &Forest{userData: o.UserData, frontier: o.Frontier, levels: levelsFrom(o.Frontier), arena: newArena()}
	f.arena.poison = o.Poison
	f.SetSource(Source{Load: o.Loader})
	return f
}

// levelsFrom returns the limits of all levels, given the lowest.
func levelsFrom(lowest uint64) (limits [Levels]uint64) {
	for i := range limits {
		limits[i] = lowest << (4 * i)
	}
	limits[Top] = math.MaxUint64
	return limits
}

// UserData returns Options.UserData.
func (f *Forest) UserData() any { return f.userData }

// SetSource replaces the source by the source of a version after it. For every subtree that is not
// loaded, the old and the new source must have equal data. Safe for concurrent use.
func (f *Forest) SetSource(s Source) { f.source.Store(&s) }

// Root is an immutable version of the trie. A root has a count of holders. A holder calls Release
// once; after that it must not use the root, or bytes that it got from the root. Reads are safe for
// concurrent use.
//
// Versions form a tree by derivation. A node belongs to the version that made it and to all
// versions derived from that one, up to those that replaced the node. Each version lists the nodes
// that it replaced (dead). So nodes need no reference counts, which would have to be changed in all
// children of a node when the node is copied or freed. ZFS frees the blocks of snapshots in the
// same way.
type Root struct {
	forest *Forest
	refs   atomic.Int64

	// id numbers the versions of a forest in ascending order. A node stores the id of the version
	// that made it (node.birth).
	id       uint64
	parent   *Root // nearest ancestor that still exists; nil: none
	children []*Root
	ref      uint32
	hash     primitives.Hash
	usage    uint64
	dead     []dead // nodes that the parent has and this version does not have
}

// dead describes a replaced node, so that the node can be freed without reading it.
type dead struct {
	birth uint64
	ref   uint32
	class uint8
	flags uint8
}

const (
	deadOwns uint8 = 1 << iota // the node has a large value, or is a hash node with a slot
	deadDeep                   // the node's whole subtree is replaced
)

// Hash returns the state root. Hash returns zero for the empty trie.
func (r *Root) Hash() primitives.Hash { return r.hash }

// MemoryUsage returns the root node's memory_usage, 0 for the empty trie.
func (r *Root) MemoryUsage() uint64 { return r.usage }

// Forest returns the root's forest.
func (r *Root) Forest() *Forest { return r.forest }

// Retain adds a holder and returns r. Retain panics if the last holder has released r.
func (r *Root) Retain() *Root {
	if r.refs.Add(1) <= 1 {
		panic("trie: Retain of a released root")
	}
	return r
}

// Release removes one holder. Removing the last holder frees the nodes that no other root contains.
// Safe for concurrent use. Release panics if there is no holder.
func (r *Root) Release() {
	switch n := r.refs.Add(-1); {
	case n < 0:
		panic("trie: root released twice")
	case n > 0:
		return
	}
	f := r.forest
	f.pendingMu.Lock()
	f.pending = append(f.pending, r)
	f.pendingMu.Unlock()
	if f.mu.TryLock() { // if TryLock fails, the writer that holds mu frees the nodes in unlock
		f.unlock()
	}
}

// unlock first frees what was released since the last unlock, then releases the writer's lock.
func (f *Forest) unlock() {
	f.pendingMu.Lock()
	released := f.pending
	f.pending = nil
	f.pendingMu.Unlock()
	for _, r := range released {
		f.roots--
		if !f.abandoned {
			f.collapse(r)
		}
	}
	f.mu.Unlock()
}

// publish makes a root of ref that is derived from parent, or from no version if parent is nil.
func (f *Forest) publish(parent *Root, ref uint32, id uint64, killed []dead) *Root {
	r := &Root{forest: f, id: id, parent: parent, ref: ref, dead: killed}
	if ref != 0 {
		n := f.arena.mem().at(ref)
		r.hash, r.usage = n.hashValue(), n.usage()
	}
	if parent != nil {
		parent.children = append(parent.children, r)
	}
	r.refs.Store(1)
	f.roots++
	return r
}

// Abandon declares that the caller will derive no more versions. Held roots stay valid. Roots that
// are released from now on are not freed node by node; all memory is freed at once with the forest.
func (f *Forest) Abandon() {
	f.mu.Lock()
	defer f.unlock()
	f.abandoned = true
}

// nextID returns the number of a new version.
func (f *Forest) nextID() uint64 {
	f.lastID++
	f.clock.Store(f.lastID)
	return f.lastID
}

// collapse removes version v, which has no holder, from the tree of versions, unless two or more
// versions are derived from it.
func (f *Forest) collapse(v *Root) {
	for v != nil && v.refs.Load() == 0 {
		parent := v.parent
		floor := uint64(0) // nodes with a higher birth were made for v, or for freed versions before v
		if parent != nil {
			floor = parent.id
		}
		switch len(v.children) {
		case 0: // no version derives from v, so all nodes made for v are freed
			f.freeTree(v.ref, floor)
			f.cut(v)
			v.ref, v.dead, v.parent = 0, nil, nil
			v = parent // the parent may have no children now
		case 1:
			// A node that the child replaced is reachable only from v if v made it. Otherwise
			// versions before v may contain the node too.
			child := v.children[0]
			kept := v.dead
			if parent == nil {
				kept = nil
			}
			for _, d := range child.dead {
				if d.flags&deadDeep != 0 {
					kept = f.freeDeep(d.ref, floor, kept)
				} else if d.birth > floor {
					f.freeDead(d)
				} else {
					kept = append(kept, d)
				}
			}
			child.dead, child.parent = kept, parent
			if parent != nil {
				for i, c := range parent.children {
					if c == v {
						parent.children[i] = child
					}
				}
			}
			v.children, v.ref, v.dead, v.parent = nil, 0, nil, nil
			return
		default:
			return
		}
	}
}

// cut removes v from its parent's children.
func (f *Forest) cut(v *Root) {
	if v.parent == nil {
		return
	}
	kids := v.parent.children
	for i, c := range kids {
		if c == v {
			kids[i] = kids[len(kids)-1]
			kids[len(kids)-1] = nil
			v.parent.children = kids[:len(kids)-1]
			return
		}
	}
}

// freeTree frees the nodes under ref that are younger than floor. Below an older node all nodes are
// older.
func (f *Forest) freeTree(ref uint32, floor uint64) {
	if ref == 0 {
		return
	}
	n := f.arena.mem().at(ref)
	if n.birth() <= floor {
		return
	}
	f.eachChild(n, func(c uint32) { f.freeTree(c, floor) })
	f.freeDead(deadOf(ref, n))
}

// freeDeep frees the nodes under ref that are younger than floor. Where the walk down ends at an
// older node, freeDeep appends that node to kept.
func (f *Forest) freeDeep(ref uint32, floor uint64, kept []dead) []dead {
	n := f.arena.mem().at(ref)
	d := deadOf(ref, n)
	if n.birth() <= floor {
		d.flags |= deadDeep
		return append(kept, d)
	}
	f.eachChild(n, func(c uint32) { kept = f.freeDeep(c, floor, kept) })
	f.freeDead(d)
	return kept
}

// eachChild calls the function do for the children that are in memory.
func (f *Forest) eachChild(n node, do func(ref uint32)) {
	switch n.kind() {
	case kindExtension:
		do(n.child())
	case kindBranch, kindBranchValue:
		for i := range byte(16) {
			if c := n.kid(i); c != 0 {
				do(c)
			}
		}
	case kindHash:
		if c := f.hashNodes.get(n.child()).target.Load(); c != 0 {
			do(c)
		}
	}
}

// deadOf describes n for later freeing.
func deadOf(ref uint32, n node) dead {
	d := dead{birth: n.birth(), ref: ref, class: n.class()}
	if n.kind() == kindHash || n.hasValue() && n.large() {
		d.flags = deadOwns
	}
	return d
}

// freeDead frees one node.
func (f *Forest) freeDead(d dead) {
	if d.flags&deadOwns != 0 {
		if n := f.arena.mem().at(d.ref); n.kind() == kindHash {
			f.dropHashNode(n.child())
		} else {
			f.releaseLarge(n.slot())
		}
	}
	f.arena.release(d.ref, d.class)
}

// Empty returns a root of the empty trie.
func (f *Forest) Empty() *Root {
	f.mu.Lock()
	defer f.unlock()
	return f.publish(nil, 0, f.nextID(), nil)
}

// Stats are the sizes of a forest.
type Stats struct {
	Nodes     uint64 // number of nodes, including hash nodes
	Bytes     uint64 // bytes that nodes, hash nodes and large values use
	Reserved  uint64 // bytes of all slabs
	Roots     int    // number of held roots
	HashNodes int    // number of hash nodes, loaded or not
}

// hashNodeBytes is the size in bytes of a hash node's row, in addition to the node itself.
const hashNodeBytes = 16

// Bytes returns the bytes of nodes, hash nodes and large values.
func (f *Forest) Bytes() uint64 {
	f.mu.Lock()
	defer f.unlock()
	return f.arena.inUse + f.largeBytes + uint64(f.hashNodes.used)*hashNodeBytes
}

// Stats returns the current sizes.
func (f *Forest) Stats() Stats {
	f.mu.Lock()
	defer f.unlock()
	bytes := f.arena.inUse + f.largeBytes + uint64(f.hashNodes.used)*hashNodeBytes
	s := Stats{Nodes: f.arena.blocks, Bytes: bytes, Roots: f.roots, HashNodes: f.hashNodes.used}
	for _, slab := range f.arena.mem() {
		s.Reserved += uint64(len(slab))
	}
	return s
}

// large is a value that is stored outside the slabs.
type large struct {
	data []byte
	refs int // number of nodes that refer to the value
}

func (f *Forest) releaseLarge(slot uint32) {
	l := f.larges.get(slot)
	if l.refs--; l.refs == 0 {
		f.largeBytes -= uint64(len(l.data))
		f.larges.drop(slot)
	}
}

// valueOf returns the value of a node that has one. The bytes alias memory of the forest.
func (f *Forest) valueOf(n node) []byte {
	if n.large() {
		return f.larges.get(n.slot()).data
	}
	at, l := n.valueAt(), int(n.valueLen())
	return n[at : at+l : at+l]
}

// table assigns numbers to Go values that nodes refer to. Readers call get, the writer everything
// else.
type table[T any] struct {
	chunks atomic.Pointer[[]*tableChunk[T]]
	n      uint32 // number of slots that were assigned
	free   []uint32
	used   int
}

// tableChunk holds some slots, so that a table grows without being copied.
type tableChunk[T any] [1 << tableBits]*T

const tableBits = 10

func (t *table[T]) get(i uint32) *T { return *t.slot(i) }

func (t *table[T]) slot(i uint32) **T { return &(*t.chunks.Load())[i>>tableBits][i&(1<<tableBits-1)] }

func (t *table[T]) put(v *T) uint32 {
	t.used++
	i := t.n
	if n := len(t.free); n > 0 { // no reader uses a freed slot any more
		i, t.free = t.free[n-1], t.free[:n-1]
	} else if t.n++; i&(1<<tableBits-1) == 0 {
		var chunks []*tableChunk[T]
		if p := t.chunks.Load(); p != nil {
			chunks = *p
		}
		// Whether append works in place or not, readers with the old slice never look at the new
		// element.
		chunks = append(chunks, new(tableChunk[T]))
		t.chunks.Store(&chunks)
	}
	*t.slot(i) = v
	return i
}

func (t *table[T]) drop(i uint32) {
	*t.slot(i) = nil
	t.free = append(t.free, i)
	t.used--
}
