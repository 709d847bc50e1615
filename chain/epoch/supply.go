package epoch

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// StakeInfo returns the input for updating the validators' accounts in the first block of an epoch.
// lastBlock is the last block of the previous epoch. stakes contains, for each account, its largest
// stake in the three known epochs; the largest stake stays locked. rewards are the rewards of the
// epoch that ended (nearcore lib.rs:1269).
func (m *Manager) StakeInfo(lastBlock primitives.Hash) (stakes, rewards AccountMap[primitives.Balance], err error) {
	id, err := m.EpochID(lastBlock)
	if err != nil {
		return nil, nil, err
	}
	nextID, err := m.NextEpochID(lastBlock)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range [...]primitives.EpochID{id, nextID, lastBlock} {
		info, err := m.EpochInfo(id)
		if err != nil {
			return nil, nil, err
		}
		for _, c := range info.StakeChange {
			if old, ok := stakes.Get(c.Account); !ok || old.Less(c.Value) {
				stakes.Set(c.Account, c.Value)
			}
		}
		rewards = info.ValidatorReward // the next infos in the loop replace it: only the last rewards are returned
	}
	return stakes, rewards, nil
}

// MinimumStake returns the smallest stake that a Stake action may propose in a child of parent.
func (m *Manager) MinimumStake(parent primitives.Hash) (primitives.Balance, error) {
	id, err := m.NextEpochIDFromPrev(parent)
	if err != nil {
		return primitives.Balance{}, err
	}
	info, err := m.EpochInfo(id)
	if err != nil {
		return primitives.Balance{}, err
	}
	stake, _ := info.SeatPrice.DivMod64(m.configs.ForVersion(info.ProtocolVersion).MinimumStakeDivisor)
	return stake, nil
}

// MintedAmount returns the amount minted in a child of parent: the rewards of parent's epoch if
// parent is the last block of that epoch, otherwise 0.
func (m *Manager) MintedAmount(parent primitives.Hash) (primitives.Balance, error) {
	last, err := m.IsNextBlockEpochStart(parent)
	if err != nil || !last {
		return primitives.Balance{}, err
	}
	info, err := m.EpochInfo(parent)
	if err != nil {
		return primitives.Balance{}, err
	}
	return info.MintedAmount, nil
}

// EpochSyncDataHash returns epoch_sync_data_hash for the header of a child of parent. Only the
// first block of an epoch has this field; for other blocks the result is nil. The hash covers the
// data that a node needs to start in that epoch (nearcore chain/epoch-manager/src/adapter.rs:107).
// In the first epochs, the placeholder stands for blocks before the genesis.
func (m *Manager) EpochSyncDataHash(parent primitives.Hash) (*primitives.Hash, error) {
	last, err := m.BlockInfo(parent)
	if err != nil {
		return nil, err
	}
	if ends, err := m.isLast(last); err != nil || !ends {
		return nil, err
	}
	// The hash covers some hundred KiB. The engine requests the hash for each block that claims to
	// be the first of an epoch, so the hash is cached.
	if h, ok := m.syncData.get(parent); ok {
		return &h, nil
	}
	first, err := m.BlockInfo(last.EpochFirstBlock)
	if err != nil {
		return nil, err
	}
	secondLast, err := m.BlockInfo(last.PrevHash)
	if err != nil {
		return nil, err
	}
	var buf []byte
	for _, b := range [...]*BlockInfo{first, secondLast, last} {
		buf = b.AppendBorsh(buf)
	}
	for _, id := range [...]primitives.EpochID{last.EpochID, first.PrevHash, parent} {
		info, err := m.EpochInfo(id)
		if err != nil {
			return nil, err
		}
		buf = info.AppendBorsh(buf)
	}
	h := primitives.HashBytes(buf)
	m.syncData.put(parent, h)
	return &h, nil
}

// TotalSupply returns the total_supply of a header: prev (the parent's), plus minted, minus the sum
// of burnt. Errors: primitives.ErrOverflow.
func TotalSupply(prev, minted primitives.Balance, burnt []primitives.Balance) (primitives.Balance, error) {
	supply, ok := prev.Add(minted)
	var all primitives.Balance
	for _, b := range burnt {
		var fits bool
		all, fits = all.Add(b)
		ok = ok && fits
	}
	supply, ok2 := supply.Sub(all)
	if !ok || !ok2 {
		return primitives.Balance{}, fmt.Errorf("total supply: %w", primitives.ErrOverflow)
	}
	return supply, nil
}
