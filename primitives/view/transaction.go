package view

import "github.com/troupe-chain/troupe/primitives"

// AppendSignedTransaction appends SignedTransactionView with sorted members.
func AppendSignedTransaction(b []byte, t *primitives.SignedTransaction) []byte {
	return sortedOrder.Transaction(b, t)
}
