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
	// Unsigned tries a transaction whose signature does not count: one that is still to be signed.
	Unsigned bool
	Client   fair.Client // whose turn it takes
	Took     int64       // ns that it ran, without the time that it waited; set by who runs it
}

// Trace asks what a transaction did, or would do.
type Trace struct {
	Hash     primitives.Hash // of a transaction in a block
	Simulate                 // with a Tx: try that one instead
	Profile  bool            // also a profile by function
}

// Simulation is the answer: what the status of the transaction would be once everything is final.
type Simulation struct {
	FinalOutcome
	At       At   // on whose state it was tried
	Blocks   int  // after how many blocks the last receipt was executed
	Complete bool // false: receipts were left when the blocks ran out
}

// AppendSimulation appends the reply of EXPERIMENTAL_tx_status with a member "simulation" behind
// the others.
func AppendSimulation(b []byte, s *Simulation) []byte {
	b = AppendFinalOutcome(b, &s.FinalOutcome, true)
	b = AppendHash(append(b[:len(b)-1], `,"simulation":{"block_hash":`...), &s.At.Hash)
	b = strconv.AppendUint(append(b, `,"block_height":`...), uint64(s.At.Height), 10)
	b = strconv.AppendInt(append(b, `,"blocks":`...), int64(s.Blocks), 10)
	return append(strconv.AppendBool(append(b, `,"complete":`...), s.Complete), `}}`...)
}
