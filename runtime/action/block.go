package action

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Block is what holds for all receipts of a chunk.
type Block struct {
	Config      *parameters.RuntimeConfig // of the epoch's protocol version
	ChainID     string
	ShardID     primitives.ShardID
	Height      primitives.Height // of the block that applies the chunk
	PrevHash    primitives.Hash
	EpochID     primitives.EpochID
	EpochHeight uint64
	Timestamp   uint64             // ns since 1970
	GasPrice    primitives.Balance // next_gas_price of the previous block
	RandomValue primitives.Hash    // of this block
	// MinimumStake is the least stake that an action may set: seat price over divisor of the next
	// epoch.
	MinimumStake primitives.Balance
	// Stakes are the validators of the current epoch; contracts ask for them.
	Stakes Stakes
	// Verify checks signatures of delegate actions; nil: each by itself.
	Verify func(s primitives.Signature, hash primitives.Hash, key primitives.PublicKey) bool
	VM     VM // nil: contracts do not run
	// Mocks are what contracts are told of signatures, of a sandbox alone; nil: the truth.
	Mocks *primitives.Mocks
	// Beside: it is not of the chain, and nothing of the chain may wait for what it has the VM do.
	Beside bool
}

// Stakes answers what contracts may ask about the validators of the current epoch.
type Stakes interface {
	Stake(primitives.AccountID) primitives.Balance // 0 for others
	Total() primitives.Balance
}

func (b *Block) verify(s primitives.Signature, hash primitives.Hash, key primitives.PublicKey) bool {
	if b.Verify != nil {
		return b.Verify(s, hash, key)
	}
	return s.Verify(hash[:], key)
}

// PromiseResult is an input of a receipt: what a promise returned.
type PromiseResult struct {
	Data   []byte
	Failed bool
}

// ReturnKind tells what a receipt returned.
type ReturnKind byte

// The kinds.
const (
	ReturnNone    ReturnKind = iota // an empty value
	ReturnValue                     // Value
	ReturnReceipt                   // the result is that of a new receipt
)

// Return is the result of a successful action, or of a receipt: that of its last action.
type Return struct {
	Kind    ReturnKind
	Value   []byte
	Receipt int // index into the new receipts
}
