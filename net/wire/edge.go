package wire

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// PartialEdge is one side's half of an edge.
type PartialEdge struct {
	Nonce     uint64
	Signature primitives.Signature // signature over EdgeHash by the sender's node key
}

// Edge states that two nodes are connected (odd nonce) or no longer connected (even nonce). Of the
// edges of a pair of nodes, the edge with the highest nonce is valid.
type Edge struct {
	Low, High       PeerID // the two nodes in ascending order
	Nonce           uint64 // by convention, an odd nonce is at least the time in seconds of UTC
	LowSig, HighSig primitives.Signature
	RemovalSig      primitives.Signature // signature of the disconnection; empty if the edge is active
	RemovedByLow    bool

	proven verdict
}

// EdgeHash returns the hash that both ends sign: H(low ‖ high ‖ nonce).
func EdgeHash(a, b PeerID, nonce uint64) primitives.Hash {
	if a > b {
		a, b = b, a
	}
	buf := make([]byte, 0, len(a)+len(b)+8)
	return primitives.HashBytes(borsh.AppendUint64(b.AppendBorsh(a.AppendBorsh(buf)), nonce))
}

// SignEdge returns the half of an edge from key's node to other.
func SignEdge(key primitives.SecretKey, other PeerID, nonce uint64) PartialEdge {
	h := EdgeHash(key.PublicKey(), other, nonce)
	return PartialEdge{nonce, key.Sign(h[:])}
}

// NewEdge joins both halves of an active edge. sigA and sigB belong to a and b, in any order.
func NewEdge(a, b PeerID, nonce uint64, sigA, sigB primitives.Signature) *Edge {
	if a > b {
		a, b, sigA, sigB = b, a, sigB, sigA
	}
	return &Edge{Low: a, High: b, Nonce: nonce, LowSig: sigA, HighSig: sigB}
}

// NextNonce returns the nonce of the edge that follows an edge with this nonce: the next odd number
// after the nonce of a possible removal.
func NextNonce(nonce uint64) uint64 {
	if nonce%2 == 0 {
		return nonce + 1
	}
	return nonce + 2
}

// FreshNonce returns the nonce of an edge that is created now: the seconds of UTC, made odd.
func FreshNonce(seconds int64) uint64 { return uint64(seconds) | 1 }

// Active returns whether the edge states that the nodes are connected.
func (e *Edge) Active() bool { return e.Nonce%2 == 1 }

// Other returns the end that is not me; empty if me is neither end.
func (e *Edge) Other(me PeerID) PeerID {
	switch me {
	case e.Low:
		return e.High
	case e.High:
		return e.Low
	}
	return ""
}

// Remove returns the removal of the active edge e, signed by key, which must belong to one of its
// ends.
func (e *Edge) Remove(key primitives.SecretKey) *Edge {
	out := *e
	out.proven = unproven
	out.Nonce++
	h := EdgeHash(e.Low, e.High, out.Nonce)
	out.RemovedByLow, out.RemovalSig = key.PublicKey() == e.Low, key.Sign(h[:])
	return &out
}

// Verify returns whether the signatures are valid. An active edge has two signatures over its
// nonce. A removed edge has two signatures over the previous nonce and a third signature over its
// own nonce. An edge from a node to itself is valid too; only a validator's own T1 connection has
// such an edge.
func (e *Edge) Verify() bool { return e.proven.or(e.verify) }

func (e *Edge) verify() bool {
	if e.Low > e.High || e.Nonce == 0 {
		return false
	}
	added := e.Nonce
	if !e.Active() {
		added--
	}
	h := EdgeHash(e.Low, e.High, added)
	if !e.LowSig.Verify(h[:], e.Low) || !e.HighSig.Verify(h[:], e.High) {
		return false
	}
	if e.Active() {
		return e.RemovalSig == ""
	}
	by := e.High
	if e.RemovedByLow {
		by = e.Low
	}
	h = EdgeHash(e.Low, e.High, e.Nonce)
	return e.RemovalSig.Verify(h[:], by)
}

// AppendBorsh appends nonce and signature.
func (p *PartialEdge) AppendBorsh(b []byte) []byte {
	return p.Signature.AppendBorsh(borsh.AppendUint64(b, p.Nonce))
}

// DecodeBorsh reads nonce and signature.
func (p *PartialEdge) DecodeBorsh(r *borsh.Reader) {
	p.Nonce, p.Signature = r.Uint64(), primitives.ReadSignature(r)
}

// AppendBorsh appends ends, nonce, signatures and Option<(bool, signature)>.
func (e *Edge) AppendBorsh(b []byte) []byte {
	b = borsh.AppendUint64(e.High.AppendBorsh(e.Low.AppendBorsh(b)), e.Nonce)
	b = e.HighSig.AppendBorsh(e.LowSig.AppendBorsh(b))
	if e.RemovalSig == "" {
		return append(b, 0)
	}
	return e.RemovalSig.AppendBorsh(borsh.AppendBool(append(b, 1), e.RemovedByLow))
}

// DecodeBorsh reads an edge. DecodeBorsh verifies nothing, not even the order of the ends.
func (e *Edge) DecodeBorsh(r *borsh.Reader) {
	*e = Edge{Low: primitives.ReadPublicKey(r), High: primitives.ReadPublicKey(r), Nonce: r.Uint64()}
	e.LowSig, e.HighSig = primitives.ReadSignature(r), primitives.ReadSignature(r)
	if r.Option() {
		e.RemovedByLow, e.RemovalSig = r.Bool(), primitives.ReadSignature(r)
	}
}

// Announcement names the node of an account in an epoch.
type Announcement struct {
	AccountID primitives.AccountID
	PeerID    PeerID
	EpochID   primitives.EpochID
	Signature primitives.Signature // signature over Hash by the validator key of the account in that epoch
}

// NewAnnouncement returns a signed announcement.
func NewAnnouncement(account primitives.AccountID, peer PeerID, epoch primitives.EpochID, key primitives.SecretKey) *Announcement {
	a := &Announcement{AccountID: account, PeerID: peer, EpochID: epoch}
	h := a.Hash()
	a.Signature = key.Sign(h[:])
	return a
}

func (a *Announcement) appendSigned(b []byte) []byte {
	return a.EpochID.AppendBorsh(a.PeerID.AppendBorsh(a.AccountID.AppendBorsh(b)))
}

// Hash returns the hash that is signed.
func (a *Announcement) Hash() primitives.Hash { return primitives.HashBytes(a.appendSigned(nil)) }

// Verify returns whether key has signed the announcement.
func (a *Announcement) Verify(key primitives.PublicKey) bool {
	h := a.Hash()
	return a.Signature.Verify(h[:], key)
}

// AppendBorsh appends the fields.
func (a *Announcement) AppendBorsh(b []byte) []byte {
	return a.Signature.AppendBorsh(a.appendSigned(b))
}

// DecodeBorsh reads the fields.
func (a *Announcement) DecodeBorsh(r *borsh.Reader) {
	a.AccountID, a.PeerID = primitives.ReadAccountID(r), primitives.ReadPublicKey(r)
	a.EpochID, a.Signature = primitives.ReadHash(r), primitives.ReadSignature(r)
}
