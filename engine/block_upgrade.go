package engine

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// ErrUpgradeNeeded means that this program does not support the protocol version of an epoch.
// Options.Warn gets ErrUpgradeNeeded in the epoch before that epoch. When the import of a block of
// that epoch returns ErrUpgradeNeeded, VerdictOf counts the error as a fault of this node.
var ErrUpgradeNeeded = errors.New("engine: the network's protocol is newer than this program")

// ErrUpgradeVoted means that validators vote for a protocol version that this program does not
// support. Options.Warn gets ErrUpgradeVoted up to two epochs before that version can begin.
var ErrUpgradeVoted = errors.New("engine: validators vote for a newer protocol than this program knows")

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
var ErrGenesisOnly = errors.New(
	"engine: the node has only the genesis block so far and has to sync the state of a later block from its peers",
)

// GenesisOnly returns whether the chain has no block but its genesis, whose protocol version cannot
// be executed (parameters.Version.GenesisOnly). Safe for concurrent use.
func (e *Engine) GenesisOnly() bool {
	return e.chain.Version.GenesisOnly() && e.Head().Header().IsGenesis()
}

// upgradeEvery is the number of blocks between two errors about a version that the next epoch has
// and this program does not support. nearcore logs such an error with each block (nearcore
// chain/chain/src/chain.rs:2148 check_if_upgrade_needed).
const upgradeEvery primitives.Height = 100

// UpgradeState is what the chain has decided about protocol versions as of a head, for warnings and
// metrics.
type UpgradeState struct {
	Head    primitives.Height
	Epoch   primitives.EpochID
	Newest  primitives.ProtocolVersion // newest version that this program supports
	Version primitives.ProtocolVersion // version of the head's epoch
	Next    primitives.ProtocolVersion // version of the next epoch
	// NextStart is the planned height of the next epoch's first block (nearcore
	// chain/epoch-manager/src/adapter.rs:405). Length is the planned length of the head's epoch.
	NextStart, Length primitives.Height
	Forecast          epoch.UpgradeForecast // votes in the head's epoch for versions above Newest
	Ended             *epoch.VersionVotes   // votes of the epoch that ended last; nil: none ended since the start
}

// IsNeeded returns whether this program does not support the next epoch's version.
func (s *UpgradeState) IsNeeded() bool { return s.Next > s.Newest }

// Boundary returns the height at which the next epoch starts with another version, or 0 if the next
// epoch has the same version (nearcore get_estimated_protocol_upgrade_block_height).
func (s *UpgradeState) Boundary() primitives.Height {
	if s.Next == s.Version {
		return 0
	}
	return s.NextStart
}

// Needed returns the error about the next epoch's version, or nil if this program supports it.
func (s *UpgradeState) Needed() error {
	if !s.IsNeeded() {
		return nil
	}
	return fmt.Errorf("%w: version %d begins with the next epoch, at about height %d, and this program runs versions up to %d: "+
		"this node halts there unless a newer release is installed before", ErrUpgradeNeeded, s.Next, s.NextStart, s.Newest)
}

// voted returns the error about the votes of the head's epoch.
func (s *UpgradeState) voted() error {
	f, enough := &s.Forecast, "not enough yet"
	if f.Decided {
		enough = "enough"
	}
	return fmt.Errorf("%w: %d%% of the stake, most of it for version %d, which is %s (more than %d/%d decide), and "+
		"this program runs versions up to %d: "+
		"install a newer release before height %d, where that version can begin",
		ErrUpgradeVoted, f.Percent, f.Version, enough, f.Threshold.Num, f.Threshold.Den, s.Newest, s.NextStart+s.Length)
}

// upgradeAdvice remembers which warnings about protocol versions were given. The zero value has
// given none. Not safe for concurrent use.
type upgradeAdvice struct {
	epoch          primitives.EpochID
	voted, decided bool              // ErrUpgradeVoted was given for epoch: with the first votes, with enough votes
	at             primitives.Height // height of the last ErrUpgradeNeeded of epoch; 0: none
}

