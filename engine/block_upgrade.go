package engine

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// ErrUpgradeNeeded reports an epoch whose protocol version is newer than this program. Options.Warn
// receives it one epoch ahead; for a block of the epoch it is this node's fault.
var ErrUpgradeNeeded = errors.New("engine: the network's protocol is newer than this program")

// version returns the runtime configuration of an epoch. Errors: ErrUpgradeNeeded. The caller holds
// epochMu.
func (e *Engine) version(id primitives.EpochID) (*parameters.RuntimeConfig, error) {
	pv, err := e.epochs.ProtocolVersion(id)
	if err != nil {
		return nil, err
	}
	if newest := parameters.Newest(e.chain.Version.Numbering); pv > newest {
		return nil, fmt.Errorf("%w: epoch %v has version %d, this program runs versions up to %d: install a newer release: %w",
			ErrUpgradeNeeded, id, pv, newest, parameters.ErrUnsupportedVersion)
	}
	return parameters.Get(parameters.Version{Protocol: pv, Numbering: e.chain.Version.Numbering})
}

// adviseUpgrade warns if the epoch after that of the head cannot be executed (nearcore 2.14.0-rc.1
// chain/chain/src/chain.rs check_if_upgrade_needed). Another error of that epoch is left to the
// import of its first block.
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
