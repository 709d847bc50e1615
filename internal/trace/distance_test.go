package trace

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/verify"
	"github.com/troupe-chain/troupe/runtime/vm"
	"github.com/troupe-chain/troupe/storage"
)

// pinned is a chain with something above its folded block, and how its blocks are made.
type pinned struct {
	*chain
	gap primitives.Height
}

// grow makes blocks; every eighth has a call of the token.
func (c *pinned) grow(blocks int) {
	c.t.Helper()
	for n := range blocks {
		var txs []*primitives.SignedTransaction
		if n%8 == 0 {
			txs = append(txs, c.transfer())
		}
		c.block(txs)
	}
}

func (c *pinned) transfer() *primitives.SignedTransaction {
	return c.sign("alice", "token", call("ft_transfer", `{"receiver_id":"mark","amount":"1"}`, 1, 50))
}

func (c *pinned) block(txs []*primitives.SignedTransaction) {
	c.t.Helper()
	head := c.Engine.Head()
	b, chunks, err := c.Make(&workload.Plan{Parent: head.Hash, Height: head.Height() + c.gap, Transactions: txs})
	if err == nil {
		_, err = c.Accept(b, chunks, true)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// newPinned opens a chain with a token and has something keep its folded block where it is.
func newPinned(t *testing.T, v *vm.VM, by string) *pinned {
	o := workload.ChainOptions{VM: v, WarmBlocks: 32, Store: storage.Options{ResidentBlocks: 64}, Options: workload.Options{
		Seed: 1, Accounts: 2, Shards: 1, Names: []primitives.AccountID{"token", "alice", "mark"},
	}}
	o.EpochLength, o.Validity = 100_000, 100_000
	base, err := workload.OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = base.Close() })
	c := &pinned{&chain{base, t, workload.NewGenerator(o.Options), 0}, 1}
	c.send(c.sign("token", "token", &primitives.DeployContract{Code: contracts.C("ft")},
		call("new", `{"owner_id":"alice","total_supply":"1000000","metadata":{"spec":"ft-1.0.0","name":"T","symbol":"T","decimals":0}}`, 0, 50)))
	deposit := call("storage_deposit", `{"account_id":"mark"}`, 0, 50).(*primitives.FunctionCall)
	deposit.Deposit = primitives.NEAR(1)
	c.send(c.sign("alice", "token", deposit))
	switch by {
	case "nothing":
	case "stalled finality":
		c.gap = 2
	default:
		s, err := c.Engine.NewRevertPoint()
		if err != nil {
			t.Fatal(err)
		}
		if by == "world" {
			child, err := c.Engine.Child(s, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = child.Discard() })
			c.Chain = c.Chain.Drive(child)
		}
	}
	return c
}

// pastWork are the things that are done on old states.
var pastWork = []struct {
	name string
	do   func(ctx context.Context, c *pinned, v *vm.VM, tx *primitives.SignedTransaction) error
}{
	{"trace", func(ctx context.Context, c *pinned, v *vm.VM, tx *primitives.SignedTransaction) error {
		r, err := Transaction(ctx, c.Engine, v, tx.Hash(), Options{})
		if err == nil && (len(r.Outcomes) < 2 || len(r.Outcomes[1].Calls) != 1) {
			err = fmt.Errorf("report %+v", r)
		}
		return err
	}},
	{"simulate", func(ctx context.Context, c *pinned, v *vm.VM, tx *primitives.SignedTransaction) error {
		at, err := before(ctx, c, tx)
		if err != nil {
			return err
		}
		defer at.Release()
		s, err := c.Engine.Simulate(ctx, at, tx, engine.SimulateOptions{Signature: verify.CheckSignature})
		if err == nil && !s.Complete {
			err = errors.New("not complete")
		}
		return err
	}},
	{"view", func(ctx context.Context, c *pinned, _ *vm.VM, tx *primitives.SignedTransaction) error {
		at, err := before(ctx, c, tx)
		if err != nil {
			return err
		}
		defer at.Release()
		out, found, err := c.Engine.CallView(at, &action.View{Account: "token", Method: "ft_balance_of", Args: []byte(`{"account_id":"alice"}`)})
		if err == nil && (!found || out.Err != nil) {
			err = fmt.Errorf("found %v, %v", found, out.Err)
		}
		return err
	}},
	{"dump transaction", func(ctx context.Context, c *pinned, _ *vm.VM, tx *primitives.SignedTransaction) error {
		x, err := c.Engine.Prestate(ctx, tx.Hash(), nil)
		if err == nil && len(x.Records) < 3 {
			err = fmt.Errorf("%d records", len(x.Records))
		}
		return err
	}},
	{"dump state", func(ctx context.Context, c *pinned, _ *vm.VM, tx *primitives.SignedTransaction) error {
		s, err := c.Engine.Transactions().FullStatus(tx.Hash())
		if err != nil {
			return err
		}
		n := 0
		err = c.Engine.EachRecord(ctx, s.Outcome.BlockHash, nil, func(genesis.Record) error { n++; return nil })
		if err == nil && n < 8 {
			err = fmt.Errorf("%d records", n)
		}
		return err
	}},
}

