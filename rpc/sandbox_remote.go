package rpc

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// sandboxFork is the method sandbox_fork, which nearcore does not have.
var sandboxFork = Method[view.ForkControl]{
	Name: "sandbox_fork", Doc: `Returns what this chain is a fork of, what was asked of the other chain's node, and how much of it was proven.
reset restores accounts as they were when the fork was made. cut hides the other chain at them; changes made
here stay. live makes them follow the other chain until they are reset or cut.`,
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
