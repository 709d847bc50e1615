package genesis

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
)

// maxProblems bounds the problems that an InvalidError lists; the rest is counted.
const maxProblems = 100

// InvalidError lists the semantic errors of a genesis.
type InvalidError struct {
	Problems []string
	More     int // problems that are not listed
}

func (e *InvalidError) Error() string {
	text := "invalid genesis: " + strings.Join(e.Problems, "; ")
	if e.More > 0 {
		text += fmt.Sprintf("; and %d more", e.More)
	}
	return text
}

// Checker validates a genesis (nearcore genesis_validate.rs). It takes the records one at a time
// and remembers the names of all accounts, some hundred bytes each. Not safe for concurrent use.
type Checker struct {
	config   *Config
	supply   primitives.Balance
	overflow bool
	accounts map[primitives.AccountID]accountFlags
	staked   map[primitives.AccountID]primitives.Balance
	err      InvalidError
}

// accountFlags are the records that an account has.
type accountFlags byte

const (
	hasAccount accountFlags = 1 << iota
	hasKey
	hasContract
	hasData // the account has contract data, or nonces of a gas key
	isUninitialized
)

// NewChecker returns a Checker of a genesis with this configuration.
func NewChecker(c *Config) *Checker {
	return &Checker{
		config: c, accounts: map[primitives.AccountID]accountFlags{}, staked: map[primitives.AccountID]primitives.Balance{},
	}
}

func (k *Checker) problem(format string, args ...any) {
	if len(k.err.Problems) == maxProblems {
		k.err.More++
		return
	}
	k.err.Problems = append(k.err.Problems, fmt.Sprintf(format, args...))
}

// note sets a flag of an account and returns whether it was set before.
func (k *Checker) note(id primitives.AccountID, f accountFlags) bool {
	old := k.accounts[id]
	if old&f == 0 {
		k.accounts[id] = old | f
	}
	return old&f != 0
}

// Record checks the next record.
func (k *Checker) Record(r Record) {
	switch r := r.(type) {
	case *AccountRecord:
		if k.note(r.AccountID, hasAccount) {
			k.problem("duplicate account id %s in genesis records", r.AccountID)
		}
		// Only a genesis made from a dumped state may have an uninitialized account.
		if !r.Account.IsInitialized() {
			k.note(r.AccountID, isUninitialized)
		}
		sum, ok := r.Account.Amount.Add(r.Account.Locked)
		total, ok2 := k.supply.Add(sum)
		k.supply, k.overflow = total, k.overflow || !ok || !ok2
		if !r.Account.Locked.IsZero() {
			k.staked[r.AccountID] = r.Account.Locked
		}
	case *AccessKeyRecord:
		k.note(r.AccountID, hasKey)
	case *ContractRecord:
		if k.note(r.AccountID, hasContract) {
			k.problem("account %s has more than one contract deployed", r.AccountID)
		}
	case *DataRecord, *GasKeyNonceRecord:
		k.note(r.Owner(), hasData)
	case *PostponedReceiptRecord, *DelayedReceiptRecord, *ReceivedDataRecord: // nothing to check
	case *Removal:
		k.problem("record %s of %s removes what is not there", r.recordName(), r.Owner())
	case *ForkRecord:
		k.problem("record %s of %s is of a patch", r.recordName(), r.Owner())
	default:
		panic(fmt.Sprintf("genesis: no case for %T", r))
	}
}

// uninitialized checks an uninitialized account, which has no keys, code or data until its state
// init.
func (k *Checker) uninitialized(id primitives.AccountID, f accountFlags) {
	if f&hasKey != 0 {
		k.problem("uninitialized account %s must not have an access key", id)
	}
	if f&hasContract != 0 {
		k.problem("uninitialized account %s must not have code", id)
	}
	if f&hasData != 0 {
		k.problem("uninitialized account %s must not have data", id)
	}
}

// Finish returns an *InvalidError unless configuration and records are valid.
func (k *Checker) Finish() error {
	c := k.config
	validators := map[primitives.AccountID]primitives.Balance{}
	for _, v := range c.Validators {
		if !v.PublicKey.IsValidStakingKey() {
			k.problem("validator staking key of %s is not valid", v.AccountID)
		}
		if _, twice := validators[v.AccountID]; twice {
			k.problem("duplicate account %s in validators", v.AccountID)
		}
		validators[v.AccountID] = v.Amount
	}
	if len(c.Validators) == 0 {
		k.problem("no validators in genesis")
	}
	switch {
	case k.overflow:
		k.problem("the sum of all balances overflows")
	case k.supply != c.TotalSupply:
		k.problem("wrong total supply: the records hold %v, total_supply is %v", k.supply, c.TotalSupply)
	}
	if !maps.Equal(validators, k.staked) {
		k.problem("validator accounts do not match staked accounts")
	}
	for _, id := range slices.Sorted(maps.Keys(k.accounts)) {
		f := k.accounts[id]
		if f&isUninitialized != 0 {
			k.uninitialized(id, f)
		}
		if f&hasAccount != 0 {
			continue
		}
		if f&hasKey != 0 {
			k.problem("access key account %s does not exist", id)
		}
		if f&hasContract != 0 {
			k.problem("contract account %s does not exist", id)
		}
	}
	if k.accounts[c.ProtocolTreasuryAccount]&hasAccount == 0 {
		k.problem("protocol treasury account %s does not exist", c.ProtocolTreasuryAccount)
	}
	k.thresholds()
	if len(k.err.Problems) > 0 {
		return &k.err
	}
	return nil
}

// ratioPartLimit keeps products of the thresholds' parts from overflowing.
const ratioPartLimit = 10_000_000

func (k *Checker) thresholds() {
	c, one := k.config, Ratio{1, 1}
	lo, hi := c.OnlineMinThreshold, c.OnlineMaxThreshold
	if hi.Cmp(lo) <= 0 {
		k.problem("online_max_threshold %v is not above online_min_threshold %v", hi, lo)
	}
	if hi.Cmp(one) > 0 {
		k.problem("online_max_threshold %v is above 1", hi)
	}
	if max(lo.Num, lo.Den, hi.Num, hi.Den) >= ratioPartLimit {
		k.problem("the parts of online_min_threshold and online_max_threshold must be below %d", ratioPartLimit)
	}
	if c.GasPriceAdjustmentRate.Cmp(one) >= 0 {
		k.problem("gas_price_adjustment_rate %v is not below 1", c.GasPriceAdjustmentRate)
	}
	if c.EpochLength == 0 {
		k.problem("epoch_length is 0")
	}
}

// Validate validates a whole genesis.
func (g *Genesis) Validate() error {
	k := NewChecker(&g.Config)
	for _, r := range g.Records {
		k.Record(r)
	}
	return k.Finish()
}
