package primitives

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// StatusKind is the tag of an execution status.
type StatusKind byte

// The statuses (nearcore core/primitives/src/transaction.rs PartialExecutionStatus).
const (
	StatusUnknown          StatusKind = 0
	StatusFailure          StatusKind = 1
	StatusSuccessValue     StatusKind = 2
	StatusSuccessReceiptID StatusKind = 3
)

// ExecutionStatus is how a transaction or receipt ended. Failure is the JSON of nearcore's
// TxExecutionError, the form in which clients see it. Errors are not part of any hash.
type ExecutionStatus struct {
	Kind      StatusKind
	Value     []byte // returned value, if Kind is StatusSuccessValue
	ReceiptID Hash   // receipt that produces the result, if Kind is StatusSuccessReceiptID
	Failure   []byte // JSON of the error, if Kind is StatusFailure
}

// CostEntry is a non-zero line of a gas profile. Category and Cost are nearcore's names, as the RPC
// prints them.
type CostEntry struct {
	Category string // "ACTION_COST" or "WASM_HOST_COST"
	Cost     string
	Gas      Gas
}

// ExecutionMetadata is stored with an outcome and never hashed. Version 1 is empty; version 4 has a
// profile, and the contract that the receiver had before each action.
type ExecutionMetadata struct {
	Version   uint32
	Profile   []CostEntry // gas profile, sorted by category, then cost; of version 1 only if read from an old view
	Contracts []AccountContract
}

// Outcome is the result of executing a transaction or receipt.
type Outcome struct {
	Logs         []string
	ReceiptIDs   []Hash
	GasBurnt     Gas
	ComputeUsage Gas // not stored, not hashed; counts against the chunk's limit
	TokensBurnt  Balance
	ExecutorID   AccountID
	Status       ExecutionStatus
	Metadata     ExecutionMetadata
}

// OutcomeWithID is an outcome with the id of its transaction or receipt.
type OutcomeWithID struct {
	ID Hash
	Outcome
}

// appendHashed appends the part of the outcome that is hashed, without the logs (nearcore
// core/primitives/src/transaction.rs PartialExecutionOutcome).
func (o *Outcome) appendHashed(b []byte) []byte {
	b = AppendHashes(b, o.ReceiptIDs)
	b = o.TokensBurnt.AppendBorsh(borsh.AppendUint64(b, uint64(o.GasBurnt)))
	b = append(o.ExecutorID.AppendBorsh(b), byte(o.Status.Kind))
	switch o.Status.Kind {
	case StatusSuccessValue:
		b = borsh.AppendBytes(b, o.Status.Value)
	case StatusSuccessReceiptID:
		b = append(b, o.Status.ReceiptID[:]...)
	case StatusUnknown, StatusFailure: // only the tag, because errors are not hashed
	default:
		panic(fmt.Sprintf("primitives: no case for execution status %d", o.Status.Kind))
	}
	return b
}

// Hashes returns the list whose encoding is the outcome's Merkle leaf: id, hash of the outcome,
// hash of each log.
func (o *OutcomeWithID) Hashes() []Hash {
	hs := make([]Hash, 0, 2+len(o.Logs))
	hs = append(hs, o.ID, HashBytes(o.appendHashed(nil)))
	for _, l := range o.Logs {
		hs = append(hs, HashBytes([]byte(l)))
	}
	return hs
}

// LeafHash returns the outcome's leaf in the chunk's outcome tree: H(u32 n ‖ hashes).
func (o *OutcomeWithID) LeafHash() Hash {
	h, _ := o.LeafHashIn(nil)
	return h
}

// LeafHashIn is LeafHash with the hashed bytes built in scratch, which it returns, possibly grown,
// for the next outcome.
func (o *OutcomeWithID) LeafHashIn(scratch []byte) (Hash, []byte) {
	b := o.appendHashed(scratch[:0])
	h := HashBytes(b)
	b = append(append(borsh.AppendLen(b[:0], 2+len(o.Logs)), o.ID[:]...), h[:]...)
	for _, l := range o.Logs {
		h = HashBytes([]byte(l))
		b = append(b, h[:]...)
	}
	return HashBytes(b), b
}

// AppendBorsh appends our storage form: id, hashed fields, logs, failure and metadata.
func (o *OutcomeWithID) AppendBorsh(b []byte) []byte {
	return o.Outcome.AppendBorsh(append(b, o.ID[:]...))
}

// DecodeBorsh reads our storage form.
func (o *OutcomeWithID) DecodeBorsh(r *borsh.Reader) {
	o.ID = ReadHash(r)
	o.Outcome.DecodeBorsh(r)
}

// AppendBorsh appends our storage form without the id.
func (o *Outcome) AppendBorsh(b []byte) []byte {
	b = o.appendHashed(b)
	if o.Status.Kind == StatusFailure {
		b = borsh.AppendBytes(b, o.Status.Failure)
	}
	b = borsh.AppendSlice(b, o.Logs, func(b []byte, s *string) []byte { return borsh.AppendBytes(b, []byte(*s)) })
	m := &o.Metadata
	b = borsh.AppendUint32(b, m.Version)
	if m.Version < 2 {
		return b
	}
	b = borsh.AppendSlice(b, m.Profile, func(b []byte, c *CostEntry) []byte {
		return borsh.AppendUint64(borsh.AppendString(borsh.AppendString(b, c.Category), c.Cost), uint64(c.Gas))
	})
	return borsh.AppendSlice(b, m.Contracts, func(b []byte, c *AccountContract) []byte { return c.AppendBorsh(b) })
}

// DecodeBorsh reads our storage form without the id.
func (o *Outcome) DecodeBorsh(r *borsh.Reader) {
	*o = Outcome{}
	o.ReceiptIDs, o.GasBurnt, o.TokensBurnt = ReadHashes(r), Gas(r.Uint64()), ReadBalance(r)
	o.ExecutorID = ReadAccountID(r)
	o.Status.Kind = StatusKind(r.Byte())
	switch o.Status.Kind {
	case StatusUnknown:
	case StatusFailure:
		o.Status.Failure = r.BytesCopy()
	case StatusSuccessValue:
		o.Status.Value = r.BytesCopy()
	case StatusSuccessReceiptID:
		o.Status.ReceiptID = ReadHash(r)
	default:
		r.BadTag("ExecutionStatus", byte(o.Status.Kind))
	}
	o.Logs = borsh.Slice(r, 4, func(r *borsh.Reader) string { return string(r.Bytes()) })
	o.Metadata.Version = r.Uint32()
	if o.Metadata.Version < 2 {
		return
	}
	o.Metadata.Profile = borsh.Slice(r, 16, func(r *borsh.Reader) CostEntry {
		return CostEntry{Category: r.String(), Cost: r.String(), Gas: Gas(r.Uint64())}
	})
	o.Metadata.Contracts = borsh.Slice(r, 1, func(r *borsh.Reader) (c AccountContract) {
		c.DecodeBorsh(r)
		return c
	})
}
