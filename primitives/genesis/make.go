package genesis

import "github.com/troupe-chain/troupe/primitives"

// Values of neard's own genesis files (nearcore core/chain-configs/src/lib.rs).
const (
	initSeats       = 50
	initEpochLength = 500
	fastEpochLength = 60
	initBalance     = 1_000_000_000 // balance of an account beside its stake, in NEAR
	initStake       = 50_000_000    // stake of a validator, in NEAR
	treasury        = "near"
)

// InitOptions are the options of `neard init`.
type InitOptions struct {
	ChainID   string
	Time      Time
	Validator primitives.AccountID // also the treasury
	Key       primitives.PublicKey // key of the validator and of its account
	Shards    int                  // at least 1
	Fast      bool                 // epochs of 60 blocks instead of 500
	Protocol  primitives.ProtocolVersion
}

// Init returns the genesis that `neard init` makes: the validator with 10^9 NEAR beside its stake,
// and the account "near", whose key has the seed "near".
func Init(o InitOptions) (*Genesis, error) {
	layout, err := primitives.MultiShardLayout(max(o.Shards, 1))
	if err != nil {
		return nil, err
	}
	g := &Genesis{Config: common(o.ChainID, o.Time, o.Protocol)}
	c := &g.Config
	c.NumBlockProducerSeats = initSeats
	c.EpochLength = initEpochLength
	if o.Fast {
		c.EpochLength = fastEpochLength
	}
	c.ShardLayout = layout
	c.ProtocolTreasuryAccount = o.Validator
	c.Validators = []Validator{{AccountID: o.Validator, PublicKey: o.Key, Amount: primitives.NEAR(initStake)}}
	g.addAccount(o.Validator, o.Key, primitives.NEAR(initBalance), primitives.NEAR(initStake))
	g.addTreasury()
	return g, nil
}

// LocalnetOptions are the options of `neard localnet`.
type LocalnetOptions struct {
	ChainID    string
	Time       Time
	Accounts   []primitives.AccountID // the seed of each account's key is the account's name
	Validators int                    // number of validators: the first of Accounts
	Shards     int                    // at least 1
	Protocol   primitives.ProtocolVersion
}

// Localnet returns the genesis that `neard localnet` makes. Each account has 10^9 NEAR, of which a
// validator stakes 50 million. The account "near" is the treasury.
func Localnet(o LocalnetOptions) (*Genesis, error) {
	layout, err := primitives.MultiShardLayout(max(o.Shards, 1))
	if err != nil {
		return nil, err
	}
	g := &Genesis{Config: common(o.ChainID, o.Time, o.Protocol)}
	c := &g.Config
	c.NumBlockProducerSeats = uint64(o.Validators)
	c.EpochLength = fastEpochLength
	c.ShardLayout = layout
	c.ProtocolTreasuryAccount = treasury
	c.Validators = []Validator{}
	for i, id := range o.Accounts {
		key := primitives.TestKey(id).PublicKey()
		free, stake := primitives.NEAR(initBalance), primitives.Balance{}
		if i < o.Validators {
			free, stake = primitives.NEAR(initBalance-initStake), primitives.NEAR(initStake)
			c.Validators = append(c.Validators, Validator{AccountID: id, PublicKey: key, Amount: stake})
		}
		g.addAccount(id, key, free, stake)
	}
	g.addTreasury()
	return g, nil
}

// common returns the configuration that Init and Localnet share.
func common(chainID string, at Time, protocol primitives.ProtocolVersion) Config {
	c := Config{
		ProtocolVersion:               protocol,
		GenesisTime:                   at,
		ChainID:                       chainID,
		GasLimit:                      1_000_000_000_000_000,
		MinGasPrice:                   primitives.Yocto(100_000_000),
		MaxGasPrice:                   primitives.MustParseBalance("10000000000000000000000"),
		BlockProducerKickoutThreshold: 90,
		ChunkProducerKickoutThreshold: 90,
		GasPriceAdjustmentRate:        Ratio{1, 100},
		TransactionValidityPeriod:     100,
		ProtocolRewardRate:            Ratio{1, 10},
		MaxInflationRate:              Ratio{1, 20},
		NumBlocksPerYear:              31_536_000,
		FishermenThreshold:            primitives.NEAR(10),
	}
	for _, f := range configFields {
		if f.def != nil {
			f.def(&c)
		}
	}
	return c
}

// addAccount adds an account with a full access key, and its balance to the supply.
func (g *Genesis) addAccount(id primitives.AccountID, key primitives.PublicKey, free, stake primitives.Balance) {
	account := primitives.Account{Version: primitives.AccountV1, Amount: free, Locked: stake}
	g.Records = append(g.Records, &AccountRecord{AccountID: id, Account: account},
		&AccessKeyRecord{AccountID: id, PublicKey: key.Handle()})
	// Some hundred accounts of 10^33 are far below 2^128; a sum that saturates is refused by
	// Validate.
	g.Config.TotalSupply = g.Config.TotalSupply.SaturatingAdd(free.SaturatingAdd(stake))
}

func (g *Genesis) addTreasury() {
	g.addAccount(treasury, primitives.TestKey(treasury).PublicKey(), primitives.NEAR(initBalance), primitives.Balance{})
}
