package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/apply"
	"github.com/troupe-chain/troupe/runtime/fees"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/verify"
	"github.com/troupe-chain/troupe/storage"
)

// ErrPatch means that records cannot be written into the state.
var ErrPatch = errors.New("engine: the records cannot be written into the state")

// pendingPatch is the patch (records and mocks) for a block that this engine has produced but has
// not imported yet.
type pendingPatch struct {
	block   primitives.Hash
	records []genesis.Record
	mocks   *primitives.Mocks
}

// takePatch removes and returns the pending patch if the patch is for this block. Otherwise it
// returns nil.
func (e *Engine) takePatch(block primitives.Hash) ([]genesis.Record, *primitives.Mocks) {
	p := e.patch
	if p.block != block {
		return nil, nil
	}
	e.patch = pendingPatch{}
	return p.records, p.mocks
}

// mockedPatch is the stored form of a patch with mocks. A patch without mocks is stored as the
// array of records.
type mockedPatch struct {
	Mocks   *primitives.Mocks `json:"mocks"`
	Records json.RawMessage   `json:"records"`
}

// appendPatch encodes a patch for the store. It returns nil if there is nothing to store.
func appendPatch(records []genesis.Record, mocks *primitives.Mocks) ([]byte, error) {
	switch {
	case mocks.Any():
		return json.Marshal(mockedPatch{mocks, genesis.AppendRecords(nil, records)})
	case len(records) > 0:
		return genesis.AppendRecords(nil, records), nil
	}
	return nil, nil
}

// parsePatch decodes a patch that appendPatch has encoded.
func parsePatch(raw []byte) (records []genesis.Record, mocks *primitives.Mocks, err error) {
	var m mockedPatch
	if raw[0] == '{' {
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, nil, err
		}
		raw = m.Records
	}
	records, err = genesis.ParsePatch(raw)
	return records, m.Mocks, err
}

// patchedRow is the name of the row that stores the result of LastPatched.
const patchedRow = "last_patched_block"

// savePatched adds the row for LastPatched to the batch. ref is a block with a patch or mocks.
func savePatched(b *storage.Batch, ref storage.BlockRef) {
	row := storage.Raw(borsh.AppendUint64(slices.Clone(ref.Hash[:]), uint64(ref.Height)))
	storage.Misc.Put(b, patchedRow, &row)
}

// LastPatched returns the last block whose result depends on a patch or on mocks. Only the node
// that produced such a block can execute it. found is false if there is no such block, or if the
// data folder is older than the row that records it.
func (e *Engine) LastPatched() (ref storage.BlockRef, found bool, err error) {
	row, err := storage.Misc.Get(e.store.Reader(), patchedRow)
	if err != nil {
		return ref, false, absent(err)
	}
	r := borsh.NewReader(row)
	ref.Hash, ref.Height = primitives.ReadHash(r), primitives.Height(r.Uint64())
	return ref, true, r.Close()
}

// storedPatch returns the patch of a block on disk. It returns nil if the block has no patch.
func (e *Engine) storedPatch(block primitives.Hash) ([]genesis.Record, *primitives.Mocks, error) {
	rec, err := e.store.BlockByHash(block)
	if err != nil {
		// Not an error if the block is not on disk yet, because no caller needs its patch then.
		return nil, nil, absent(err)
	}
	raw, err := rec.Patch()
	if err != nil || len(raw) == 0 {
		return nil, nil, err
	}
	return parsePatch(raw)
}

// patchFor returns those records of a patch whose owner is in the shard.
func patchFor(all []genesis.Record, layout primitives.ShardLayout, shard primitives.ShardID) (out []genesis.Record) {
	for _, r := range all {
		if layout.ShardOf(r.Owner()) == shard {
			out = append(out, r)
		}
	}
	return out
}

