package trie

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// Recorded is a trie node or value that was recorded, in encoded form.
type Recorded struct {
	Hash  primitives.Hash
	Len   uint32
	ref   uint32 // reference to the node, or to the node with the value
	value bool
}

// Recording collects the distinct byte strings that reads and updates of one forest touch, in the
// order of their first touch, and sums the lengths of these strings (nearcore TrieRecorder; the
// caller adds the charge of 2000 for a removal).
//
// The zero value is empty and usable. A Recording is not safe for concurrent use: concurrent
// readers use separate recordings and join these recordings with Merge. While a Recording is in
// use, the roots that were read must stay held, because the Recording refers to their nodes.
type Recording struct {
	forest  *Forest
	proof   *Partial // proof whose nodes are recorded; nil: nodes of forest are recorded
	entries []Recorded
	table   []recordSlot // hash table of entries, with open addressing; nil while entries are few
	size    uint64
	recent  []uint32 // recently recorded nodes, by the low bits of their references; nil: too few entries
}

const (
	linearEntries = 16   // up to this number of entries, find searches the entries without a table
	recentNodes   = 1024 // size of Recording.recent; nearly all lookups begin with the same nodes
)

// Len returns the number of recorded strings.
func (r *Recording) Len() int { return len(r.entries) }

// Size returns the total length in bytes of the recorded strings.
func (r *Recording) Size() uint64 { return r.size }

// Entries returns the recorded strings, oldest first. The slice is read-only and valid until the
// next use of the Recording.
func (r *Recording) Entries() []Recorded { return r.entries }

// Contains returns whether the string with this hash is recorded.
func (r *Recording) Contains(h primitives.Hash) bool {
	_, found := r.find(h[:], 0, false)
	return found
}

// Reset forgets everything, including the forest, but keeps the memory.
func (r *Recording) Reset() {
	r.forest, r.proof, r.entries, r.size = nil, nil, r.entries[:0], 0
	clear(r.table)
	clear(r.recent)
}

// Merge records the strings of o, in o's order.
func (r *Recording) Merge(o *Recording) {
	switch {
	case len(o.entries) == 0:
	case o.proof != nil:
		r.bindProof(o.proof)
	default:
		r.bind(o.forest)
	}
	for i := range o.entries {
		e := &o.entries[i]
		r.add(e.Hash[:], e.Len, e.ref, e.value)
	}
}

// Truncate forgets all strings except the first n.
func (r *Recording) Truncate(n int) {
	for i := n; i < len(r.entries); i++ {
		r.size -= uint64(r.entries[i].Len)
	}
	r.entries = r.entries[:n]
	clear(r.recent)
	clear(r.table)
	if r.table != nil {
		r.fill()
	}
}

// Clone returns an independent copy.
func (r *Recording) Clone() *Recording {
	return &Recording{r.forest, r.proof, slices.Clone(r.entries), slices.Clone(r.table), r.size, slices.Clone(r.recent)}
}

// bind ties the recording to f, since references are valid only there.
func (r *Recording) bind(f *Forest) {
	if r.forest != f {
		if len(r.entries) > 0 {
			panic("trie: one recording for two forests")
		}
		r.forest = f
	}
}

// bindProof ties the recording to a proof.
func (r *Recording) bindProof(p *Partial) {
	if r.proof != p {
		if len(r.entries) > 0 {
			panic("trie: one recording for two proofs")
		}
		r.proof = p
	}
}

// recordSlot is a slot of the hash table. ref is the node's reference: if the same node is recorded
// again, comparing ref replaces comparing hashes.
type recordSlot struct {
	ref   uint32
	index uint32 // 1 + index of the entry, with valueBit for a value; 0: the slot is free
}

const valueBit = 1 << 31

func (e *Recorded) slot(index int) recordSlot {
	s := recordSlot{e.ref, uint32(index) + 1}
	if e.value {
		s.index |= valueBit
	}
	return s
}

