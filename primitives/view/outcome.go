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

// AppendOutcomeProof appends ExecutionOutcomeWithIdView.
func AppendOutcomeProof(b []byte, o *OutcomeProof) []byte {
	b = AppendHash(append(b, `{"block_hash":`...), &o.BlockHash)
	b = AppendHash(append(b, `,"id":`...), &o.ID)
	b = AppendOutcome(append(b, `,"outcome":`...), &o.Outcome)
	return append(AppendMerklePath(append(b, `,"proof":`...), o.Proof), '}')
}

// AppendMerklePath appends [{"direction", "hash"}, ...].
func AppendMerklePath(b []byte, path primitives.MerklePath) []byte {
	return appendList(b, path, func(b []byte, m *primitives.MerklePathItem) []byte {
		if m.Direction == primitives.Left {
			b = append(b, `{"direction":"Left","hash":`...)
		} else {
			b = append(b, `{"direction":"Right","hash":`...)
		}
		return append(AppendHash(b, &m.Hash), '}')
	})
}

// AppendOutcome appends ExecutionOutcomeView (nearcore views.rs:2019).
func AppendOutcome(b []byte, o *primitives.Outcome) []byte {
	b = AppendAccountID(append(b, `{"executor_id":`...), o.ExecutorID)
	b = appendUint(append(b, `,"gas_burnt":`...), o.GasBurnt)
	b = appendStrings(append(b, `,"logs":`...), o.Logs)
	b = appendMetadata(append(b, `,"metadata":`...), &o.Metadata)
	b = appendHashes(append(b, `,"receipt_ids":`...), o.ReceiptIDs)
	b = AppendStatus(append(b, `,"status":`...), &o.Status)
	return append(AppendBalance(append(b, `,"tokens_burnt":`...), o.TokensBurnt), '}')
}

// AppendStatus appends ExecutionStatusView.
func AppendStatus(b []byte, s *primitives.ExecutionStatus) []byte {
	switch s.Kind {
	case primitives.StatusUnknown:
		return append(b, `"Unknown"`...)
	case primitives.StatusFailure:
		return append(append(append(b, `{"Failure":`...), s.Failure...), '}')
	case primitives.StatusSuccessValue:
		return append(AppendBase64(append(b, `{"SuccessValue":`...), s.Value), '}')
	case primitives.StatusSuccessReceiptID:
		return append(AppendHash(append(b, `{"SuccessReceiptId":`...), &s.ReceiptID), '}')
	}
	panic(fmt.Sprintf("view: no JSON form of execution status %d", s.Kind))
}

// FirstProfileVersion and FirstContractsVersion are the metadata versions that added these members.
const (
	FirstProfileVersion   = 2
	FirstContractsVersion = 4
)

// appendMetadata appends ExecutionMetadataView. An outcome without metadata has version 0, which
// is shown as version 1.
func appendMetadata(b []byte, m *primitives.ExecutionMetadata) []byte {
	b = append(b, '{')
	if m.Version >= FirstContractsVersion {
		b = appendList(append(b, `"contracts":`...), m.Contracts, AppendContract)
		b = append(b, ',')
	}
	if m.Version < FirstProfileVersion {
		return append(b, `"gas_profile":null,"version":1}`...)
	}
	b = appendList(append(b, `"gas_profile":`...), m.Profile, func(b []byte, c *primitives.CostEntry) []byte {
		b = AppendString(append(b, `{"cost":`...), c.Cost)
		b = AppendString(append(b, `,"cost_category":`...), c.Category)
		return append(appendUintString(append(b, `,"gas_used":`...), c.Gas), '}')
	})
	return append(appendUint(append(b, `,"version":`...), m.Version), '}')
}

// AppendContract appends AccountContractView; null for none.
func AppendContract(b []byte, c *primitives.AccountContract) []byte {
	switch c.Kind {
	case primitives.ContractNone:
		return append(b, "null"...)
	case primitives.ContractLocal:
		return append(AppendHash(append(b, `{"local":`...), &c.Hash), '}')
	case primitives.ContractGlobalHash:
		return append(AppendHash(append(b, `{"global_hash":`...), &c.Hash), '}')
	case primitives.ContractGlobalAccount:
		return append(AppendAccountID(append(b, `{"global_account_id":`...), c.Account), '}')
	}
	panic(fmt.Sprintf("view: no JSON form of contract kind %d", c.Kind))
}
