package apply

import (
	"errors"
	"sync/atomic"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/bandwidth"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/verify"
)

// ErrCanceled means that Input.Canceled has ended Apply.
var ErrCanceled = errors.New("apply: cancelled")

// ErrInput means that the input lacks something that every chunk needs.
var ErrInput = errors.New("apply: invalid input")

// Par runs do(0) … do(n-1) in any order, possibly at the same time, and returns when all these
// calls are done.
type Par func(n int, do func(i int))

// Input is everything that a chunk's result depends on. Apply does not change its Input.
type Input struct {
	Trie   state.Trie // the shard's state before the chunk
	Block  action.Block
	Layout primitives.ShardLayout // layout of the block's epoch

	// NewChunk is false if the chunk is missing in this block. Then only the validators' accounts
	// and the bandwidth scheduler change the state. GasLimit is the gas limit in the chunk header.
	NewChunk bool
	GasLimit primitives.Gas

	Congestion []ShardCongestion // congestion info of all shards, from the chunk headers in this block
	// Requests are the bandwidth requests in the headers of all chunks in this block. For a missing
	// chunk, the block repeats the header of the shard's last chunk.
	Requests []bandwidth.SenderRequests

	Validators *ValidatorUpdate // changes of the validators' accounts; nil except in the first block of an epoch
	Split      *SplitRule       // rule for a split of the shard; nil unless this block may propose a split

	Transactions []Transaction
	Incoming     []*primitives.Receipt // incoming receipts in the order of OrderIncoming
	// Patch has the records that a sandbox writes into the state at the end of the chunk. All
	// records belong to accounts of this shard. Only a new chunk can have a patch.
	Patch []genesis.Record
	// Signature verifies the signatures of transactions. nil: verify.CheckSignature.
	Signature verify.SignatureFunc

	// Recording is an empty recording whose memory Apply reuses. Result.Recording then is this
	// recording. nil: Apply makes a new recording.
	Recording state.Recording

	// Par runs receipts of different receivers in parallel. nil: receipts run one by one. With Par,
	// the functions and interfaces in Block are called by several goroutines.
	Par Par
	// Canceled ends Apply with ErrCanceled before the next receipt, once it is true. It never
	// changes a result. nil: Apply is never cancelled.
	Canceled *atomic.Bool
	// Clock measures the stages. It never changes a result. nil: the times of the stages are 0.
	Clock  Clock
	window windowSizes
}

// Clock measures time for metrics.
type Clock interface {
	// Elapsed returns the ns since a fixed moment. It never decreases. Only the goroutine of Apply calls it.
	Elapsed() int64
}

// ShardCongestion is a shard's congestion info and the number of chunks that the shard has missed:
// block height minus height_included.
type ShardCongestion struct {
	Shard  primitives.ShardID
	Info   primitives.CongestionInfo
	Missed uint64
}

// Transaction is a transaction of the chunk. Valid is whether the transaction's block hash is a
// known and recent enough ancestor. If Valid is false, the outcome of the transaction is Expired.
type Transaction struct {
	*primitives.SignedTransaction
	Valid bool
}

// ValidatorUpdate holds the changes that the first block of an epoch makes to validators' accounts.
// Accounts of other shards are ignored.
type ValidatorUpdate struct {
	// Stakes holds, for each account, the maximum of its stakes in three epochs: the epoch of the
	// previous block, the next epoch and the epoch after that. Only accounts whose stake changes
	// are listed.
	Stakes  []AccountAmount
	Rewards []AccountAmount // rewards for the finished epoch (field validator_reward of the epoch info after the next)
	// LastProposals are prev_validator_proposals of the chunk header, or, for a missing chunk, the
	// proposals in the shard's last chunk extra.
	LastProposals []primitives.ValidatorStake
	Treasury      primitives.AccountID
}

// AccountAmount is an account with an amount.
type AccountAmount struct {
	Account primitives.AccountID
	Amount  primitives.Balance
}

// SplitRule has the conditions under which a shard proposes its split.
type SplitRule struct {
	MaxShards       int
	Force           []primitives.ShardID
	Block           []primitives.ShardID
	MemoryThreshold uint64
	MinChildMemory  uint64
}

// Source says where a processed receipt came from.
type Source byte

// The sources. Incoming receipts that are executed at once have no source, because they are part
// of the input.
const (
	SourceLocal   Source = iota // receipt of a transaction whose receiver is its signer
	SourceDelayed               // receipt from the delayed queue
	SourceInstant               // instant receipt, which the previously processed receipt created
)

