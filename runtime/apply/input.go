package apply

import (
	"errors"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/bandwidth"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/verify"
)

// ErrInput says that the caller's input lacks something that every chunk has.
var ErrInput = errors.New("apply: input")

// Par runs do(0) … do(n-1), in any order and at the same time, and returns when all are done.
type Par func(n int, do func(i int))

// Input is all that a chunk's result depends on. Nothing in it is changed.
type Input struct {
	Trie   state.Trie // the shard's state before the chunk
	Block  action.Block
	Layout primitives.ShardLayout // of the block's epoch

	// NewChunk is false if the chunk is missing in this block: then only validators' accounts and
	// the bandwidth scheduler change the state. GasLimit is the chunk header's.
	NewChunk bool
	GasLimit primitives.Gas

	Congestion []ShardCongestion          // of all shards, from the chunk headers in this block
	Requests   []bandwidth.SenderRequests // of all chunks in this block, missing ones' old headers included

	Validators *ValidatorUpdate // nil but in the first block of an epoch
	Split      *SplitRule       // nil unless a split may be proposed in this block

	Transactions []Transaction
	Incoming     []*primitives.Receipt // in the order of OrderIncoming
	// Patch is what a sandbox writes into the state behind all else, of accounts of this shard. It
	// needs a new chunk.
	Patch []genesis.Record
	// Signature checks transactions; nil: verify.CheckSignature.
	Signature verify.SignatureFunc

	// Recording, if not nil, is an empty one of the trie's whose memory is used again; the result
	// returns it.
	Recording state.Recording

	// Par runs receipts of different receivers at the same time; nil: one by one. With Par, the
	// functions and interfaces in Block are called by several goroutines.
	Par    Par
	window windowSizes
}

// ShardCongestion is a shard's congestion info with how many chunks it has missed: block height
// less height_included.
type ShardCongestion struct {
	Shard  primitives.ShardID
	Info   primitives.CongestionInfo
	Missed uint64
}

// Transaction is a transaction of the chunk, with what the chain says of the block it refers to:
// known, an ancestor and not too old. If not, its outcome is Expired.
type Transaction struct {
	*primitives.SignedTransaction
	Valid bool
}

// ValidatorUpdate is what the first block of an epoch does to validators' accounts. Accounts of
// other shards are ignored.
type ValidatorUpdate struct {
	// Stakes holds, for every account that changes stake in the epochs of the previous block, the
	// next and the one after, the maximum over the three.
	Stakes  []AccountAmount
	Rewards []AccountAmount // of the finished epoch, as the epoch after the next records them
	// LastProposals are the chunk header's prev_validator_proposals, or a missing chunk's last
	// chunk extra's.
	LastProposals []primitives.ValidatorStake
	Treasury      primitives.AccountID
}

// AccountAmount is an account with an amount.
type AccountAmount struct {
	Account primitives.AccountID
	Amount  primitives.Balance
}

// SplitRule says when a shard proposes to be split (runtime.md 6.8), once the time is right for it.
type SplitRule struct {
	MaxShards       int
	Force           []primitives.ShardID
	Block           []primitives.ShardID
	MemoryThreshold uint64
	MinChildMemory  uint64
}

// Source says how a receipt came to be processed in the chunk in which it was made or delayed.
type Source byte

// The sources. Incoming receipts that run at once are not listed: they are in the input.
const (
	SourceLocal   Source = iota // of a transaction whose signer is the receiver
	SourceDelayed               // from the queue
	SourceInstant               // made by the receipt before
)

// Processed is a receipt that was processed, though perhaps only stored to wait for inputs.
type Processed struct {
	*primitives.Receipt
	Source Source
}

// Origin names what made a receipt: a transaction or another receipt.
type Origin struct{ Receipt, Parent primitives.Hash }

// Resume is a resume without data that the chunk made for a yield that has timed out. The yield is
// Account's, and waits for DataID.
type Resume struct {
	Receipt primitives.Hash
	Account primitives.AccountID
	DataID  primitives.Hash
}

// Outgoing are the receipts for one shard, in order.
type Outgoing struct {
	Shard    primitives.ShardID
	Receipts []*primitives.Receipt
	Hash     primitives.Hash // H(borsh(shard id, receipts)): what the outgoing root is made of
}

// Result is what applying a chunk gives.
type Result struct {
	Trie              state.Trie
	Outcomes          []primitives.OutcomeWithID // transactions, then receipts as executed
	OutcomeRoot       primitives.Hash
	Outgoing          []*primitives.Receipt // in order of leaving
	OutgoingByShard   []Outgoing            // one for each shard, by index
	OutgoingRoot      primitives.Hash
	GasUsed           primitives.Gas
	BalanceBurnt      primitives.Balance
	Proposals         []primitives.ValidatorStake // one an account
	Congestion        primitives.CongestionInfo
	BandwidthRequests []primitives.BandwidthRequest
	ProposedSplit     *primitives.TrieSplit
	Changes           []primitives.KeyChanges // by key
	Olds              []state.OldValue        // of the same keys, as far as they were read: with Par fewer are known
	RecordedSize      uint64                  // of the proof, in bytes
	Recording         state.Recording
	Accesses          []state.CodeAccess // code that was called and is in no recording
	Processed         []Processed
	// Origins are of the receipts made here that the chunk's outcomes and outgoing receipts do not
	// lead to: those that had to wait, in the queue or in a buffer, and distributions of global
	// code that another one made, which has no outcome. Resumes lacks them, too: their parents are
	// the yields.
	Origins       []Origin
	Resumes       []Resume
	YieldTimeouts []state.YieldTimeout // that were taken off the queue
	Stats         Stats
}

// Stats are counts for meters; no rule depends on them.
type Stats struct {
	Compute         uint64
	Local           int // receipts run or stored
	Delayed         int
	Incoming        int
	Postponed       int // pushed to the delayed queue
	DelayedLen      uint64
	Forwarded       int
	Buffered        int
	LimitedByGas    bool
	LimitedByProof  bool
	RanInParallel   int // receipts whose speculative run was kept
	RanAgain        int // receipts whose speculative run was not
	UpperBoundBytes uint64
}
