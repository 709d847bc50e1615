package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/verify"
)

// MaxPrestate is the greatest number of state entries that Prestate returns.
const MaxPrestate = 100_000

// ErrPrestate means that the prestate of a transaction cannot be computed.
var ErrPrestate = errors.New("engine: the state before the transaction cannot be computed")

// Prestate returns the state entries that a transaction and all its receipts read or write, with
// the values before the transaction's block. Prestate also returns the original outcomes. Prestate
// runs the transaction twice without any other transaction. The first run is on the whole state
// before the block and finds the entries. The second run is on the returned entries only. If the
// second run fails, or leads to outcomes other than the original outcomes, Case.Alone describes the
// difference.
//
// vm runs the contracts; nil: the engine's VM. On a fork, entries of the remote chain are included.
// Errors: ErrUnknown; ErrPrestate; ErrUntracked; storage.ErrGone if the state was garbage
// collected; state.ErrAway. Safe for concurrent use.
func (e *Engine) Prestate(ctx context.Context, hash primitives.Hash, vm action.VM) (*view.Case, error) {
	was, err := e.transactions.FullStatus(hash)
	if err != nil {
		return nil, err
	}
	if was.Transaction == nil {
		return nil, fmt.Errorf("%w: transaction %v has not run yet", ErrPrestate, hash)
	}
	in, err := e.Block(was.Outcome.BlockHash)
	if err != nil {
		return nil, err
	}
	at, err := e.StateUntil(ctx.Err, in.Header().PrevHash)
	if err != nil {
		return nil, err
	}
	defer at.Release()
	_, mocks, err := e.storedPatch(in.Hash)
	if err != nil {
		return nil, err
	}
	o := SimulateOptions{Signature: verify.Checked, VM: vm, Alone: true, Mocks: mocks}
	notes := make([]notes, len(at.Shards))
	on := &State{BlockNode: at.BlockNode, historical: make([]state.Trie, len(at.Shards))}
	for i := range notes {
		if !at.Shards[i].Held() {
			return nil, fmt.Errorf("%w: shard %d", ErrUntracked, at.Shards[i].ID)
		}
		notes[i] = map[string]bool{}
		on.historical[i] = noted(
			overBase(
				&historicalTrie{base: emptyQueueValues{e.valuesOf(ctx.Err, at.BlockNode, primitives.ShardIndex(i))}},
				e.o.Base,
			),
			notes[i],
		)
	}
	if _, err := e.Simulate(ctx, on, was.Transaction, o); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPrestate, err)
	}
	c := &view.Case{
		Tx:        was.Transaction,
		At:        view.At{Height: at.Height(), Hash: at.Hash},
		Timestamp: in.Header().Timestamp,
		Outcomes:  e.deeds(&was),
		Mocked:    mocks.Names(),
	}
	alone := &State{BlockNode: at.BlockNode, historical: make([]state.Trie, len(at.Shards))}
	sum := 0
	for i := range notes {
		if sum += len(notes[i]); sum > MaxPrestate {
			return nil, fmt.Errorf("%w: transaction %v reads or writes more than %d entries", ErrPrestate, hash, MaxPrestate)
		}
		of := prestateShard{
			values: overStored(e.valuesOf(ctx.Err, at.BlockNode, primitives.ShardIndex(i))),
			chain:  e.chain.ID,
			into:   c,
		}
		if err := of.all(slices.Sorted(maps.Keys(notes[i]))); err != nil {
			return nil, err
		}
		alone.historical[i] = &historicalTrie{base: emptyQueueValues{of.pairs}}
	}
	now, err := e.Simulate(ctx, alone, was.Transaction, o)
	if err != nil {
		c.Alone = err.Error()
		return c, ctx.Err()
	}
	c.Alone = view.DeedsDiffer(c.Outcomes, e.deeds(&now.FinalOutcome))
	return c, nil
}

// deeds returns the outcomes of o without ids and prices. deeds omits refunds.
func (e *Engine) deeds(o *view.FinalOutcome) (out []view.Deed) {
	refunds := map[primitives.Hash]bool{}
	for _, r := range o.Receipts {
		refunds[r.ID] = r.PredecessorID == primitives.SystemAccount
	}
	out = append(out, view.DeedOf(&o.Outcome.Outcome))
	for i := range o.Outcomes {
		if x := &o.Outcomes[i]; !refunds[x.ID] {
			out = append(out, view.DeedOf(&x.Outcome))
		}
	}
	return out
}

// Deeds returns the parts of a transaction's outcomes that do not depend on the chain on which it
// runs. It returns ErrUnknown if no block of the canonical chain contains the transaction.
func (e *Engine) Deeds(hash primitives.Hash) ([]view.Deed, error) {
	o, err := e.transactions.FullStatus(hash)
	if err != nil {
		return nil, err
	}
	return e.deeds(&o), nil
}

// notes is the set of keys that were read or written.
type notes map[string]bool

// notedTrie is a trie that adds each requested key to notes. Keys that are read only to count trie
// nodes are not added.
type notedTrie struct {
	state.Trie
	notes notes
}

// notedFork is a notedTrie that also implements state.Forked. It notes keys of the fork and of the
// remote chain.
type notedFork struct{ notedTrie }

func noted(t state.Trie, n notes) state.Trie {
	if _, is := t.(state.Forked); is {
		return notedFork{notedTrie{t, n}}
	}
	return notedTrie{t, n}
}

// Local implements state.Forked.
func (t notedFork) Local() state.Trie { return t.Trie.(state.Forked).Local() }

// Get implements state.Trie.
func (t notedTrie) Get(key []byte, rec state.Recording) ([]byte, error) {
	t.notes[string(key)] = true
	return t.Trie.Get(key, rec)
}