// before is the state before a transaction's block.
func before(ctx context.Context, c *pinned, tx *primitives.SignedTransaction) (*engine.State, error) {
	s, err := c.Engine.Transactions().FullStatus(tx.Hash())
	if err != nil {
		return nil, err
	}
	in, err := c.Engine.Block(s.Outcome.BlockHash)
	if err != nil {
		return nil, err
	}
	return c.Engine.StateUntil(ctx.Err, in.Header().PrevHash)
}

// TestOldStatesCostTheSame: if a snapshot, a world or stalled finality keeps 2,000 blocks above
// the flat head, work on an old state reads no more records and keys than with a tenth of these
// blocks, and few in both cases: blocks are not applied one after the other.
func TestOldStatesCostTheSame(t *testing.T) {
	v, err := vm.New(vm.Options{Alarm: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	const far, near = 2000, 200
	for _, by := range []string{"nothing", "snapshot", "world", "stalled finality"} {
		t.Run(by, func(t *testing.T) {
			c := newPinned(t, v, by)
			send := func(after int) *primitives.SignedTransaction {
				c.grow(100) // what is before it above the folded block
				tx := c.transfer()
				c.block([]*primitives.SignedTransaction{tx})
				c.grow(after)
				return tx
			}
			at := map[int]*primitives.SignedTransaction{far: send(far - near - 101), near: send(near)}
			if all := c.Engine.Store().Stats().Pending; by != "nothing" && all < far {
				t.Fatalf("%d blocks above the flat head", all)
			}
			for _, w := range pastWork {
				var work [2]storage.Stats
				for i, distance := range []int{near, far} {
					was := c.Engine.Store().Stats()
					if err := w.do(t.Context(), c, v, at[distance]); err != nil {
						t.Fatalf("%s at a distance of %d: %v", w.name, distance, err)
					}
					now := c.Engine.Store().Stats()
					work[i] = storage.Stats{PendingRecords: now.PendingRecords - was.PendingRecords, PendingChanges: now.PendingChanges - was.PendingChanges,
						PendingKeys: now.PendingKeys - was.PendingKeys}
				}
				n, f := work[0], work[1]
				t.Logf("%-16s  %-16s  records %d, %d  changes %d, %d  keys %d, %d", by, w.name, n.PendingRecords, f.PendingRecords,
					n.PendingChanges, f.PendingChanges, n.PendingKeys, f.PendingKeys)
				if most := uint64(16); n.PendingRecords > most || f.PendingRecords > most {
					t.Errorf("%s: %d and %d whole records, at most %d are to be", w.name, n.PendingRecords, f.PendingRecords, most)
				}
				if f.PendingChanges > n.PendingChanges*3/2+20 || f.PendingKeys > n.PendingKeys*3/2+20 {
					t.Errorf("%s: %d changes and %d keys at a distance of %d, %d and %d at %d", w.name, n.PendingChanges, n.PendingKeys, near,
						f.PendingChanges, f.PendingKeys, far)
				}
			}
			for _, w := range pastWork {
				ends(t, w.name, func(ctx context.Context) error { return w.do(ctx, c, v, at[far]) })
			}
		})
	}
}

// asking is a context that ends after it has been asked a number of times whether it has ended. It
// counts the questions after that.
type asking struct {
	context.Context
	left, late int
}

// Err is a Context's.
func (a *asking) Err() error {
	if a.left--; a.left >= 0 {
		return nil
	}
	a.late++
	return context.DeadlineExceeded
}

// ends requires that work stops when its context ends, at whatever moment: it returns the
// context's error and does not continue.
func ends(t *testing.T, name string, do func(context.Context) error) {
	t.Helper()
	whole := &asking{Context: t.Context(), left: 1 << 30}
	if err := do(whole); err != nil {
		t.Fatalf("%s: error %v", name, err)
	}
	asked := 1<<30 - whole.left
	for _, left := range []int{0, asked / 3, asked * 2 / 3, asked - 1} {
		ctx := &asking{Context: t.Context(), left: left}
		if err := do(ctx); !errors.Is(err, context.DeadlineExceeded) || ctx.late > 8 {
			t.Errorf("%s: ended after %d of %d questions: %v, and %d more were asked", name, left, asked, err, ctx.late)
		}
	}
}
