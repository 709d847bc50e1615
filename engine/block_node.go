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

// Errors that do not prove a block invalid.
var (
	ErrOrphan = errors.New("engine: the parent block is unknown")
	ErrKnown  = errors.New("engine: the block is imported already")
	ErrOld    = errors.New("engine: the block does not descend from the final block")
	// ErrMissing means that the body of a new chunk is missing.
	ErrMissing = errors.New("engine: the body or receipt proofs of a chunk are missing")
	// ErrReshard means that a shard layout differs from the previous layout by more than one split
	// into two shards (nearcore chain/chain/src/resharding/event_type.rs).
	ErrReshard = errors.New("engine: unsupported change of the shard layout")
)

// BlockNode is a node of the in-memory block tree: an imported block with the results of applying
// it. Its exported fields do not change after the import. A BlockNode does not record whether the
// block is canonical.
type BlockNode struct {
	Block  *primitives.Block
	Hash   primitives.Hash
	Layout primitives.ShardLayout    // layout of the block's epoch
	Config *parameters.RuntimeConfig // runtime config of the epoch's protocol version
	// Tree contains the hashes of all blocks before this one. Tree.Size()+1 is the block's ordinal.
	Tree   *primitives.PartialMerkleTree
	Shards []ShardState // states by shard index

	finalHeight primitives.Height // height of Header.LastFinalBlock; the genesis height if LastFinalBlock is zero
	refs        atomic.Int64      // number of holders of the state roots; 0: the roots were released
	persisted   atomic.Bool       // the block is on disk and visible to readers
	// an ancestor that was final; zero: none. Only the engine's goroutine uses this field.
	descendsFrom primitives.Hash
	// replaces is the node that this node replaced in the tree when a shard was added, or nil. The
	// last Release of this node releases replaces. replaces owns the states of the other shards.
	replaces *BlockNode
	evicted  bool // states, chunks and receipts are in the store, but not in memory (block_evict.go)

	rules      atomic.Pointer[nextRules] // rules of the block's children; nil: not computed yet
	childrenMu sync.Mutex
	children   *reshardChildren // nil: the children have the same layout, or their layout is not computed yet
}

// ShardState is the state of one shard after a block.
type ShardState struct {
	ID    primitives.ShardID
	Extra *chain.ChunkExtra // nil: this node does not hold the shard's state
	// Chunk is the block's new chunk, or nil if the shard has none. If the shard is not held, the
	// chunk has receipt proofs instead of a body.
	Chunk *primitives.Chunk
	// Result is the result of applying the chunk. Readers must not use Result.Trie. Result is nil
	// after a restart, and if the shard is not held.
	Result *apply.Result
	// Outgoing are the receipts that the shard's last new chunk created. The shard's next chunk
	// carries them.
	Outgoing []*primitives.Receipt
	// OutgoingAt is the block that includes the shard's last new chunk. OutgoingAt is zero if the
	// receipts went to the sibling shard of a split. OutgoingOf is the shard of that chunk: this
	// shard, or this shard's parent if the chunk is from before the split.
	OutgoingAt primitives.Hash
	OutgoingOf primitives.ShardID
	// Incoming are the receipts for the shard from this block's new chunks, in the order of
	// application. Incoming is empty if the shard is not held.
	Incoming []*primitives.Receipt

	root *trie.Root
	// brought has receipts from the chunks of shards that are not held. brought is set only for a
	// shard whose state was caught up after the block.
	brought []primitives.ReceiptProof
}

// Header returns the block's header.
func (e *BlockNode) Header() *primitives.BlockHeader { return e.Block.Header }

// Height returns the block's height.
func (e *BlockNode) Height() primitives.Height { return e.Block.Header.Height }

// FinalHeight returns the height of the last final block according to this block's header. It is
// the genesis height if the header names no final block.
func (e *BlockNode) FinalHeight() primitives.Height { return e.finalHeight }

// Acquire holds the states after the block until Release. It returns false if the states were
// released already. Safe for concurrent use.
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

// Release ends one Acquire. The last Release frees the states that the block does not share with
// other blocks.
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

// Changes returns the block's state changes in all shards, ordered by key. After a restart Changes
// returns nil; the store has the changes.
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

// Root returns a shard's state after the block, or nil if the shard is not held. The Root is valid
// while the node is held with Acquire.
func (e *BlockNode) Root(shard primitives.ShardIndex) *trie.Root { return e.Shards[shard].root }
