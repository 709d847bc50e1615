package rpc

import (
	"bytes"
	"fmt"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// maxDeeds is the maximum number of outcomes in a transaction dump.
const maxDeeds = 10_000

// sandboxDumpTransaction is the method sandbox_dump_transaction, which nearcore does not have.
// Parameters are {"tx_hash"} or [hash]. It accepts and ignores the other members that identify a
// transaction in requests of tx.
var sandboxDumpTransaction = Method[view.Trace]{
	Name: "sandbox_dump_transaction",
	Doc: `Returns everything that a transaction and its receipts read and write, as records of the state before it, with
the transaction and its outcomes. The reply is the input of sandbox_replay_transaction in any sandbox.`,
	Faults: []*Fault{SandboxRefused, UnknownTransaction, Timeout}, Waits: true, Simulates: true,
	Sandbox: true, Own: true, Ignores: []string{"sender_account_id", "wait_until"},
	Parse: func(v val) (p view.Trace, err error) {
		return p, readStruct(v, "RpcSandboxDumpTransactionRequest", field{"tx_hash", false, into(&p.Hash, readHash)})
	},
	Handle: func(c *call, b []byte, p *view.Trace) ([]byte, error) {
		p.Client = c.x.fairClient()
		if err := c.x.mayWork(c.ctx); err != nil {
			return b, busy(limits.MaxAddressWork)
		}
		x, err := c.node.DumpTransaction(c.ctx, p)
		c.x.worked(time.Duration(p.Took))
		if err != nil {
			if e, ok := lookup(err); ok && e.Kind == view.ErrUnknownTx {
				return b, c.txFault(err)
			}
			if wasStopped(err) {
				return b, c.tooLong("sandbox_dump_transaction", err)
			}
			return b, sandboxFailure(err, SandboxRefused, "")
		}
		b = append(b, `{"records":[`...)
		var record []byte
		for i, r := range x.Records {
			record = genesis.AppendRecord(record[:0], r)
			if b, err = c.reserve(b, len(record)+smallReply); err != nil {
				return b, err
			}
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, record...)
		}
		tail := x.AppendTail(nil)
		if b, err = c.reserve(b, len(tail)+smallReply); err != nil {
			return b, err
		}
		return append(append(b, "],"...), tail...), nil
	},
}

// sandboxReplayTransaction is the method sandbox_replay_transaction, which nearcore does not have.
// The parameters are the result of sandbox_dump_transaction.
var sandboxReplayTransaction = Method[view.Case]{
	Name: "sandbox_replay_transaction",
	Doc: `Executes a transaction from a reply of sandbox_dump_transaction: it writes the reply's records, removes other
entries of the accounts in it, executes the transaction without a signature, and returns whether the outcomes
are the same. If that would remove keys, code, data or an account that are not in the dump, it fails without
changes unless replace is true. To keep this chain unchanged, use a world (sandbox_new_world).`,
	Faults: sandboxFaults, Waits: true, Sandbox: true, Own: true, Ignores: []string{"alone", "same", "differs", "hash", "height", "mocked"},
	Parse: func(v val) (p view.Case, err error) {
		return p, readStruct(v, "RpcSandboxReplayTransactionRequest", field{"records", false, into(&p.Records, readRecords)},
			field{"signed_tx_base64", false, into(&p.Tx, readObjectTx)},
			field{"absent", true, func(v val) (err error) { p.Absent, err = readList(v, readAccountID); return err }},
			field{"timestamp_nanosec", true, into(&p.Timestamp, readNanos)}, field{"replace", true, into(&p.Replace, readBool)},
			field{"outcomes", true, func(v val) (err error) { p.Outcomes, err = readDeeds(v); return err }})
	},
	Handle: func(c *call, b []byte, p *view.Case) ([]byte, error) {
		r, err := c.node.ReplayTransaction(c.ctx, p)
		if err != nil {
			return b, sandboxFailure(err, SandboxRefused, "the transaction did not run in time; it still may")
		}
		return r.AppendJSON(b), nil
	},
}

func readDeeds(v val) ([]view.Deed, error) {
	out, err := readList(v, func(v val) (d view.Deed, err error) {
		var gas, nodes uint64
		err = readStruct(v, "Outcome", field{"executor_id", false, into(&d.Executor, readAccountID)},
			field{"gas_burnt", false, into(&gas, readUint64)},
			field{"gas_trie_nodes", true, into(&nodes, readUint64)},
			field{"logs", false, func(v val) (err error) {
				d.Logs, err = readList(v, func(v val) (string, error) {
					text, err := readString(v)
					return string(text), err
				})
				return err
			}},
			field{"status", false, func(v val) error {
				if v.kind() == kString {
					d.Status = view.AppendString(nil, string(v.str()))
				} else {
					d.Status = bytes.Clone(v.raw())
				}
				return nil
			}},
		)
		d.Gas, d.Nodes = primitives.Gas(gas), primitives.Gas(nodes)
		return d, err
	})
	if err == nil && len(out) > maxDeeds {
		err = fmt.Errorf("invalid length %d, expected at most %d outcomes", len(out), maxDeeds)
	}
	return out, err
}
