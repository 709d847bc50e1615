package primitives

import "github.com/troupe-chain/troupe/primitives/borsh"

// TransactionNonce is a nonce and, for a gas key, the index of its nonce.
type TransactionNonce struct {
	Nonce    Nonce
	Index    uint16 // set if HasIndex
	HasIndex bool
}

// AppendBorsh appends 0 ‖ nonce or 1 ‖ nonce ‖ index.
func (n *TransactionNonce) AppendBorsh(b []byte) []byte {
	if !n.HasIndex {
		return borsh.AppendUint64(append(b, 0), uint64(n.Nonce))
	}
	return borsh.AppendUint16(borsh.AppendUint64(append(b, 1), uint64(n.Nonce)), n.Index)
}

// DecodeBorsh reads what AppendBorsh writes.
func (n *TransactionNonce) DecodeBorsh(r *borsh.Reader) {
	switch tag := r.Byte(); tag {
	case 0:
		*n = TransactionNonce{Nonce: Nonce(r.Uint64())}
	case 1:
		*n = TransactionNonce{Nonce: Nonce(r.Uint64()), Index: r.Uint16(), HasIndex: true}
	default:
		r.BadTag("TransactionNonce", tag)
	}
}

// NonceMode is how a transaction's nonce must relate to the key's.
type NonceMode byte

// The modes: any greater nonce, or exactly the next one.
const (
	NonceMonotonic NonceMode = 0
	NonceStrict    NonceMode = 1
)

// TransactionVersion distinguishes the two layouts.
type TransactionVersion byte

// The layouts: V0 without a tag; V1 begins with byte 1 and has TransactionNonce and the nonce mode.
const (
	TransactionV0 TransactionVersion = 0
	TransactionV1 TransactionVersion = 1
)

// Transaction is a transaction without its signature (nearcore core/primitives/src/transaction.rs).
// V0 has neither a nonce index nor a mode.
type Transaction struct {
	Version    TransactionVersion
	SignerID   AccountID
	PublicKey  PublicKey
	Nonce      TransactionNonce
	ReceiverID AccountID
	BlockHash  Hash
	Actions    []Action
	NonceMode  NonceMode
	Unkept     int // number of actions that decoding dropped, see MaxActionsKept; unless 0, there is no encoding
}

// AppendBorsh appends the layout of its version.
func (t *Transaction) AppendBorsh(b []byte) []byte {
	if t.Version == TransactionV1 {
		b = append(b, 1)
	}
	b = t.PublicKey.AppendBorsh(t.SignerID.AppendBorsh(b))
	if t.Version == TransactionV1 {
		b = t.Nonce.AppendBorsh(b)
	} else {
		b = borsh.AppendUint64(b, uint64(t.Nonce.Nonce))
	}
	b = append(t.ReceiverID.AppendBorsh(b), t.BlockHash[:]...)
	b = AppendActions(b, t.Actions)
	if t.Version == TransactionV1 {
		b = append(b, byte(t.NonceMode))
	}
	return b
}

// DecodeBorsh reads either layout. V0 begins with the length of the signer id, whose second byte is
// 0. If the second byte is not 0, the first must be 1, the tag of V1.
func (t *Transaction) DecodeBorsh(r *borsh.Reader) {
	b0, _ := r.Peek(0)
	b1, ok := r.Peek(1)
	if !ok {
		r.Fail(borsh.ErrEOF)
		return
	}
	t.Version, t.NonceMode = TransactionV0, NonceMonotonic
	if b1 != 0 {
		if b0 != 1 {
			r.Failf("invalid transaction version tag: %d", b0)
			return
		}
		r.Byte()
		t.Version = TransactionV1
	}
	t.SignerID, t.PublicKey = ReadAccountID(r), ReadPublicKey(r)
	if t.Version == TransactionV1 {
		t.Nonce.DecodeBorsh(r)
	} else {
		t.Nonce = TransactionNonce{Nonce: Nonce(r.Uint64())}
	}
	t.ReceiverID, t.BlockHash = ReadAccountID(r), ReadHash(r)
	t.Actions, t.Unkept = readActions(r)
	if t.Version == TransactionV1 {
		if m := r.Byte(); m > 1 {
			r.BadTag("NonceMode", m)
		} else {
			t.NonceMode = NonceMode(m)
		}
	}
}

// Hash returns the transaction's id, which is also what the signer signs.
func (t *Transaction) Hash() Hash { return HashBorsh(t) }

// SignedTransaction is a transaction with its signature, hash and size, all computed once. Make one
// by Sign..., NewSignedTransaction, NewViewedTransaction or decoding; do not change it afterwards.
type SignedTransaction struct {
	Transaction
	Signature Signature
	hash      Hash
	size      int // bytes of the encoding, signature included
}

// NewSignedTransaction returns t with a signature.
func NewSignedTransaction(t Transaction, sig Signature) *SignedTransaction {
	b := t.AppendBorsh(nil)
	return &SignedTransaction{Transaction: t, Signature: sig, hash: HashBytes(b), size: len(b) + len(sig)}
}

// NewViewedTransaction returns a transaction that was read from nearcore's view of it, which lacks the
// block hash and contract code. It has the given hash instead of a computed one, and the size 0. Its
// encoding is not that of the signed transaction, so it must not be encoded.
func NewViewedTransaction(t Transaction, sig Signature, hash Hash) *SignedTransaction {
	return &SignedTransaction{Transaction: t, Signature: sig, hash: hash}
}

// Hash returns the transaction's id.
func (s *SignedTransaction) Hash() Hash { return s.hash }

// Size returns the length of the encoding with the signature. Limits and pools count this length
// (nearcore core/primitives/src/transaction.rs size_for_limits).
func (s *SignedTransaction) Size() int { return s.size }

// AppendBorsh appends transaction ‖ signature.
func (s *SignedTransaction) AppendBorsh(b []byte) []byte {
	return s.Signature.AppendBorsh(s.Transaction.AppendBorsh(b))
}

// DecodeBorsh reads what AppendBorsh writes. The hash is computed from the bytes read or, if these
// bytes were not canonical, from the canonical encoding.
func (s *SignedTransaction) DecodeBorsh(r *borsh.Reader) {
	in := r.Rest()
	s.Transaction.DecodeBorsh(r)
	if r.Err() != nil {
		return
	}
	if r.Loose() && s.Unkept == 0 {
		s.Signature.DecodeBorsh(r)
		*s = *NewSignedTransaction(s.Transaction, s.Signature)
		return
	}
	n := len(in) - r.Remaining()
	s.hash = HashBytes(in[:n])
	s.Signature.DecodeBorsh(r)
	s.size = len(in) - r.Remaining()
}

// ReadSignedTransaction reads a signed transaction.
func ReadSignedTransaction(r *borsh.Reader) *SignedTransaction {
	s := new(SignedTransaction)
	s.DecodeBorsh(r)
	return s
}

// AppendTransactions appends a vector of transactions.
func AppendTransactions(b []byte, txs []*SignedTransaction) []byte {
	b = borsh.AppendLen(b, len(txs))
	for _, t := range txs {
		b = t.AppendBorsh(b)
	}
	return b
}

// minSignedTransaction is the smallest encoding of a transaction: signer, key, nonce, receiver,
// hash, no actions, signature.
const minSignedTransaction = 6 + 33 + 8 + 6 + 32 + 4 + 65

// ReadTransactions reads a vector of transactions.
func ReadTransactions(r *borsh.Reader) []*SignedTransaction {
	return borsh.Slice(r, minSignedTransaction, ReadSignedTransaction)
}
