package primitives

import "github.com/troupe-chain/troupe/primitives/borsh"

// Tags of ReceiptEnum (nearcore core/primitives/src/receipt.rs).
const (
	tagActionReceipt       = 0
	tagDataReceipt         = 1
	tagPromiseYield        = 2
	tagPromiseResume       = 3
	tagGlobalDistribution  = 4
	tagActionReceiptV2     = 5
	tagPromiseYieldV2      = 6
	stateStoredReceiptMark = 0xff
)

// Receipt is a message from one account to another. Body is one of *ActionReceipt, *DataReceipt,
// *GlobalContractDistribution.
type Receipt struct {
	PredecessorID AccountID
	ReceiverID    AccountID
	ID            Hash
	Body          ReceiptBody
}

// ReceiptBody is the content of a receipt.
//
//sumtype:decl
type ReceiptBody interface {
	receiptTag() byte
	appendPayload(b []byte) []byte
}

// DataReceiver is a destination of a receipt's result.
type DataReceiver struct {
	DataID     Hash
	ReceiverID AccountID
}

// ActionReceipt holds actions to execute. V2 layouts have RefundTo. Yield marks a promise yield,
// which waits to be resumed.
type ActionReceipt struct {
	SignerID            AccountID
	SignerPublicKey     PublicKey
	GasPrice            Balance // price at which the gas of the receipt was bought
	OutputDataReceivers []DataReceiver
	InputDataIDs        []Hash
	Actions             []Action
	V2                  bool      // written with tags 5 and 6
	RefundTo            AccountID // V2 only; empty: refunds go to the predecessor
	Yield               bool
}

// DataReceipt carries a value, or nil for a failed promise. Resume marks the resumption of a yield.
type DataReceipt struct {
	DataID Hash
	Data   []byte // value; nil: the promise failed (None)
	Resume bool
}

// GlobalContractDistribution carries global code from shard to shard. V2 has a nonce.
type GlobalContractDistribution struct {
	ID               GlobalContractID
	TargetShard      ShardID
	AlreadyDelivered []ShardID
	Code             []byte
	CodeHash         *Hash // as in DeployContract
	V2               bool
	Nonce            uint64
}

func (a *ActionReceipt) receiptTag() byte {
	switch {
	case a.Yield && a.V2:
		return tagPromiseYieldV2
	case a.Yield:
		return tagPromiseYield
	case a.V2:
		return tagActionReceiptV2
	}
	return tagActionReceipt
}

func (d *DataReceipt) receiptTag() byte {
	if d.Resume {
		return tagPromiseResume
	}
	return tagDataReceipt
}

func (*GlobalContractDistribution) receiptTag() byte { return tagGlobalDistribution }

func appendDataReceiver(b []byte, d *DataReceiver) []byte {
	return d.ReceiverID.AppendBorsh(append(b, d.DataID[:]...))
}

func (a *ActionReceipt) appendPayload(b []byte) []byte {
	b = a.SignerID.AppendBorsh(b)
	if a.V2 {
		b = appendOptionAccountID(b, a.RefundTo)
	}
	b = a.GasPrice.AppendBorsh(a.SignerPublicKey.AppendBorsh(b))
	b = borsh.AppendSlice(b, a.OutputDataReceivers, appendDataReceiver)
	return AppendActions(AppendHashes(b, a.InputDataIDs), a.Actions)
}

func appendOptionAccountID(b []byte, id AccountID) []byte {
	if id == "" {
		return append(b, 0)
	}
	return id.AppendBorsh(append(b, 1))
}

func readActionReceipt(r *borsh.Reader, tag byte) *ActionReceipt {
	a := &ActionReceipt{V2: tag >= tagActionReceiptV2, Yield: tag == tagPromiseYield || tag == tagPromiseYieldV2}
	a.SignerID = ReadAccountID(r)
	if a.V2 && r.Option() {
		a.RefundTo = ReadAccountID(r)
	}
	a.SignerPublicKey, a.GasPrice = ReadPublicKey(r), ReadBalance(r)
	a.OutputDataReceivers = borsh.Slice(r, 38, func(r *borsh.Reader) DataReceiver {
		return DataReceiver{DataID: ReadHash(r), ReceiverID: ReadAccountID(r)}
	})
	a.InputDataIDs, a.Actions = ReadHashes(r), ReadActions(r)
	return a
}

func (d *DataReceipt) appendPayload(b []byte) []byte {
	b = append(b, d.DataID[:]...)
	if d.Data == nil {
		return append(b, 0)
	}
	return borsh.AppendBytes(append(b, 1), d.Data)
}

func (g *GlobalContractDistribution) appendPayload(b []byte) []byte {
	v := byte(0)
	if g.V2 {
		v = 1
	}
	b = borsh.AppendUint64(g.ID.AppendBorsh(append(b, v)), uint64(g.TargetShard))
	b = borsh.AppendSlice(b, g.AlreadyDelivered, func(b []byte, s *ShardID) []byte { return borsh.AppendUint64(b, uint64(*s)) })
	b = borsh.AppendBytes(b, g.Code)
	if g.V2 {
		b = borsh.AppendUint64(b, g.Nonce)
	}
	return b
}