// CheckPatch checks whether a sandbox can write records, in the given order, into the head's state.
// CheckPatch returns ErrPatch for records that would make the state inconsistent, or that would
// make a chunk after the patch fail. coming returns whether a patch that is not in a block yet
// creates an account. A nil coming means that there is no such patch. Safe for concurrent use.
func (e *Engine) CheckPatch(records []genesis.Record, coming func(primitives.AccountID) bool) error {
	head, err := e.acquireHead()
	if err != nil {
		return err
	}
	defer head.Release()
	next, err := e.rulesAfter(head)
	if err != nil {
		return err
	}
	c := patchCheck{
		head:       head,
		rules:      next,
		base:       e.o.Base,
		validators: e.initial,
		treasury:   e.chain.Treasury,
		accounts:   map[primitives.AccountID]*primitives.Account{},
		made:       madeBy(records),
		coming:     coming,
		data:       map[dataOf]bool{},
		waiting:    map[dataOf]bool{},
	}
	for i, r := range records {
		if err := c.record(r); err != nil {
			if errors.Is(err, errRefused) {
				return fmt.Errorf("%w: record %d of account %s: %w", ErrPatch, i, r.Owner(), err)
			}
			return err
		}
	}
	return nil
}

// initial returns whether an account is a validator in the genesis. On a fork, such an account
// exists only on the fork.
func (e *Engine) initial(id primitives.AccountID) bool {
	return slices.ContainsFunc(
		e.chain.Params.Validators,
		func(v primitives.ValidatorStake) bool { return v.AccountID == id },
	)
}

var errRefused = errors.New("the record is invalid")

func refused(format string, args ...any) error { return refusal{fmt.Sprintf(format, args...)} }

// refusal is the reason why CheckPatch refuses a record. A refusal matches errRefused.
type refusal struct{ text string }

func (r refusal) Error() string   { return r.text }
func (r refusal) Is(e error) bool { return e == errRefused }

// Limits of a patch. The limits are far above the values of any real chain, and far below an
// overflow: even thousands of patches cannot cause an overflow. If a sum overflowed, the chunk
// could not be applied. In an account's encoding the greatest possible balance marks the version,
// so a patch must never set that balance.
var (
	maxPatchBalance = primitives.Balance{Hi: 1 << 52} // 2^116 yoctoNEAR, which are 83 billion NEAR
	maxPatchPrice   = primitives.Balance{Hi: 1}       // 2^64 yoctoNEAR for a unit of gas
)

const maxPatchUsage = 1 << 48 // maximum storage usage of an account in bytes

type dataOf struct {
	account primitives.AccountID
	id      primitives.Hash
}

// patchCheck is the state of a CheckPatch: the head's state with the effects of the records that
// were checked so far.
type patchCheck struct {
	head       *BlockNode
	rules      *nextRules
	base       RemoteState
	treasury   primitives.AccountID
	validators func(primitives.AccountID) bool              // returns whether an account is a genesis validator
	accounts   map[primitives.AccountID]*primitives.Account // accounts that the records so far changed; nil: removed
	made       map[primitives.AccountID]made                // effect of all records of the patch, by account
	// coming returns whether a patch that is not in a block yet creates the account. nil: there is
	// no such patch.
	coming func(primitives.AccountID) bool
	data   map[dataOf]bool // received data in the records so far
	// waiting has the ids of postponed receipts in the records so far, and of the data that these
	// receipts wait for.
	waiting map[dataOf]bool
}

func (c *patchCheck) state(id primitives.AccountID) (*state.TrieUpdate, error) {
	i, err := c.head.Layout.Index(c.head.Layout.ShardOf(id))
	if err != nil {
		return nil, err
	}
	return state.NewUnrecorded(c.head.trieOf(i)), nil
}

// account returns an account as it is after the records that were checked so far. It returns nil if
// the account does not exist after these records.
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

// made is the effect of a whole patch on an account.
type made struct {
	account bool // the account exists after the patch, or comes from the remote chain
	waits   bool // the patch has a postponed receipt for the account
}

func madeBy(records []genesis.Record) map[primitives.AccountID]made {
	out := map[primitives.AccountID]made{}
	for _, r := range records {
		m := out[r.Owner()]
		switch r := r.(type) {
		case *genesis.AccountRecord, *genesis.ForkRecord:
			m.account = true
		case *genesis.PostponedReceiptRecord:
			m.waits = true
		case *genesis.Removal:
			if _, ok := r.Of.(*genesis.AccountRecord); ok {
				m.account = false
			}
		case *genesis.DataRecord, *genesis.ContractRecord, *genesis.AccessKeyRecord, *genesis.GasKeyNonceRecord,
			*genesis.ReceivedDataRecord,
			*genesis.DelayedReceiptRecord:
			continue
		}
		out[r.Owner()] = m
	}
	return out
}

