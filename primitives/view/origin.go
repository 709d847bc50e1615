package view

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// OriginQuery asks which transaction a receipt comes from.
type OriginQuery struct {
	Receipt primitives.Hash
	// Height and Shard say approximately where the receipt was created. Height and Shard are needed
	// for receipts that the node cannot find by id. nil: not known.
	Height *primitives.Height
	Shard  *primitives.ShardID
	Window *uint64 // number of heights around Height to search; nil: DefaultOriginWindow
}

// DefaultOriginWindow is how many heights on each side of a hint are searched (nearcore
// chain/chain/src/receipt_to_tx.rs).
const DefaultOriginWindow = 5

// Origin is the transaction that a receipt comes from.
type Origin struct {
	Transaction primitives.Hash
	Sender      primitives.AccountID
}

// OriginKind is why a receipt's origin is not found. A kind is itself an error, for errors.Is.
type OriginKind byte

// The kinds, with the fields of OriginError that apply.
const (
	OriginUnknown OriginKind = iota // field Receipt: the node does not know this receipt
	// OriginDepth, fields Receipt, Limit: more than Limit receipts lie between Receipt and the
	// transaction.
	OriginDepth
	OriginUnsupported // field Text: what is not supported
	OriginNoOutcomes  // config.json disables outcomes
	OriginWindow      // fields Got, Limit: the requested window, and the maximum one
	OriginHint        // field Text: the hint is invalid
	OriginBudget      // fields Got, Limit: number of outcomes searched, and the maximum one
)

var originTexts = [...]string{"unknown receipt", "too deep", "unsupported", "outcomes not stored", "window too large",
	"malformed hint", "budget exceeded"}

func (k OriginKind) Error() string { return originTexts[k] }

// OriginError is a failure to find a receipt's origin.
type OriginError struct {
	Kind       OriginKind
	Receipt    primitives.Hash
	Text       string
	Got, Limit uint64
}

func (e *OriginError) Error() string {
	return fmt.Sprintf("%v: receipt %v %s %d of %d", e.Kind, e.Receipt, e.Text, e.Got, e.Limit)
}

// Is returns whether target is e's kind.
func (e *OriginError) Is(target error) bool { return target == e.Kind }

// AppendOrigin appends the reply of EXPERIMENTAL_receipt_to_tx.
func AppendOrigin(b []byte, o *Origin) []byte {
	b = AppendAccountID(append(b, `{"sender_account_id":`...), o.Sender)
	return append(AppendHash(append(b, `,"transaction_hash":`...), &o.Transaction), '}')
}
