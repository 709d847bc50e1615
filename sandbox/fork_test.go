package sandbox

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// TestForkContinuesAnotherChain: a sandbox continues another chain, whose accounts act by
// impersonation, and changes nothing there.
func TestForkContinuesAnotherChain(t *testing.T) {
	up, token, _ := withToken(t, Options{})
	address, err := up.Serve("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := up.Mine(t.Context(), 5); err != nil { // so that all of this is final
		t.Fatal(err)
	}
	s := New(t, Options{Fork: address,
		Accounts: map[primitives.AccountID]primitives.Balance{"alice.near": primitives.NEAR(77),
			"new.near": primitives.NEAR(1)}})
	if b, err := s.Balance("alice.near"); err != nil || b != primitives.NEAR(77) {
		t.Errorf("alice has %v, %v", b, err)
	}
	for _, x := range []*World{s.World, s.ForTest(t)} {
		as, err := x.Impersonate(token.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := x.Call(t.Context(), as, "token.near", "ft_transfer", transfer(3), primitives.Yocto(1)); err != nil {
			t.Fatal(err)
		}
		if _, err := x.Transfer(t.Context(), Named("new.near"), "alice.near", primitives.Yocto(1)); err != nil {
			t.Error(err)
		}
	}
	if here, there := tokensOf(t, s.World, "alice.near"), tokensOf(t, up.World, "alice.near"); here != "3" || there != "0" {
		t.Errorf("alice has %s tokens here and %s there", here, there)
	}
}

// TestHangingForkSourceEndsWithError: if the remote node accepts connections and does not answer,
// the start ends in time with an error that names it. If it hangs later, reads and transactions end
// with an error, and Close still works.
func TestHangingForkSourceEndsWithError(t *testing.T) {
	up, token, _ := withToken(t, Options{})
	address, err := up.Serve("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := up.Mine(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	var hangs atomic.Bool
	hangs.Store(true)
	proxy := httputil.NewSingleHostReverseProxy(target)
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if hangs.Load() {
			select {
			case <-in.Context().Done():
			case <-done:
			}
			return
		}
		proxy.ServeHTTP(out, in)
	}))
	defer server.Close()
	defer close(done)

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = Start(ctx, Options{Fork: server.URL})
	if !errors.Is(err, ErrFork) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), server.URL) {
		t.Errorf("a start that hangs: %v", err)
	}
	hangs.Store(false)
	s := New(t, Options{Fork: server.URL, ForkTimeout: 50 * time.Millisecond})
	if tokensOf(t, s.World, "alice.near") != "0" {
		t.Error("alice has tokens")
	}
	hangs.Store(true)
	if _, err := s.Balance("unseen.near"); !errors.Is(err, ErrFork) {
		t.Errorf("a read that hangs: %v", err)
	}
	if tokensOf(t, s.World, "alice.near") != "0" {
		t.Error("the value that was read before is no longer available")
	}
	short, stop := context.WithTimeout(t.Context(), 3*time.Second)
	defer stop()
	if _, err := s.Transfer(short, token, "unseen.near", primitives.NEAR(1)); err == nil {
		t.Error("a transfer to an account that cannot be read succeeds")
	}
}