// of returns the error to give at a new head, or nil. ErrUpgradeVoted is given at most twice an
// epoch: when the first vote for an unsupported version is final, and when such votes decide.
// ErrUpgradeNeeded is given at the first head of the epoch before the unsupported version, and then
// once in upgradeEvery heights.
func (a *upgradeAdvice) of(s *UpgradeState) error {
	if a.epoch != s.Epoch {
		*a = upgradeAdvice{epoch: s.Epoch}
	}
	switch f := &s.Forecast; {
	case s.IsNeeded():
		if a.at == 0 || s.Head >= a.at+upgradeEvery {
			a.at = max(s.Head, 1)
			return s.Needed()
		}
	case f.Decided && !a.decided, f.Version != 0 && !a.voted:
		a.voted, a.decided = true, a.decided || f.Decided
		return s.voted()
	}
	return nil
}

// Upgrade returns the state of protocol upgrades at the head. While the headers are apart from the
// imported blocks (HeaderChain.IsApart), it is that at the highest header. If HeaderChain.Jump refused
// an epoch sync proof because of its version, and no proof was accepted and no block above it imported
// since, Next and NextStart are those of the proof. Errors: those of the epoch manager and of the header
// chain. Safe for concurrent use.
func (e *Engine) Upgrade() (UpgradeState, error) {
	if s, apart, err := e.headerChain.upgradeApart(); apart || err != nil {
		return s, err
	}
	e.epochMu.Lock()
	defer e.epochMu.Unlock()
	s, err := e.upgradeState(e.Head())
	if r := e.headerChain.refused.Load(); err == nil && r != nil && !s.IsNeeded() && r.start > s.Head {
		s.Next, s.NextStart = r.version, r.start
	}
	return s, err
}

// upgradeState returns the state of protocol upgrades at a head. The caller holds epochMu.
func (e *Engine) upgradeState(head *BlockNode) (UpgradeState, error) {
	return upgradeStateAt(head.Header(), e.epochs, parameters.Newest(e.chain.Version.Numbering))
}

// upgradeStateAt returns the state of protocol upgrades at a header. The caller holds the lock of the
// epoch manager, which knows the header.
func upgradeStateAt(h *primitives.BlockHeader, m *epoch.Manager, newest primitives.ProtocolVersion) (s UpgradeState, err error) {
	s = UpgradeState{Head: h.Height, Epoch: h.EpochID, Newest: newest, Ended: m.EndedVotes()}
	if s.Version, err = m.ProtocolVersion(h.EpochID); err != nil {
		return s, err
	}
	if s.Next, err = m.ProtocolVersion(h.NextEpochID); err != nil {
		return s, err
	}
	config, err := m.EpochConfig(h.EpochID)
	if err != nil {
		return s, err
	}
	start, err := m.EpochStartHeight(h.Hash())
	if err != nil {
		return s, err
	}
	s.Length = primitives.Height(config.EpochLength)
	s.NextStart = start + s.Length
	s.Forecast, err = m.ForecastUpgrade(h.EpochID, h.NextEpochID, s.Newest)
	return s, err
}

// adviseUpgrade calls Options.Warn if the new head gives reason to (upgradeAdvice.of). It returns
// ErrUpgradeNeeded if this program does not support the epoch of the head's children. It ignores
// errors of the epoch manager: the import of the next block returns such an error.
func (e *Engine) adviseUpgrade(head *BlockNode) error {
	e.epochMu.Lock()
	s, err := e.upgradeState(head)
	var children error
	if err == nil && s.IsNeeded() {
		if id, err := e.epochs.EpochIDFromPrev(head.Hash); err == nil {
			_, children = e.version(id)
		}
	}
	e.epochMu.Unlock()
	if err != nil {
		return nil
	}
	if err := e.upgradeAdvice.of(&s); err != nil && e.o.Warn != nil {
		e.o.Warn(err)
	}
	if !errors.Is(children, ErrUpgradeNeeded) {
		return nil
	}
	return children
}
