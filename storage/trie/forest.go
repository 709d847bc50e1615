package trie

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/primitives"
)

// MaxKeyLen bounds keys, in bytes; nearcore's longest are below 2200 (a contract key of 2048 and its account).
const MaxKeyLen = 16 << 10

// DefaultFrontier is the memory usage below which a subtree is one entry of the frontier's lowest level, and loaded as a whole.
const DefaultFrontier = 4 << 10

// Levels of the frontier: the limit of each is 16 times that below it, as a branch has 16 children; the highest has none, so that its only
// entry is the root. What is loaded at once is so a page of some dozens of entries or pairs, whatever a state's size.
const (
	Levels = 8
	Top    = Levels - 1
)

// Refusals. ErrCorrupt means that stored data contradicts a hash: the node cannot go on with it.
var (
	ErrCorrupt = errors.New("trie: data contradicts its hash")
	ErrOrder   = errors.New("trie: keys not ascending")
	ErrKeyLen  = fmt.Errorf("trie: key longer than %d bytes", MaxKeyLen)
)

// Loader yields this trie's pairs with from <= key < to (to nil: no end) in ascending order until yield says false.
// It reads stored flat values, which for a subtree that no update has touched are those of its last change.
// It may be called by several goroutines at once; what it yields may be reused after yield returns.
type Loader func(from, to []byte, yield func(key, value []byte) bool) error

// Origin lends use a root of another forest whose subtrees are those of this one, if that root is still there.
type Origin func(use func(*Root) error) error

// Rows yields the stored entries of a level of the frontier below a path, ascending, until yield says false. They need not be those of the
// source's version: they are used if they have the hash that they are loaded for. No entries at all is no error. What is yielded is valid
// while yield runs.
type Rows func(level int, path []byte, yield func(FrontierEntry) bool) error

// Source is where a forest finds the subtrees that it does not have in memory. Its pairs are of one version and never leave it: a load that
// began before the flat state moved on, and reads after, reads what it would have read before.
type Source struct {
	Load Loader
	Rows Rows   // nil: what is greater than the lowest level is loaded as pairs too
	Borrow Origin // what subtrees can be copied from without hashing anything anew; nil: nothing
	// Stale gives a source that is cheaper to read, has no others itself, and may be of an earlier version: what it yields is used if it has
	// the hash that it is loaded for. Who has read by it calls done, and says whether it was right. nil, or gives nil: there is none.
	Stale func() (early *Source, done func(right bool))
}

// Options of a forest.
type Options struct {
	Frontier uint64 // see DefaultFrontier; 0 means that
	Loader   Loader // of the source; needed by Import only
	UserData  any    // what a forest's user finds again by Forest.Beneath; nothing here looks at it
	Poison   bool   // freed memory is filled with a pattern: for tests, so that who still looks at it sees that
}

// Forest holds the nodes of all versions of one shard's trie.
type Forest struct {
	userData  any
	frontier uint64 // levels[0]
	levels   [Levels]uint64
	source   atomic.Pointer[Source]

	mu         sync.Mutex // the writer's: all below but the atomics
	arena      *arena
	larges     table[large]
	hashNodes      hashNodeTable
	sources    table[heldSource] // that stubs were made with
	newestSource     *heldSource       // of the last stub that was made; nil: that is gone
	newestAt   uint32            // its number
	lastID     uint64
	clock      atomic.Uint64 // lastID, for readers
	lastLoad     atomic.Uint64 // the clock when a subtree was last loaded
	roots      int           // held by somebody
	largeBytes uint64
	made       []uint32 // scratch of the writer
	killed     []dead

	abandoned bool // nothing is taken apart any more

	pendingMu sync.Mutex
	pending   []*Root // released, not yet taken apart
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

// levelsFrom returns the limits of all levels from that of the lowest.
func levelsFrom(lowest uint64) (limits [Levels]uint64) {
	for i := range limits {
		limits[i] = lowest << (4 * i)
	}
	limits[Top] = math.MaxUint64
	return limits
}

// UserData returns what the forest was given when it was made.
func (f *Forest) UserData() any { return f.userData }

// SetSource replaces the source: by that of a later version, which has the same for all that is not loaded. Any goroutine may call it.
func (f *Forest) SetSource(s Source) { f.source.Store(&s) }

// Root is an immutable version of the trie. Whoever holds one owns a count: Release gives it back, after which the
// holder must not use the root, nor bytes that it got from it.
//
// Versions form a tree by derivation. A node belongs to the version that made it and to all derived ones up to those
// that replaced it; each version lists what it replaced (dead). So neither sharing nor releasing a node touches its
// siblings, as counting references would. This is how ZFS frees the blocks of snapshots.
type Root struct {
	forest *Forest
	refs   atomic.Int64

	id       uint64 // ascending; a node with birth b is of the newest ancestor with id >= b
	parent   *Root  // what it was derived from, unless taken apart
	children []*Root
	ref      uint32
	hash     primitives.Hash
	usage    uint64
	dead     []dead // nodes of the parent that this version does not have
}

// dead describes a replaced node, so that freeing it need not look at it.
type dead struct {
	birth uint64
	ref   uint32
	class uint8
	flags uint8
}

const (
	deadOwns uint8 = 1 << iota // has a large value or a stub's slot
	deadDeep                   // stands for its whole subtree
)

// Hash returns the state root; that of the empty trie is zero.
func (r *Root) Hash() primitives.Hash { return r.hash }

// MemoryUsage returns the root node's memory_usage, 0 for the empty trie.
func (r *Root) MemoryUsage() uint64 { return r.usage }

// Forest returns where the root lives.
func (r *Root) Forest() *Forest { return r.forest }

// Retain adds a holder and returns r.
func (r *Root) Retain() *Root {
	if r.refs.Add(1) <= 1 {
		panic("trie: Retain of a released root")
	}
	return r
}

// Release gives up one hold; the last one frees the nodes that no other root has. Any goroutine may call it.
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
	if f.mu.TryLock() { // else the writer does it
		f.unlock()
	}
}