// belongs refuses a record if its account neither exists nor is created by the patch, before or
// after the record. what names the kind of record in the error text.
func (c *patchCheck) belongs(r genesis.Record, what string) error {
	id := r.Owner()
	if a := c.accounts[id]; a != nil && !a.IsInitialized() {
		return refused("the account is uninitialized and can have no %s", what)
	}
	if c.made[id].account {
		return nil
	}
	a, err := c.account(id)
	switch {
	case err != nil && c.base != nil: // the remote node does not answer; the patched block will wait for the answer
		return nil
	case err == nil && a == nil && c.coming != nil && c.coming(id):
		return nil
	case err == nil && a == nil:
		return refused("the account does not exist, so it can have no %s; add its Account record to the patch", what)
	case err == nil && !a.IsInitialized():
		return refused("the account is uninitialized and can have no %s", what)
	}
	return err
}

func (c *patchCheck) record(r genesis.Record) error {
	if r.Owner() == primitives.SystemAccount {
		return refused("the account %s has no state", r.Owner())
	}
	limits := &c.rules.config.Wasm.Limits
	switch r := r.(type) {
	case *genesis.AccountRecord:
		sum, ok := r.Account.Amount.Add(r.Account.Locked)
		switch {
		case !ok || maxPatchBalance.Less(sum):
			return refused("amount and locked add up to more than the limit, %v yoctoNEAR", maxPatchBalance)
		case r.Account.StorageUsage > maxPatchUsage:
			return refused("storage_usage is above the limit, %d", uint64(maxPatchUsage))
		}
		if !r.Account.IsInitialized() {
			old, err := c.account(r.AccountID)
			if err != nil {
				return err
			}
			if old != nil && old.IsInitialized() {
				return refused("the account is initialized and cannot become uninitialized; remove the account first")
			}
		}
		c.accounts[r.AccountID] = &r.Account
	case *genesis.DataRecord:
		if n := uint64(len(r.Key)); n > limits.MaxLengthStorageKey {
			return refused("data_key has %d bytes, the limit of contracts is %d", n, limits.MaxLengthStorageKey)
		}
		if n := uint64(len(r.Value)); n > limits.MaxLengthStorageValue {
			return refused("value has %d bytes, the limit of contracts is %d", n, limits.MaxLengthStorageValue)
		}
		return c.belongs(r, "data")
	case *genesis.ContractRecord:
		if n := uint64(len(r.Code)); n > limits.MaxContractSize {
			return refused("code has %d bytes, the limit is %d", n, limits.MaxContractSize)
		}
		if a, err := c.account(r.AccountID); err != nil {
			return err
		} else if a == nil {
			return refused("the account does not exist, so it can have no code; put its Account record before this record")
		} else if !a.IsInitialized() {
			return refused("the account is uninitialized and can have no code")
		}
	case *genesis.ReceivedDataRecord:
		c.data[dataOf{r.AccountID, r.DataID}] = true
		if !c.made[r.AccountID].waits { // no account is needed if a receipt in the patch waits for the data
			return c.belongs(r, "data that came")
		}
	case *genesis.PostponedReceiptRecord:
		return c.postponed(r.Receipt)
	case *genesis.DelayedReceiptRecord:
		return c.delayed(r.Receipt)
	case *genesis.AccessKeyRecord:
		k := r.AccessKey.GasKey
		switch {
		case k == nil:
		case k.NumNonces == 0 || k.NumNonces > verify.MaxNoncesForGasKey:
			return refused("the gas key has %d nonces, must have 1 to %d", k.NumNonces, verify.MaxNoncesForGasKey)
		case maxPatchBalance.Less(k.Balance):
			return refused("the gas key's balance is above the limit, %v yoctoNEAR", maxPatchBalance)
		}
		return c.belongs(r, "keys")
	case *genesis.GasKeyNonceRecord:
		return c.belongs(r, "keys")
	case *genesis.ForkRecord:
		return c.fork(r)
	case *genesis.Removal:
		of, ok := r.Of.(*genesis.AccountRecord)
		if !ok {
			return nil
		}
		a, err := c.account(of.AccountID)
		if err != nil {
			return err
		}
		switch {
		case of.AccountID == c.treasury:
			return refused("the account is the protocol's treasury, which each epoch pays, and cannot be removed")
		case a != nil && !a.Locked.IsZero():
			return refused("the account has %v yoctoNEAR locked as stake, and cannot be removed", a.Locked)
		}
		c.accounts[of.AccountID] = nil
	default:
		panic(fmt.Sprintf("engine: no case for %T", r))
	}
	return nil
}

