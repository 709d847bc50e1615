package trie

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// ErrMissing means that a proof lacks a node or value that an operation needs: the proof is
// incomplete.
var ErrMissing = errors.New("trie: missing from the proof")

// MaxProof bounds the total bytes of a proof, because no state witness may be longer (nearcore
// state_witness.rs MAX_UNCOMPRESSED_STATE_WITNESS_SIZE).
const MaxProof = 64 << 20

// maxUsage bounds the memory usage that a node of a proof may claim, so that sums cannot overflow.
const maxUsage = 1 << 56

// Partial is a trie of which only the nodes and values in a state proof are known. A Partial has
// the operations of a Root. These operations visit and record the nodes that a Root's operations
// visit and record, in the same order, but return ErrMissing where the proof lacks a node.
//
// Nothing in a proof is trusted: a node or value is looked up by the computed hash of its string.
// If a string that should be a node is malformed, the error is ErrCorrupt. A Partial never changes
// and is safe for concurrent use.
type Partial struct {
	root    primitives.Hash
	usage   uint64
	strings *proofStrings
	added   *newStrings // strings of the proof's form that updates made; nil: none
}

// proofStrings are distinct strings, indexed by hash.
type proofStrings struct {
	list  [][]byte
	index map[primitives.Hash]uint32
}

// newStrings are the strings that updates have made, possibly with duplicates. Lookups of new
// strings are rare, because usually only the root after a chunk is needed. So new strings are
// indexed only at the first lookup.
type newStrings struct {
	list   [][]byte
	hashes []primitives.Hash
	once   sync.Once
	index  map[primitives.Hash]uint32 // built at the first lookup
}

func (s *newStrings) add(str []byte) primitives.Hash {
	h := primitives.HashBytes(str)
	s.list, s.hashes = append(s.list, str), append(s.hashes, h)
	return h
}

func (s *newStrings) find(h *primitives.Hash) (uint32, bool) {
	s.once.Do(func() {
		s.index = make(map[primitives.Hash]uint32, len(s.hashes))
		for i, h := range s.hashes {
			s.index[h] = uint32(i)
		}
	})
	i, ok := s.index[*h]
	return i, ok
}

// NewPartial makes a Partial from the byte strings of a proof and the state root. The Partial keeps
// the strings. The order of strings does not matter, and duplicates count once. Strings that
// nothing refers to are ignored, as in nearcore, which adds contract code to proofs. Errors:
// ErrMissing, ErrCorrupt.
func NewPartial(strings [][]byte, root primitives.Hash) (*Partial, error) {
	return newPartial(strings, root, MaxProof)
}

// newPartial is NewPartial with a bound on the bytes.
func newPartial(strings [][]byte, root primitives.Hash, limit int) (*Partial, error) {
	size := 0
	for _, s := range strings {
		if size += len(s); size > limit {
			return nil, fmt.Errorf("%w: the proof has more than %d bytes", ErrCorrupt, limit)
		}
	}
	known := &proofStrings{list: make([][]byte, 0, len(strings)), index: make(map[primitives.Hash]uint32, len(strings))}
	for _, s := range strings {
		h := primitives.HashBytes(s)
		if _, doubled := known.index[h]; !doubled {
			known.index[h] = uint32(len(known.list))
			known.list = append(known.list, s)
		}
	}
	p := &Partial{root: root, strings: known}
	if root.IsZero() {
		return p, nil
	}
	n, err := p.node(&root, nil) // read the root now, so that no read after this one fails at the root
	if err != nil {
		return nil, err
	}
	p.usage = n.usage
	return p, nil
}

// Root returns the state root.
func (p *Partial) Root() primitives.Hash { return p.root }

// MemoryUsage returns the root node's memory usage, 0 for an empty trie.
func (p *Partial) MemoryUsage() uint64 { return p.usage }

// Find returns the string with a hash, whatever the string contains: contract code is found in this
// way. The string is read-only.
func (p *Partial) Find(h primitives.Hash) ([]byte, bool) {
	ref := p.ref(&h)
	if ref == 0 {
		return nil, false
	}
	return p.at(ref), true
}

// ref returns 1 + the index of a string, counted first in the proof and then in the added strings;
// 0 if unknown.
func (p *Partial) ref(h *primitives.Hash) uint32 {
	if i, ok := p.strings.index[*h]; ok {
		return i + 1
	}
	if p.added != nil {
		if i, ok := p.added.find(h); ok {
			return uint32(len(p.strings.list)) + i + 1
		}
	}
	return 0
}

// at returns the string of a reference.
func (p *Partial) at(ref uint32) []byte {
	if i := int(ref) - 1; i < len(p.strings.list) {
		return p.strings.list[i]
	}
	return p.added.list[int(ref)-1-len(p.strings.list)]
}

