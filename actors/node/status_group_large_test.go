package node

import (
	"context"
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestLargeStatusReadWaitsForMemory: A small status is read at once; a large one asks for room
// before the rest is read. Without room the request fails and nothing else is read. A wait gives
// everything back before it begins.
func TestLargeStatusReadWaitsForMemory(t *testing.T) {
	s := startWide(t, 300)
	small, wide := s.tx("near", transfer(1)), s.tx(validator, call())
	for _, tx := range []*primitives.SignedTransaction{small, wide} {
		if _, err := s.Submit(tx); err != nil {
			t.Fatal(err)
		}
	}
	mineBlocks(t, s, 8)
	var asked, left int
	var refuse error
	ctx := messages.WithTurn(t.Context(), messages.Turn{Take: func() {}, Leave: func() { left++ },
		Large: func() error { asked++; return refuse }})
	full := errors.New("there is no room")
	for _, c := range []struct {
		name     string
		tx       *primitives.SignedTransaction
		receipts bool
		refuse   error
		asked    int
	}{
		{"small", small, false, nil, 0}, {"small with receipts", small, true, nil, 0}, {"large", wide, false, nil, 1},
		{"large with receipts", wide, true, nil, 1}, {"large without room", wide, false, full, 1},
	} {
		asked, refuse = 0, c.refuse
		out, err := s.Tx(ctx, &view.GetTx{Hash: c.tx.Hash(), Sender: validator, WaitUntil: view.LevelFinal,
			Receipts: c.receipts})
		if asked != c.asked || !errors.Is(err, c.refuse) {
			t.Errorf("%s: asked %d times, %v", c.name, asked, err)
		}
		if err != nil {
			continue
		}
		want, err := s.e.Transactions().StatusWithin(c.tx.Hash(), s.e.Head().Height(), s.e.Final().Height, c.receipts, 0)
		if err != nil || string(view.AppendFinalOutcome(nil, out, c.receipts)) != string(view.AppendFinalOutcome(nil,
			&want, c.receipts)) {
			t.Errorf("%s: another status, %v", c.name, err)
		}
	}
	refuse, left = nil, 0
	waits, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		_, err := s.Tx(waits, &view.GetTx{Hash: primitives.Hash{7}, Sender: validator, WaitUntil: view.LevelFinal})
		done <- err
	}()
	until(t, func() bool { return s.Stats().Parked == 1 })
	if left == 0 {
		t.Error("it waits with what it has taken")
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("an answer")
	}
}
