package daemon

import (
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// errTracked says that a node can't follow what it is to follow.
var errTracked = errors.New("which shards are followed")

// holding is which shards a node holds.
type holding struct {
	tracks    engine.Track           // at all times; nil: all
	assigned  []primitives.AccountID // validators whose shards it holds besides, in each epoch others
	scheduled bool                   // shards come in and go while it runs
}

// holdings says which shards a node holds. As in neard a validator holds the shards of its duties
// whatever config.json says: where it is connected to others they come in for the epochs in which
// it has them, and go; who makes all chunks alone holds all.
func holdings(hm *home.Home, connected bool) (h holding, err error) {
	c := &hm.Config.TrackedShards
	if c.All {
		return h, nil
	}
	if key := hm.ValidatorKey; connected && key != nil && !(soleValidator(hm) && !hasSigned(hm)) {
		h.scheduled, h.assigned = true, append(h.assigned, key.AccountID)
	}
	switch {
	case c.ShadowValidator == "":
	case connected:
		h.scheduled, h.assigned = true, append(h.assigned, c.ShadowValidator)
	case !initialValidator(hm):
		return h, fmt.Errorf("%w: config.json has the shards of %s, which change from epoch to epoch: they come from other nodes, and this one is connected to "+
			"none (network.boot_nodes)", errTracked, c.ShadowValidator)
	}
	if !h.scheduled && initialValidator(hm) {
		return h, nil
	}
	h.tracks, err = tracks(c)
	return h, err
}

// tracks says which shards config.json has a node hold at all times.
func tracks(c *config.TrackedShards) (engine.Track, error) {
	switch {
	case c.None, c.ShadowValidator != "":
		return func(primitives.ShardLayout, primitives.ShardID) bool { return false }, nil
	case c.Shards != nil:
		return engine.TrackUIDs(c.Shards...), nil
	case c.Accounts != nil:
		return engine.TrackAccounts(c.Accounts...), nil
	}
	for _, row := range c.Schedule[1:] {
		if !sameShards(row, c.Schedule[0]) {
			return nil, fmt.Errorf("%w: config.json has a schedule in which epochs have other shards than those before, and this version holds the same ones "+
				"besides those of a validator's duties; name the same shards in each row, or use \"AllShards\"", errTracked)
		}
	}
	ids := c.Schedule[0]
	return func(_ primitives.ShardLayout, id primitives.ShardID) bool { return slices.Contains(ids, id) }, nil
}

func sameShards(a, b []primitives.ShardID) bool {
	return !slices.ContainsFunc(a, func(id primitives.ShardID) bool { return !slices.Contains(b, id) }) &&
		!slices.ContainsFunc(b, func(id primitives.ShardID) bool { return !slices.Contains(a, id) })
}

// soleValidator tells whether the genesis has no validator but the account of validator_key.json.
func soleValidator(hm *home.Home) bool {
	return initialValidator(hm) && !slices.ContainsFunc(hm.Genesis.Validators, func(v genesis.Validator) bool { return v.AccountID != hm.ValidatorKey.AccountID })
}

// initialValidator tells whether the account of validator_key.json is one of the genesis's.
func initialValidator(hm *home.Home) bool {
	return hm.ValidatorKey != nil && slices.ContainsFunc(hm.Genesis.Validators, func(v genesis.Validator) bool {
		return v.AccountID == hm.ValidatorKey.AccountID
	})
}

// proofsOf says how many bytes of proofs a node keeps, and of whose chunks; of an empty account: of
// all.
func proofsOf(hm *home.Home) (bytes int64, of primitives.AccountID) {
	switch c := hm.Config; {
	case c.Proofs == config.ProofsOfAll:
		return int64(c.ProofBytes), ""
	case c.Proofs == config.ProofsOfDuties && hm.ValidatorKey != nil:
		return int64(c.ProofBytes), hm.ValidatorKey.AccountID
	}
	return 0, ""
}

// checkTracked adds what may be done to an engine's refusal of a folder that lacks a shard.
func checkTracked(hm *home.Home, err error) error {
	if !errors.Is(err, engine.ErrUntracked) {
		return err
	}
	what := "config.json says so"
	if initialValidator(hm) && !hm.Config.TrackedShards.All {
		what = fmt.Sprintf("%s of validator_key.json makes chunks of every shard", hm.ValidatorKey.AccountID)
	}
	return fmt.Errorf("%w: %s; a folder begins with all shards that it is to have: follow those that it has, or remove %s and start again", err, what, hm.Paths.Data)
}

// checkDuties refuses a validator of the next block's epoch without a shard that it is to make
// chunks of.
func (h *Daemon) checkDuties() error {
	key := h.home.ValidatorKey
	if key == nil || h.Engine.Scheduled() && h.together { // there they come in
		return nil
	}
	head := h.Engine.Head()
	return h.Engine.Epochs(func(m *epoch.Manager) error {
		id, err := m.EpochIDFromPrev(head.Hash)
		if err != nil {
			return err
		}
		for i := range head.Shards {
			s := &head.Shards[i]
			// of a shard that is split now, its children say
			if cares, err := m.CaresAboutShard(id, key.AccountID, s.ID); err == nil && cares && !s.Held() {
				return fmt.Errorf("%w: %s of validator_key.json makes chunks of shard %d in this epoch, and %s does not have it; alone it can't get it: "+
					"start with another folder and \"tracked_shards_config\": \"AllShards\"", errTracked, key.AccountID, s.ID, h.home.Paths.Data)
			}
		}
		return nil
	})
}

// sayTracked says which shards are held if these are not all.
func (h *Daemon) sayTracked(c *config.TrackedShards) {
	switch held := h.held(); {
	case c.All:
	case h.Engine.Scheduled():
		h.log.Infof("shards that are held: %v; others come in for the epochs in which they are needed", held)
	case len(held) == h.Engine.Head().Layout.NumShards() && initialValidator(h.home):
		h.log.Infof("every shard is held: %s of validator_key.json makes chunks of them", h.home.ValidatorKey.AccountID)
	case len(held) == 0 && !c.None:
		h.log.Warnf("no shard is held: config.json names none of %v", h.Engine.Head().Layout.ShardUIDs())
	default:
		h.log.Infof("shards that are held: %v", held)
	}
}

// held are the shards at the head whose state is here.
func (h *Daemon) held() []primitives.ShardID {
	out := []primitives.ShardID{}
	for _, id := range h.Engine.Head().Layout.ShardIDs() {
		if h.Engine.Holds(id) {
			out = append(out, id)
		}
	}
	return out
}
