package apply

import (
	"errors"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/congestion"
	"github.com/troupe-chain/troupe/runtime/fees"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/verify"
)

// delayedQueue is the queue of receipts that wait for a later chunk. delayedQueue also counts the
// gas and bytes that entered and left the queue in this chunk.
type delayedQueue struct {
	state.QueueIndices
	inGas, outGas     primitives.Gas
	inBytes, outBytes uint64
	peeked            map[uint64]*primitives.StoredReceipt // receipts that ran speculatively, by index in the queue
}

// delay pushes a receipt to the delayed queue.
func (c *chunk) delay(r *primitives.Receipt) error {
	gas, err := fees.ReceiptGas(c.cfg, r)
	if err != nil {
		return err
	}
	x := stored(r, gas, 0)
	x.Metadata.CongestionSize = uint64(len(r.AppendBorsh(nil)))
	if err := addCounts(&c.delayed.inGas, &c.delayed.inBytes, x.Metadata); err != nil {
		return err
	}
	c.u.PushDelayed(&c.delayed.QueueIndices, x)
	c.res.Stats.Postponed++
	return nil
}

func addCounts(gas *primitives.Gas, bytes *uint64, m primitives.ReceiptMetadata) error {
	if *gas+m.CongestionGas < m.CongestionGas || *bytes+m.CongestionSize < m.CongestionSize {
		return congestion.ErrOverflow
	}
	*gas += m.CongestionGas
	*bytes += m.CongestionSize
	return nil
}

// account adds the gas and bytes that entered the queue to the shard's congestion info and
// subtracts the gas and bytes that left the queue.
func (q *delayedQueue) account(a congestion.Account) error {
	if err := a.AddDelayedGas(q.inGas); err != nil {
		return err
	}
	if err := a.RemoveDelayedGas(q.outGas); err != nil {
		return err
	}
	if err := a.AddBytes(q.inBytes); err != nil {
		return err
	}
	return a.RemoveBytes(q.outBytes)
}

// popDelayed removes the next receipt of this shard from the delayed queue and returns it.
// popDelayed returns nil at the end of the queue, or if the recorded size has reached its limit.
// After a split, both child shards have the whole queue of the parent. So popDelayed discards
// receipts of the sibling shard.
func (c *chunk) popDelayed() (*primitives.Receipt, error) {
	for !c.u.LimitExceeded() {
		x, err := c.u.PopDelayed(&c.delayed.QueueIndices, c.delayed.peeked[c.delayed.First])
		if x == nil || err != nil {
			return nil, err
		}
		m, err := metadata(c.cfg, x)
		if err == nil {
			err = addCounts(&c.delayed.outGas, &c.delayed.outBytes, m)
		}
		if err != nil {
			return nil, err
		}
		to, err := target(c.in.Layout, &x.Receipt)
		if err != nil {
			return nil, err
		}
		if c.in.Layout.ShardIDs()[to] == c.in.Block.ShardID {
			return &x.Receipt, nil
		}
	}
	return nil, nil
}

// delayedReceipts runs delayed receipts until the chunk is full.
func (c *chunk) delayedReceipts() error {
	for !c.full() {
		if err := c.peekDelayed(); err != nil {
			return err
		}
		r, err := c.popDelayed()
		if r == nil || err != nil {
			return err
		}
		if e := verify.Receipt(c.cfg, r, verify.ExistingReceipt); e != nil {
			return state.Inconsistent("delayed receipt %v: %w", r.ID, e)
		}
		if err := c.process(r); err != nil {
			return err
		}
		c.res.Stats.Delayed++
		c.res.Processed = append(c.res.Processed, Processed{r, SourceDelayed})
	}
	return nil
}

// peekDelayed runs the next delayed receipts speculatively (runAhead). peekDelayed does nothing
// while receipts of its previous call are left.
func (c *chunk) peekDelayed() error {
	q := &c.delayed
	if c.in.Par == nil || q.peeked[q.First] != nil || q.Len() < uint64(c.window.least) {
		return nil
	}
	q.peeked = make(map[uint64]*primitives.StoredReceipt, c.window.most)
	var list []*primitives.Receipt
	for i := q.First; i < q.Next && i-q.First < uint64(c.window.most); i++ {
		x, err := c.u.PeekDelayed(i)
		if errors.Is(err, state.ErrMissing) { // a state proof lacks the receipts that the chunk does not execute
			break
		}
		if err != nil {
			return err
		}
		to, err := target(c.in.Layout, &x.Receipt)
		if err != nil {
			return err
		}
		q.peeked[i] = x
		if c.in.Layout.ShardIDs()[to] == c.in.Block.ShardID && verify.Receipt(c.cfg, &x.Receipt, verify.ExistingReceipt) == nil {
			list = append(list, &x.Receipt)
		}
	}
	c.runAhead(list)
	return nil
}

// yieldTimeouts sends a resume without data to each yield that has waited too long (nearcore
// lib.rs:2930). If a contract resumed the same yield in this chunk, the contract's resume arrives
// first, and the receiver ignores the timeout.
func (c *chunk) yieldTimeouts() error {
	indices, err := c.u.YieldIndices()
	if err != nil {
		return err
	}
	before, made := indices, uint64(0)
	for indices.Len() > 0 && !c.full() {
		t, err := c.u.YieldTimeout(indices.First)
		if err != nil {
			return err
		}
		if t.ExpiresAt > c.in.Block.Height {
			break
		}
		waits, err := c.u.HasYieldReceipt(t.Account, t.DataID)
		if err != nil {
			return err
		}
		if waits {
			r := &primitives.Receipt{
				PredecessorID: t.Account, ReceiverID: t.Account,
				ID:   primitives.YieldTimeoutReceiptID(t.DataID, c.in.Block.Height, made),
				Body: &primitives.DataReceipt{DataID: t.DataID, Resume: true},
			}
			made++
			if _, err := c.send(r); err != nil {
				return err
			}
			c.res.Resumes = append(c.res.Resumes, Resume{Receipt: r.ID, Account: t.Account, DataID: t.DataID})
		}
		c.res.YieldTimeouts = append(c.res.YieldTimeouts, t)
		c.u.RemoveYieldTimeout(indices.First)
		indices.First++
	}
	if indices != before {
		c.u.SetYieldIndices(indices)
	}
	return nil
}
