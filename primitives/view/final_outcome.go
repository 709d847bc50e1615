package view

import (
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// ExecutionLevel says how far a transaction has come: the milestones of wait_until (nearcore
// TxExecutionStatus).
type ExecutionLevel byte

// The milestones, each stricter than the one before.
const (
	LevelNone ExecutionLevel = iota
	LevelIncluded
	LevelExecutedOptimistic
	LevelIncludedFinal
	LevelExecuted
	LevelFinal
)

// LevelNames are the texts of the milestones, by level.
var LevelNames = [...]string{"NONE", "INCLUDED", "EXECUTED_OPTIMISTIC", "INCLUDED_FINAL", "EXECUTED", "FINAL"}

// String returns nearcore's name.
func (l ExecutionLevel) String() string { return LevelNames[l] }

// FinalStatusKind is the variant of a FinalStatus.
type FinalStatusKind byte

// The variants of FinalExecutionStatus.
const (
	FinalNotStarted FinalStatusKind = iota
	FinalStarted
	FinalFailure
	FinalSuccessValue
)

// FinalStatus is how a transaction ended: the result of the first leaf of its receipts (nearcore
// FinalExecutionStatus).
type FinalStatus struct {
	Kind    FinalStatusKind
	Failure []byte // JSON, of FinalFailure
	Value   []byte // of FinalSuccessValue
}

// FinalOutcome is the reply of the tx family (nearcore RpcTransactionResponse). Without a
// Transaction it is the level alone: the transaction is not known to be in a block, or its outcome
// can't be read yet.
type FinalOutcome struct {
	Level       ExecutionLevel
	Status      FinalStatus
	Transaction *primitives.SignedTransaction
	Told        *ToldTransaction // in its place, where another node has told of it
	Outcome     OutcomeProof     // of the transaction
	Outcomes    []OutcomeProof
	Receipts    []*primitives.Receipt // shown by EXPERIMENTAL_tx_status only
	Shown       *Shown                // nil: no other reply is made of it
}

// Shown is the text of a reply that many are told, who all show its receipts, or none does. It is
// made once.
type Shown struct {
	once sync.Once
	text []byte
}

// AppendFinalStatus appends FinalExecutionStatus.
func AppendFinalStatus(b []byte, s *FinalStatus) []byte {
	switch s.Kind {
	case FinalStarted:
		return append(b, `"Started"`...)
	case FinalFailure:
		return append(append(append(b, `{"Failure":`...), s.Failure...), '}')
	case FinalSuccessValue:
		return append(AppendBase64(append(b, `{"SuccessValue":`...), s.Value), '}')
	}
	return append(b, `"NotStarted"`...)
}

// AppendFinalOutcome appends the reply of tx, or with receipts that of EXPERIMENTAL_tx_status.
func AppendFinalOutcome(b []byte, o *FinalOutcome, receipts bool) []byte {
	if o.Shown == nil {
		return appendFinalOutcome(b, o, receipts)
	}
	o.Shown.once.Do(func() { o.Shown.text = appendFinalOutcome(make([]byte, 0, o.Size(receipts)), o, receipts) })
	if o.Shown.text == nil { // the first one failed in it
		return appendFinalOutcome(b, o, receipts)
	}
	return append(b, o.Shown.text...)
}

func appendFinalOutcome(b []byte, o *FinalOutcome, receipts bool) []byte {
	b = append(append(append(b, `{"final_execution_status":"`...), o.Level.String()...), '"')
	if o.Transaction == nil && o.Told == nil {
		return append(b, '}')
	}
	if receipts && o.Told == nil { // nobody tells another of receipts
		b = AppendReceipts(append(b, `,"receipts":`...), o.Receipts)
	}
	b = appendList(append(b, `,"receipts_outcome":`...), o.Outcomes, AppendOutcomeProof)
	b = AppendFinalStatus(append(b, `,"status":`...), &o.Status)
	if b = append(b, `,"transaction":`...); o.Told != nil {
		b = append(b, o.Told.JSON...)
	} else {
		b = AppendSignedTransaction(b, o.Transaction)
	}
	return append(AppendOutcomeProof(append(b, `,"transaction_outcome":`...), &o.Outcome), '}')
}
