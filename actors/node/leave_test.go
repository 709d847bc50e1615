package node

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives/view"
)

// TestSubmissionOutlivesItsClient: a submission is checked even if its client disconnects
// immediately after sending it.
func TestSubmissionOutlivesItsClient(t *testing.T) {
	const n = 300
	t.Run("session", func(t *testing.T) {
		s := start(t, 1, nil)
		for range n {
			ctx, done, err := s.OpenSession(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.SendTxAsync(ctx, s.tx("near", transfer(1))); err != nil {
				t.Fatal(err)
			}
			done()
		}
		s.reached(t, n)
		until(t, func() bool { return s.alive("session") == 0 })
	})
	t.Run("wire", func(t *testing.T) { // each submission has its own connection
		s := start(t, 1, nil)
		w := serve(t, s)
		var all sync.WaitGroup
		for range 8 {
			one := w.another()
			one.client.Transport.(*http.Transport).DisableKeepAlives = true
			all.Go(func() {
				for range n / 8 {
					if r := one.send(t, s.tx("near", transfer(1)), view.LevelNone); r.fault() != "" {
						t.Errorf("%+v", r.Error)
					}
				}
			})
		}
		all.Wait()
		s.reached(t, n/8*8)
	})
}

// reached waits until the mempools have got want submissions.
func (s *sandbox) reached(t *testing.T, want uint64) {
	t.Helper()
	limit := time.Now().Add(time.Minute)
	for s.tally.Submitted.Load() < want && time.Now().Before(limit) {
		time.Sleep(time.Millisecond)
	}
	if got := s.tally.Submitted.Load(); got != want {
		t.Fatalf("%d submissions reached the mempool, want %d", got, want)
	}
}

// alive returns the number of actors of a kind.
func (s *sandbox) alive(kind string) (n int64) {
	for _, x := range s.Meter() {
		if x.Name == kind {
			n += x.Alive
		}
	}
	return n
}
