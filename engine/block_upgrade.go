package engine

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// ErrUpgradeNeeded means that this program does not support the protocol version of an epoch.
// Options.Warn gets ErrUpgradeNeeded one epoch before that epoch. When the import of a block of
// that epoch returns ErrUpgradeNeeded, VerdictOf counts the error as a fault of this node.
var ErrUpgradeNeeded = errors.New("engine: the network's protocol is newer than this program")

// version returns the runtime configuration of an epoch. It returns ErrUpgradeNeeded if the program
// does not support the epoch's protocol version. The caller holds epochMu.
func (e *Engine) version(id primitives.EpochID) (*parameters.RuntimeConfig, error) {
	pv, err := e.epochs.ProtocolVersion(id)
	if err != nil {
		return nil, err
	}
	if newest := parameters.Newest(e.chain.Version.Numbering); pv > newest {
		return nil, fmt.Errorf("%w: epoch %v has version %d, this program runs versions up to %d: install a newer release: %w",
			ErrUpgradeNeeded, id, pv, newest, parameters.ErrUnsupportedVersion)
	}
	v := parameters.Version{Protocol: pv, Numbering: e.chain.Version.Numbering}
	if v.GenesisOnly() {
		return nil, fmt.Errorf("%w: epoch %v has protocol version %d", ErrGenesisOnly, id, pv)
	}
	return parameters.Get(v)
}

// ErrGenesisOnly means that a chain has no block but its genesis, whose protocol version cannot be
// executed. The chain continues by state sync.
var ErrGenesisOnly = errors.New("engine: the node has only the genesis block so far and has to sync the state of a later block from its peers")

// GenesisOnly returns whether the chain has no block but its genesis, whose protocol version cannot
// be executed (parameters.Version.GenesisOnly). Safe for concurrent use.
func (e *Engine) GenesisOnly() bool {
	return e.chain.Version.GenesisOnly() && e.Head().Header().IsGenesis()
}

// adviseUpgrade calls Options.Warn if this program does not support the protocol version of the
// epoch after head's epoch (nearcore 2.14.0-rc.1 chain/chain/src/chain.rs check_if_upgrade_needed).
// adviseUpgrade ignores any other error: the import of that epoch's first block returns that error.
func (e *Engine) adviseUpgrade(head *primitives.BlockHeader) {
	if e.o.Warn == nil {
		return
	}
	e.epochMu.Lock()
	_, err := e.version(head.NextEpochID)
	e.epochMu.Unlock()
	if errors.Is(err, ErrUpgradeNeeded) {
		e.o.Warn(err)
	}
}
