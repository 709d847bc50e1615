package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
)

var txFaults = []*Fault{InvalidTransaction, DoesNotTrackShard, RequestRouted, UnknownTransaction, TxTimeout}

var tx = Method[view.GetTx]{
	Name: "tx", Doc: `Returns the status and outcomes of a transaction. It waits until the transaction has reached the level
wait_until.`,
	Faults: txFaults, Waits: true,
	Parse:  parseGetTx,
	Handle: func(c *call, b []byte, p *view.GetTx) ([]byte, error) { return getTx(c, b, p, waitTx) },
}

var txStatus = Method[view.GetTx]{
	Name: "tx_status", Doc: "Returns the result of tx, and the receipts.",
	Faults: txFaults, Waits: true,
	Parse: parseGetTx,
	Handle: func(c *call, b []byte, p *view.GetTx) ([]byte, error) {
		p.Receipts = true
		return getTx(c, b, p, waitTxStatus)
	},
}

// experimentalTxStatus is the older name of tx_status. With HTTPStatusSpec, its replies always have
// HTTP status 200.
var experimentalTxStatus = Method[view.GetTx]{
	Name: "EXPERIMENTAL_tx_status", Doc: "Older name of tx_status, with the same result.",
	Faults: txFaults, Waits: true, SpecStatus: true,
	Parse: parseGetTx,
	Handle: func(c *call, b []byte, p *view.GetTx) ([]byte, error) {
		p.Receipts = true
		return getTx(c, b, p, waitExperimentalTxStatus)
	},
}

var sendTx = Method[view.SendTx]{
	Name: "send_tx", Doc: "Submits a transaction and replies when it has reached the level wait_until.",
	Faults: txFaults, Waits: true, Submits: true,
	Parse:  parseSendTx,
	Handle: func(c *call, b []byte, p *view.SendTx) ([]byte, error) { return submit(c, b, p) },
}

var broadcastTxCommit = Method[view.SendTx]{
	Name: "broadcast_tx_commit", Doc: "Submits a transaction and replies when it has been executed.",
	Faults: txFaults, Waits: true, Submits: true,
	Parse: parseSendTx,
	Handle: func(c *call, b []byte, p *view.SendTx) ([]byte, error) {
		p.WaitUntil = view.LevelExecutedOptimistic
		return submit(c, b, p)
	},
}

var broadcastTxAsync = Method[view.SendTx]{
	Name: "broadcast_tx_async", Doc: "Submits a transaction and replies immediately with its hash.",
	Parse: parseSendTx,
	Handle: func(c *call, b []byte, p *view.SendTx) ([]byte, error) {
		ctx, err := c.x.session()
		if err != nil {
			return b, internal(reachedLimits, err)
		}
		if err := c.node.SendTxAsync(ctx, p.Tx); errors.Is(err, view.ErrNoRoom) {
			return b, noRoom(err)
		} else if err != nil {
			return b, internal(reachedLimits, err)
		}
		hash := p.Tx.Hash()
		return view.AppendHash(b, &hash), nil
	},
}

// getTx answers tx and tx_status. which is the method's index in near_rpc_wait_until_count.
func getTx(c *call, b []byte, p *view.GetTx, which int) ([]byte, error) {
	c.metrics.wait(which, p.WaitUntil)
	key := p.Hash
	if p.Tx != nil {
		key = p.Tx.Hash()
	}
	ctx, leave := c.inTurn(key)
	defer leave()
	o, err := c.node.Tx(ctx, p)
	return c.appendOutcome(b, o, p.Receipts, leave, err)
}

// appendOutcome appends the outcome that a node has returned, or the fault for err. appendOutcome
// first waits for memory for the reply.
func (c *call) appendOutcome(b []byte, o *view.FinalOutcome, receipts bool, leave func(), err error) ([]byte, error) {
	if err != nil {
		fault := c.txFault(err)
		if f, e := new(failure), new(view.LookupError); errors.As(fault, &f) && f.fault == TxTimeout && errors.As(err, &e) && e.Status != nil {
			if b, err = c.reserveOutcome(b, e.Status, receipts, leave); err == nil {
				// info has the status with its outcomes instead of only the level.
				f.info, f.more = []byte(`"cause":"PENDING","status":`), func(b []byte) []byte { return view.AppendFinalOutcome(b, e.Status, receipts) }
			}
		}
		return b, fault
	}
	if b, err = c.reserveOutcome(b, o, receipts, leave); err != nil {
		return b, err
	}
	return view.AppendFinalOutcome(b, o, receipts), nil
}

