package state

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// ErrInconsistent means that the state contradicts itself (nearcore StorageInconsistentState). The
// chunk cannot be applied.
var ErrInconsistent = errors.New("storage is inconsistent")

// Inconsistent returns an error that wraps ErrInconsistent, with a text.
func Inconsistent(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInconsistent, fmt.Errorf(format, args...))
}

// ValueRef is a value that was found in the trie and not read.
type ValueRef struct {
	Hash primitives.Hash
	Len  uint32 // bytes
}

// Visit is a node on a path.
type Visit struct {
	Hash primitives.Hash
	Len  uint32 // of its encoding
}

// Change is the new value of a key; nil removes the key.
type Change struct {
	Key   []byte
	Value []byte
	Known bool // the recording passed to Update contains the whole path of the key
}

// Recording collects the distinct nodes and values that reads touch, each counted once (nearcore
// TrieRecorder). Not safe for concurrent use.
type Recording interface {
	Size() uint64 // bytes of all that was recorded
	// Merge adds what o has recorded, in o's order. The same Trie must have made both.
	Merge(o Recording)
	Reset()
}

// Trie is a snapshot of a shard's state at one root. With a nil Recording nothing is recorded.
// Values and keys that it returns must not be changed, and are valid as long as the snapshot is
// held. Reads are safe for concurrent use, each with its own Recording.
type Trie interface {
	Root() primitives.Hash
	NewRecording() Recording
	// Get returns the value of a key; nil if it is absent (an empty value is not nil). It records
	// the nodes on the path and the value.
	Get(key []byte, rec Recording) ([]byte, error)
	// Lookup finds a key without reading its value. It records the nodes on the path, also for an
	// absent key.
	Lookup(key []byte, rec Recording) (ref ValueRef, found bool, err error)
	// Path is Lookup that also appends the nodes on the path, which contract writes pay for.
	Path(key []byte, rec Recording, path []Visit) ([]Visit, ValueRef, bool, error)
	// Scan calls yield for the keys greater than after (nil: all) that begin with prefix, in
	// ascending order, until yield returns false. It records the nodes to and under the prefix, and
	// all values, as nearcore's iterator does.
	Scan(prefix, after []byte, rec Recording, yield func(key, value []byte) bool) error
	// Update returns a new trie with the changes, which must be sorted by key. It records the old
	// nodes that nearcore's update reads.
	Update(changes []Change, rec Recording) (Trie, error)
	// MemoryUsage returns the memory usage in the root node; 0 for an empty trie. The root node is
	// not recorded, because every chunk reads it anyway.
	MemoryUsage() uint64
	// FindSplit finds the account that halves the shard (nearcore core/store/src/trie/split.rs). It
	// returns ErrNoSplit if there is none.
	FindSplit(rec Recording) (primitives.TrieSplit, error)
}

// Warmer is a Trie that is partly not resident in memory.
type Warmer interface {
	Trie
	// Cold returns whether recent lookups had to wait for loading, so that prefetching in parallel
	// pays off.
	Cold() bool
}

// Proven is a Trie made of a state proof. A proof does not contain contract code, which arrives
// separately and is found by its hash, not by its key.
type Proven interface {
	Trie
	// CodeOf returns the code with a hash; nil if it did not arrive.
	CodeOf(hash primitives.Hash) []byte
}

// Forked is a Trie that reads through to another chain's state where it has no local entry.
// Removing a key leaves a mark.
type Forked interface {
	Trie
	// Local returns the local entries, marks included.
	Local() Trie
}

// ErrAway is wrapped by errors of a fork's Trie if the other chain does not provide the data, or
// provides data that cannot be verified. It is not a fault of this node, and a retry may succeed.
var ErrAway = errors.New("the node of the forked chain does not provide it")

// ErrMissing is wrapped by errors of a Trie made of a proof, if the proof does not contain the
// node.
var ErrMissing = errors.New("the trie node or value is missing from the proof")

// CodeAccess is code that was in the state before the chunk and was called in the chunk.
type CodeAccess struct {
	Hash primitives.Hash
	Key  []byte // its key in the state, of one of the accounts that have it
}

// ErrNoSplit is wrapped by errors of FindSplit if the shard cannot be split, as opposed to a
// failure of the store.
var ErrNoSplit = errors.New("the shard cannot be split")