// has compares the 32 bytes of a hash, which begin with word.
func (e *Recorded) has(word uint64, h []byte) bool {
	return binary.LittleEndian.Uint64(e.Hash[:]) == word && bytes.Equal(e.Hash[8:], h[8:32])
}

// find returns the slot of the string with hash h, or the free slot for the string. ref, unless 0,
// is the reference of the string's node, and value means that the string is a value.
func (r *Recording) find(h []byte, ref uint32, value bool) (slot int, found bool) {
	word := binary.LittleEndian.Uint64(h)
	if r.table == nil {
		for i := range r.entries {
			if r.entries[i].has(word, h) {
				return i, true
			}
		}
		return 0, false
	}
	mask := len(r.table) - 1
	for slot = int(word) & mask; ; slot = (slot + 1) & mask {
		s := r.table[slot]
		if s.index == 0 {
			return slot, false
		}
		if s.ref == ref && (s.index&valueBit != 0) == value || r.entries[s.index&^valueBit-1].has(word, h) {
			return slot, true
		}
	}
}

// fill enters all entries into the cleared table.
func (r *Recording) fill() {
	mask := len(r.table) - 1
	for i := range r.entries {
		e := &r.entries[i]
		slot := int(binary.LittleEndian.Uint64(e.Hash[:])) & mask
		for r.table[slot].index != 0 {
			slot = (slot + 1) & mask
		}
		r.table[slot] = e.slot(i)
	}
}

func (r *Recording) add(h []byte, length, ref uint32, value bool) {
	slot, found := r.find(h, ref, value)
	if found {
		return
	}
	r.entries = append(r.entries, Recorded{Hash: primitives.Hash(h), Len: length, ref: ref, value: value})
	r.size += uint64(length)
	switch n := len(r.entries); {
	case r.table == nil && n > linearEntries, r.table != nil && 2*n > len(r.table):
		r.table = make([]recordSlot, max(4*linearEntries, 4*len(r.table)))
		r.fill()
		if len(r.table) > recentNodes && r.recent == nil { // most recordings are small and do not need recent
			r.recent = make([]uint32, recentNodes)
		}
	case r.table != nil:
		r.table[slot] = r.entries[n-1].slot(n - 1)
	}
}

func (r *Recording) node(f *Forest, ref uint32, n node) {
	if r != nil {
		r.bind(f)
		r.addNode(ref, n)
	}
}

// addNode records a node of the bound forest.
func (r *Recording) addNode(ref uint32, n node) {
	if r.recent != nil && r.wasRecent(ref) {
		return
	}
	r.add(n.hash(), n.rawLen(), ref, false)
}

// addRef records a string of a proof. A string that is a node at one place and a value at another
// is recorded once.
func (r *Recording) addRef(h []byte, length, ref uint32) {
	if r.recent == nil || !r.wasRecent(ref) {
		r.add(h, length, ref, false)
	}
}

// wasRecent returns whether ref was the last reference with these low bits. wasRecent then stores
// ref as the last reference.
func (r *Recording) wasRecent(ref uint32) bool {
	at := &r.recent[ref%recentNodes]
	if *at == ref {
		return true
	}
	*at = ref
	return false
}

// AppendBytes appends recorded string i to b.
func (r *Recording) AppendBytes(b []byte, i int) []byte {
	e := &r.entries[i]
	if r.proof != nil {
		return append(b, r.proof.at(e.ref)...)
	}
	m := r.forest.arena.mem()
	n := m.at(e.ref)
	if e.value {
		return append(b, r.forest.valueOf(n)...)
	}
	return append(b, n.raw()...)
}

// Proof returns all recorded strings in ascending order, as in a state witness (nearcore
// trie_recording.rs recorded_storage).
func (r *Recording) Proof() [][]byte {
	all := make([]byte, 0, r.size)
	out := make([][]byte, len(r.entries))
	for i := range r.entries {
		from := len(all)
		all = r.AppendBytes(all, i)
		out[i] = all[from:len(all):len(all)]
	}
	slices.SortFunc(out, bytes.Compare)
	return out
}
