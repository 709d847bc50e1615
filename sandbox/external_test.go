package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/sandbox/external"
)

// TestExternalDerivesTheSameKeys: the external package writes the same keys as well.
func TestExternalDerivesTheSameKeys(t *testing.T) {
	for _, id := range []primitives.AccountID{"near", "alice.near", "a-name-of-more-than-thirty-two-letters.near"} {
		a, b := Named(id), external.Named(string(id))
		if a.Key.String() != b.SecretKey() || a.Key.PublicKey().String() != b.PublicKey() {
			t.Errorf("%s: %v and %s", id, a.Key.PublicKey(), b.PublicKey())
		}
	}
}

// TestExternalClientEqualsInProcess: the client does over JSON-RPC what this package does: each
// action, worlds, time, refunds, errors.
func TestExternalClientEqualsInProcess(t *testing.T) {
	s := New(t)
	url, err := s.Serve("")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	chain := external.Connect(url)
	token, err := chain.Create(ctx, "token.near", external.NEAR(100))
	if err != nil {
		t.Fatal(err)
	}
	near := external.Named("near")
	alice := external.Named("alice.near")
	if _, err := chain.Send(ctx, near, "alice.near", external.CreateAccount{}, external.AddKey{Of: alice},
		external.Transfer{Deposit: external.NEAR(10)}); err != nil {
		t.Fatal(err)
	}
	if _, err := chain.Send(ctx, alice, "near", external.Transfer{Deposit: big.NewInt(1)}); err != nil {
		t.Errorf("a key that was added: %v", err)
	}
	if _, err := chain.Deploy(ctx, token, contracts.C("ft"), "new", supply); err != nil {
		t.Fatal(err)
	}
	out, err := chain.Call(ctx, alice, "token.near", "storage_deposit", map[string]any{}, external.NEAR(1))
	if err != nil || out.Gas == 0 || len(out.Value) == 0 || out.JSON(new(any)) != nil {
		t.Fatalf("output %+v, error %v", out, err)
	}
	left, err := chain.Balance(ctx, "alice.near")
	if err != nil {
		t.Fatal(err)
	}
	if err := chain.Mine(ctx, 5); err != nil {
		t.Fatal(err)
	}
	if later, err := chain.Balance(ctx, "alice.near"); err != nil || later.Cmp(left) != 0 {
		t.Errorf("%v when the call had returned, %v later, %v", left, later, err)
	}
	before, err := s.Account("token.near")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chain.Create(ctx, "token.near", external.NEAR(3)); err != nil {
		t.Fatal(err)
	}
	after, err := s.Account("token.near")
	if before.Amount = primitives.NEAR(3); err != nil || after != before {
		t.Errorf("created again: %+v, %v, want %+v", after, err, before)
	}

	balance := func(w *external.World) (amount string) {
		t.Helper()
		if err := w.View(ctx, "token.near", "ft_balance_of", map[string]any{"account_id": "alice.near"}, &amount); err != nil {
			t.Error(err)
		}
		return amount
	}
	t.Run("worlds", func(t *testing.T) {
		for i := range 10 {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				w := chain.ForTest(t)
				if _, err := w.Call(t.Context(), token, "token.near", "ft_transfer", transfer(i+1), big.NewInt(1)); err != nil {
					t.Fatal(err)
				}
				if got := balance(w); got != fmt.Sprint(i+1) {
					t.Errorf("alice has %s", got)
				}
			})
		}
	})
	if got := balance(chain); got != "0" {
		t.Errorf("outside of the worlds alice has %s", got)
	}
	w, err := chain.New(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var clock struct {
		Time json.Number `json:"timestamp_nanosec"`
	}
	now := func() int64 {
		t.Helper()
		if err := w.RPC(ctx, "sandbox_set_clock", map[string]any{}, &clock); err != nil {
			t.Fatal(err)
		}
		n, err := clock.Time.Int64()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	begin := now()
	if err := w.Advance(ctx, time.Hour); err != nil || now()-begin < int64(time.Hour) {
		t.Errorf("an hour later: %d ns, %v", now()-begin, err)
	}
	if err := w.End(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Balance(ctx, "near"); !errors.Is(err, external.ErrEnded) {
		t.Errorf("a world that has ended: %v", err)
	}

	var failed *external.CallError
	var refused *external.RPCError
	if out, err := chain.Call(ctx, token, "token.near", "ft_transfer",
		map[string]any{"receiver_id": "nobody.near", "amount": "1"}, big.NewInt(1)); !errors.As(err, &failed) ||
		out == nil {
		t.Errorf("a call that fails: %v", err)
	}
	if err := chain.View(ctx, "token.near", "none", nil, nil); !errors.As(err, &failed) {
		t.Errorf("a view that fails: %v", err)
	}
	if _, err := chain.Balance(ctx, "nobody.near"); !errors.As(err, &refused) || refused.Name != "UNKNOWN_ACCOUNT" {
		t.Errorf("unknown account: %v", err)
	}
	if _, err := chain.Send(ctx, external.Named("nobody.near"), "near"); !errors.Is(err, external.ErrNoKey) {
		t.Errorf("a transaction of an unknown account: %v", err)
	}
	for _, n := range []*big.Int{big.NewInt(-1), new(big.Int).Lsh(big.NewInt(1), 128)} {
		if _, err := chain.Send(ctx, near, "near", external.Transfer{Deposit: n}); err == nil || errors.As(err, &refused) {
			t.Errorf("a transfer of %v: %v", n, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := chain.Balance(ctx, "near"); !errors.Is(err, external.ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
}
