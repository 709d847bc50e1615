package view

import (
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// ExecutionLevel is the stage that a transaction has reached. The levels are the levels of
// wait_until (nearcore TxExecutionStatus).
type ExecutionLevel byte

// The levels. They are only partially ordered: neither LevelExecutedOptimistic nor
// LevelIncludedFinal implies the other. So compare levels with txstatus.Meets, not with < and >.
const (
	LevelNone ExecutionLevel = iota
	LevelIncluded
	LevelExecutedOptimistic
	LevelIncludedFinal
	LevelExecuted
	LevelFinal
)

// LevelNames are the texts of the levels.
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

// FinalStatus is how a transaction ended: the result of the first leaf of its tree of receipts
// (nearcore FinalExecutionStatus).
type FinalStatus struct {
	Kind    FinalStatusKind
	Failure []byte // JSON of the failure; set if Kind is FinalFailure
	Value   []byte // value that the transaction returned; set if Kind is FinalSuccessValue
}

// FinalOutcome is the reply of the tx family (nearcore RpcTransactionResponse). A FinalOutcome
// without a Transaction is only the level: the transaction is not known to be in a block, or its
// outcome cannot be read yet.
type FinalOutcome struct {
	Level       ExecutionLevel
	Status      FinalStatus
	Transaction *primitives.SignedTransaction
	Remote      *RemoteTransaction    // set instead of Transaction if another node reported the outcome
	Outcome     OutcomeProof          // outcome of the transaction itself
	Outcomes    []OutcomeProof        // outcomes of the receipts
	Receipts    []*primitives.Receipt // shown by tx_status and EXPERIMENTAL_tx_status only
	Shown       *Shown                // nil: the reply is not shared
}

// Shown is the text of a reply that many requests share. The text is made once. Either all these
// requests show the receipts, or none does.
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

// AppendFinalOutcome appends the reply of tx, or, with receipts, the reply of tx_status and
// EXPERIMENTAL_tx_status.
func AppendFinalOutcome(b []byte, o *FinalOutcome, receipts bool) []byte {
	if o.Shown == nil {
		return appendFinalOutcome(b, o, receipts)
	}
	o.Shown.once.Do(func() { o.Shown.text = appendFinalOutcome(make([]byte, 0, o.Size(receipts)), o, receipts) })
	if o.Shown.text == nil { // an earlier attempt failed
		return appendFinalOutcome(b, o, receipts)
	}
	return append(b, o.Shown.text...)
}

func appendFinalOutcome(b []byte, o *FinalOutcome, receipts bool) []byte {
	b = append(append(append(b, `{"final_execution_status":"`...), o.Level.String()...), '"')
	if o.Transaction == nil && o.Remote == nil {
		return append(b, '}')
	}
	if receipts && o.Remote == nil { // nodes do not report receipts to each other
		b = AppendReceipts(append(b, `,"receipts":`...), o.Receipts)
	}
	b = appendList(append(b, `,"receipts_outcome":`...), o.Outcomes, AppendOutcomeProof)
	b = AppendFinalStatus(append(b, `,"status":`...), &o.Status)
	if b = append(b, `,"transaction":`...); o.Remote != nil {
		b = append(b, o.Remote.JSON...)
	} else {
		b = AppendSignedTransaction(b, o.Transaction)
	}
	return append(AppendOutcomeProof(append(b, `,"transaction_outcome":`...), &o.Outcome), '}')
}