// unlock ends the writer's turn: it takes apart what was released meanwhile.
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

// publish makes a root of ref, derived from parent (nil: from nothing).
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

// Abandon says that no version will be derived any more. Roots that are held stay as they are, but none is taken apart when it is
// released: all memory goes at once, with the forest.
func (f *Forest) Abandon() {
	f.mu.Lock()
	defer f.unlock()
	f.abandoned = true
}

// nextID numbers versions.
func (f *Forest) nextID() uint64 {
	f.lastID++
	f.clock.Store(f.lastID)
	return f.lastID
}

// collapse removes the unheld version v from the tree of versions, unless two others still branch off it.
func (f *Forest) collapse(v *Root) {
	for v != nil && v.refs.Load() == 0 {
		parent := v.parent
		floor := uint64(0) // nodes with a greater birth were made for v (or what v absorbed)
		if parent != nil {
			floor = parent.id
		}
		switch len(v.children) {
		case 0: // nobody derived from v: all that was made for it goes
			f.freeTree(v.ref, floor)
			f.cut(v)
			v.ref, v.dead, v.parent = 0, nil, nil
			v = parent // which may have waited for this
		case 1:
			// What the child replaced is reachable from v only, if v made it; else it is also older than v.
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

// cut takes v out of its parent's list.
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

// freeTree frees the nodes under ref that are younger than floor; below an older node all are older.
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

// freeDeep frees the nodes under ref that are younger than floor and appends the tops of the older rest to kept.
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

// eachChild calls do for the children in memory.
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

// Stats tells how much a forest holds.
type Stats struct {
	Nodes    uint64 // stubs included
	Bytes    uint64 // of nodes, stubs and large values
	Reserved uint64 // bytes of slabs taken from the system
	Roots    int    // held
	Stubs    int    // subtrees known by hash, loaded or not
}

// hashNodeBytes is what a stub takes beside its node.
const hashNodeBytes = 16

// Bytes returns what nodes, stubs and large values take.
func (f *Forest) Bytes() uint64 {
	f.mu.Lock()
	defer f.unlock()
	return f.arena.inUse + f.largeBytes + uint64(f.hashNodes.used)*hashNodeBytes
}

// Stats returns present figures.
func (f *Forest) Stats() Stats {
	f.mu.Lock()
	defer f.unlock()
	s := Stats{Nodes: f.arena.blocks, Bytes: f.arena.inUse + f.largeBytes + uint64(f.hashNodes.used)*hashNodeBytes, Roots: f.roots, Stubs: f.hashNodes.used}
	for _, slab := range f.arena.mem() {
		s.Reserved += uint64(len(slab))
	}
	return s
}

// large is a value that does not lie in a slab.
type large struct {
	data []byte
	refs int // nodes that have it
}

func (f *Forest) releaseLarge(slot uint32) {
	l := f.larges.get(slot)
	if l.refs--; l.refs == 0 {
		f.largeBytes -= uint64(len(l.data))
		f.larges.drop(slot)
	}
}

// valueOf returns the value of a node that has one; it aliases the forest.
func (f *Forest) valueOf(n node) []byte {
	if n.large() {
		return f.larges.get(n.slot()).data
	}
	at, l := n.valueAt(), int(n.valueLen())
	return n[at : at+l : at+l]
}

// table gives numbers to Go values that nodes refer to. Readers call get, the writer all else.
type table[T any] struct {
	chunks atomic.Pointer[[]*tableChunk[T]]
	n      uint32 // slots that have been given out
	free   []uint32
	used   int
}

// tableChunk are some slots, so that a table grows without being copied.
type tableChunk[T any] [1 << tableBits]*T

const tableBits = 10

func (t *table[T]) get(i uint32) *T { return *t.slot(i) }

func (t *table[T]) slot(i uint32) **T { return &(*t.chunks.Load())[i>>tableBits][i&(1<<tableBits-1)] }

func (t *table[T]) put(v *T) uint32 {
	t.used++
	i := t.n
	if n := len(t.free); n > 0 { // no reader knows a freed number
		i, t.free = t.free[n-1], t.free[:n-1]
	} else if t.n++; i&(1<<tableBits-1) == 0 {
		var chunks []*tableChunk[T]
		if p := t.chunks.Load(); p != nil {
			chunks = *p
		}
		chunks = append(chunks, new(tableChunk[T])) // in place or not: readers with the old slice never look at the new element
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
