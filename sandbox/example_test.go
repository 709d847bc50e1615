package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/sandbox"
)

// must keeps the examples short.
func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// initial are the arguments of a token's method new.
func initial(owner primitives.AccountID) map[string]any {
	return map[string]any{"owner_id": owner, "total_supply": "1000",
		"metadata": map[string]any{"spec": "ft-1.0.0", "name": "Example", "symbol": "EX", "decimals": 0}}
}

// A suite deploys what all its tests need once, and gives each test a world of its own.
func Example() {
	ctx := context.Background()
	s := must(sandbox.Start(ctx, sandbox.Options{}))
	defer func() { check(s.Close()) }()

	token := must(s.Create(ctx, "token.near", primitives.NEAR(100)))
	must(s.Create(ctx, "alice.near", primitives.NEAR(10)))
	must(s.Deploy(ctx, token, contracts.C("ft"), "new", initial("token.near")))

	for _, amount := range []string{"5", "7"} {
		w := must(s.New(ctx))
		must(w.Call(ctx, token, "token.near", "storage_deposit", map[string]any{"account_id": "alice.near"}, primitives.NEAR(1)))
		out := must(w.Call(ctx, token, "token.near", "ft_transfer", map[string]any{"receiver_id": "alice.near", "amount": amount}, primitives.Yocto(1)))
		var has string
		check(w.View("token.near", "ft_balance_of", map[string]any{"account_id": "alice.near"}, &has))
		fmt.Println(has, len(out.Logs))
		check(w.End())
	}
	err := s.View("token.near", "ft_balance_of", map[string]any{"account_id": "alice.near"}, nil)
	fmt.Println(err)
	// Output:
	// 5 1
	// 7 1
	// <nil>
}

// If a call fails on the chain, Call returns an error together with the outcome.
func ExampleWorld_Call() {
	ctx := context.Background()
	s := must(sandbox.Start(ctx, sandbox.Options{}))
	defer func() { check(s.Close()) }()
	token := must(s.Create(ctx, "token.near", primitives.NEAR(100)))
	must(s.Deploy(ctx, token, contracts.C("ft"), "new", initial("token.near")))
	_, err := s.Call(ctx, token, "token.near", "ft_transfer", map[string]any{"receiver_id": "nobody.near", "amount": "1"}, primitives.Yocto(1))
	var failed *sandbox.CallError
	fmt.Println(errors.As(err, &failed))
	// Output: true
}

// A world has its own clock, which stands still while it is frozen.
func ExampleWorld_Advance() {
	ctx := context.Background()
	s := must(sandbox.Start(ctx, sandbox.Options{}))
	defer func() { check(s.Close()) }()
	check(s.Freeze(ctx, true))
	w := must(s.New(ctx))
	check(w.Advance(ctx, 30*24*time.Hour))
	fmt.Println(must(w.Now(ctx)).Sub(must(s.Now(ctx))))
	// Output: 720h0m0s
}

// A world can have worlds: prepare what several tests share in one world, and continue from it.
func ExampleWorld_New() {
	ctx := context.Background()
	s := must(sandbox.Start(ctx, sandbox.Options{}))
	defer func() { check(s.Close()) }()
	shared := must(s.New(ctx))
	must(shared.Create(ctx, "alice.near", primitives.NEAR(10)))
	one, other := must(shared.New(ctx)), must(shared.New(ctx))
	alice := sandbox.Named("alice.near")
	must(one.Transfer(ctx, alice, "near", primitives.NEAR(3)))
	fmt.Println(must(one.Balance("alice.near")).Cmp(primitives.NEAR(7)), must(other.Balance("alice.near")).Cmp(primitives.NEAR(10)))
	check(shared.End()) // and with it those that go on from it
	_, err := s.Balance("alice.near")
	fmt.Println(err)
	// Output:
	// -1 0
	// sandbox: read account alice.near: the account does not exist
}
