package jetstream

import (
	"crypto/sha256"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// vouch signs a snapshot for who fetches it, or holds what comes to that. Who holds the server's
// token may answer in the writer's place; what it says is not signed by the writer's node key, or
// was for another nonce.
type vouch struct {
	nonce string
	id    string                            // of the snapshot
	sign  func([]byte) primitives.Signature // of who gives; nil: it does not sign
	by    *primitives.PublicKey             // of who fetches: whose it must be; nil: anybody's
}

// words are what is signed: strings are written with their lengths, so that none runs into the
// next.
func (v *vouch) words(kind string, rest ...any) []byte {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "troupe snapshot %q %q %q", kind, v.nonce, v.id) // never fails
	for _, x := range rest {
		_, _ = fmt.Fprintf(h, " %q", fmt.Sprint(x))
	}
	return h.Sum(nil)
}

func (v *vouch) openedWords(r *reply) []byte { return v.words("opened", r.End, r.Log, r.Seq) }

func (v *vouch) pieceWords(n uint64, last bool, piece []byte) []byte {
	return v.words("piece", n, last, fmt.Sprintf("%x", sha256.Sum256(piece)))
}

func (v *vouch) signed(words []byte) string {
	if v.sign == nil {
		return ""
	}
	return v.sign(words).String()
}

func (v *vouch) opened(r *reply) string { return v.signed(v.openedWords(r)) }

func (v *vouch) piece(n uint64, last bool, piece []byte) string {
	return v.signed(v.pieceWords(n, last, piece))
}

func (v *vouch) check(words []byte, signature string) error {
	if v.by == nil {
		return nil
	}
	s, err := primitives.ParseSignature(signature)
	if err != nil || !s.Verify(words, *v.by) {
		return fmt.Errorf("%w: a snapshot that is not signed by %v (troupe.replica.writer_key)", ErrChanged, v.by)
	}
	return nil
}

func (v *vouch) checkOpened(r *reply) error { return v.check(v.openedWords(r), r.Signature) }

func (v *vouch) checkPiece(n uint64, last bool, piece []byte, signature string) error {
	return v.check(v.pieceWords(n, last, piece), signature)
}
