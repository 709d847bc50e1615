package rpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// simulateTx is the method EXPERIMENTAL_simulate_tx, which nearcore does not have. Parameters are
// [signed], or an object with signed_tx_base64, skip_signature_check and a block reference. The
// default of the reference is the head.
var simulateTx = Method[view.Simulate]{
	Name: "EXPERIMENTAL_simulate_tx",
	Doc: `Executes a transaction with all its receipts on the state after a block, discards the changes, and returns what
tx_status would return.`,
	Faults: []*Fault{InvalidTransaction, UnknownBlock, NoSyncedBlocks, UnavailableShard, GarbageCollected, Timeout},
	Waits:  true, Simulates: true,
	Own: true, Parse: parseSimulate,
	Handle: func(c *call, b []byte, p *view.Simulate) ([]byte, error) {
		p.Client = c.x.fairClient()
		if err := c.x.mayWork(c.ctx); err != nil {
			return b, busy(limits.MaxAddressWork)
		}
		s, err := c.node.Simulate(c.ctx, p)
		c.x.worked(time.Duration(p.Took))
		if err == nil {
			if b, err = c.reserve(b, s.Size(true)); err != nil {
				return b, err
			}
			return view.AppendSimulation(b, s), nil
		}
		if wasStopped(err) {
			return b, c.tooLong("EXPERIMENTAL_simulate_tx", err)
		}
		if _, ok := lookup(err); ok {
			return b, queryBlockFault(err, &p.Block)
		}
		return b, c.txFault(err)
	},
}

// traceTx is the method EXPERIMENTAL_trace_tx, which nearcore does not have. For a transaction on
// the chain, the parameters are [hash, sender] or {"tx_hash", "sender_account_id"}. For a
// transaction to simulate, the parameters are those of EXPERIMENTAL_simulate_tx. With "profile":
// true, the reply has a profile by function.
var traceTx = Method[view.Trace]{
	Name: "EXPERIMENTAL_trace_tx",
	Doc: `Returns a trace of an executed or simulated transaction: its receipts, with the host functions and storage
accesses of each contract call.`,
	Faults: []*Fault{InvalidTransaction, UnknownTransaction, UnknownBlock, NoSyncedBlocks, UnavailableShard, GarbageCollected, Timeout},
	Waits:  true, Simulates: true,
	Own: true, Ignores: []string{"sender_account_id"}, Parse: parseTrace,
	Handle: func(c *call, b []byte, p *view.Trace) ([]byte, error) {
		p.Client = c.x.fairClient()
		if err := c.x.mayWork(c.ctx); err != nil {
			return b, busy(limits.MaxAddressWork)
		}
		report, err := c.node.Trace(c.ctx, p)
		c.x.worked(time.Duration(p.Took))
		if err == nil {
			if b, err = c.reserve(b, len(report)); err != nil {
				return b, err
			}
			return append(b, report...), nil
		}
		if wasStopped(err) {
			return b, c.tooLong("EXPERIMENTAL_trace_tx", err)
		}
		if e, ok := lookup(err); ok && e.Kind != view.ErrUnknownTx {
			return b, queryBlockFault(err, &p.Block)
		}
		return b, c.txFault(err)
	},
}

// wasStopped returns whether work was stopped because it exceeded the time of a request.
func wasStopped(err error) bool {
	return errors.Is(err, view.ErrTimeout) || errors.Is(err, context.DeadlineExceeded)
}

// tooLong returns an error that describes what was stopped, at which point, and what to do next.
// Clients compare the first word of that text.
func (c *call) tooLong(what string, err error) error {
	c.metrics.timeouts.Add(1)
	text := fmt.Sprintf("Timeout: %s was stopped after %v", what, c.opts.PollingTimeout)
	var at *view.StoppedError
	if errors.As(err, &at) {
		text += ", " + at.Where
	}
	return Timeout.because(text+"; rpc.polling_config.polling_timeout in the node's config.json is how long it may take", nil)
}

func parseTrace(v val) (p view.Trace, err error) {
	if v.kind() == kArray && v.len() == 2 {
		p.Hash, err = readHash(v.item(0))
		return p, err
	}
	if _, ok := single(v); !ok {
		if err := needObject(v, "RpcTraceTransactionRequest"); err != nil {
			return p, err
		}
		if x, ok := v.get("profile"); ok {
			if p.Profile, err = readBool(x); err != nil {
				return p, err
			}
		}
		if x, ok := v.get("tx_hash"); ok {
			p.Hash, err = readHash(x)
			return p, err
		}
	}
	p.Simulate, err = parseSimulate(v)
	return p, err
}

func parseSimulate(v val) (p view.Simulate, err error) {
	if x, ok := single(v); ok {
		p.Tx, err = readPositionalTx(x)
		return p, err
	}
	if err := needObject(v, "RpcSimulateTransactionRequest"); err != nil {
		return p, err
	}
	if err := readFields(v, []field{
		{"signed_tx_base64", false, into(&p.Tx, readObjectTx)}, {"skip_signature_check", true, into(&p.Unsigned, readBool)},
	}); err != nil {
		return p, err
	}
	for _, name := range referenceNames {
		if _, ok := v.get(name); ok {
			p.Block, err = readFlatRef(v)
			break
		}
	}
	return p, err
}