// reserveOutcome reserves space in b for the text of view.AppendFinalOutcome.
func (c *call) reserveOutcome(b []byte, o *view.FinalOutcome, receipts bool, leave func()) ([]byte, error) {
	n, shown := o.Size(receipts), o.Shown
	if n > smallReply {
		leave()
		if shown == nil {
			shown = new(view.Shown) // no other reply shares this outcome's data
		}
	}
	return c.reserveShared(b, n, shown)
}

func submit(c *call, b []byte, p *view.SendTx) ([]byte, error) {
	c.metrics.wait(waitSendTx, p.WaitUntil)
	if p.WaitUntil == view.LevelNone {
		if err := c.node.SendTxAsync(c.ctx, p.Tx); err != nil {
			return b, c.txFault(err)
		}
		return view.AppendFinalOutcome(b, &view.FinalOutcome{Level: view.LevelNone}, false), nil
	}
	ctx, leave := c.inTurn(p.Tx.Hash())
	defer leave()
	o, err := c.node.SendTx(ctx, p)
	return c.appendOutcome(b, o, false, leave, err)
}

// txFault maps an error to the faults of the tx family (nearcore
// chain/jsonrpc-primitives/src/types/transactions.rs).
func (s *Server) txFault(err error) error {
	var full *failure
	if errors.As(err, &full) { // a limit rejected the request
		return full
	}
	var invalid *primitives.InvalidTxError
	if errors.As(err, &invalid) {
		data := invalid.AppendJSON([]byte(`{"TxExecutionError":{"InvalidTxError":`))
		return &failure{fault: InvalidTransaction, data: append(data, "}}"...), text: invalid.Error()}
	}
	if e, ok := lookup(err); ok {
		switch e.Kind {
		case view.ErrUnknownTx:
			h := e.Hash.String()
			text := "Transaction " + h + " doesn't exist"
			if e.Reason != "" { // an extension: neard returns no reason
				text += ": the node has dropped it: " + e.Reason
			}
			return UnknownTransaction.because(text, member(nil, "requested_transaction_hash", quoted(h)))
		case view.ErrShardNotTracked:
			return DoesNotTrackShard.because("Node doesn't track this shard. Cannot determine whether the transaction is valid", nil)
		case view.ErrRouted:
			h := e.Hash.String()
			return RequestRouted.because("Transaction with hash "+h+" was routed", member(nil, "transaction_hash", quoted(h)))
		case view.ErrNoRoom:
			return noRoom(err)
		case view.ErrBehind:
			s.metrics.refused.Add(1)
			s.limiter.refused[limits.MaxWaitDelay].Add(1)
			return busy(limits.MaxWaitDelay)
		case view.ErrTimeout:
			s.metrics.timeouts.Add(1)
			return TxTimeout.because("Timeout", timeoutInfo(e))
		}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return s.txFault(&view.LookupError{Kind: view.ErrTimeout})
	case errors.Is(err, context.Canceled): // the client has disconnected, so the reply is not sent
		err = errStopping
	}
	return internal(reachedLimits, err)
}

// timeoutInfo returns the members of TIMEOUT_ERROR's info: nearcore's TimeoutErrorCause. For a
// pending transaction, the result has only the level that the transaction has reached.
func timeoutInfo(e *view.LookupError) []byte {
	cause := func(name string) []byte { return member(nil, "cause", quoted(name)) }
	switch {
	case e.Level != view.LevelNone:
		return member(cause("PENDING"), "status", view.AppendFinalOutcome(nil, &view.FinalOutcome{Level: e.Level}, false))
	case e.Cause == view.TimeoutNotObserved:
		return cause("NOT_OBSERVED")
	case e.Cause == view.TimeoutUntracked:
		return member(cause("DOES_NOT_TRACK_SHARD"), "shard_id", shardNumber(e.ShardID))
	}
	return member(cause("ERROR"), "debug_info", quoted("the node timed out before returning a transaction status"))
}

// noRoom returns the failure of a transaction that exceeds a limit of the node. The client may send
// the transaction again later.
func noRoom(err error) error {
	f := internal(reachedLimits, err).(*failure)
	f.refusal = http.StatusServiceUnavailable
	return f
}

