package action

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Block is the context that all receipts of a chunk share.
type Block struct {
	Config      *parameters.RuntimeConfig // runtime config of the epoch's protocol version
	ChainID     string
	ShardID     primitives.ShardID
	Height      primitives.Height // height of the block in which the chunk is applied
	PrevHash    primitives.Hash
	EpochID     primitives.EpochID
	EpochHeight uint64
	Timestamp   uint64             // timestamp of the block in ns since 1970
	GasPrice    primitives.Balance // next_gas_price of the previous block
	RandomValue primitives.Hash    // random_value of the block in which the chunk is applied
	// MinimumStake is the least stake that an action may set: the next epoch's seat price divided
	// by that epoch's minimum stake divisor.
	MinimumStake primitives.Balance
	// Stakes are the stakes of the current epoch's validators, which contracts can query. nil: all
	// are zero.
	Stakes Stakes
	// Verify checks the signatures of delegate actions. nil: package action verifies these
	// signatures itself.
	Verify func(s primitives.Signature, hash primitives.Hash, key primitives.PublicKey) bool
	VM     VM // VM for function calls; nil: contracts cannot run
	// Mocks lists the signatures that contracts see as valid even if the signatures are invalid.
	// Only a sandbox sets Mocks; nil: none.
	Mocks *primitives.Mocks
	// Beside is set for work that is not part of the chain, such as views and simulations. The VM
	// must never let work of the chain wait for such work.
	Beside bool
	// Validates is set for chunks that are applied to check a witness. Only metrics depend on it.
	Validates bool
}

// Stakes answers the queries of contracts about the validators of the current epoch.
type Stakes interface {
	Stake(primitives.AccountID) primitives.Balance // stake of an account; 0 if the account is not a validator
	Total() primitives.Balance
}

func (b *Block) verify(s primitives.Signature, hash primitives.Hash, key primitives.PublicKey) bool {
	if b.Verify != nil {
		return b.Verify(s, hash, key)
	}
	return s.Verify(hash[:], key)
}

// PromiseResult is one input of a receipt: the result of a promise.
type PromiseResult struct {
	Data   []byte
	Failed bool
}

// ReturnKind is the kind of a receipt's result.
type ReturnKind byte

const (
	ReturnNone    ReturnKind = iota // the result is an empty value
	ReturnValue                     // the result is Return.Value
	ReturnReceipt                   // the result of the new receipt Return.Receipt
)

// Return is the result of a successful action. The result of a receipt is the result of its last
// action.
type Return struct {
	Kind    ReturnKind
	Value   []byte
	Receipt int // index in Result.NewReceipts of the receipt whose result is returned
}