// Processed is a receipt that was executed, or stored until its inputs arrive.
type Processed struct {
	*primitives.Receipt
	Source Source
}

// Origin names the transaction or receipt (Parent) that made a receipt.
type Origin struct{ Receipt, Parent primitives.Hash }

// Resume is a resume without data that the chunk made because a yield timed out. Account is the
// account of the yield, DataID the data id that the yield waits for.
type Resume struct {
	Receipt primitives.Hash
	Account primitives.AccountID
	DataID  primitives.Hash
}

// Outgoing holds the receipts that go to one shard, in order.
type Outgoing struct {
	Shard    primitives.ShardID
	Receipts []*primitives.Receipt
	Hash     primitives.Hash // H(borsh(shard id, receipts)), a leaf of the outgoing root
}

// Result is the result of applying a chunk.
type Result struct {
	Trie              state.Trie
	Outcomes          []primitives.OutcomeWithID // outcomes of transactions, then of receipts in the order of execution
	OutcomeRoot       primitives.Hash
	Outgoing          []*primitives.Receipt // outgoing receipts in the order in which they leave the shard
	OutgoingByShard   []Outgoing            // outgoing receipts for each shard, by index
	OutgoingRoot      primitives.Hash
	GasUsed           primitives.Gas
	BalanceBurnt      primitives.Balance
	Proposals         []primitives.ValidatorStake // staking proposals, at most one per account
	Congestion        primitives.CongestionInfo
	BandwidthRequests []primitives.BandwidthRequest
	ProposedSplit     *primitives.TrieSplit
	Changes           []primitives.KeyChanges // changes of the state, sorted by key
	// Olds are the previous values of changed keys that the chunk read. With Par, some are missing.
	Olds         []state.OldValue
	RecordedSize uint64 // size of the state proof in bytes
	Recording    state.Recording
	Accesses     []state.CodeAccess // contract code that was called; recordings do not include it
	Processed    []Processed
	// Origins names the receipt or transaction that made a receipt (its parent), for those new
	// receipts whose parent the chunk's outcomes and outgoing receipts do not show. Some of these
	// receipts wait in the delayed queue or in a buffer. The rest are global contract distributions
	// that another distribution made, because distributions have no outcome. Receipts in Resumes
	// are not listed, because their parents are the yields.
	Origins       []Origin
	Resumes       []Resume
	YieldTimeouts []state.YieldTimeout // timeouts that were removed from the timeout queue
	Stats         Stats
}

// Stage is a part of applying a chunk. The stages are in the order in which a chunk goes through
// them.
type Stage byte

// The stages (nearcore runtime/runtime/src/metrics.rs ApplyMetrics).
const (
	StageTransactions Stage = iota // transactions are turned into receipts
	StageLocal                     // receipts of transactions whose receiver is their signer
	StageDelayed                   // receipts from the delayed queue
	StageIncoming                  // incoming receipts
	StageYieldTimeouts
	NumStages
)

// StageUse is what one stage of a chunk burnt and used, and how long it took.
type StageUse struct {
	Gas         primitives.Gas
	Compute     parameters.Compute
	Nanoseconds int64 // by Input.Clock
}

// Stats are counts for metrics. No rule depends on Stats.
type Stats struct {
	Compute        uint64
	Stages         [NumStages]StageUse
	Transactions   int                              // number of transactions that have an outcome
	Failed         int                              // number of transactions that have an outcome but no receipt
	Begun          [primitives.NumActionTags]uint64 // number of actions that passed the checks of account and permission
	CallsDone      uint64                           // number of contract calls that succeeded
	CallFailures   map[action.CallFailure]uint64    // number of contract calls that failed; nil: none
	Local          int                              // number of local receipts that were executed or stored
	Delayed        int                              // number of receipts from the delayed queue that were executed or stored
	Incoming       int                              // number of incoming receipts that were executed or stored
	Postponed      int                              // number of receipts that were pushed to the delayed queue
	DelayedLen     uint64                           // length of the delayed queue after the chunk
	Forwarded      int
	Buffered       int
	LimitedByGas   bool
	LimitedByProof bool
	RanInParallel  int // number of receipts whose speculative result was used
	// number of receipts that ran again, because the speculative result of the receipt could not be
	// used
	RanAgain        int
	UpperBoundBytes uint64
}
