package rpc

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// sandboxFork is the method sandbox_fork, which nearcore does not have.
var sandboxFork = Method[view.ForkControl]{
	Name: "sandbox_fork", Doc: `Returns which chain this one was forked from, statistics of the queries to that chain's node, and how many
replies were verified by proofs. reset restores accounts to their state at the fork. cut stops reads of the
other chain for accounts; local changes remain. live makes accounts follow the other chain until they are reset
or cut.`,
	Faults: sandboxFaults, Waits: true, Sandbox: true, Own: true,
	Parse: func(v val) (p view.ForkControl, err error) {
		if v.isNull() {
			return p, nil
		}
		accounts := func(name string, at *[]primitives.AccountID) field {
			return field{name, true, func(v val) (err error) { *at, err = readList(v, readAccountID); return err }}
		}
		return p, readStruct(v, "RpcSandboxForkRequest", accounts("reset", &p.Reset), accounts("cut", &p.Cut), accounts("live", &p.Live))
	},
	Handle: func(c *call, b []byte, p *view.ForkControl) ([]byte, error) {
		f, err := c.node.Fork(c.ctx, p)
		if err != nil {
			return b, sandboxFailure(err, SandboxRefused, "the accounts were not written in time; they still may be")
		}
		return f.AppendJSON(b), nil
	},
}
