package engine

import (
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// ChainSpec is what the engine needs from a genesis. It is read-only.
type ChainSpec struct {
	ID             string
	Version        parameters.Version // of the genesis
	Height         primitives.Height
	Time           uint64 // ns since 1970
	GasLimit       primitives.Gas
	MinGasPrice    primitives.Balance
	MaxGasPrice    primitives.Balance
	Adjustment     epoch.Ratio // gas_price_adjustment_rate
	TotalSupply    primitives.Balance
	ValidityPeriod primitives.Height // transaction_validity_period, in blocks
	Treasury       primitives.AccountID
	Params         *epoch.GenesisParams
	Configs        *epoch.Configs
	// Load reads the genesis state. It is called once, when the chain starts.
	Load func() (*GenesisState, error)
}
