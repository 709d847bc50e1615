package daemon

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

// Obstacle returns why this node cannot produce blocks, and how to change that. The result is empty
// if the node can produce blocks.
func (h *Instance) Obstacle() string {
	if halted, ok := h.Node.Halted(); ok {
		text := fmt.Sprintf("it has halted: %s", halted.Reason)
		if halted.Height != 0 {
			text = fmt.Sprintf("it has halted: shard %d of block %d could not be applied: %s", halted.Shard, halted.Height, halted.Reason)
		}
		if halted.File != "" {
			text += fmt.Sprintf("; the chunk is in %s, for `troupe verify`", halted.File)
		}
		return text
	}
	if full, ok := h.Node.Full(); ok {
		return "its disk is full: " + full.Reason
	}
	if of := h.home.Config.Replica.Of; of != "" {
		return "it is a replica, and its writer produces the blocks"
	}
	if h.Engine.GenesisOnly() {
		return fmt.Sprintf("it has only the genesis of %s, and needs peers to sync the state of a later block", h.home.Genesis.ChainID)
	}
	key := h.home.ValidatorKey
	if h.withOthers {
		switch now := h.key(); {
		case now == nil:
			return fmt.Sprintf("%s signs nothing: %s was removed", key.AccountID, h.home.Paths.ValidatorKey)
		case now.AccountID != key.AccountID:
			return fmt.Sprintf("%s signs nothing: validator_key.json has the key of %s; restart the node to sign with it",
				key.AccountID, now.AccountID)
		default:
			key = now
		}
		switch w := h.Node.KeyWaiting(); {
		case w.Key == "":
		case w.From == 0:
			return fmt.Sprintf("the key of %s is new to this data folder, or has long not been used in it: it signs nothing "+
				"for %d blocks, counted from the next new block", key.AccountID, w.Left)
		default:
			return fmt.Sprintf("the key of %s is new to this data folder: it signs nothing up to block %d", key.AccountID, w.From)
		}
	}
	if key == nil {
		if h.feeds != nil {
			return "it follows feeds"
		}
		if h.front != nil {
			return "it follows its network and has no validator key"
		}
		if v := h.home.Genesis.Validators; !h.withOthers && len(v) > 0 {
			return fmt.Sprintf("there is no %s; restore the key of %s, which is a validator of the genesis: "+
				"a new key can't produce this chain's blocks", h.home.Paths.ValidatorKey, v[0].AccountID)
		}
		return fmt.Sprintf("there is no %s; create it with `troupe init --account-id ACCOUNT`", h.home.Paths.ValidatorKey)
	}
	var reason string
	err := h.Engine.Epochs(func(m *epoch.Manager) (err error) {
		reason, err = obstacle(m, h.Engine.Head().Hash, key, h.withOthers)
		return err
	})
	if err != nil {
		return "the validators of the current epoch are unknown: " + err.Error()
	}
	return reason
}

// obstacle checks the epoch of the block after head. together means that the chain has validators
// on other nodes.
func obstacle(m *epoch.Manager, head primitives.Hash, key *primitives.KeyFile, together bool) (string, error) {
	id, err := m.EpochIDFromPrev(head)
	if err != nil {
		return "", err
	}
	own, err := m.Validator(id, key.AccountID)
	if errors.Is(err, epoch.ErrNotAValidator) {
		return absence(m, head, id, key.AccountID), nil
	}
	if err != nil {
		return "", err
	}
	if own.PublicKey != key.PublicKey() {
		return fmt.Sprintf("%s is a validator with the key %v, but validator_key.json has %v; put the right key there",
			key.AccountID, own.PublicKey, key.PublicKey()), nil
	}
	if together {
		return "", nil
	}
	producers, err := m.BlockProducers(id)
	if err != nil {
		return "", err
	}
	var all, mine primitives.Balance
	seen := map[primitives.AccountID]bool{}
	for i := range producers {
		if v := &producers[i]; !seen[v.AccountID] {
			seen[v.AccountID] = true
			all = all.SaturatingAdd(v.Stake)
			if v.AccountID == key.AccountID {
				mine = v.Stake
			}
		}
	}
	if share := mine.Float64() / all.Float64(); share <= 2./3 {
		return fmt.Sprintf("%s holds %.0f %% of the stake, and a block needs the votes of more than two thirds: connect "+
			"this node to the other validators (--boot-nodes, --network-addr)", key.AccountID, 100*share), nil
	}
	return "", nil
}

// absence explains why an account is no validator.
func absence(m *epoch.Manager, head primitives.Hash, id primitives.EpochID, account primitives.AccountID) string {
	none := fmt.Sprintf("%s of validator_key.json is not a validator of this epoch", account)
	advice := "until the account stakes with this key"
	var kickouts []epoch.AccountMap[epoch.KickoutReason]
	if e, err := m.EpochInfo(id); err == nil {
		kickouts = append(kickouts, e.ValidatorKickout)
		advice += fmt.Sprintf(" at least the price of a seat, %v yoctoNEAR", e.SeatPrice)
	}
	if info, err := m.ValidatorInfoOfBlock(head); err == nil { // no information exists at the genesis
		kickouts = append(kickouts, info.PrevEpochKickout)
		for i := range info.NextValidators {
			if info.NextValidators[i].AccountID == account {
				return none + ": it is a validator of the next epoch"
			}
		}
		for i := range info.CurrentProposals {
			if info.CurrentProposals[i].AccountID == account {
				return none + ": it has staked, and can become a validator in two epochs"
			}
		}
	}
	for i := range kickouts {
		r, ok := kickouts[i].Get(account)
		switch {
		case !ok:
		case r.Kind == epoch.NotEnoughStake:
			return fmt.Sprintf("%s: it staked %v yoctoNEAR, but a seat cost %v", none, r.Stake, r.Threshold)
		default:
			return fmt.Sprintf("%s: it lost its seat (%v)", none, r.Kind)
		}
	}
	return none + ": " + advice
}
