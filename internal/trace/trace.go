package trace

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/flame"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/vm"
)

// ErrDiffers is returned if applying a chunk again gives another result than the chain has. That is
// a bug in this node.
var ErrDiffers = errors.New("trace: applying the chunk again gives another result than the chain has (a bug of this node)")

// Options configure a trace.
type Options struct {
	Profile bool // record a profile by contract function
	// The trace calls Interrupt now and then while contracts run. If Interrupt returns an error,
	// the trace ends and returns that error. nil: the trace is not interrupted.
	Interrupt func() error
}

// Interruptible returns a VM whose calls end when ask returns an error.
func Interruptible(v action.VM, ask func() error) action.VM {
	if ask == nil {
		return v
	}
	return interruptible{v, ask}
}

type interruptible struct {
	action.VM
	ask func() error
}

// Call runs a method.
func (v interruptible) Call(c *action.Call, x *action.External) (action.CallOutcome, error) {
	if err := v.ask(); err != nil {
		return action.CallOutcome{}, err
	}
	asked := *c
	asked.Interrupt = v.ask
	return v.VM.Call(&asked, x)
}

type place struct {
	block primitives.Hash
	shard primitives.ShardIndex
}

// Transaction traces a transaction on the chain. It applies once more every chunk in which one of
// the transaction's receipts called a contract.
func Transaction(ctx context.Context, e *engine.Engine, v *vm.VM, hash primitives.Hash, o Options) (*Report, error) {
	status, err := e.Transactions().FullStatus(hash)
	if err != nil {
		return nil, err
	}
	want := map[primitives.Hash]*primitives.Outcome{}
	receipts := map[primitives.Hash]*primitives.Receipt{}
	var places []place
	seen := map[place]bool{}
	blocks := map[primitives.Hash]*engine.BlockNode{}
	for i := range status.Outcomes {
		o := &status.Outcomes[i]
		want[o.ID] = &o.Outcome
		r, err := e.Transactions().Receipt(o.ID)
		if err != nil {
			return nil, err
		}
		receipts[o.ID] = r
		if !calls(r) {
			continue
		}
		at := blocks[o.BlockHash]
		if at == nil {
			if at, err = e.Block(o.BlockHash); err != nil {
				return nil, err
			}
			blocks[o.BlockHash] = at
		}
		p := place{block: o.BlockHash}
		if p.shard, err = at.Layout.Index(at.Layout.ShardOf(o.ExecutorID)); err != nil {
			return nil, err
		}
		if !seen[p] {
			seen[p], places = true, append(places, p)
		}
	}
	c := newCollector(o.Profile, func(id primitives.Hash) bool { return want[id] != nil })
	watched := v.Watch(c)
	defer watched.Close()
	for n, p := range places {
		if err := ctx.Err(); err != nil {
			return nil, stopped(err, n, len(places))
		}
		r, err := e.Reapply(ctx, p.block, p.shard, Interruptible(watched, o.Interrupt))
		if err != nil {
			return nil, stopped(err, n, len(places))
		}
		for i := range r.Outcomes {
			o := &r.Outcomes[i]
			if was := want[o.ID]; was != nil && o.LeafHash() != (&primitives.OutcomeWithID{ID: o.ID, Outcome: *was}).LeafHash() {
				return nil, fmt.Errorf("%w: outcome %v", ErrDiffers, o.ID)
			}
		}
	}
	return report(&status, receipts, c, func(out *Report) { out.Block = status.Outcome.BlockHash.String() })
}

// stopped adds the progress of the trace to an interrupt's error: n of `of` chunks had been applied
// again.
func stopped(err error, n, of int) error {
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, view.ErrTimeout) {
		return err
	}
	return &view.StoppedError{Where: fmt.Sprintf("when %d of %d chunks were applied again", n, of), Err: err}
}

