package state

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// ErrInconsistent says that the state contradicts itself: nearcore's StorageInconsistentState. A chunk that meets it
// cannot be applied.
var ErrInconsistent = errors.New("storage is inconsistent")

// Inconsistent returns an ErrInconsistent with a text.
func Inconsistent(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInconsistent, fmt.Errorf(format, args...))
}

// ValueRef is a value in the trie, found but not read.
type ValueRef struct {
	Hash  primitives.Hash
	Len   uint32 // bytes
	Token uint64 // the Trie's own way to the value
}

// Change is one key's new value; nil removes it.
type Change struct {
	Key   []byte
	Value []byte
}

// Recording collects the distinct nodes and values that reads touch, each counted once (nearcore TrieRecorder). It is for
// one goroutine at a time.
type Recording interface {
	Len() int     // strings recorded
	Size() uint64 // their length in bytes
	At(i int) (hash primitives.Hash, size uint32)
	Contains(h primitives.Hash) bool
	// Merge records what o, made by the same Trie, has, in o's order.
	Merge(o Recording)
	Reset()
}

// Trie is a snapshot of a shard's state at one root. A nil Recording records nothing. Values and keys that it returns are
// read only and last as long as the snapshot is held. Reads may run at the same time, each with its own Recording.
type Trie interface {
	Root() primitives.Hash
	NewRecording() Recording
	// Lookup finds a key; it records the nodes on its path, also when the key is absent.
	Lookup(key []byte, rec Recording) (ref ValueRef, found bool, err error)
	// Value reads a found value and records it.
	Value(ref ValueRef, rec Recording) ([]byte, error)
	// Scan calls yield for the keys at or after the later of prefix and from that begin with prefix, ascending, until yield
	// returns false. It records the nodes to and under the prefix, and all values, as nearcore's iterator does.
	Scan(prefix, from []byte, rec Recording, yield func(key, value []byte) bool) error
	// Update returns the trie with the changes, whose keys ascend, and records the old nodes that nearcore's update reads.
	Update(changes []Change, rec Recording) (Trie, error)
	// MemoryUsage is the root node's, which is recorded; 0 of an empty trie.
	MemoryUsage(rec Recording) (uint64, error)
	// FindSplit looks for the account that halves the shard (nearcore core/store/src/trie/split.rs). ErrNoSplit: there is none.
	FindSplit(rec Recording) (primitives.TrieSplit, error)
	// Code returns contract code by hash, wherever the store has it; nil if nowhere. Nothing is recorded.
	Code(hash primitives.Hash) ([]byte, error)
}

// ErrNoSplit is wrapped by errors of FindSplit that mean that the shard cannot be split, as opposed to a broken store.
var ErrNoSplit = errors.New("no split")
