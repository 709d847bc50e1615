package state

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// ErrInconsistent says that the state contradicts itself: nearcore's StorageInconsistentState. A
// chunk that meets it cannot be applied.
var ErrInconsistent = errors.New("storage is inconsistent")

// Inconsistent returns an ErrInconsistent with a text.
func Inconsistent(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInconsistent, fmt.Errorf(format, args...))
}

// ValueRef is a value in the trie, found but not read.
type ValueRef struct {
	Hash primitives.Hash
	Len  uint32 // bytes
}

// Visit is a node that a path passes.
type Visit struct {
	Hash primitives.Hash
	Len  uint32 // of its encoding
}

// Change is one key's new value; nil removes it.
type Change struct {
	Key   []byte
	Value []byte
	Known bool // the recording that Update gets has the whole path of the key
}

// Recording collects the distinct nodes and values that reads touch, each counted once (nearcore
// TrieRecorder). It is for one goroutine at a time.
type Recording interface {
	Size() uint64 // bytes of all that was recorded
	// Merge records what o, made by the same Trie, has, in o's order.
	Merge(o Recording)
	Reset()
}

// Trie is a snapshot of a shard's state at one root. A nil Recording records nothing. Values and
// keys that it returns are read only and last as long as the snapshot is held. Reads may run at the
// same time, each with its own Recording.
type Trie interface {
	Root() primitives.Hash
	NewRecording() Recording
	// Get returns the value of a key, nil if it is absent (an empty value is not nil), and records
	// the nodes on its path and the value.
	Get(key []byte, rec Recording) ([]byte, error)
	// Lookup finds a key; it records the nodes on its path, also of an absent key, but not the
	// value.
	Lookup(key []byte, rec Recording) (ref ValueRef, found bool, err error)
	// Path is Lookup that appends the nodes on the path, as many as contract writes pay for.
	Path(key []byte, rec Recording, path []Visit) ([]Visit, ValueRef, bool, error)
	// Scan calls yield for the keys behind after (nil: all) that begin with prefix, ascending,
	// until yield returns false. It records the nodes to and under the prefix, and all values, as
	// nearcore's iterator does.
	Scan(prefix, after []byte, rec Recording, yield func(key, value []byte) bool) error
	// Update returns the trie with the changes, whose keys ascend, and records the old nodes that
	// nearcore's update reads.
	Update(changes []Change, rec Recording) (Trie, error)
	// MemoryUsage is the root node's; 0 of an empty trie. The root node is not recorded: every
	// chunk reads it anyway.
	MemoryUsage() uint64
	// FindSplit looks for the account that halves the shard (nearcore
	// core/store/src/trie/split.rs). ErrNoSplit: there is none.
	FindSplit(rec Recording) (primitives.TrieSplit, error)
}

// Warmer is a Trie of which not all is in memory.
type Warmer interface {
	Trie
	// Cold tells whether looks at it have lately had to wait for loading, so that keys are better
	// looked up ahead, side by side.
	Cold() bool
}

// Proven is a Trie that is made of a proof. A proof lacks contracts' code, which comes another way:
// it is known by its hash and not by where it stands.
type Proven interface {
	Trie
	// CodeOf returns the code of a hash, nil if nobody brought it.
	CodeOf(hash primitives.Hash) []byte
}

// Forked is a Trie through which another chain's state shows where it has nothing itself. What is
// taken away leaves a mark in it.
type Forked interface {
	Trie
	// Local is what was written here, marks included.
	Local() Trie
}

// ErrAway is wrapped by errors of a Trie of a fork whose other chain does not give what is needed,
// or nothing that can be believed. It is nobody's fault here, and may be otherwise later.
var ErrAway = errors.New("the chain that this is a fork of does not give it")

// ErrMissing is wrapped by errors of a Trie that is made of a proof where that does not go.
var ErrMissing = errors.New("missing from the proof")

// CodeAccess is code that stood in the state before the chunk and was called in it.
type CodeAccess struct {
	Hash primitives.Hash
	Key  []byte // where it stood, of one account that has it
}

// ErrNoSplit is wrapped by errors of FindSplit that mean that the shard cannot be split, as opposed
// to a broken store.
var ErrNoSplit = errors.New("no split")
