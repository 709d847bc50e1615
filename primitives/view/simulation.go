package view

import (
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/fair"
)

// Simulate asks what a transaction would do on the state after a block.
type Simulate struct {
	Tx    *primitives.SignedTransaction
	Block BlockRef
	// Unsigned ignores the signature, to simulate a transaction before it is signed.
	Unsigned bool
	Client   fair.Client // client to which the cost is charged
	Took     int64       // running time in ns, without waiting; set by the node
}

// Trace asks what a transaction did, or would do.
type Trace struct {
	Hash     primitives.Hash // hash of a transaction in a block; ignored if Tx is set
	Simulate                 // if its field Tx is set, that transaction is simulated
	Profile  bool            // the reply contains a profile by function
}

// Simulation is the answer: the status that the transaction would have once everything is final.
type Simulation struct {
	FinalOutcome
	At       At   // the block whose state was used
	Blocks   int  // number of blocks after which the last receipt was executed
	Complete bool // false: the limit of blocks was reached before all receipts were executed
	// Unlinked lists the calls of contracts that import functions which the protocol version does
	// not have. The outcomes of these calls do not name the functions.
	Unlinked []UnlinkedCall
}

// UnlinkedCall is a call of a contract that does not link, with one of its missing imports. A call
// has one entry for each missing import.
type UnlinkedCall struct {
	Receipt primitives.Hash
	Account primitives.AccountID
	Code    primitives.Hash
	Missing primitives.MissingImport
}

// AppendSimulation appends the reply of EXPERIMENTAL_tx_status with a member "simulation" after the
// members of that reply.
func AppendSimulation(b []byte, s *Simulation) []byte {
	b = AppendFinalOutcome(b, &s.FinalOutcome, true)
	b = AppendHash(append(b[:len(b)-1], `,"simulation":{"block_hash":`...), &s.At.Hash)
	b = strconv.AppendUint(append(b, `,"block_height":`...), uint64(s.At.Height), 10)
	b = strconv.AppendInt(append(b, `,"blocks":`...), int64(s.Blocks), 10)
	b = strconv.AppendBool(append(b, `,"complete":`...), s.Complete)
	if len(s.Unlinked) > 0 {
		b = appendList(append(b, `,"missing_imports":`...), s.Unlinked, appendUnlinkedCall)
	}
	return append(b, `}}`...)
}

func appendUnlinkedCall(b []byte, u *UnlinkedCall) []byte {
	b = AppendHash(append(b, `{"receipt_id":`...), &u.Receipt)
	b = AppendString(append(b, `,"account_id":`...), string(u.Account))
	b = AppendHash(append(b, `,"code_hash":`...), &u.Code)
	return append(appendMissingImport(append(b, ','), &u.Missing), '}')
}