// proofNode is a view of a node's encoding. A proofNode aliases the encoding.
type proofNode struct {
	kind  Kind
	mask  uint16
	len   uint32
	usage uint64
	key   []byte // hex-prefix encoding of the key; only of leaves and extensions
	value []byte // length (u32) ‖ hash; only of leaves and branches with a value
	kids  []byte // hashes of a branch's children, or of an extension's child
}

func (n *proofNode) hasValue() bool { return n.value != nil }

func (n *proofNode) valueID() ValueID {
	return ValueID{le32(n.value), primitives.Hash(n.value[4:])}
}

// kid returns the hash of a branch's child, or nil if there is none.
func (n *proofNode) kid(nibble byte) *primitives.Hash {
	if n.mask>>nibble&1 == 0 {
		return nil
	}
	i := bits.OnesCount16(n.mask & (1<<nibble - 1))
	return (*primitives.Hash)(n.kids[32*i:])
}

// child returns the hash of an extension's child.
func (n *proofNode) child() *primitives.Hash { return (*primitives.Hash)(n.kids) }

// own returns the memory usage of the node itself.
func (n *proofNode) own() (usage uint64) {
	switch n.kind {
	case Leaf, Extension:
		usage = keyCost(len(n.key))
	default:
		usage = costNode
	}
	if n.hasValue() {
		usage += valueCost(le32(n.value))
	}
	return usage
}

func le32(b []byte) uint32 {
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

func le64(b []byte) uint64 { return uint64(le32(b)) | uint64(le32(b[4:]))<<32 }

// parseNode parses an encoding. ok is false if s is not the canonical encoding of a node.
func parseNode(s []byte) (n proofNode, ok bool) {
	if len(s) < 1+rawUsage {
		return n, false
	}
	n.kind, n.len, n.usage = Kind(s[0]), uint32(len(s)), le64(s[len(s)-rawUsage:])
	rest := s[1 : len(s)-rawUsage]
	switch n.kind {
	case Leaf, Extension:
		tail := 36
		if n.kind == Extension {
			tail = 32
		}
		if len(rest) < 4+1+tail || uint64(le32(rest)) != uint64(len(rest)-4-tail) {
			return n, false
		}
		n.key = rest[4 : len(rest)-tail]
		if !wellFormed(n.key, n.kind == Leaf) {
			return n, false
		}
		if n.kind == Leaf {
			n.value = rest[len(rest)-tail:]
		} else {
			n.kids = rest[len(rest)-tail:]
		}
	case Branch, BranchWithValue:
		if n.kind == BranchWithValue {
			if len(rest) < 36 {
				return n, false
			}
			n.value, rest = rest[:36], rest[36:]
		}
		if len(rest) < 2 {
			return n, false
		}
		n.mask, n.kids = uint16(rest[0])|uint16(rest[1])<<8, rest[2:]
		if len(n.kids) != 32*bits.OnesCount16(n.mask) {
			return n, false
		}
	default:
		return n, false
	}
	return n, n.usage >= n.own() && n.usage <= maxUsage
}

// wellFormed returns whether key is the hex-prefix encoding of the nibbles of a leaf or an
// extension. An extension needs at least one nibble.
func wellFormed(key []byte, leaf bool) bool {
	if len(key) > MaxKeyLen+1 {
		return false
	}
	head := key[0]
	if head&0x20 != 0 != leaf || head&0xc0 != 0 {
		return false
	}
	if head&0x10 == 0 {
		return head&0xf == 0 && (leaf || len(key) > 1)
	}
	return true
}

// node returns the node with a hash and records the node.
func (p *Partial) node(h *primitives.Hash, rec *Recording) (proofNode, error) {
	ref := p.ref(h)
	if ref == 0 {
		return proofNode{}, fmt.Errorf("%w: node %v", ErrMissing, *h)
	}
	n, ok := parseNode(p.at(ref))
	if !ok {
		return proofNode{}, fmt.Errorf("%w: the string with hash %v is not a trie node", ErrCorrupt, *h)
	}
	if rec != nil {
		rec.bindProof(p)
		rec.addRef(h[:], n.len, ref)
	}
	return n, nil
}

// Value returns the bytes of a value, read-only, and records the value.
func (p *Partial) Value(v ValueID, rec *Recording) ([]byte, error) {
	ref := p.ref(&v.Hash)
	if ref == 0 {
		return nil, fmt.Errorf("%w: value %v", ErrMissing, v.Hash)
	}
	s := p.at(ref)
	if uint64(len(s)) != uint64(v.Len) {
		return nil, fmt.Errorf("%w: the value with hash %v has %d bytes, expected %d", ErrCorrupt, v.Hash, len(s), v.Len)
	}
	if rec != nil {
		rec.bindProof(p)
		rec.addRef(v.Hash[:], v.Len, ref)
	}
	if s == nil {
		s = []byte{}
	}
	return s, nil
}