// fork checks a record that changes the remote block from which an account's state is inherited.
// fork refuses such a record for validators and the treasury, because each new epoch needs the
// fork's own state of their accounts.
func (c *patchCheck) fork(r *genesis.ForkRecord) error {
	if c.base == nil {
		return refused("this chain is not a fork of another chain")
	}
	if c.validators(r.AccountID) || r.AccountID == c.treasury {
		return refused("the account produces the blocks of this fork, so its state cannot come from the forked chain")
	}
	delete(c.accounts, r.AccountID)
	return nil
}

// receipt checks the conditions that apply to every receipt.
func (c *patchCheck) receipt(r *primitives.Receipt) error {
	if e := verify.Receipt(c.rules.config, r, verify.ExistingReceipt); e != nil {
		return refused("the receipt is not valid: %v", e)
	}
	a, ok := r.Body.(*primitives.ActionReceipt)
	if !ok {
		return nil
	}
	sum, err := fees.TotalDeposit(a.Actions)
	switch {
	case err != nil || maxPatchBalance.Less(sum):
		return refused("the receipt's deposits are above the limit, %v yoctoNEAR", maxPatchBalance)
	case maxPatchPrice.Less(a.GasPrice):
		return refused("the receipt's gas_price is above the limit, %v yoctoNEAR", maxPatchPrice)
	}
	return nil
}

// delayed checks a delayed receipt. The receipt must not have inputs, because the receipt could
// consume data for which a second receipt waits.
func (c *patchCheck) delayed(r *primitives.Receipt) error {
	switch a := r.Body.(type) {
	case *primitives.ActionReceipt:
		if a.Yield || len(a.InputDataIDs) > 0 {
			return refused("a delayed receipt must have no inputs; a receipt that waits for inputs is a postponed receipt")
		}
	case *primitives.GlobalContractDistribution:
		return refused("only the runtime may make a receipt that distributes a global contract")
	case *primitives.DataReceipt: // allowed: the data waits in the state for the receipt that consumes it
	}
	return c.receipt(r)
}

// postponed checks a postponed receipt.
func (c *patchCheck) postponed(r *primitives.Receipt) error {
	if err := c.receipt(r); err != nil {
		return err
	}
	a, ok := r.Body.(*primitives.ActionReceipt)
	if !ok {
		return refused("a postponed receipt must have actions")
	}
	if a.Yield && len(a.InputDataIDs) != 1 {
		return refused("the promise yield has %d inputs, must have 1", len(a.InputDataIDs))
	}
	u, err := c.state(r.ReceiverID)
	if err != nil {
		return err
	}
	// The record changes nothing, because the state has the receipt already.
	if there, err := apply.Waits(u, r); there || err != nil {
		return err
	}
	may, err := apply.MayWait(u, r)
	if err != nil {
		return err
	}
	ids := append([]primitives.Hash{r.ID}, a.InputDataIDs...)
	for i, id := range ids {
		of := dataOf{r.ReceiverID, id}
		may = may && !c.waiting[of] && (i == 0 || !c.data[of])
		c.waiting[of] = true
	}
	if !may {
		return refused("a postponed receipt must wait for inputs that have not arrived, for each input once, and for none " +
			"that another receipt waits for")
	}
	return nil
}
