package badchunk

import (
	"encoding/json"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/bandwidth"
	"github.com/troupe-chain/troupe/storage/trie"
)

// format is the version of the file format.
const format = 1

// File is a chunk that failed. It is stored as JSON. Fields of type []byte contain borsh, and
// appear as base64.
type File struct {
	Format int       `json:"failed_chunk"`
	Time   time.Time `json:"time"`
	Chain  string    `json:"chain_id"`
	Build  string    `json:"build"` // version of the program that wrote the file
	Reason string    `json:"reason"`
	Stack  string    `json:"stack,omitempty"`
	Again  string    `json:"again"` // error of the second run, which recorded State; empty: none

	Block    primitives.Hash    `json:"block"`
	Height   primitives.Height  `json:"height"`
	Shard    primitives.ShardID `json:"shard"`
	Context  Context            `json:"context"`
	Txs      []Transaction      `json:"transactions"`
	Incoming [][]byte           `json:"incoming"`        // encoded receipts in the order of execution
	Patch    json.RawMessage    `json:"patch,omitempty"` // records as in sandbox_patch_state
	Mocks    *primitives.Mocks  `json:"mocks,omitempty"` // signature checks of contracts that the sandbox mocked
	State    State              `json:"state"`
}

// Context contains the inputs of a chunk other than the state, the transactions and the receipts.
// The fields are those of apply.Input and action.Block.
type Context struct {
	Protocol     primitives.ProtocolVersion `json:"protocol_version"`
	Numbering    primitives.Numbering       `json:"numbering"`
	PrevHash     primitives.Hash            `json:"prev_hash"`
	EpochID      primitives.EpochID         `json:"epoch_id"`
	EpochHeight  uint64                     `json:"epoch_height"`
	Timestamp    uint64                     `json:"timestamp"`
	GasPrice     primitives.Balance         `json:"gas_price"`
	RandomValue  primitives.Hash            `json:"random_value"`
	MinimumStake primitives.Balance         `json:"minimum_stake"`
	Stakes       []apply.AccountAmount      `json:"stakes"` // stakes of the epoch's validators
	Layout       []byte                     `json:"shard_layout"`
	NewChunk     bool                       `json:"new_chunk"`
	GasLimit     primitives.Gas             `json:"gas_limit"`
	Congestion   []apply.ShardCongestion    `json:"congestion"`
	Requests     []bandwidth.SenderRequests `json:"bandwidth_requests"`
	Split        *apply.SplitRule           `json:"split,omitempty"`
	Update       *Update                    `json:"validators,omitempty"`
}

// Transaction is a transaction of the chunk. Valid is whether its reference block is valid for the
// chunk's block.
type Transaction struct {
	Bytes []byte `json:"bytes"`
	Valid bool   `json:"valid"`
}

// Update has the fields of apply.ValidatorUpdate.
type Update struct {
	Stakes    []apply.AccountAmount `json:"stakes"`
	Rewards   []apply.AccountAmount `json:"rewards"`
	Proposals []byte                `json:"proposals"`
	Treasury  primitives.AccountID  `json:"treasury"`
}

// State is a part of the shard's state before the chunk.
type State struct {
	Root     primitives.Hash      `json:"root"`
	Frontier []trie.FrontierEntry `json:"frontier"`
	Subtrees []Subtree            `json:"subtrees"`
	Whole    bool                 `json:"whole"` // Subtrees contains all subtrees that the second run loaded
}

// Subtree contains all entries with From <= key < To. A nil To means no upper bound.
type Subtree struct {
	From  []byte   `json:"from"`
	To    []byte   `json:"to"`
	Pairs [][]byte `json:"pairs"` // key, value, key, value, ...
}
