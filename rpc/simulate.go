package rpc

import (
	"github.com/troupe-chain/troupe/primitives/view"
)

// simulateTx is our own: no other node has it. Parameters are [signed], or an object with signed_tx_base64, a reference to a
// block (the head by default) and skip_signature_check.
var simulateTx = Method[view.Simulate]{
	Name: "EXPERIMENTAL_simulate_tx", Doc: "Runs a transaction with all its receipts on the state after a block, keeps nothing, and returns what EXPERIMENTAL_tx_status would.",
	Faults: []*Fault{InvalidTransaction, UnknownBlock, NoSyncedBlocks, UnavailableShard, GarbageCollected, Timeout}, Waits: true,
	Parse: parseSimulate,
	Handle: func(c *call, b []byte, p *view.Simulate) ([]byte, error) {
		s, err := c.node.Simulate(c.ctx, p)
		if err == nil {
			return view.AppendSimulation(b, s), nil
		}
		if e, ok := lookup(err); ok && e.Kind != view.ErrTimeout {
			return b, queryBlockFault(err, &p.Block)
		}
		return b, c.txFault(err)
	},
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
