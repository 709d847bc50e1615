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

// Refusals of blocks that are not the sender's fault.
var (
	ErrOrphan = errors.New("engine: parent is not known")
	ErrKnown  = errors.New("engine: block is known")
	ErrOld    = errors.New("engine: block does not descend from the final one")
	// ErrMissing: the body of a new chunk is not there.
	ErrMissing = errors.New("engine: a chunk is missing")
	// ErrReshard: the layout changes by more than one split into two shards (nearcore resharding/event_type.rs).
	ErrReshard = errors.New("engine: the shard layout changes by more than one split")
)

// BlockNode is an adopted block with what applying it gave. It does not change once adopted, but for its place in the
// canonical chain, which the engine knows.
type BlockNode struct {
	Block  *primitives.Block
	Hash   primitives.Hash
	Layout primitives.ShardLayout    // of the block's epoch
	Config *parameters.RuntimeConfig // of the epoch's version
	// Tree holds the hashes of all blocks before this one; its size + 1 is the block's ordinal.
	Tree   *primitives.PartialMerkleTree
	Shards []ShardState // by index

	finalHeight  primitives.Height // of Header.LastFinalBlock; genesis's while there is none
	refs         atomic.Int64      // holders of the state roots; 0: they are gone
	persisted    atomic.Bool       // on disk, and readers may see it
	descendsFrom primitives.Hash   // a final block that it is known to descend from; the writer's own
	replaces     *BlockNode        // the same block before a shard came in, whose other states this one has by holding it; nil: none
	evicted      bool              // no states, chunks or receipts: they are to be had of the store, see block_evict.go

	rules      atomic.Pointer[nextRules] // of its children; nil: nobody has asked yet
	childrenMu sync.Mutex
	children   *reshardChildren // nil: the next layout is the same, or nobody has asked yet
}

// ShardState is what a block left of one shard.
type ShardState struct {
	ID    primitives.ShardID
	Extra *chain.ChunkExtra // nil: this node does not hold the shard
	// Chunk is the block's new chunk, nil if it missed one. Of a shard that is not held it has proofs in place of the body.
	Chunk *primitives.Chunk
	// Result is what applying gave; its Trie is not to be used. nil after a restart, and of a shard that is not held.
	Result *apply.Result
	// Outgoing are the receipts that the shard's last new chunk made for others: the next chunk carries them.
	Outgoing []*primitives.Receipt
	// OutgoingAt is the block of that last new chunk, zero if its receipts went to the sibling in a split; OutgoingOf is the
	// shard that had the chunk: this one, or the one that it came from.
	OutgoingAt primitives.Hash
	OutgoingOf primitives.ShardID
	// CatchupProgress are the receipts that this block's new chunks brought to the shard, in the order they are applied; none if it is not
	// held.
	Incoming []*primitives.Receipt

	root    *trie.Root
	brought []primitives.ReceiptProof // of Incoming what chunks that are not held brought, if the shard came in later than the block; else none
}

// Header returns the block's header.
func (e *BlockNode) Header() *primitives.BlockHeader { return e.Block.Header }

// Height returns the block's height.
func (e *BlockNode) Height() primitives.Height { return e.Block.Header.Height }

// FinalHeight is the height of the last final block as this block tells, the genesis's while there is none.
func (e *BlockNode) FinalHeight() primitives.Height { return e.finalHeight }

// Acquire holds the entry's state roots, unless they are gone already; Release gives them back.
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

// Release gives up one hold; the last one frees what no other block shares.
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

// Changes returns what the block did to the state of all its shards, ascending by key. It is empty after a restart: then
// the store has them.
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

// Root returns a shard's state after the block, nil of a shard that is not held. It is valid while the entry is held (Acquire).
func (e *BlockNode) Root(shard primitives.ShardIndex) *trie.Root { return e.Shards[shard].root }
