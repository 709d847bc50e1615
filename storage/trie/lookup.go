package trie

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/troupe-chain/troupe/primitives"
)

// ValueRef refers to a value of a root. A ValueRef is valid while that root is held.
type ValueRef struct {
	ValueID
	ref uint32
}

// Visit is a node on the path of a key.
type Visit struct {
	Hash primitives.Hash
	Len  uint32 // length of the node's encoding in bytes
}

// Lookup finds key. rec, unless nil, records every node on the path of the key. If the key is
// absent, Lookup records the nodes down to where the path ends. The value is not recorded. The
// errors are the errors of loading a subtree.
func (r *Root) Lookup(key []byte, rec *Recording) (v ValueRef, found bool, err error) {
	v, _, found, err = r.walk(key, rec, nil, false, true)
	return v, found, err
}

// errNotLoaded ends a walk that must not load.
var errNotLoaded = errors.New("trie: the node is not in memory")

// Peek returns the value of key, or nil if there is none, without loading anything. known is false
// if a subtree would have to be loaded for the answer. A reader of a single value then reads it
// from the flat state, which is cheaper.
func (r *Root) Peek(key []byte) (value []byte, known bool) {
	v, _, found, err := r.walk(key, nil, nil, false, false)
	if err != nil || !found {
		return nil, err == nil
	}
	return r.Value(v, nil), true
}

// Path does the same as Lookup, and also appends the nodes on the key's path to path. A contract
// pays for a write by the number of these nodes, whether rec had recorded them before or not.
func (r *Root) Path(key []byte, rec *Recording, path []Visit) (_ []Visit, v ValueRef, found bool, err error) {
	v, path, found, err = r.walk(key, rec, path, true, true)
	return path, v, found, err
}

// Get returns the value of key and records the path and the value. Nil without an error means
// absent. An empty value is not nil. The bytes are read-only and valid while r is held.
func (r *Root) Get(key []byte, rec *Recording) ([]byte, error) {
	v, found, err := r.Lookup(key, rec)
	if !found {
		return nil, err
	}
	return r.Value(v, rec), nil
}

// Prove returns the encodings of the nodes on the path of key, top first. NewPartial accepts these
// encodings as a proof.
func (r *Root) Prove(key []byte) ([][]byte, error) {
	var rec Recording
	if _, _, err := r.Lookup(key, &rec); err != nil {
		return nil, err
	}
	out := make([][]byte, rec.Len())
	for i := range out {
		out[i] = rec.AppendBytes(nil, i)
	}
	return out, nil
}

// Value returns the bytes of v and records v. The bytes are read-only and valid while r is held.
func (r *Root) Value(v ValueRef, rec *Recording) []byte {
	f := r.forest
	if rec != nil {
		rec.bind(f)
		rec.add(v.Hash[:], v.Len, v.ref, true)
	}
	return f.valueOf(f.arena.mem().at(v.ref))
}

// walk follows a key from the root. If collect is set, walk appends the nodes to path. If load is
// not set, walk returns errNotLoaded where it reaches a node that is not in memory.
func (r *Root) walk(key []byte, rec *Recording, path []Visit,
	collect, load bool) (v ValueRef, _ []Visit, found bool, err error) {
	f, ref, pos := r.forest, r.ref, 0
	if rec != nil {
		rec.bind(f)
	}
	m := f.arena.mem()
	for ref != 0 {
		n := m.at(ref)
		if n.kind() == kindHash {
			if !load && f.hashNodes.get(n.child()).target.Load() == 0 {
				return v, path, false, errNotLoaded
			}
			if ref, err = f.load(n); err != nil {
				return v, path, false, err
			}
			m = f.arena.mem()
			n = m.at(ref)
		}
		if rec != nil {
			rec.addNode(ref, n)
		}
		if collect {
			path = append(path, Visit{n.hashValue(), n.rawLen()})
		}
		switch n.kind() {
		case kindLeaf:
			if !matchLeaf(key, pos, n.ext()) {
				return v, path, false, nil
			}
			return refOf(ref, n), path, true, nil
		case kindExtension:
			l, ok := matchExt(key, pos, n.ext())
			if !ok {
				return v, path, false, nil
			}
			pos += l
			ref = n.child()
		default:
			if pos == 2*len(key) {
				if n.kind() == kindBranchValue {
					return refOf(ref, n), path, true, nil
				}
				return v, path, false, nil
			}
			nibble := key[pos>>1] >> 4
			if pos&1 == 1 {
				nibble = key[pos>>1] & 0xf
			}
			pos++
			mask := n.mask()
			if mask>>nibble&1 == 0 {
				return v, path, false, nil
			}
			i := bits.OnesCount16(mask & (1<<nibble - 1))
			ref = binary.LittleEndian.Uint32(n[bodyAt+4*i:])
		}
	}
	return v, path, false, nil
}

// refOf returns the value of a node that has one.
func refOf(ref uint32, n node) ValueRef {
	v := ValueRef{ValueID{Len: n.valueLen()}, ref}
	copy(v.Hash[:], n.valueHash())
	return v
}

// resolve follows a reference. If the reference leads to a hash node, resolve returns the top of
// that node's subtree, and loads the subtree if needed. locked says that the caller is the writer.
func (f *Forest) resolve(ref uint32, locked bool) (uint32, node, error) {
	n := f.arena.mem().at(ref)
	if n.kind() != kindHash {
		return ref, n, nil
	}
	var err error
	if locked {
		ref, err = f.loadLocked(n)
	} else {
		ref, err = f.load(n)
	}
	if err != nil {
		return 0, nil, err
	}
	n = f.arena.mem().at(ref)
	if n.kind() == kindHash {
		return 0, nil, fmt.Errorf("trie: loading the hash node at path %x gave a hash node again", n.hashNodePath())
	}
	return ref, n, nil
}
