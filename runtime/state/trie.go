package state

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// ErrInconsistent means that the state contradicts itself (nearcore StorageInconsistentState). The
// chunk cannot be applied.
var ErrInconsistent = errors.New("storage is inconsistent")

// Inconsistent returns an error that wraps ErrInconsistent and has the given text.
func Inconsistent(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInconsistent, fmt.Errorf(format, args...))
}

// ValueRef has the length and hash of a value in the trie. The value itself is not read.
type ValueRef struct {
	Hash primitives.Hash
	Len  uint32 // length of the value in bytes
}

// Visit is a trie node on the path to a key.
type Visit struct {
	Hash primitives.Hash
	Len  uint32 // length of the encoded node in bytes
}

// Change is the new value of a key; nil removes the key.
type Change struct {
	Key   []byte
	Value []byte
	Known bool // true: the recording passed to Update contains all nodes on the key's path
}

// Recording collects the distinct nodes and values that reads touch, each counted once (nearcore
// TrieRecorder). Not safe for concurrent use.
type Recording interface {
	Size() uint64 // returns the total size of the nodes and values in bytes
	// Merge adds the nodes and values of o, in o's order. The receiver and o must be recordings of
	// one Trie.
	Merge(o Recording)
	Reset()
}

// Trie is a snapshot of a shard's state at one root. With a nil Recording, methods record nothing.
// The caller must not change the values and keys that a Trie returns. Values and keys are valid
// until the snapshot is released. Reads are safe for concurrent use if each read has its own
// Recording.
type Trie interface {
	Root() primitives.Hash
	NewRecording() Recording
	// Get returns the value of a key; nil if the key is absent (an empty value is not nil). Get
	// records the nodes on the path and the value.
	Get(key []byte, rec Recording) ([]byte, error)
	// Lookup finds a key without reading its value. Lookup records the nodes on the path, even if
	// the key is absent.
	Lookup(key []byte, rec Recording) (ref ValueRef, found bool, err error)
	// Path does the same as Lookup, and also appends the nodes on the path of the key to path.
	// Contracts pay for these nodes when they write.
	Path(key []byte, rec Recording, path []Visit) ([]Visit, ValueRef, bool, error)
	// Scan calls yield for the keys greater than after (nil: for all keys) that begin with prefix,
	// in ascending order, until yield returns false. Scan records the nodes on the path to the
	// prefix, all nodes under the prefix, and all values, as nearcore's iterator does.
	Scan(prefix, after []byte, rec Recording, yield func(key, value []byte) bool) error
	// Update returns a new trie with the changes, which must be sorted by key. Update records the
	// old nodes that nearcore reads for the update.
	Update(changes []Change, rec Recording) (Trie, error)
	// MemoryUsage returns the memory usage in the root node; 0 for an empty trie. The root node is
	// not recorded, because every chunk reads it anyway.
	MemoryUsage() uint64
	// FindSplit finds the account that halves the shard (nearcore core/store/src/trie/split.rs). It
	// returns ErrNoSplit if no account halves the shard.
	FindSplit(rec Recording) (primitives.TrieSplit, error)
}

// Warmer is a Trie of which some nodes may not be resident in memory.
type Warmer interface {
	Trie
	// Cold returns whether recent lookups had to wait for nodes to be loaded. If so, prefetching in
	// parallel is worthwhile.
	Cold() bool
}

// Proven is a Trie that was built from a state proof. A proof does not contain contract code. Code
// arrives in separate messages, and CodeOf finds it by the code's hash, not by its trie key.
type Proven interface {
	Trie
	// CodeOf returns the code with this hash; nil if the code has not arrived.
	CodeOf(hash primitives.Hash) []byte
}

// Forked is the Trie of a fork of another chain. Where a Forked has no local entry, it reads the
// state of the other chain. A removed key has a removal mark among the local entries.
type Forked interface {
	Trie
	// Local returns a Trie of the local entries only, including the removal marks.
	Local() Trie
}

// ErrAway is wrapped by errors of a Forked trie if the other chain's node does not provide the
// data, or provides data that cannot be verified. This node is not at fault, and a retry may
// succeed.
var ErrAway = errors.New("the node of the forked chain does not provide it")

// ErrMissing is wrapped by errors of a Proven trie if the proof does not contain a required node or
// value.
var ErrMissing = errors.New("the trie node or value is missing from the proof")

// CodeAccess is code that the chunk called and that was in the state before the chunk.
type CodeAccess struct {
	Hash primitives.Hash
	Key  []byte // trie key of the code of an account that has this code
}

// ErrNoSplit is wrapped by errors of FindSplit if the shard cannot be split. Other errors of
// FindSplit are failures of the store.
var ErrNoSplit = errors.New("the shard cannot be split")
