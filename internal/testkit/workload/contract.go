package workload

import (
	"fmt"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
)

// hosted contains the name of each account's contract, by the account's number modulo 10. Every
// second account has the probe contract.
var hosted = [...]string{"probe", "ft", "probe", "caller", "probe", "hog", "probe", "yielder", "probe", "defi"}

// contractOf returns the contract code of account i.
func contractOf(i int) []byte {
	if name := hosted[i%len(hosted)]; name != "probe" {
		return contracts.C(name)
	}
	return contracts.Probe()
}

// Deployments returns transactions with which all accounts deploy and initialize their contracts.
// They must all be included in the same block.
func (g *Generator) Deployments(at Base) (txs []*primitives.SignedTransaction) {
	for i := range g.o.Accounts {
		id := Account(i)
		actions := []primitives.Action{&primitives.DeployContract{Code: contractOf(i)}}
		if hosted[i%len(hosted)] == "ft" {
			actions = append(actions, &primitives.FunctionCall{
				Method: "new", Gas: 20_000_000_000_000,
				Args: fmt.Appendf(nil, `{"owner_id":%q,"total_supply":"1000000","metadata":{"spec":"ft-1.0.0","name":"T","symbol":"T","decimals":0}}`, id),
			})
		}
		txs = append(txs, g.draft(at, id, id, actions...).sign())
	}
	return txs
}

// host draws an account that has the contract with this name. It returns account 0 if 100 draws
// find none.
func (g *Generator) host(name string) primitives.AccountID {
	for range 100 {
		if i := g.zipf.Draw(g.rng); hosted[i%len(hosted)] == name {
			return Account(i)
		}
	}
	return Account(0)
}

// contractCall returns an unsigned transaction with one or two calls to a contract.
func (g *Generator) contractCall(at Base, from primitives.AccountID) *draft {
	name := hosted[g.rng.IntN(len(hosted))]
	to := g.host(name)
	var actions []primitives.Action
	for range 1 + g.rng.IntN(8)/6 {
		actions = append(actions, g.callTo(name))
	}
	if g.rng.IntN(10) == 0 {
		actions = append(actions, g.action(at, from, to))
	}
	return g.draft(at, from, to, actions...)
}

// callTo draws a call to the contract with this name.
func (g *Generator) callTo(name string) *primitives.FunctionCall {
	f := &primitives.FunctionCall{Gas: primitives.Gas(5_000_000_000_000 + g.rng.Uint64N(90_000_000_000_000))}
	n := g.rng.IntN(30)
	switch name {
	case "probe":
		f.Method, f.Args = "run", g.program().Bytes()
		if g.rng.IntN(4) == 0 {
			f.Deposit = g.amount()
		}
	case "ft":
		g.tokenCall(f)
	case "caller":
		f.Method = [...]string{"ask", "pass", "fire", "chain", "join", "share", "bounce", "regret", "ask_aside"}[g.rng.IntN(9)]
		f.Args = fmt.Appendf(nil, `{"to":%q,"all":[%q,%q,%q],"method":"noop","times":%d,"tgas":%d}`,
			g.host("caller"), g.host("probe"), g.host("caller"), g.account(), n%4, 1+n%6)
	case "hog":
		f.Method = [...]string{"fill", "fill", "read", "clear"}[g.rng.IntN(4)]
		f.Args = fmt.Appendf(nil, `{"from":%d,"count":%d,"size":%d}`, g.rng.IntN(200), n, g.rng.IntN(3000))
	case "yielder":
		f.Method = [...]string{"ask", "answer", "ask_named", "answer_named", "ask_and_answer"}[g.rng.IntN(5)]
		f.Args = fmt.Appendf(nil, `{"prompt":"p%d","number":%d,"name":"n%d","text":"t%d"}`, n, n/3, n%5, n)
	case "defi":
		f.Method, f.Args = "deposited", fmt.Appendf(nil, `{"token_id":%q,"account_id":%q}`, g.host("ft"), g.account())
	}
	return f
}

// program draws a program for the probe contract, with nested promises.
func (g *Generator) program() *contracts.Program {
	r := contracts.Random{
		Rand: g.rng, To: func() primitives.AccountID { return g.host("probe") },
		Key:  func() []byte { return []byte(g.extra(g.account(), fullKeys).PublicKey()) },
		Code: func() []byte { return contractOf(g.rng.IntN(4)) },
	}
	return r.Program(g.rng.IntN(4))
}

// tokenCall sets f to a random call of the token contract.
func (g *Generator) tokenCall(f *primitives.FunctionCall) {
	one := primitives.Yocto(1)
	amount := g.rng.IntN(100)
	switch g.rng.IntN(8) {
	case 0, 1:
		f.Method, f.Deposit = "storage_deposit", primitives.NEAR(1)
		f.Args = fmt.Appendf(nil, `{"account_id":%q}`, g.account())
	case 2:
		f.Method, f.Args = "storage_unregister", []byte(`{"force":true}`)
		f.Deposit = one
	case 3, 4:
		f.Method, f.Deposit = "ft_transfer", one
		f.Args = fmt.Appendf(nil, `{"receiver_id":%q,"amount":"%d"}`, g.account(), amount)
	case 5, 6:
		f.Method, f.Deposit, f.Gas = "ft_transfer_call", one, 100_000_000_000_000
		msg := [...]string{"take", "return", "refund:7", "promise:9", "panic", "garbage"}[g.rng.IntN(6)]
		f.Args = fmt.Appendf(nil, `{"receiver_id":%q,"amount":"%d","msg":%q}`, g.host("defi"), amount, msg)
	case 7:
		f.Method, f.Args = "ft_balance_of", fmt.Appendf(nil, `{"account_id":%q}`, g.account())
	}
}
