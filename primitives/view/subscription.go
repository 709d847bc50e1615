package view

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/troupe-chain/troupe/primitives"
)

// Topic is what a subscription is about.
type Topic byte

// The topics.
const (
	TopicBlocks       Topic = iota
	TopicTransactions       // of an account, or by hash: each milestone as it is reached
	TopicOutcomes           // of an account as the executor
	TopicEvents             // NEP-297, of a contract
	TopicMessages           // all of each block, as nearcore's indexer framework streams it
)

// TopicNames are the topics as clients write them.
var TopicNames = []string{"blocks", "transactions", "outcomes", "events", "messages"}

// Subscription is what a subscriber wants to be told.
type Subscription struct {
	Topic Topic
	// Finality says how far blocks must be: RefOptimistic, RefNearFinal or RefFinal. Transactions
	// are told of optimistic blocks; their milestones say what is final.
	Finality        RefKind
	Account         primitives.AccountID
	Hashes          []primitives.Hash // of TopicTransactions, in place of an account
	Standard, Event string            // of TopicEvents; empty: all
	Of              *ShardFilter      // of TopicMessages; nil: all shards
	// of TopicMessages: the subscriber is in this process, and makes the texts that he wants by
	// Notice.Make
	Inside bool
	Texts  *atomic.Bool // with Inside: set when he makes one
	// After is where a subscriber has been told everything; nil: he begins with what comes next, or
	// at the height From.
	After *Cursor
	From  *primitives.Height
	// Lag is how many blocks a subscriber who was at the tip may fall behind while his sink has no
	// room.
	Lag uint64
	// Address is whose turn it is where many read the past; zero: of this process.
	Address [16]byte
}

// ShardFilter says which shards a message shows: those with one of the ids, and those that one of
// the accounts belongs to in the block's layout. The others look as nearcore shows those that a
// node does not track.
type ShardFilter struct {
	Shards   []primitives.ShardUID
	Accounts []primitives.AccountID
}

// Has tells whether a shard of a layout is shown; nil shows all.
func (f *ShardFilter) Has(layout primitives.ShardLayout, id primitives.ShardID) bool {
	if f == nil || slices.Contains(f.Shards, layout.UID(id)) {
		return true
	}
	return slices.ContainsFunc(f.Accounts, func(a primitives.AccountID) bool { return layout.ShardOf(a) == id })
}

// Cursor is a place in what subscribers are told: behind item Index of a block, or behind all of
// it.
type Cursor struct {
	At
	Index int // WholeBlock: behind all of it
}

// Of cursors: the Index behind a block, and that before a block's first item.
const (
	WholeBlock = math.MaxInt32
	NothingYet = -1
)

// AppendCursor appends {"block_hash", "height", "index"}.
func AppendCursor(b []byte, c *Cursor) []byte {
	b = AppendHash(append(b, `{"block_hash":`...), &c.Hash)
	b = appendUint(append(b, `,"height":`...), c.Height)
	if c.Index != WholeBlock {
		b = strconv.AppendInt(append(b, `,"index":`...), int64(c.Index), 10)
	}
	return append(b, '}')
}

// Notice is one thing that a subscriber is told: JSON members, the first of which is his cursor
// behind it. It is shared by those who are told the same, and only read.
type Notice struct {
	Cursor Cursor
	Body   []byte
	// of Subscription.Inside, in place of Body: the message itself; nil: this is another notice
	Make func() ([]byte, error)
}

// Sink takes what a subscriber is told. Its methods never wait and may be called from any
// goroutine.
type Sink interface {
	// Offer takes a notice; false: there is no room for it now. It comes from one goroutine at a
	// time, and not behind End.
	Offer(*Notice) bool
	// WhenRoom calls f once, when there is room again.
	WhenRoom(f func())
	// End is the last that a subscriber is told: why no more comes, and where he can go on.
	End(EndReason, *Cursor)
}

// EndReason says why a subscription ends.
type EndReason string

// The reasons.
const (
	EndSlow      EndReason = "SLOW_READER"   // what its client has not read is more than is kept for him
	EndDone      EndReason = "DONE"          // there is nothing more to tell: the transactions are final
	EndStopping  EndReason = "NODE_STOPPING" // the node goes away
	EndGone      EndReason = "CURSOR_LOST"   // what comes behind the cursor is not stored any more
	EndCancelled EndReason = "CANCELLED"     // its client wants no more
	EndFailed    EndReason = "FAILED"        // the node's own fault; going on at the cursor may work
)

// Subscriber is a subscription that has been admitted.
type Subscriber interface {
	// At is where it begins.
	At() Cursor
	// Start begins to tell.
	Start()
	// Cancel ends it; the sink may still be offered what was under way.
	Cancel()
	// Stop ends it as the node goes away: the sink is told where to go on.
	Stop()
}

// ErrLingering refuses a subscription: too many that have ended are still being taken down.
var ErrLingering = errors.New("too many subscriptions are being ended")

// CursorError says that it can't be told any more what comes behind a cursor.
type CursorError struct{ Earliest primitives.Height } // of the oldest block that is stored

func (e *CursorError) Error() string {
	return "what comes behind the cursor is not stored any more; the oldest block that is has height " + strconv.FormatUint(uint64(e.Earliest), 10)
}
