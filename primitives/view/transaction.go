package view

import "github.com/troupe-chain/troupe/primitives"

// AppendSignedTransaction appends SignedTransactionView (nearcore views.rs:1698). nonce_index is
// only present if the transaction has one, nonce_mode only if it is strict.
func AppendSignedTransaction(b []byte, t *primitives.SignedTransaction) []byte {
	hash := t.Hash()
	b = AppendActions(append(b, `{"actions":`...), t.Actions)
	b = AppendHash(append(b, `,"hash":`...), &hash)
	b = appendUint(append(b, `,"nonce":`...), t.Nonce.Nonce)
	if t.Nonce.HasIndex {
		b = appendUint(append(b, `,"nonce_index":`...), t.Nonce.Index)
	}
	if t.NonceMode == primitives.NonceStrict {
		b = append(b, `,"nonce_mode":"strict"`...)
	}
	b = AppendKey(append(b, `,"priority_fee":0,"public_key":`...), t.PublicKey)
	b = AppendAccountID(append(b, `,"receiver_id":`...), t.ReceiverID)
	b = AppendSignature(append(b, `,"signature":`...), t.Signature)
	return append(AppendAccountID(append(b, `,"signer_id":`...), t.SignerID), '}')
}
