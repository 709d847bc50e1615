package view

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// OutcomeProof is an outcome with its proof in a block (nearcore ExecutionOutcomeWithIdAndProof).
// An outcome that is not known yet has a zero BlockHash and StatusUnknown.
type OutcomeProof struct {
	primitives.OutcomeWithID
	BlockHash primitives.Hash
	Proof     primitives.MerklePath // path to the chunk's outcome root
}

// AppendOutcomeProof appends ExecutionOutcomeWithIdView with sorted members.
func AppendOutcomeProof(b []byte, o *OutcomeProof) []byte { return sortedOrder.OutcomeProof(b, o) }

// AppendMerklePath appends [{"direction", "hash"}, ...].
func AppendMerklePath(b []byte, path primitives.MerklePath) []byte {
	return appendList(b, path, sortedOrder.merklePathItem)
}

func appendDirection(b []byte, d primitives.Direction) []byte {
	if d == primitives.Left {
		return append(b, `"Left"`...)
	}
	return append(b, `"Right"`...)
}

// AppendOutcome appends ExecutionOutcomeView with sorted members.
func AppendOutcome(b []byte, o *primitives.Outcome) []byte { return sortedOrder.outcome(b, o) }

// AppendStatus appends ExecutionStatusView with sorted members.
func AppendStatus(b []byte, s *primitives.ExecutionStatus) []byte { return sortedOrder.status(b, s) }

// status appends ExecutionStatusView.
func (e *Encoder) status(b []byte, s *primitives.ExecutionStatus) []byte {
	switch s.Kind {
	case primitives.StatusUnknown:
		return append(b, `"Unknown"`...)
	case primitives.StatusFailure:
		return append(e.failure(append(b, `{"Failure":`...), s.Failure), '}')
	case primitives.StatusSuccessValue:
		return append(AppendBase64(append(b, `{"SuccessValue":`...), s.Value), '}')
	case primitives.StatusSuccessReceiptID:
		return append(e.Hash(append(b, `{"SuccessReceiptId":`...), &s.ReceiptID), '}')
	}
	panic(fmt.Sprintf("view: no JSON form of execution status %d", s.Kind))
}

// failure appends a failure, whose JSON has sorted members.
func (e *Encoder) failure(b, json []byte) []byte {
	if e.order == StructOrder {
		return e.failures.value(b, "Failure", json)
	}
	return append(b, json...)
}

// FirstProfileVersion and FirstContractsVersion are the metadata versions that added these members.
const (
	FirstProfileVersion   = 2
	FirstContractsVersion = 4
)

// contract appends AccountContractView; null for none.
func (e *Encoder) contract(b []byte, c *primitives.AccountContract) []byte {
	switch c.Kind {
	case primitives.ContractNone:
		return append(b, "null"...)
	case primitives.ContractLocal:
		return append(e.Hash(append(b, `{"local":`...), &c.Hash), '}')
	case primitives.ContractGlobalHash:
		return append(e.Hash(append(b, `{"global_hash":`...), &c.Hash), '}')
	case primitives.ContractGlobalAccount:
		return append(AppendAccountID(append(b, `{"global_account_id":`...), c.Account), '}')
	}
	panic(fmt.Sprintf("view: no JSON form of contract kind %d", c.Kind))
}
