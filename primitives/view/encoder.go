package view

import "github.com/troupe-chain/troupe/primitives"

// Order is the order of an object's members.
type Order bool

// The two orders. Replies to POST have sorted keys, because in nearcore they pass through a map.
// Replies to GET and the indexer's messages have the order of nearcore's structs.
const (
	Sorted      Order = false
	StructOrder Order = true
)

// Encoder appends the views that exist in both orders: headers, transactions, receipts, outcomes,
// changes, accounts and keys, with all that they contain. The table structs.txt lists the members
// of each struct once, in nearcore's order. structs.go is generated from that table and writes the
// members in both orders. The variants of enums are written by hand.
//
// An Encoder of NewEncoder is not safe for concurrent use. The functions AppendReceipt,
// AppendOutcome etc. use the shared Encoder sortedOrder, and are safe.
type Encoder struct {
	order    Order
	texts    *hashTexts // nil: hashes are encoded each time
	failures orderer    // brings failures into StructOrder
}

// NewEncoder returns an Encoder that remembers the texts of hashes. It is for messages that contain
// most hashes several times.
func NewEncoder(order Order) *Encoder { return &Encoder{order: order, texts: new(hashTexts)} }

// sortedOrder has no state, so all goroutines share it.
var sortedOrder = &Encoder{order: Sorted}

// Size returns how many bytes the Encoder holds for later calls, without the texts of hashes.
func (e *Encoder) Size() int { return e.failures.size() }

// hashTexts caches the texts of hashes, in slots chosen by their first bytes. A message contains
// most hashes several times: each node of an outcome tree is in all proofs below it. Encoding a
// hash costs ten times as much as copying its text.
type hashTexts [1024]struct {
	hash primitives.Hash
	len  int8 // length of the hash in text; 0: the slot is empty
	text [44]byte
}

// Hash appends base58 in quotes.
func (e *Encoder) Hash(b []byte, h *primitives.Hash) []byte {
	if e.texts == nil {
		return AppendHash(b, h)
	}
	return append(e.texts.append(append(b, '"'), h), '"')
}

func (t *hashTexts) append(b []byte, h *primitives.Hash) []byte {
	k := &t[(uint(h[0])|uint(h[1])<<8)%uint(len(t))]
	if k.len == 0 || k.hash != *h {
		text, _ := h.AppendText(k.text[:0]) // never fails
		k.hash, k.len = *h, int8(len(text))
	}
	return append(b, k.text[:k.len]...)
}

func (e *Encoder) hashValue(b []byte, h primitives.Hash) []byte { return e.Hash(b, &h) }

func (e *Encoder) hashes(b []byte, hs []primitives.Hash) []byte { return appendList(b, hs, e.Hash) }

// key appends the text of a key in quotes.
func (e *Encoder) key(b []byte, k primitives.PublicKey) []byte {
	if e.texts == nil || !isED25519(k) {
		return AppendKey(b, k)
	}
	h := primitives.Hash([]byte(k[1:]))
	return append(e.texts.append(append(b, `"ed25519:`...), &h), '"')
}

// handle appends the text of a key's handle in quotes.
func (e *Encoder) handle(b []byte, h primitives.PublicKeyHandle) []byte {
	if k := primitives.PublicKey(h); isED25519(k) { // such a key is its own handle
		return e.key(b, k)
	}
	return AppendHandle(b, h)
}

func isED25519(k primitives.PublicKey) bool {
	return len(k) == 1+len(primitives.Hash{}) && k.Type() == primitives.ED25519
}
