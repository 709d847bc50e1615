package engine

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage/trie"
)

// Errors of blocks that are not the sender's fault.
var (
	ErrOrphan = errors.New("engine: parent is not known")
	ErrKnown  = errors.New("engine: block is known")
	ErrOld    = errors.New("engine: block does not descend from the final one")
	// ErrMissing reports that the body of a new chunk is missing.
	ErrMissing = errors.New("engine: a chunk is missing")
	// ErrReshard reports a layout change of more than one split into two shards (nearcore
	// chain/chain/src/resharding/event_type.rs).
	ErrReshard = errors.New("engine: the shard layout changes by more than one split")
)

// BlockNode is a node of the in-memory block tree: an imported block with the results of applying
// it. It is immutable after the import, except for what the engine keeps in unexported fields.
// Whether it is canonical is not part of it.
type BlockNode struct {
	Block  *primitives.Block
	Hash   primitives.Hash
	Layout primitives.ShardLayout    // of the block's epoch
	Config *parameters.RuntimeConfig // of the epoch's version
	// Tree contains the hashes of all blocks before this one. Its size plus one is the block's
	// ordinal.
	Tree   *primitives.PartialMerkleTree
	Shards []ShardState // by index

	finalHeight  primitives.Height // of Header.LastFinalBlock; the genesis's if that is zero
	refs         atomic.Int64      // holders of the state roots; 0: released
	persisted    atomic.Bool       // on disk and visible to readers
	descendsFrom primitives.Hash   // a final block that it is known to descend from; only the engine's goroutine uses it
	// The node that this one replaced when a shard was added. This one holds it, and through it the
	// other shards' states. nil: none.
	replaces *BlockNode
	evicted  bool // without states, chunks and receipts, which the store has; see block_evict.go

	rules      atomic.Pointer[nextRules] // of its children; nil: not computed yet
	childrenMu sync.Mutex
	children   *reshardChildren // nil: the next layout is the same, or not computed yet
}

// ShardState is the state of one shard after a block.
type ShardState struct {
	ID    primitives.ShardID
	Extra *chain.ChunkExtra // nil: this node does not hold the shard
	// Chunk is the block's new chunk, nil if the shard has none. For a shard that is not held it
	// has receipt proofs instead of the body.
	Chunk *primitives.Chunk
	// Result is the result of applying the chunk. Its Trie must not be used. nil after a restart
	// and for a shard that is not held.
	Result *apply.Result
	// Outgoing are the receipts that the shard's last new chunk created. The next chunk carries
	// them.
	Outgoing []*primitives.Receipt
	// OutgoingAt is the block of that last new chunk, zero if a split gave its receipts to the
	// sibling. OutgoingOf is the shard that had the chunk: this one, or its parent.
	OutgoingAt primitives.Hash
	OutgoingOf primitives.ShardID
	// Incoming are the receipts that this block's new chunks bring to the shard, in application
	// order. Empty if the shard is not held.
	Incoming []*primitives.Receipt

	root *trie.Root
	// For a shard that was caught up later than the block: the receipts that chunks of shards which
	// are not held brought. Else empty.
	brought []primitives.ReceiptProof
}

// Header returns the block's header.
func (e *BlockNode) Header() *primitives.BlockHeader { return e.Block.Header }

// Height returns the block's height.
func (e *BlockNode) Height() primitives.Height { return e.Block.Header.Height }

// FinalHeight returns the height of the last final block according to this block, the genesis's if
// there is none.
func (e *BlockNode) FinalHeight() primitives.Height { return e.finalHeight }

// Acquire retains the state roots and returns false if they were released already. Each successful
// Acquire needs a Release. Safe for concurrent use.
func (e *BlockNode) Acquire() bool {
	for {
		n := e.refs.Load()
		if n == 0 {
			return false
		}
		if e.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release ends one Acquire. The last one frees what no other block shares.
func (e *BlockNode) Release() {
	if e.refs.Add(-1) > 0 {
		return
	}
	for i := range e.Shards {
		if r := e.Shards[i].root; r != nil && (e.replaces == nil || e.replaces.Shards[i].root == nil) {
			r.Release()
		}
	}
	e.childrenMu.Lock()
	defer e.childrenMu.Unlock()
	if e.children != nil {
		e.children.release(e)
		e.children = nil
	}
	if e.replaces != nil {
		e.replaces.Release()
	}
}

// Changes returns the state changes of the block in all its shards, ascending by key. It is empty
// after a restart; then the store has them.
func (e *BlockNode) Changes() []primitives.KeyChanges {
	var all []primitives.KeyChanges
	for i := range e.Shards {
		if r := e.Shards[i].Result; r != nil {
			all = append(all, r.Changes...)
		}
	}
	slices.SortStableFunc(all, func(a, b primitives.KeyChanges) int { return bytes.Compare(a.Key, b.Key) })
	return all
}

// Root returns a shard's state after the block, or nil if the shard is not held. It is valid while
// the node is held (Acquire).
func (e *BlockNode) Root(shard primitives.ShardIndex) *trie.Root { return e.Shards[shard].root }
