package chain

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// HeaderSource finds headers. ByHeight and NextHash consider only the canonical chain.
type HeaderSource interface {
	ByHash(primitives.Hash) (*primitives.BlockHeader, error)
	ByHeight(primitives.Height) (*primitives.BlockHeader, error)
	NextHash(primitives.Hash) (primitives.Hash, error) // hash of the next canonical block
}

// LightClientBlock returns the light client view of the last final block as of head. Near the end
// of an epoch, LightClientBlock uses a block before that block instead: a block whose next two
// blocks are in its own epoch (nearcore chain.rs:679). producers returns the block producers of an
// epoch.
func LightClientBlock(head *primitives.BlockHeader, src HeaderSource,
	producers func(primitives.EpochID) ([]primitives.ValidatorStake, error)) (*primitives.LightClientBlock, error) {
	final, err := src.ByHash(head.LastFinalBlock)
	if err != nil {
		return nil, err
	}
	two, err := src.ByHeight(final.Height + 2)
	if err != nil {
		return nil, err
	}
	if two.EpochID != final.EpochID {
		one, err := src.ByHeight(final.Height + 1)
		if err != nil {
			return nil, err
		}
		back := one.LastFinalBlock
		if one.EpochID != final.EpochID {
			back = final.LastFinalBlock
		}
		if final, err = src.ByHash(back); err != nil {
			return nil, err
		}
	}
	bps, err := producers(final.NextEpochID)
	if err != nil {
		return nil, err
	}
	return lightClientView(final, src, bps)
}

func lightClientView(h *primitives.BlockHeader, src HeaderSource,
	bps []primitives.ValidatorStake) (*primitives.LightClientBlock, error) {
	var next [2]*primitives.BlockHeader
	at := h.Hash()
	for i := range next {
		hash, err := src.NextHash(at)
		if err != nil {
			return nil, fmt.Errorf("chain: light client view of block %d: %w", h.Height, err)
		}
		if next[i], err = src.ByHash(hash); err != nil {
			return nil, err
		}
		at = hash
	}
	return &primitives.LightClientBlock{
		PrevBlockHash: h.PrevHash, NextBlockInnerHash: next[0].InnerHash(), InnerLite: h.BlockHeaderInnerLite,
		InnerRestHash: h.InnerRestHash(), NextBPs: bps, ApprovalsAfterNext: next[1].Approvals,
	}, nil
}

// LightClientHead is the state of a light client: the inner_lite of a block, and the block
// producers of two epochs.
type LightClientHead struct {
	Lite    primitives.BlockHeaderInnerLite
	NextBPs []primitives.ValidatorStake // block producers of Lite.NextEpochID
	BPs     []primitives.ValidatorStake // block producers of Lite.EpochID
}

// Advance verifies a block as a light client does and returns the new head (NEP light client
// specification). The height must grow. The block must be in the head's epoch or in the next epoch.
// A block of the next epoch must contain next_bps. next_bps must match next_bp_hash. The approvals
// in the block after next must represent more than 2/3 of the epoch's stake.
func (l *LightClientHead) Advance(b *primitives.LightClientBlock,
	verify func(primitives.Signature, []byte, primitives.PublicKey) bool) (*LightClientHead, error) {
	if b.InnerLite.Height <= l.Lite.Height {
		return nil, fmt.Errorf("chain: the height of the light client block is %d, must be above %d, the height of the "+
			"last one", b.InnerLite.Height, l.Lite.Height)
	}
	bps := l.BPs
	switch b.InnerLite.EpochID {
	case l.Lite.EpochID:
	case l.Lite.NextEpochID:
		if bps = l.NextBPs; b.NextBPs == nil {
			return nil, fmt.Errorf(
				"chain: the light client block enters epoch %s but lacks next_bps, the block producers after that epoch",
				b.InnerLite.EpochID,
			)
		}
	default:
		return nil, fmt.Errorf("chain: the light client block has epoch %s, must be %s or %s", b.InnerLite.EpochID,
			l.Lite.EpochID, l.Lite.NextEpochID)
	}
	nextHash := primitives.CombineHash(b.NextBlockInnerHash, b.Hash())
	inner := primitives.ApprovalInner{Endorsement: nextHash}
	message := inner.SignedBytes(b.InnerLite.Height + 2)
	var have, total primitives.Balance
	for i, bp := range bps {
		total = total.SaturatingAdd(bp.Stake)
		if i >= len(b.ApprovalsAfterNext) || b.ApprovalsAfterNext[i] == "" {
			continue
		}
		if !verify(b.ApprovalsAfterNext[i], message, bp.PublicKey) {
			return nil, fmt.Errorf("chain: the approval of %s has an invalid signature", bp.AccountID)
		}
		have = have.SaturatingAdd(bp.Stake)
	}
	if have.Cmp(twoThirds(total)) <= 0 {
		return nil, fmt.Errorf("chain: the light client block is signed by validators with %s of %s yoctoNEAR of stake, "+
			"needs more than two thirds", have, total)
	}
	next := &LightClientHead{Lite: b.InnerLite, BPs: bps, NextBPs: l.NextBPs}
	if b.NextBPs != nil {
		if primitives.BlockProducersHash(b.NextBPs) != b.InnerLite.NextBPHash {
			return nil, fmt.Errorf(
				"chain: next_bps of the light client block do not have the hash that its header states, %s",
				b.InnerLite.NextBPHash,
			)
		}
		next.NextBPs = b.NextBPs
	}
	return next, nil
}
