package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// TestRequestsAreAnsweredCompletely: transactions and snapshots arrive complete, a rejection is
// returned, and the number of snapshots is bounded.
func TestRequestsAreAnsweredCompletely(t *testing.T) {
	server := testServer(t, t.TempDir(), "127.0.0.1:0")
	defer server.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	folder := make([]byte, 3*pieceSize+12345)
	for i := range folder {
		folder[i] = byte(rng.Uint32())
	}
	var got []byte
	closed := make(chan struct{}, 10)
	broken := errors.New("the disk is")
	fails := false
	a, err := Answer(ResponderOptions{Link: writing(server), Names: testNames, MaxSnapshots: 1,
		Submit: func(_ context.Context, raw []byte) error {
			got = raw
			if len(raw)%2 == 1 {
				return fmt.Errorf("%w: Expired", ErrRefused)
			}
			return nil
		},
		Snapshot: func() (*Opened, error) {
			return &Opened{End: "3.14", Close: func() { closed <- struct{}{} }, WriteTo: func(w io.Writer) error {
				if fails {
					_, _ = w.Write(folder[:pieceSize+1])
					return broken
				}
				_, err := w.Write(folder)
				return err
			}}, nil
		},
		Published: func() Published { return Published{Log: "log", Seq: 17} },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	q, err := NewAsker(clientLink(server), testNames, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	key := testKey("signer")
	for n := range 4 {
		tx := &primitives.SignedTransaction{Transaction: primitives.Transaction{SignerID: "a", ReceiverID: primitives.AccountID(bytes.Repeat([]byte("b"), n+2)), PublicKey: key.PublicKey()}}
		tx.Signature = key.Sign([]byte("x"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := q.Submit(ctx, tx)
		cancel()
		if raw := tx.AppendBorsh(nil); !bytes.Equal(raw, got) || errors.Is(err, ErrRefused) != (len(raw)%2 == 1) || len(raw)%2 == 0 && err != nil {
			t.Fatalf("%d bytes: %v", len(raw), err)
		}
	}
	first, err := q.Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if first.End != "3.14" || first.Log != "log" || first.Seq != 17 {
		t.Errorf("%+v", first)
	}
	if _, err := q.Fetch(t.Context()); err == nil {
		t.Error("a second snapshot at once")
	}
	if all, err := io.ReadAll(first); err != nil || !bytes.Equal(all, folder) {
		t.Fatalf("%d bytes of %d: %v", len(all), len(folder), err)
	}
	<-closed
	a.mu.Lock()
	for id := range a.transfers { // as idle ones are
		go a.drop(id)
	}
	a.mu.Unlock()
	fails = true
	for try := 0; ; try++ {
		second, err := q.Fetch(t.Context())
		if err != nil && try < 6000 {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if all, err := io.ReadAll(second); err == nil {
			t.Errorf("a failed snapshot was complete with %d bytes", len(all))
		}
		break
	}
}
