package epoch

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// EpochSummary contains the results of an epoch, for validators queries about past epochs (nearcore
// core/primitives/src/epoch_manager.rs EpochSummary). No hash covers an EpochSummary, so the
// summaries of two nodes may differ.
type EpochSummary struct {
	PrevEpochLastBlockHash primitives.Hash                       // also the ID of the next epoch
	AllProposals           AccountMap[primitives.ValidatorStake] // the latest proposal of each account
	ValidatorKickout       AccountMap[KickoutReason]
	// statistics of all validators, including validators that were kicked out
	Stats                AccountMap[ValidatorStats]
	NextNextEpochVersion primitives.ProtocolVersion
}

// AppendBorsh appends the fields.
func (s *EpochSummary) AppendBorsh(b []byte) []byte {
	b = s.PrevEpochLastBlockHash.AppendBorsh(b)
	b = appendProposals(b, s.AllProposals)
	b = appendKickouts(b, s.ValidatorKickout)
	b = appendAccountMap(b, s.Stats, func(b []byte, v *ValidatorStats) []byte { return v.AppendBorsh(b) })
	return borsh.AppendUint32(b, uint32(s.NextNextEpochVersion))
}

// DecodeBorsh reads the fields.
func (s *EpochSummary) DecodeBorsh(r *borsh.Reader) {
	s.PrevEpochLastBlockHash = primitives.ReadHash(r)
	s.AllProposals = readProposals(r)
	s.ValidatorKickout = readKickouts(r)
	s.Stats = readAccountMap(r, 48, func(r *borsh.Reader) (v ValidatorStats) {
		v.DecodeBorsh(r)
		return v
	})
	s.NextNextEpochVersion = primitives.ProtocolVersion(r.Uint32())
}

// appendProposals appends the proposals without their keys, which are the proposals' accounts.
func appendProposals(b []byte, all AccountMap[primitives.ValidatorStake]) []byte {
	return borsh.AppendSlice(b, all, func(b []byte, p *AccountEntry[primitives.ValidatorStake]) []byte {
		return p.Value.AppendBorsh(b)
	})
}

// readProposals decodes what appendProposals has appended. The accounts must ascend.
func readProposals(r *borsh.Reader) (all AccountMap[primitives.ValidatorStake]) {
	for _, p := range primitives.ReadValidatorStakes(r) {
		if n := len(all); n > 0 && all[n-1].Account >= p.AccountID {
			r.Failf("proposals do not ascend")
			return nil
		}
		all = append(all, AccountEntry[primitives.ValidatorStake]{p.AccountID, p})
	}
	return all
}
