// Package token tests a fungible token contract on a chain in the test's own process.
package token

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/sandbox"
)

const contract primitives.AccountID = "token.near"

// deployed returns a chain with the token, its owner, and alice, an account registered with it.
func deployed(t *testing.T) (s *sandbox.Sandbox, owner, alice *sandbox.Account) {
	t.Helper()
	wasm, err := os.ReadFile("../../internal/testkit/contracts/c/ft.wasm") // your contract
	if err != nil {
		t.Fatal(err)
	}
	s = sandbox.New(t, sandbox.Options{Accounts: map[primitives.AccountID]primitives.Balance{
		contract: primitives.NEAR(100), "alice.near": primitives.NEAR(10),
	}})
	owner, alice = sandbox.Named(contract), sandbox.Named("alice.near")
	if _, err := s.Deploy(t.Context(), owner, wasm, "new", map[string]any{"owner_id": contract, "total_supply": "1000",
		"metadata": map[string]any{"spec": "ft-1.0.0", "name": "Example", "symbol": "EX", "decimals": 0}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Call(t.Context(), alice, contract, "storage_deposit", map[string]any{}, primitives.NEAR(1)); err != nil {
		t.Fatal(err)
	}
	return s, owner, alice
}

func balance(t *testing.T, w *sandbox.World, of primitives.AccountID) (amount string) {
	t.Helper()
	if err := w.View(contract, "ft_balance_of", map[string]any{"account_id": of}, &amount); err != nil {
		t.Fatal(err)
	}
	return amount
}

// Each subtest has a world: a chain that continues what deployed left, and ends with the subtest.
func TestToken(t *testing.T) {
	s, owner, alice := deployed(t)

	t.Run("a transfer moves tokens and logs an event", func(t *testing.T) {
		t.Parallel()
		w := s.ForTest(t)
		out, err := w.Call(t.Context(), owner, contract, "ft_transfer",
			map[string]any{"receiver_id": "alice.near", "amount": "7"}, primitives.Yocto(1))
		if err != nil {
			t.Fatal(err)
		}
		if got := balance(t, w, "alice.near"); got != "7" {
			t.Errorf("alice has %s", got)
		}
		if e := out.Events(); len(e) != 1 || e[0].Event != "ft_transfer" {
			t.Errorf("events: %+v", e)
		}
		t.Logf("%.2f Tgas", float64(out.Gas)/1e12)
	})

	t.Run("a transfer of more than one has fails", func(t *testing.T) {
		t.Parallel()
		w := s.ForTest(t)
		_, err := w.Call(t.Context(), alice, contract, "ft_transfer", map[string]any{"receiver_id": contract, "amount": "1"}, primitives.Yocto(1))
		var failed *sandbox.CallError
		if !errors.As(err, &failed) || failed.Message == "" {
			t.Errorf("it did not fail, but: %v", err)
		}
		if got := balance(t, w, "alice.near"); got != "0" {
			t.Errorf("alice has %s", got)
		}
	})

	t.Run("a call costs its caller gas only", func(t *testing.T) {
		t.Parallel()
		w := s.ForTest(t)
		before, _ := w.Balance("alice.near")
		out, err := w.Call(t.Context(), alice, contract, "storage_deposit", map[string]any{}, primitives.NEAR(1)) // registered already
		if err != nil {
			t.Fatal(err)
		}
		after, err := w.Balance("alice.near") // the deposit and unused gas are back
		if err != nil || before.SaturatingSub(after).Cmp(out.Tokens.SaturatingAdd(out.Tokens)) > 0 {
			t.Errorf("%v before, %v after, %v for gas: %v", before, after, out.Tokens, err)
		}
	})

	t.Run("time passes", func(t *testing.T) {
		t.Parallel()
		w := s.ForTest(t)
		if err := w.Advance(t.Context(), 30*24*time.Hour); err != nil {
			t.Fatal(err)
		}
		now, err := w.Now(t.Context())
		if err != nil || time.Until(now) < 29*24*time.Hour {
			t.Errorf("it is %v: %v", now, err)
		}
	})
}
