package jetstream

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// TestSignedSnapshotIsAccepted: a reader with the writer's key accepts a snapshot signed for its
// request, and no piece from another client with the server's token.
func TestSignedSnapshotIsAccepted(t *testing.T) {
	server := testServer(t, t.TempDir(), "127.0.0.1:0")
	defer server.Close()
	folder := bytes.Repeat([]byte("folder"), pieceSize/3)
	writer, other := testKey("writer"), testKey("another")
	key, another := writer.PublicKey(), other.PublicKey()
	answer := func(sign func([]byte) primitives.Signature) *Responder {
		t.Helper()
		a, err := Answer(ResponderOptions{Link: writing(server), Names: testNames, MaxSnapshots: 9, Sign: sign,
			Snapshot: func() (*Opened, error) {
				return &Opened{End: "3.14", Close: func() {}, WriteTo: func(w io.Writer) error {
					_, err := w.Write(folder)
					return err
				}}, nil
			},
			Published: func() Published { return Published{Log: "log", Seq: 17} },
		})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	fetch := func(by *primitives.PublicKey) error {
		t.Helper()
		q, err := NewAsker(clientLink(server), testNames, by)
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		for try := 0; ; try++ {
			f, err := q.Fetch(t.Context())
			if err != nil && !errors.Is(err, ErrChanged) && try < 6000 { // it is being prepared
				time.Sleep(10 * time.Millisecond)
				continue
			}
			if err != nil {
				return err
			}
			all, err := io.ReadAll(f)
			if err == nil && !bytes.Equal(all, folder) {
				t.Errorf("%d bytes of %d", len(all), len(folder))
			}
			return err
		}
	}
	a := answer(writer.Sign)
	for name, by := range map[string]*primitives.PublicKey{"the writer's": &key, "nobody's": nil} {
		if err := fetch(by); err != nil {
			t.Errorf("by %s key: %v", name, err)
		}
	}
	if err := fetch(&another); !errors.Is(err, ErrChanged) {
		t.Errorf("by another's key: %v", err)
	}
	a.Close()
	for name, sign := range map[string]func([]byte) primitives.Signature{"unsigned": nil, "signed by another": other.Sign} {
		a := answer(sign)
		if err := fetch(&key); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %v", name, err)
		}
		a.Close()
	}

	give := snapshotSig{nonce: "n", id: "1-a", sign: writer.Sign}
	r := reply{ID: "1-a", End: "3.14", Log: "log", Seq: 17}
	r.Signature = give.opened(&r)
	piece := []byte("piece")
	signature := give.piece(2, false, piece)
	take := func() *snapshotSig { return &snapshotSig{nonce: "n", id: "1-a", by: &key} }
	if err := errors.Join(take().checkOpened(&r), take().checkPiece(2, false, piece, signature)); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"another end":      take().checkOpened(&reply{ID: r.ID, End: "3.15", Log: r.Log, Seq: r.Seq, Signature: r.Signature}),
		"another log":      take().checkOpened(&reply{ID: r.ID, End: r.End, Log: "lag", Seq: r.Seq, Signature: r.Signature}),
		"another message":  take().checkOpened(&reply{ID: r.ID, End: r.End, Log: r.Log, Seq: 18, Signature: r.Signature}),
		"a request before": (&snapshotSig{nonce: "m", id: "1-a", by: &key}).checkOpened(&r),
		"its piece":        (&snapshotSig{nonce: "m", id: "1-a", by: &key}).checkPiece(2, false, piece, signature),
		"another snapshot": (&snapshotSig{nonce: "n", id: "2-a", by: &key}).checkPiece(2, false, piece, signature),
		"another place":    take().checkPiece(3, false, piece, signature),
		"an earlier end":   take().checkPiece(2, true, piece, signature),
		"a changed byte":   take().checkPiece(2, false, []byte("peace"), signature),
		"no signature":     take().checkPiece(2, false, piece, ""),
		"a piece as begin": take().check(take().openedDigest(&r), signature),
	} {
		t.Run(name, func(t *testing.T) {
			if !errors.Is(err, ErrChanged) {
				t.Errorf("got error %v, want %v", err, ErrChanged)
			}
		})
	}
}
