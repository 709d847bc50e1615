package genesis

import (
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestValidateFollowsNearcoresCases has the cases of nearcore's genesis_validate.rs.
func TestValidateFollowsNearcoresCases(t *testing.T) {
	t.Parallel()
	validKey := primitives.MustParsePublicKey("ed25519:KuTCtARNzxZQ3YvXDeLjx83FDqxv2SdQTSbiq876zR7")
	base := func() *Genesis {
		g := mustInit(t, InitOptions{ChainID: "c", Validator: "test", Key: validKey, Shards: 1})
		g.Records = nil
		g.Config.TotalSupply = primitives.Yocto(110)
		g.Config.Validators[0].Amount = primitives.Yocto(10)
		g.Records = []Record{&AccountRecord{"test", primitives.Account{Version: primitives.AccountV1, Amount: primitives.Yocto(100), Locked: primitives.Yocto(10)}}}
		return g
	}
	for _, c := range []struct {
		change func(*Genesis)
		want   string
	}{
		{func(*Genesis) {}, ""},
		{func(g *Genesis) { g.Config.TotalSupply = primitives.Yocto(111) }, "wrong total supply"},
		{func(g *Genesis) { g.Config.Validators[0].PublicKey = primitives.ZeroED25519Key }, "validator staking key of test is not valid"},
		{func(g *Genesis) { g.Config.Validators[0].Amount = primitives.Yocto(100) }, "do not match staked accounts"},
		{func(g *Genesis) { g.Config.Validators = nil }, "no validators"},
		{func(g *Genesis) { g.Config.Validators = append(g.Config.Validators, g.Config.Validators[0]) }, "duplicate account test in validators"},
		{func(g *Genesis) { g.Records = append(g.Records, &AccessKeyRecord{AccountID: "test1"}) }, "access key account test1 does not exist"},
		{func(g *Genesis) { g.Records = append(g.Records, &ContractRecord{AccountID: "test1"}) }, "contract account test1 does not exist"},
		{func(g *Genesis) {
			g.Records = append(g.Records, &ContractRecord{AccountID: "test"}, &ContractRecord{AccountID: "test"})
		}, "account test has more than one contract"},
		{func(g *Genesis) { g.Records = append(g.Records, g.Records[0]) }, "duplicate account id test"},
		{func(g *Genesis) { g.Records[0].(*AccountRecord).Account.Amount = primitives.MaxBalance }, "overflows"},
		{func(g *Genesis) { g.Config.ProtocolTreasuryAccount = "near" }, "treasury account near does not exist"},
		{func(g *Genesis) { g.Config.OnlineMinThreshold = g.Config.OnlineMaxThreshold }, "is not above"},
		{func(g *Genesis) { g.Config.OnlineMaxThreshold = Ratio{3, 2} }, "is above 1"},
		{func(g *Genesis) { g.Config.OnlineMaxThreshold = Ratio{9_999_999, 10_000_000} }, "must be below 10000000"},
		{func(g *Genesis) { g.Config.GasPriceAdjustmentRate = Ratio{1, 1} }, "gas_price_adjustment_rate 1/1"},
		{func(g *Genesis) { g.Config.EpochLength = 0 }, "epoch_length is 0"},
	} {
		g := base()
		c.change(g)
		switch err := g.Validate(); {
		case c.want == "" && err != nil:
			t.Errorf("got %v, want no error", err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	// An uninitialized account holds nothing (near-chain-configs 0.38.0 src/genesis_validate.rs).
	const bare = "uninitialized"
	for _, c := range []struct {
		more Record
		want string
	}{
		{nil, ""},
		{&ContractRecord{AccountID: bare, Code: []byte{1, 2, 3}}, "uninitialized account uninitialized must not have code"},
		{&AccessKeyRecord{AccountID: bare, PublicKey: primitives.ZeroED25519Key.Handle()}, "uninitialized account uninitialized must not have an access key"},
		{&DataRecord{AccountID: bare, Key: []byte{1}, Value: []byte{2}}, "uninitialized account uninitialized must not have data"},
		{&GasKeyNonceRecord{AccountID: bare, PublicKey: primitives.ZeroED25519Key.Handle()}, "uninitialized account uninitialized must not have data"},
	} {
		for _, first := range []bool{false, true} { // the order of the records does not matter
			g := base()
			g.Config.TotalSupply = primitives.Yocto(160)
			account := &AccountRecord{bare, primitives.NewUninitializedAccount(primitives.Yocto(50), 0, 1_000_000)}
			switch {
			case c.more == nil:
				g.Records = append(g.Records, account)
			case first:
				g.Records = append(g.Records, c.more, account)
			default:
				g.Records = append(g.Records, account, c.more)
			}
			switch err := g.Validate(); {
			case c.want == "" && err != nil:
				t.Errorf("got %v, want no error", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			}
		}
	}
	g := base()
	for range 150 {
		g.Records = append(g.Records, g.Records[0])
	}
	if err := g.Validate(); err == nil || !strings.HasSuffix(err.Error(), "more") || len(err.(*InvalidError).Problems) != maxProblems {
		t.Errorf("got %v, want %d problems and the number of the others", err, maxProblems)
	}
}
