package view

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// AppendReceipt appends ReceiptView with sorted members.
func AppendReceipt(b []byte, r *primitives.Receipt) []byte { return sortedOrder.Receipt(b, r) }

// AppendReceipts appends a list of receipts with sorted members.
func AppendReceipts(b []byte, rs []*primitives.Receipt) []byte { return sortedOrder.Receipts(b, rs) }

// Receipts appends a list of receipts.
func (e *Encoder) Receipts(b []byte, rs []*primitives.Receipt) []byte {
	return appendList(b, rs, func(b []byte, r **primitives.Receipt) []byte { return e.Receipt(b, *r) })
}

// receiptBody appends ReceiptEnumView.
func (e *Encoder) receiptBody(b []byte, body primitives.ReceiptBody) []byte {
	switch r := body.(type) {
	case *primitives.ActionReceipt:
		b = e.actionReceipt(append(b, `{"Action":`...), r)
	case *primitives.DataReceipt:
		b = e.dataReceipt(append(b, `{"Data":`...), r)
	case *primitives.GlobalContractDistribution:
		b = e.globalContractDistribution(append(b, `{"GlobalContractDistribution":`...), r)
	default:
		panic(fmt.Sprintf("view: no JSON form of receipt %T", body))
	}
	return append(b, '}')
}
