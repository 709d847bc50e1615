package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/vm"
)

// MaxFunctions is the maximum number of contract functions in a Sum. One entry without a name adds
// up all further functions.
const MaxFunctions = 20_000

// Loading is the name under which a Sum counts the gas that a call burns before its first function.
const Loading = "(loading)"

// Sum is the gas that a set of transactions burnt, by cause.
type Sum struct {
	Transactions int    `json:"transactions"` // number of transactions that are in blocks
	Unknown      int    `json:"unknown"`      // number of transactions that are not in a block, or not yet
	Waiting      int    `json:"waiting"`      // number of the transactions' receipts that have not been executed yet
	Gas          uint64 `json:"gas_burnt"`    // gas burnt by all outcomes
	Calls        int    `json:"calls"`        // number of contract calls
	CallGas      uint64 `json:"gas_calls"`    // part of Gas that contract calls burnt
	// Host and Functions are sorted by gas, descending.
	Host      []HostSum     `json:"host_functions"`
	Functions []FunctionSum `json:"functions"`
}

// HostSum is the total of all calls of one host function.
type HostSum struct {
	Name  string `json:"name"`
	Calls int    `json:"calls"`
	Gas   uint64 `json:"gas"`
}

// FunctionSum is the gas of a contract function of an account. Gas is the gas that the function
// burnt itself. Total also includes the gas of the functions and host functions that it calls.
type FunctionSum struct {
	Account string `json:"account_id"`
	Name    string `json:"name"`
	Calls   int    `json:"calls"`
	Gas     uint64 `json:"gas"`
	Total   uint64 `json:"gas_total"`
}

// Sums adds up the gas that transactions burnt, by cause. For that, Sums applies once more each
// chunk in which a receipt of these transactions called a contract.
func Sums(ctx context.Context, e *engine.Engine, v *vm.VM, hashes []primitives.Hash, interrupt func() error) (*Sum, error) {
	out := &Sum{}
	want := map[primitives.Hash]*primitives.Outcome{}
	seen := map[place]bool{}
	var places []place
	for _, hash := range hashes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		status, err := e.Transactions().FullStatus(hash)
		if errors.Is(err, engine.ErrUnknown) || err == nil && status.Transaction == nil {
			out.Unknown++
			continue
		}
		if err != nil {
			return nil, err
		}
		out.Transactions++
		if err := out.outcomes(e, &status, want, seen, &places); err != nil {
			return nil, err
		}
	}
	s := newSummer(out, func(id primitives.Hash) bool { return want[id] != nil })
	watched := v.Watch(s)
	defer watched.Close()
	for n, p := range places {
		if err := ctx.Err(); err != nil {
			return nil, stopped(err, n, len(places))
		}
		r, err := e.Reapply(ctx, p.block, p.shard, Interruptible(watched, interrupt))
		if err != nil {
			return nil, stopped(err, n, len(places))
		}
		if err := same(r.Outcomes, want); err != nil {
			return nil, err
		}
	}
	s.sorted()
	return out, nil
}

// same returns an error if the outcomes of a chunk differ from those in want, which are on the
// chain.
func same(now []primitives.OutcomeWithID, want map[primitives.Hash]*primitives.Outcome) error {
	for i := range now {
		o := &now[i]
		if was := want[o.ID]; was != nil && o.LeafHash() != (&primitives.OutcomeWithID{ID: o.ID, Outcome: *was}).LeafHash() {
			return fmt.Errorf("%w: outcome %v", ErrDiffers, o.ID)
		}
	}
	return nil
}

// outcomes adds the outcomes of a transaction to the sum, and collects the chunks in which the
// transaction called contracts.
func (s *Sum) outcomes(e *engine.Engine, status *view.FinalOutcome, want map[primitives.Hash]*primitives.Outcome,
	seen map[place]bool, places *[]place) error {
	s.Gas += uint64(status.Outcome.GasBurnt)
	left := len(status.Outcome.ReceiptIDs)
	for i := range status.Outcomes {
		o := &status.Outcomes[i]
		s.Gas += uint64(o.GasBurnt)
		left += len(o.ReceiptIDs) - 1
		want[o.ID] = &o.Outcome
		r, err := e.Transactions().Receipt(o.ID)
		if err != nil {
			return err
		}
		if !calls(r) {
			continue
		}
		at, err := e.Block(o.BlockHash)
		if err != nil {
			return err
		}
		p := place{block: o.BlockHash}
		if p.shard, err = at.Layout.Index(at.Layout.ShardOf(o.ExecutorID)); err != nil {
			return err
		}
		if !seen[p] {
			seen[p], *places = true, append(*places, p)
		}
	}
	s.Waiting += max(left, 0)
	return nil
}

