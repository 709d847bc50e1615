package view

import "github.com/troupe-chain/troupe/primitives"

// RefKind is how a request names its block.
type RefKind byte

// The kinds (nearcore core/primitives/src/types.rs BlockReference). The finalities are the RPC's
// names: "optimistic", "near-final", "final"; the checkpoints "genesis" and "earliest_available".
const (
	RefOptimistic RefKind = iota // the head
	RefNearFinal                 // the head's last block with Doomslug finality
	RefFinal                     // the head's last final block
	RefHeight                    // the block of the current chain at a height
	RefHash
	RefGenesis
	RefEarliest // the oldest block that is still stored
)

// BlockRef names a block. The zero value is the head.
type BlockRef struct {
	Kind   RefKind
	Height primitives.Height // if Kind is RefHeight
	Hash   primitives.Hash   // if Kind is RefHash
}

var refTexts = [...]struct{ json, debug string }{
	RefOptimistic: {`{"finality":"optimistic"}`, "Finality(None)"},
	RefNearFinal:  {`{"finality":"near-final"}`, "Finality(DoomSlug)"},
	RefFinal:      {`{"finality":"final"}`, "Finality(Final)"},
	RefGenesis:    {`{"sync_checkpoint":"genesis"}`, "SyncCheckpoint(Genesis)"},
	RefEarliest:   {`{"sync_checkpoint":"earliest_available"}`, "SyncCheckpoint(EarliestAvailable)"},
}

// AppendJSON appends the reference as a request has it.
func (r *BlockRef) AppendJSON(b []byte) []byte {
	switch r.Kind {
	case RefHeight:
		return append(appendUint(append(b, `{"block_id":`...), r.Height), '}')
	case RefHash:
		return append(AppendHash(append(b, `{"block_id":`...), &r.Hash), '}')
	}
	return append(b, refTexts[r.Kind].json...)
}

// AppendDebug appends the reference as Rust's {:?} shows it, which some error texts contain.
func (r *BlockRef) AppendDebug(b []byte) []byte {
	switch r.Kind {
	case RefHeight:
		return append(appendUint(append(b, "BlockId(Height("...), r.Height), "))"...)
	case RefHash:
		b, _ = r.Hash.AppendText(append(b, "BlockId(Hash("...)) // never fails
		return append(b, "))"...)
	}
	return append(b, refTexts[r.Kind].debug...)
}

// ChunkRef names a chunk: by hash, or by block and shard.
type ChunkRef struct {
	ByHash  bool
	Hash    primitives.Hash    // hash of the chunk; only if ByHash
	Block   BlockRef           // block of the chunk, by height or by hash; not if ByHash
	ShardID primitives.ShardID // shard of the chunk; not if ByHash
}

// EpochRefKind is how a request names its epoch.
type EpochRefKind byte

// The kinds (nearcore EpochReference).
const (
	EpochLatest  EpochRefKind = iota // the epoch of the head
	EpochByID                        // field ID
	EpochByBlock                     // field Block: the last block of the epoch
)

// EpochRef names an epoch. The zero value is the epoch of the head.
type EpochRef struct {
	Kind  EpochRefKind
	ID    primitives.EpochID
	Block BlockRef // only if Kind is EpochByBlock; by height or by hash
}

// OutcomeRef names an outcome to be proven to a light client: the outcome of a transaction, found
// by the signer, or of a receipt, found by the receiver.
type OutcomeRef struct {
	ID      primitives.Hash
	Account primitives.AccountID
	Receipt bool
	Head    primitives.Hash // the light client's head
}

// SendTx asks to submit a transaction and to answer once it has reached WaitUntil.
type SendTx struct {
	Tx        *primitives.SignedTransaction
	WaitUntil ExecutionLevel
}

// GetTx asks for the status of a transaction once it has reached WaitUntil.
type GetTx struct {
	Hash   primitives.Hash
	Sender primitives.AccountID // account whose shard has the transaction
	// Tx is the whole transaction if the request contains it; the node then also validates the
	// transaction. Otherwise Tx is nil.
	Tx        *primitives.SignedTransaction
	WaitUntil ExecutionLevel
	Receipts  bool // the reply contains the receipts
}
