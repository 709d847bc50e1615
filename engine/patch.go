package engine

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/verify"
)

// ErrPatch says why records can't be written into the state.
var ErrPatch = errors.New("engine: patch")

// patchOf is a patch that goes with a block.
type patchOf struct {
	block   primitives.Hash
	records []genesis.Record
}

// takePatch returns the patch of a block that this engine has just made, once.
func (e *Engine) takePatch(block primitives.Hash) []genesis.Record {
	p := e.patch
	if p.block != block {
		return nil
	}
	e.patch = patchOf{}
	return p.records
}

// storedPatch returns the patch of a block on disk.
func (e *Engine) storedPatch(block primitives.Hash) ([]genesis.Record, error) {
	rec, err := e.store.BlockByHash(block)
	if err != nil {
		return nil, absent(err) // not there yet: a block that is on its way has no patch that anybody asks for
	}
	raw, err := rec.Patch()
	if err != nil || raw == nil {
		return nil, err
	}
	return genesis.ParsePatch(raw)
}

// patchFor returns what of a patch is for a shard.
func patchFor(all []genesis.Record, layout primitives.ShardLayout, shard primitives.ShardID) (out []genesis.Record) {
	for _, r := range all {
		if layout.ShardOf(r.Owner()) == shard {
			out = append(out, r)
		}
	}
	return out
}

// CheckPatch judges records that a sandbox is to write into the state, by the state of the head and in their order: what would leave
// a state that contradicts itself, or that a chunk could not be applied to, is refused. ErrPatch. Safe from any goroutine.
func (e *Engine) CheckPatch(records []genesis.Record) error {
	head := e.acquireHead()
	defer head.Release()
	next, err := e.rulesBehind(head)
	if err != nil {
		return err
	}
	c := patchCheck{head: head, rules: next, accounts: map[primitives.AccountID]*primitives.Account{}, data: map[dataOf]bool{}}
	for i, r := range records {
		if err := c.record(r); err != nil {
			if errors.Is(err, errRefused) {
				return fmt.Errorf("%w: record %d, of %s: %w", ErrPatch, i, r.Owner(), err)
			}
			return err
		}
	}
	return nil
}

var errRefused = errors.New("refused")

func refused(format string, args ...any) error { return refusal{fmt.Sprintf(format, args...)} }

// refusal is an errRefused with a text of its own.
type refusal struct{ text string }

func (r refusal) Error() string   { return r.text }
func (r refusal) Is(e error) bool { return e == errRefused }

type dataOf struct {
	account primitives.AccountID
	id      primitives.Hash
}

// patchCheck is what the records so far have made of the head's state.
type patchCheck struct {
	head     *Entry
	rules    *rules
	accounts map[primitives.AccountID]*primitives.Account // nil: gone
	data     map[dataOf]bool
}

func (c *patchCheck) state(id primitives.AccountID) (*state.TrieUpdate, error) {
	i, err := c.head.Layout.Index(c.head.Layout.ShardOf(id))
	if err != nil {
		return nil, err
	}
	return state.NewUnrecorded(c.head.trieOf(i)), nil
}

// account returns an account as it is by now; nil: there is none.
func (c *patchCheck) account(id primitives.AccountID) (*primitives.Account, error) {
	if a, known := c.accounts[id]; known {
		return a, nil
	}
	u, err := c.state(id)
	if err != nil {
		return nil, err
	}
	a := new(primitives.Account)
	if found, err := u.Account(id, a); !found || err != nil {
		return nil, err
	}
	return a, nil
}

func (c *patchCheck) record(r genesis.Record) error {
	if r.Owner() == primitives.SystemAccount {
		return refused("the account %s has no state", r.Owner())
	}
	limits := &c.rules.config.Wasm.Limits
	switch r := r.(type) {
	case *genesis.AccountRecord:
		if _, ok := r.Account.Amount.Add(r.Account.Locked); !ok {
			return refused("amount and locked overflow")
		}
		c.accounts[r.AccountID] = &r.Account
	case *genesis.DataRecord:
		if n := uint64(len(r.Key)); n > limits.MaxLengthStorageKey {
			return refused("data_key has %d bytes, the limit of contracts is %d", n, limits.MaxLengthStorageKey)
		}
		if n := uint64(len(r.Value)); n > limits.MaxLengthStorageValue {
			return refused("value has %d bytes, the limit of contracts is %d", n, limits.MaxLengthStorageValue)
		}
	case *genesis.ContractRecord:
		if n := uint64(len(r.Code)); n > limits.MaxContractSize {
			return refused("code has %d bytes, the limit is %d", n, limits.MaxContractSize)
		}
		if a, err := c.account(r.AccountID); err != nil {
			return err
		} else if a == nil {
			return refused("there is no such account to have code; its Account record goes first")
		}
	case *genesis.ReceivedDataRecord:
		c.data[dataOf{r.AccountID, r.DataID}] = true
	case *genesis.PostponedReceiptRecord:
		return c.postponed(r.Receipt)
	case *genesis.DelayedReceiptRecord:
		if e := verify.Receipt(c.rules.config, r.Receipt, verify.ExistingReceipt); e != nil {
			return refused("the receipt is not valid: %v", e)
		}
	case *genesis.AccessKeyRecord, *genesis.GasKeyNonceRecord: // nothing depends on them
	case *genesis.Removal:
		of, ok := r.Of.(*genesis.AccountRecord)
		if !ok {
			return nil
		}
		a, err := c.account(of.AccountID)
		if err != nil {
			return err
		}
		if a != nil && !a.Locked.IsZero() {
			return refused("it has %v yoctoNEAR locked, and can't be removed", a.Locked)
		}
		c.accounts[of.AccountID] = nil
	default:
		panic(fmt.Sprintf("engine: no case for %T", r))
	}
	return nil
}

// postponed judges a receipt that is to wait.
func (c *patchCheck) postponed(r *primitives.Receipt) error {
	if e := verify.Receipt(c.rules.config, r, verify.ExistingReceipt); e != nil {
		return refused("the receipt is not valid: %v", e)
	}
	a, ok := r.Body.(*primitives.ActionReceipt)
	if !ok {
		return refused("a postponed receipt has actions")
	}
	if a.Yield {
		if len(a.InputDataIDs) != 1 {
			return refused("a promise yield has one input, this one %d", len(a.InputDataIDs))
		}
		return nil
	}
	u, err := c.state(r.ReceiverID)
	if err != nil {
		return err
	}
	for _, id := range a.InputDataIDs {
		if c.data[dataOf{r.ReceiverID, id}] {
			continue
		}
		if there, err := u.HasReceivedData(r.ReceiverID, id); err != nil {
			return err
		} else if !there {
			return nil
		}
	}
	return refused("a postponed receipt waits for data, and this one has all of it")
}