// functionKey identifies a function of a contract.
type functionKey struct{ account, name string }

// frame is an entry of the call stack while a call's functions are summed up.
type frame struct {
	of    *FunctionSum
	begun primitives.Gas // gas that the call had burnt when the function began
	inner primitives.Gas // gas burnt by its callees
	outer bool           // the same function is not running further out in the stack
}

// summer is a vm.Watcher that adds up the gas of the receipts for which wanted returns true.
type summer struct {
	out       *Sum
	wanted    func(receipt primitives.Hash) bool
	host      map[string]*HostSum
	functions map[functionKey]*FunctionSum
	on        bool // wanted returned true for the current call
	account   string
	begun     bool // the first function of the current call has begun
	stack     []frame
}

func newSummer(out *Sum, wanted func(primitives.Hash) bool) *summer {
	return &summer{out: out, wanted: wanted, host: map[string]*HostSum{}, functions: map[functionKey]*FunctionSum{}}
}

func (s *summer) function(name string) *FunctionSum {
	k := functionKey{s.account, name}
	f := s.functions[k]
	if f == nil {
		if len(s.functions) >= MaxFunctions {
			k = functionKey{}
			if f = s.functions[k]; f != nil {
				return f
			}
		}
		f = &FunctionSum{Account: k.account, Name: k.name}
		s.functions[k] = f
	}
	return f
}

// CallBegins implements vm.Watcher.
func (s *summer) CallBegins(c *action.Call) {
	s.on, s.begun, s.account, s.stack = s.wanted(c.ReceiptID), false, string(c.CurrentAccount), s.stack[:0]
	if s.on {
		s.out.Calls++
	}
}

// Enter implements vm.Watcher.
func (s *summer) Enter(function string, burnt primitives.Gas) {
	if !s.on {
		return
	}
	if !s.begun {
		s.begun = true
		l := s.function(Loading)
		l.Calls, l.Gas, l.Total = l.Calls+1, l.Gas+uint64(burnt), l.Total+uint64(burnt)
	}
	f := s.function(function)
	f.Calls++
	s.stack = append(s.stack, frame{of: f, begun: burnt, outer: !slices.ContainsFunc(s.stack, func(x frame) bool { return x.of == f })})
}

// Leave implements vm.Watcher.
func (s *summer) Leave(burnt primitives.Gas) {
	if !s.on || len(s.stack) == 0 {
		return
	}
	x := s.stack[len(s.stack)-1]
	s.stack = s.stack[:len(s.stack)-1]
	total := burnt - x.begun
	x.of.Gas += uint64(total - min(x.inner, total))
	if x.outer {
		x.of.Total += uint64(total)
	}
	s.called(total)
}

// called adds to the current function the gas that one of its callees burnt.
func (s *summer) called(gas primitives.Gas) {
	if n := len(s.stack); n > 0 {
		s.stack[n-1].inner += gas
	}
}

// HostCall implements vm.Watcher.
func (s *summer) HostCall(h *vm.HostCall) {
	if !s.on {
		return
	}
	x := s.host[h.Name]
	if x == nil {
		x = &HostSum{Name: h.Name}
		s.host[h.Name] = x
	}
	gas := h.After - h.Before
	x.Calls, x.Gas = x.Calls+1, x.Gas+uint64(gas)
	s.called(gas)
}

// CallEnds implements vm.Watcher.
func (s *summer) CallEnds(out *action.CallOutcome) {
	if !s.on {
		return
	}
	s.out.CallGas += uint64(out.GasBurnt)
	for len(s.stack) > 0 { // after a trap, Leave is not called
		s.Leave(max(out.GasBurnt, s.stack[len(s.stack)-1].begun))
	}
}

// sorted stores the sums in out, sorted.
func (s *summer) sorted() {
	s.out.Host, s.out.Functions = []HostSum{}, []FunctionSum{}
	for _, x := range s.host {
		s.out.Host = append(s.out.Host, *x)
	}
	for x := range maps.Values(s.functions) {
		s.out.Functions = append(s.out.Functions, *x)
	}
	slices.SortFunc(s.out.Host, func(a, b HostSum) int { return cmp.Or(cmp.Compare(b.Gas, a.Gas), cmp.Compare(a.Name, b.Name)) })
	slices.SortFunc(s.out.Functions, func(a, b FunctionSum) int {
		return cmp.Or(cmp.Compare(b.Gas, a.Gas), cmp.Compare(a.Account, b.Account), cmp.Compare(a.Name, b.Name))
	})
}
