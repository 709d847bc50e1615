package jetstream

import (
	"crypto/sha256"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// snapshotSig signs the messages of a snapshot, or verifies their signatures. Any client with the
// server's token could answer in place of the writer. Such an answer lacks a signature by the
// writer's node key over this nonce.
type snapshotSig struct {
	nonce string
	id    string // id of the snapshot
	// Signs messages of the snapshot; nil at the reader, or if the messages are not signed.
	sign func([]byte) primitives.Signature
	by   *primitives.PublicKey // key that must have signed the messages; nil: not verified
}

// digest returns the data to sign. Strings are quoted, so that their boundaries are unambiguous.
func (v *snapshotSig) digest(kind string, rest ...any) []byte {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "troupe snapshot %q %q %q", kind, v.nonce, v.id) // never fails
	for _, x := range rest {
		_, _ = fmt.Fprintf(h, " %q", fmt.Sprint(x))
	}
	return h.Sum(nil)
}

func (v *snapshotSig) openedDigest(r *reply) []byte { return v.digest("opened", r.End, r.Log, r.Seq) }

func (v *snapshotSig) pieceDigest(n uint64, last bool, piece []byte) []byte {
	return v.digest("piece", n, last, fmt.Sprintf("%x", sha256.Sum256(piece)))
}

func (v *snapshotSig) signed(words []byte) string {
	if v.sign == nil {
		return ""
	}
	return v.sign(words).String()
}

func (v *snapshotSig) opened(r *reply) string { return v.signed(v.openedDigest(r)) }

func (v *snapshotSig) piece(n uint64, last bool, piece []byte) string {
	return v.signed(v.pieceDigest(n, last, piece))
}

func (v *snapshotSig) check(words []byte, signature string) error {
	if v.by == nil {
		return nil
	}
	s, err := primitives.ParseSignature(signature)
	if err != nil || !s.Verify(words, *v.by) {
		return fmt.Errorf("%w: the snapshot is not signed by %v (troupe.replica.writer_key)", ErrChanged, v.by)
	}
	return nil
}

func (v *snapshotSig) checkOpened(r *reply) error { return v.check(v.openedDigest(r), r.Signature) }

func (v *snapshotSig) checkPiece(n uint64, last bool, piece []byte, signature string) error {
	return v.check(v.pieceDigest(n, last, piece), signature)
}