// Lookup implements state.Trie.
func (t notedTrie) Lookup(key []byte, rec state.Recording) (state.ValueRef, bool, error) {
	t.notes[string(key)] = true
	return t.Trie.Lookup(key, rec)
}

// Path implements state.Trie.
func (t notedTrie) Path(
	key []byte,
	rec state.Recording,
	path []state.Visit,
) ([]state.Visit, state.ValueRef, bool, error) {
	t.notes[string(key)] = true
	return t.Trie.Path(key, rec, path)
}

// Scan implements state.Trie.
func (t notedTrie) Scan(prefix, after []byte, rec state.Recording, yield func(key, value []byte) bool) error {
	return t.Trie.Scan(prefix, after, rec, func(key, value []byte) bool {
		t.notes[string(key)] = true
		return yield(key, value)
	})
}

// Update implements state.Trie.
func (t notedTrie) Update(changes []state.Change, rec state.Recording) (state.Trie, error) {
	next, err := t.Trie.Update(changes, rec)
	if err != nil {
		return nil, err
	}
	return noted(next, t.notes), nil
}

// emptyQueueValues reads a shard's values as if all queues of the shard were empty.
type emptyQueueValues struct{ of historicalValues }

// queued returns whether a key belongs to a queue of the shard.
func queued(key []byte) bool {
	switch primitives.TrieColumn(key[0]) {
	case primitives.ColDelayedReceipt,
		primitives.ColPromiseYieldIndices,
		primitives.ColPromiseYieldTimeout,
		primitives.ColBufferedReceiptIndices,
		primitives.ColBufferedReceipt,
		primitives.ColBandwidthScheduler,
		primitives.ColBufferedGroups,
		primitives.ColBufferedGroup:
		return true
	}
	return false
}

func (v emptyQueueValues) get(key []byte) ([]byte, error) {
	if queued(key) {
		return nil, nil
	}
	return v.of.get(key)
}

func (v emptyQueueValues) scan(from, to []byte, yield func(key, value []byte) bool) error {
	return v.of.scan(from, to, func(key, value []byte) bool { return queued(key) || yield(key, value) })
}

// prestatePairs are the entries of a prestate in one shard, ascending by key.
type prestatePairs []state.Change

func (p prestatePairs) at(key []byte) (int, bool) {
	return slices.BinarySearchFunc(p, key, func(c state.Change, key []byte) int { return bytes.Compare(c.Key, key) })
}

func (p prestatePairs) get(key []byte) ([]byte, error) {
	if i, found := p.at(key); found {
		return p[i].Value, nil
	}
	return nil, nil
}

func (p prestatePairs) scan(from, to []byte, yield func(key, value []byte) bool) error {
	for i, _ := p.at(from); i < len(p) && (to == nil || bytes.Compare(p[i].Key, to) < 0); i++ {
		if !yield(p[i].Key, p[i].Value) {
			return nil
		}
	}
	return nil
}

// prestateShard converts the noted keys of one shard into records and entries.
type prestateShard struct {
	values historicalValues
	chain  string
	into   *view.Case
	pairs  prestatePairs
}

// all adds the given keys, which must be in ascending order.
func (t *prestateShard) all(keys []string) error {
	for _, k := range keys {
		if err := t.one([]byte(k)); err != nil {
			return err
		}
	}
	slices.SortStableFunc(t.pairs, func(a, b state.Change) int { return bytes.Compare(a.Key, b.Key) })
	return nil
}

func (t *prestateShard) one(key []byte) error {
	value, err := t.values.get(key)
	if err != nil {
		return err
	}
	col := primitives.TrieColumn(key[0])
	if value == nil {
		if col == primitives.ColAccount {
			t.into.Absent = append(t.into.Absent, primitives.AccountID(key[1:]))
		}
		return nil
	}
	switch col {
	// Entries of these columns follow from postponed receipts and have no record type.
	case primitives.ColPostponedReceiptID, primitives.ColPendingDataCount:
		t.pairs = append(t.pairs, state.Change{Key: key, Value: value})
		return nil
	}
	if !slices.Contains(recordColumns, col) {
		return nil
	}
	r, err := recordOf(key, value)
	if err != nil {
		return state.Inconsistent("value at %x: %w", key, err)
	}
	t.into.Records = append(t.into.Records, r)
	if a, ok := r.(*genesis.AccountRecord); ok {
		code, err := t.ownCode(a)
		if err != nil {
			return err
		}
		if code != nil {
			value = a.Account.AppendBorsh(nil)
			t.into.Records = append(t.into.Records, &genesis.ContractRecord{AccountID: a.AccountID, Code: code})
			t.pairs = append(t.pairs, state.Change{Key: primitives.AppendCodeKey(nil, a.AccountID), Value: code})
		}
	}
	t.pairs = append(t.pairs, state.Change{Key: key, Value: value})
	return nil
}

// ownCode replaces a global contract in an account record by a local contract with the same code,
// because global code has no record. ownCode returns the code; nil: the account uses no global
// contract.
func (t *prestateShard) ownCode(r *genesis.AccountRecord) ([]byte, error) {
	c := &r.Account.Contract
	if _, global := c.GlobalID(); !global {
		return nil, nil
	}
	hash, key, err := action.ContractOf(state.NewUnrecorded(&historicalTrie{base: t.values}), t.chain, r.AccountID, c)
	if err != nil {
		return nil, err
	}
	code, err := t.values.get(key)
	if code != nil {
		*c = primitives.AccountContract{Kind: primitives.ContractLocal, Hash: hash}
	}
	return code, err
}