// Simulation traces what tx would do on the state at.
func Simulation(ctx context.Context, e *engine.Engine, v *vm.VM, at *engine.State, tx *primitives.SignedTransaction,
	so engine.SimulateOptions, o Options) (*Report, error) {
	c := newCollector(o.Profile, func(primitives.Hash) bool { return true })
	watched := v.Watch(c)
	defer watched.Close()
	so.VM = Interruptible(watched, o.Interrupt)
	s, err := e.Simulate(ctx, at, tx, so)
	if err != nil {
		return nil, err
	}
	receipts := map[primitives.Hash]*primitives.Receipt{}
	for _, r := range s.Receipts {
		receipts[r.ID] = r
	}
	return report(&s.FinalOutcome, receipts, c, func(out *Report) {
		out.Simulated, out.Block, out.Complete = true, s.At.Hash.String(), s.Complete
	})
}

// calls returns whether a receipt may call a contract.
func calls(r *primitives.Receipt) bool {
	body, ok := r.Body.(*primitives.ActionReceipt)
	if !ok {
		return false
	}
	for _, a := range body.Actions {
		if _, ok := a.(*primitives.FunctionCall); ok {
			return true
		}
	}
	return false
}

// report builds a report from a status and the recorded calls. The report's gas and tokens are the
// sums over all outcomes.
func report(status *view.FinalOutcome, receipts map[primitives.Hash]*primitives.Receipt, c *collector,
	fill func(*Report)) (*Report, error) {
	tx := status.Transaction
	out := &Report{Transaction: tx.Hash().String(), Signer: string(tx.SignerID), Receiver: string(tx.ReceiverID),
		Status: view.AppendFinalStatus(nil, &status.Status), Complete: status.Level >= view.LevelExecuted}
	var tokens primitives.Balance
	add := func(o *view.OutcomeProof, x Outcome) {
		out.Gas += uint64(o.GasBurnt)
		tokens, _ = tokens.Add(o.TokensBurnt)
		x.ID, x.Block, x.Executor = o.ID.String(), o.BlockHash.String(), string(o.ExecutorID)
		x.Gas, x.Tokens, x.Status, x.Logs = uint64(o.GasBurnt), o.TokensBurnt.String(), view.AppendStatus(nil, &o.Status), o.Logs
		if x.Logs == nil {
			x.Logs = []string{}
		}
		if x.Calls = c.calls[o.ID]; x.Calls == nil {
			x.Calls = []*Call{}
		}
		out.Outcomes = append(out.Outcomes, x)
	}
	add(&status.Outcome, Outcome{Predecessor: string(tx.SignerID), Actions: names(tx.Actions)})
	type from struct {
		parent primitives.Hash
		depth  int
	}
	sent := map[primitives.Hash]from{}
	for _, id := range status.Outcome.ReceiptIDs {
		sent[id] = from{status.Outcome.ID, 1}
	}
	for i := range status.Outcomes {
		o := &status.Outcomes[i]
		x := Outcome{Parent: sent[o.ID].parent.String(), Depth: sent[o.ID].depth, Predecessor: string(tx.SignerID), Actions: names(tx.Actions)}
		if r := receipts[o.ID]; r != nil {
			x.Predecessor, x.Actions = string(r.PredecessorID), []string{}
			if body, ok := r.Body.(*primitives.ActionReceipt); ok {
				x.Actions = names(body.Actions)
			}
		}
		for _, id := range o.ReceiptIDs {
			sent[id] = from{o.ID, x.Depth + 1}
		}
		add(o, x)
	}
	out.Tokens = tokens.String()
	if c.profiled {
		var b bytes.Buffer
		if err := flame.WriteSpeedscope(&b, c.profiles); err != nil {
			return nil, err
		}
		out.Profile = b.Bytes()
	}
	fill(out)
	return out, nil
}

// names returns the names of nearcore's action views.
func names(actions []primitives.Action) []string {
	out := make([]string, 0, len(actions))
	for _, a := range actions {
		text := view.AppendAction(nil, a) // "Name" or {"Name":...}
		if _, text, _ = bytes.Cut(text, []byte{'"'}); text != nil {
			text, _, _ = bytes.Cut(text, []byte{'"'})
		}
		out = append(out, string(text))
	}
	return out
}