func readGlobalDistribution(r *borsh.Reader) *GlobalContractDistribution {
	g := new(GlobalContractDistribution)
	switch v := r.Byte(); v {
	case 0:
	case 1:
		g.V2 = true
	default:
		r.BadTag("GlobalContractDistributionReceipt", v)
		return g
	}
	g.ID.DecodeBorsh(r)
	g.TargetShard = ShardID(r.Uint64())
	g.AlreadyDelivered = borsh.Slice(r, 8, func(r *borsh.Reader) ShardID { return ShardID(r.Uint64()) })
	g.Code = r.BytesCopy()
	if g.V2 {
		g.Nonce = r.Uint64()
	}
	return g
}

// AppendBorsh appends predecessor, receiver, id, tag and payload.
func (x *Receipt) AppendBorsh(b []byte) []byte {
	b = x.ReceiverID.AppendBorsh(x.PredecessorID.AppendBorsh(b))
	b = append(append(b, x.ID[:]...), x.Body.receiptTag())
	return x.Body.appendPayload(b)
}

// DecodeBorsh reads what AppendBorsh writes. A first byte of 1 that cannot be part of a V0 length
// is the reserved V1 and is refused.
func (x *Receipt) DecodeBorsh(r *borsh.Reader) {
	if b1, ok := r.Peek(1); ok && b1 != 0 {
		b0, _ := r.Peek(0)
		r.Failf("invalid receipt version tag: %d", b0)
		return
	}
	x.PredecessorID, x.ReceiverID, x.ID = ReadAccountID(r), ReadAccountID(r), ReadHash(r)
	switch tag := r.Byte(); tag {
	case tagActionReceipt, tagPromiseYield, tagActionReceiptV2, tagPromiseYieldV2:
		x.Body = readActionReceipt(r, tag)
	case tagDataReceipt, tagPromiseResume:
		d := &DataReceipt{DataID: ReadHash(r), Resume: tag == tagPromiseResume}
		if r.Option() {
			d.Data = r.BytesCopy()
		}
		x.Body = d
	case tagGlobalDistribution:
		x.Body = readGlobalDistribution(r)
	default:
		r.BadTag("ReceiptEnum", tag)
	}
}

// ReadReceipt reads a receipt.
func ReadReceipt(r *borsh.Reader) *Receipt {
	x := new(Receipt)
	x.DecodeBorsh(r)
	return x
}

// AppendReceipts appends a vector of receipts.
func AppendReceipts(b []byte, xs []*Receipt) []byte {
	b = borsh.AppendLen(b, len(xs))
	for _, x := range xs {
		b = x.AppendBorsh(b)
	}
	return b
}

// minReceipt is the smallest encoding of a receipt: ids and tag, then a distribution (version, a
// short account's id, shard, no shards, no code), which is smaller than a data receipt.
const minReceipt = 6 + 6 + 32 + 1 + (1 + 7 + 8 + 4 + 4)

// ReadReceipts reads a vector of receipts.
func ReadReceipts(r *borsh.Reader) []*Receipt { return borsh.Slice(r, minReceipt, ReadReceipt) }

// IsInstant returns whether the receipt is executed in the chunk that creates it. This is so for a
// promise yield, and for an action receipt that only deletes an account and waits for nothing
// (nearcore receipt.rs:473).
func (x *Receipt) IsInstant() bool {
	a, ok := x.Body.(*ActionReceipt)
	if !ok {
		return false
	}
	if a.Yield {
		return true
	}
	return len(a.InputDataIDs) == 0 && len(a.Actions) == 1 && a.Actions[0].Tag() == TagDeleteAccount
}

// ReceiptMetadata is stored with a queued receipt, so that leaving the queue subtracts exactly what
// entering it added.
type ReceiptMetadata struct {
	CongestionGas  Gas
	CongestionSize uint64
}

// StoredReceipt is a delayed or buffered receipt as stored in the trie: FF FF ‖ 1 ‖ receipt ‖
// metadata (nearcore receipt.rs:96). HasMetadata is false only for a bare receipt, which is still
// decoded.
type StoredReceipt struct {
	Receipt
	Metadata    ReceiptMetadata
	HasMetadata bool
	// Ungrouped marks version 0, which is read and no longer written: it was buffered before
	// buffered receipts were counted in groups.
	Ungrouped bool
}

// AppendBorsh appends the layout with metadata, or the bare receipt.
func (s *StoredReceipt) AppendBorsh(b []byte) []byte {
	if !s.HasMetadata {
		return s.Receipt.AppendBorsh(b)
	}
	version := byte(1)
	if s.Ungrouped {
		version = 0
	}
	b = s.Receipt.AppendBorsh(append(b, stateStoredReceiptMark, stateStoredReceiptMark, version))
	return borsh.AppendUint64(borsh.AppendUint64(b, uint64(s.Metadata.CongestionGas)), s.Metadata.CongestionSize)
}

// DecodeBorsh reads versions 0 and 1, and bare receipts.
func (s *StoredReceipt) DecodeBorsh(r *borsh.Reader) {
	b0, _ := r.Peek(0)
	b1, ok := r.Peek(1)
	s.HasMetadata, s.Ungrouped = ok && b0 == stateStoredReceiptMark && b1 == stateStoredReceiptMark, false
	if !s.HasMetadata {
		s.Receipt.DecodeBorsh(r)
		return
	}
	r.Take(2)
	v := r.Byte()
	if s.Ungrouped = v == 0; v > 1 {
		r.BadTag("StateStoredReceipt", v)
		return
	}
	s.Receipt.DecodeBorsh(r)
	s.Metadata = ReceiptMetadata{CongestionGas: Gas(r.Uint64()), CongestionSize: r.Uint64()}
}
