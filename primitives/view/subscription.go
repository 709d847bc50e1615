package view

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/troupe-chain/troupe/primitives"
)

// Topic is the subject of a subscription.
type Topic byte

// The topics.
const (
	TopicBlocks       Topic = iota
	TopicTransactions       // each execution level that transactions of an account, or with given hashes, reach
	TopicOutcomes           // outcomes whose executor is an account
	TopicEvents             // events (NEP-297) of a contract
	TopicMessages           // all data of each block, in the form of nearcore's indexer framework
)

// TopicNames are the topics as clients write them.
var TopicNames = []string{"blocks", "transactions", "outcomes", "events", "messages"}

// Subscription is a request for notices.
type Subscription struct {
	Topic Topic
	// Finality is the finality that blocks must have: RefOptimistic, RefNearFinal or RefFinal.
	// Transactions are reported from optimistic blocks; their levels include finality.
	Finality        RefKind
	Account         primitives.AccountID
	Hashes          []primitives.Hash // for TopicTransactions: used instead of Account
	Standard, Event string            // for TopicEvents: standard and name of the events; empty: all events
	Of              *ShardFilter      // for TopicMessages: the shards in the messages; nil: all shards
	// Inside is set by subscribers of TopicMessages in this process. Such subscribers call
	// Notice.Make for the texts that they need.
	Inside bool
	Texts  *atomic.Bool // only with Inside: the subscriber sets it when it calls Notice.Make
	// After is the cursor of the last notice that the subscriber has received. If it is nil, the
	// subscriber begins with the next notice, or at the height From.
	After *Cursor
	From  *primitives.Height
	// Lag is the maximum number of blocks by which a subscriber may fall behind again after it has
	// reached the tip.
	Lag uint64
	// Address identifies the client. If many clients read old blocks, they take turns. Zero: this
	// process.
	Address [16]byte
}

// ShardFilter selects the shards of a message: the shards with one of the ids, and the shards that
// hold one of the accounts in the block's layout. The other shards look like shards that a node
// does not track.
type ShardFilter struct {
	Shards   []primitives.ShardUID
	Accounts []primitives.AccountID
}

// Has returns whether a shard of a layout is selected; nil selects all.
func (f *ShardFilter) Has(layout primitives.ShardLayout, id primitives.ShardID) bool {
	if f == nil || slices.Contains(f.Shards, layout.UID(id)) {
		return true
	}
	return slices.ContainsFunc(f.Accounts, func(a primitives.AccountID) bool { return layout.ShardOf(a) == id })
}

// Cursor is a place in a stream of notices: after item Index of a block, or after the whole block.
type Cursor struct {
	At
	Index int // index of the last notice in the block; WholeBlock: the last one
}

// Values of Cursor.Index: after a whole block, and before its first item.
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

// Notice is one notice of a subscription: JSON members, the first of which is the cursor after the
// notice. Subscribers share a Notice, so they must not change it.
type Notice struct {
	Cursor Cursor
	Body   []byte
	// Make returns the message of a subscription with Inside. Body is then empty. nil in all other
	// notices.
	Make func() ([]byte, error)
}

// Sink receives the notices of a subscriber. Its methods never wait and may be called from any
// goroutine.
type Sink interface {
	// Offer takes a notice, or returns false if there is no room now. One goroutine at a time calls
	// Offer, and no goroutine calls it after End.
	Offer(*Notice) bool
	// WhenRoom calls f once, when there is room again.
	WhenRoom(f func())
	// End is called last. It receives the reason why no more notices come, and the cursor to resume
	// from.
	End(EndReason, *Cursor)
}

// EndReason is why a subscription ends.
type EndReason string

// The reasons.
const (
	EndSlow      EndReason = "SLOW_READER"   // the client read too slowly, so that its queue overflowed
	EndDone      EndReason = "DONE"          // the transactions are final, so no more notices follow
	EndStopping  EndReason = "NODE_STOPPING" // the node shuts down
	EndGone      EndReason = "CURSOR_LOST"   // the blocks after the cursor are no longer stored
	EndCancelled EndReason = "CANCELLED"     // the client has cancelled
	EndFailed    EndReason = "FAILED"        // the node had an error; resuming from the cursor may succeed
)

// Subscriber is an admitted subscription.
type Subscriber interface {
	// At returns the cursor at which the subscription begins.
	At() Cursor
	// Start begins to send notices.
	Start()
	// Cancel ends the subscription. The sink may still receive notices that were already being sent.
	Cancel()
	// Stop ends the subscription because the node shuts down. The sink gets the cursor to resume
	// from.
	Stop()
}

// ErrLingering means that a subscription is rejected because too many ended ones are still being
// removed.
var ErrLingering = errors.New("too many subscriptions are being ended; retry later")

// CursorError means that blocks after a cursor are no longer stored. Earliest is the height of the
// oldest stored block.
type CursorError struct{ Earliest primitives.Height }

func (e *CursorError) Error() string {
	return "what comes behind the cursor is not stored any more; the oldest block that is has height " + strconv.FormatUint(
		uint64(e.Earliest),
		10,
	)
}
