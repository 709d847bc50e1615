package workload

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Rules are genesis values of a chain. For a zero field, neard's localnet value is used.
type Rules struct {
	EpochLength uint64         // length of an epoch in blocks
	GasLimit    primitives.Gas // gas limit of a chunk
	Validity    uint64         // validity period of transactions, in blocks
	Balance     primitives.Balance
	Splitting   *Splitting // nil: the shard layout never changes
	// Release is the protocol version of the genesis, in the numbering of the releases. 0: the
	// newest.
	Release primitives.ProtocolVersion
	// Upgrade is the protocol version up to which the validators vote for upgrades, one version
	// after the other. 0: the chain stays at Release. A transfer to a universal id that was sent
	// before version 87 and is executed at 88 pays less than it costs. So if such a transfer is
	// delayed until 88, the tokens of the chain do not add up.
	Upgrade primitives.ProtocolVersion
}

// DefaultBalance is the balance of each account in the genesis.
var DefaultBalance = primitives.NEAR(1_000_000)

// Genesis returns the genesis config of the chain, which excludes the records.
func Genesis(o Options, r Rules) (*genesis.Config, error) {
	g, err := genesis.Localnet(genesis.LocalnetOptions{
		ChainID: "workload", Time: 1_700_000_000_000_000_000, Accounts: []primitives.AccountID{Validator}, Validators: 1, Shards: 1,
		Protocol: parameters.Newest(primitives.NumberingRelease),
	})
	if err != nil {
		return nil, err
	}
	c := &g.Config
	if c.ShardLayout, err = Layout(o.Shards); err != nil {
		return nil, err
	}
	c.NumBlockProducerSeats = 10
	c.Validators[0].PublicKey = StakeKey(Validator).PublicKey()
	if r.Release != 0 {
		c.ProtocolVersion = r.Release
	}
	if r.Splitting != nil {
		c.ProtocolVersion = splittingSince - 1
	}
	set(&c.EpochLength, r.EpochLength)
	set(&c.GasLimit, r.GasLimit)
	set(&c.TransactionValidityPeriod, r.Validity)
	sum, ok := r.balance().Mul64(uint64(o.Accounts + len(o.Names)))
	if ok {
		c.TotalSupply, ok = c.TotalSupply.Add(sum)
	}
	if !ok {
		return nil, fmt.Errorf("workload: add up the balances of %d accounts: %w", o.Accounts, primitives.ErrOverflow)
	}
	return c, nil
}

func set[T uint64 | primitives.Gas](at *T, v T) {
	if v != 0 {
		*at = v
	}
}

func (r *Rules) balance() primitives.Balance {
	if r.Balance.IsZero() {
		return DefaultBalance
	}
	return r.Balance
}

// Records writes the records of the genesis as JSON: the validator, the treasury, and each account
// with its key.
func Records(w io.Writer, o Options, r Rules) error {
	g, err := genesis.Localnet(genesis.LocalnetOptions{Accounts: []primitives.AccountID{Validator}, Validators: 1, Shards: 1})
	if err != nil {
		return err
	}
	keys := NewGenerator(Options{Accounts: 1, Shards: 1, OneKey: o.OneKey})
	out := bufio.NewWriterSize(w, 1<<16) // Flush returns the error of a failed write
	buf := []byte{'['}
	for i, rec := range g.Records {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = genesis.AppendRecord(buf, rec)
	}
	account := genesis.AccountRecord{Account: primitives.Account{Version: primitives.AccountV1, Amount: r.balance()}}
	for i := range o.Accounts + len(o.Names) {
		if account.AccountID = Account(i); i >= o.Accounts {
			account.AccountID = o.Names[i-o.Accounts]
		}
		buf = genesis.AppendRecord(append(buf, ','), &account)
		key := genesis.AccessKeyRecord{AccountID: account.AccountID, PublicKey: keys.Key(account.AccountID).PublicKey().Handle()}
		buf = genesis.AppendRecord(append(buf, ','), &key)
		_, _ = out.Write(buf)
		buf = buf[:0]
	}
	_, _ = out.Write(append(buf, ']'))
	return out.Flush()
}

// NewChain returns the chain spec of the genesis.
func NewChain(o Options, r Rules) (*engine.ChainSpec, error) {
	c, err := Genesis(o, r)
	if err != nil {
		return nil, err
	}
	configs, err := r.epochConfigs(c)
	if err != nil {
		return nil, err
	}
	return engine.NewChain(c, primitives.NumberingRelease, configs, func() (io.ReadCloser, error) {
		in, out := io.Pipe()
		go func() { _ = out.CloseWithError(Records(out, o, r)) }() // an error means that the reader was closed early
		return in, nil
	})
}

// GenesisHash returns a hash of the options that determine the genesis. It is for the identity of a
// store.
func GenesisHash(o Options, r Rules) (primitives.Hash, error) {
	c, err := Genesis(o, r)
	if err != nil {
		return primitives.Hash{}, err
	}
	var b bytes.Buffer
	b.Write(genesis.AppendConfig(nil, c))
	fmt.Fprintf(&b, "%d %v%q", o.Accounts, o.OneKey, o.Names)
	return primitives.HashBytes(b.Bytes()), nil
}
