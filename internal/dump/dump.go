// Package dump exports the state after a block as the genesis of a new chain.
//
//	in      a Request; the engine of a running node, or of a folder opened for the dump; over a
//	        stream: lines of JSON
//	out     lines of JSON: the genesis without records, each record, the number of records;
//	        Receive reads them back; Files writes neard's files
//	state   none: a dump reads one stored block
//	units   as package genesis has them
//	bound   one record in memory, a line of maxLine bytes
//	errors  those of engine.EachRecord; ErrNoBlock; ErrBroken: the stream ended before the dump
//	        did
//	source  nearcore tools/state-viewer/src/state_dump.rs
package dump

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/storage"
)

// ErrNoBlock is returned if there is no block at the requested height.
var ErrNoBlock = errors.New("dump: the chain has no block at the requested height")

// Request selects what to dump. A Request is the first line of a stream to a node.
type Request struct {
	Height *primitives.Height `json:"height,omitempty"` // nil: the head
	// Accounts are the accounts to dump; nil: all. Validators and the treasury are always included.
	Accounts []primitives.AccountID `json:"account_ids,omitempty"`
	// Validators are the validators of the new genesis; nil: all current validators. The dump
	// returns the stake of every validator that is not listed to that validator's balance.
	Validators []primitives.AccountID `json:"include_validators,omitempty"`
}

// Dump is the state after one block. Records reads it.
type Dump struct {
	Genesis  *genesis.Config // genesis configuration of a chain that begins with this state
	ctx      context.Context // cancels the dump
	engine   *engine.Engine
	block    primitives.Hash
	accounts []primitives.AccountID
	stakes   map[primitives.AccountID]primitives.Balance
}

// Open finds the block and makes the genesis. For that, Open reads all accounts once. Cancelling
// ctx ends Open, and Records later.
func Open(ctx context.Context, e *engine.Engine, g *genesis.Config, now genesis.Time, r *Request) (*Dump, error) {
	at, err := blockAt(e, r.Height)
	if err != nil {
		return nil, err
	}
	d := &Dump{ctx: ctx, engine: e, block: at.Hash, stakes: map[primitives.AccountID]primitives.Balance{}}
	h, c := at.Header(), *g
	c.GenesisHeight, c.GenesisTime = h.Height+1, now
	c.ProtocolVersion, c.ShardLayout = h.LatestProtocolVersion, at.Layout
	c.Validators, c.TotalSupply = []genesis.Validator{}, primitives.Balance{}
	var producers []primitives.ValidatorStake
	if err := e.Epochs(func(m *epoch.Manager) (err error) {
		producers, err = m.BlockProducersOrdered(h.EpochID)
		return err
	}); err != nil {
		return nil, err
	}
	keep := []primitives.AccountID{c.ProtocolTreasuryAccount}
	for _, v := range producers {
		keep = append(keep, v.AccountID)
		if r.Validators != nil && !slices.Contains(r.Validators, v.AccountID) {
			continue
		}
		d.stakes[v.AccountID] = v.Stake
		c.Validators = append(c.Validators, genesis.Validator{AccountID: v.AccountID, PublicKey: v.PublicKey, Amount: v.Stake})
	}
	slices.SortFunc(c.Validators, func(a, b genesis.Validator) int { return cmp.Compare(a.AccountID, b.AccountID) })
	if r.Accounts != nil {
		d.accounts = append(keep, r.Accounts...)
	}
	err = e.EachAccount(ctx, d.block, d.accounts, func(r *genesis.AccountRecord) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		d.settle(r)
		sum, ok := r.Account.Amount.Add(r.Account.Locked)
		if ok {
			c.TotalSupply, ok = c.TotalSupply.Add(sum)
		}
		if !ok {
			return fmt.Errorf("dump: the total supply overflows 128 bits at account %s", r.AccountID)
		}
		return nil
	})
	d.Genesis = &c
	return d, err
}

// blockAt finds the block at a height of the current chain.
func blockAt(e *engine.Engine, height *primitives.Height) (*engine.BlockNode, error) {
	head := e.Head()
	if height == nil {
		return head, nil
	}
	hash, err := e.Store().HashAt(*height)
	if errors.Is(err, storage.ErrNotFound) || *height > head.Height() {
		return nil, fmt.Errorf("%w: %d; the head is at %d", ErrNoBlock, *height, head.Height())
	}
	if err != nil {
		return nil, err
	}
	return e.Block(hash)
}

// settle sets the locked balance to the account's stake in the new genesis. The excess, which was
// being unlocked, goes to the liquid balance.
func (d *Dump) settle(r *genesis.AccountRecord) {
	a, stake := &r.Account, d.stakes[r.AccountID]
	if stake.Less(a.Locked) {
		a.Amount = a.Amount.SaturatingAdd(a.Locked.SaturatingSub(stake))
	}
	if !a.Locked.IsZero() {
		a.Locked = stake
	}
}

// Records calls yield for each record.
func (d *Dump) Records(yield func(genesis.Record) error) error {
	return d.engine.EachRecord(d.ctx, d.block, d.accounts, func(r genesis.Record) error {
		if err := d.ctx.Err(); err != nil {
			return err
		}
		if a, ok := r.(*genesis.AccountRecord); ok {
			d.settle(a)
		}
		return yield(r)
	})
}