// parseGetTx parses [hash, sender], [signed] or an object with either (nearcore
// chain/jsonrpc/src/api/transactions.rs).
func parseGetTx(v val) (p view.GetTx, err error) {
	p.WaitUntil = view.LevelExecutedOptimistic
	if x, ok := single(v); ok {
		p.Tx, err = readPositionalTx(x)
		return withTx(p), err
	}
	if v.kind() == kArray && v.len() == 2 {
		if p.Hash, err = readHash(v.item(0)); err == nil {
			p.Sender, err = readAccountID(v.item(1))
		}
		return p, err
	}
	if err = needObject(v, "RpcTransactionStatusRequest"); err != nil {
		return p, err
	}
	if x, ok := v.get("wait_until"); ok {
		if p.WaitUntil, err = readLevel(x); err != nil {
			return p, err
		}
	}
	if x, ok := v.get("signed_tx_base64"); ok {
		if p.Tx, err = readObjectTx(x); err == nil {
			return withTx(p), nil
		}
		p.Tx = nil
	}
	hash, ok1 := v.get("tx_hash")
	sender, ok2 := v.get("sender_account_id")
	if ok1 && ok2 {
		if p.Hash, err = readHash(hash); err == nil {
			if p.Sender, err = readAccountID(sender); err == nil {
				return p, nil
			}
		}
	}
	return p, noMatch("TransactionInfo")
}

// withTx sets hash and sender if the request has the whole transaction.
func withTx(p view.GetTx) view.GetTx {
	if p.Tx != nil {
		p.Hash, p.Sender = p.Tx.Hash(), p.Tx.SignerID
	}
	return p
}

// parseSendTx parses [signed] or {"signed_tx_base64", "wait_until"}.
func parseSendTx(v val) (p view.SendTx, err error) {
	p.WaitUntil = view.LevelExecutedOptimistic
	if x, ok := single(v); ok {
		p.Tx, err = readPositionalTx(x)
		return p, err
	}
	if v.kind() == kArray && v.len() == 2 {
		for i := range 2 {
			if _, err = readString(v.item(i)); err != nil {
				return p, err
			}
		}
		return p, &plainError{"Unable to parse send request: too many params passed"}
	}
	level := field{"wait_until", false, into(&p.WaitUntil, readLevel)}
	fields := []field{{"signed_tx_base64", false, into(&p.Tx, readObjectTx)}, level}
	if _, given := v.get("wait_until"); v.kind() == kObject && !given {
		fields = fields[:1] // nearcore accepts a missing wait_until but not null
	}
	return p, readStruct(v, "RpcSendTransactionRequest", fields...)
}

// decodeTx decodes a transaction as nearcore does, with nearcore's errors. Trailing bytes are an
// error. decodeTx allocates at most six times len(raw). The worst case is a state init: each of its
// entries takes at least 8 bytes of raw and 48 bytes of memory. A list of actions would be worse (7
// million take 112 MiB), but only the first primitives.MaxActionsKept are stored.
func decodeTx(raw []byte) (*primitives.SignedTransaction, error) {
	t, r := new(primitives.SignedTransaction), borsh.NewClientReader(raw)
	t.DecodeBorsh(r)
	if err := r.Close(); err != nil {
		return nil, errors.New(borshText(err))
	}
	return t, nil
}

// borshText returns nearcore's text for a borsh error.
func borshText(err error) string {
	var tag *borsh.TagError
	if errors.As(err, &tag) {
		return fmt.Sprintf("Unexpected variant tag: %d", tag.Tag)
	}
	return strings.TrimPrefix(err.Error(), borsh.ErrInvalid.Error()+": ")
}

// readPositionalTx reads a transaction from an array.
func readPositionalTx(v val) (*primitives.SignedTransaction, error) {
	text, err := readString(v)
	if err != nil {
		return nil, err
	}
	raw, err := primitives.DecodeBase64(text)
	if err != nil {
		return nil, &plainError{"Failed to decode transaction: " + err.Error()}
	}
	t, err := decodeTx(raw)
	if err != nil {
		return nil, &plainError{"Failed to decode transaction: " + err.Error()}
	}
	return t, nil
}

// readObjectTx reads a transaction from a member of an object.
func readObjectTx(v val) (*primitives.SignedTransaction, error) {
	text, err := readString(v)
	if err != nil {
		return nil, err
	}
	const what = "the value could not decoded from %s due to: %w"
	raw, err := primitives.DecodeBase64(text)
	if err != nil {
		return nil, fmt.Errorf(what, "base64", err)
	}
	t, err := decodeTx(raw)
	if err != nil {
		return nil, fmt.Errorf(what, "borsh", err)
	}
	return t, nil
}
