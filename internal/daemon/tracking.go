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

// errTracked is wrapped by errors about an impossible configuration of tracked shards.
var errTracked = errors.New("tracked shards")

// holding describes which shards a node tracks.
type holding struct {
	tracks    engine.Track           // shards that are always tracked; nil: all shards
	assigned  []primitives.AccountID // validators whose assigned shards the node also tracks in each epoch
	scheduled bool                   // the tracked shards change while the node runs
}

// holdings returns which shards a node tracks. As in neard, a validator tracks its assigned shards
// whatever config.json says. In a network, a validator catches up a shard for the epochs in which
// it is assigned to that shard, and untracks the shard after that. A sole validator tracks all
// shards.
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
		return h, fmt.Errorf("%w: config.json tracks the shards of %s, which change with the epoch and come from peers: "+
			"connect this node to a network "+
			"(network.boot_nodes)", errTracked, c.ShadowValidator)
	}
	if !h.scheduled && initialValidator(hm) {
		return h, nil
	}
	h.tracks, err = alwaysTracked(c)
	return h, err
}

// alwaysTracked returns the shards that a node tracks at all times according to config.json.
func alwaysTracked(c *config.TrackedShards) (engine.Track, error) {
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
			return nil, fmt.Errorf("%w: the schedule in config.json changes shards between epochs, which this version does not support "+
				"(only assigned shards of validators may change); name the same shards in each row, or use \"AllShards\"", errTracked)
		}
	}
	ids := c.Schedule[0]
	return func(_ primitives.ShardLayout, id primitives.ShardID) bool { return slices.Contains(ids, id) }, nil
}

func sameShards(a, b []primitives.ShardID) bool {
	return !slices.ContainsFunc(a, func(id primitives.ShardID) bool { return !slices.Contains(b, id) }) &&
		!slices.ContainsFunc(b, func(id primitives.ShardID) bool { return !slices.Contains(a, id) })
}

// soleValidator returns whether validator_key.json belongs to the genesis's only validator.
func soleValidator(hm *home.Home) bool {
	return initialValidator(hm) && !slices.ContainsFunc(hm.Genesis.Validators,
		func(v genesis.Validator) bool { return v.AccountID != hm.ValidatorKey.AccountID })
}

// initialValidator returns whether validator_key.json belongs to a validator of the genesis.
func initialValidator(hm *home.Home) bool {
	return hm.ValidatorKey != nil && slices.ContainsFunc(hm.Genesis.Validators, func(v genesis.Validator) bool {
		return v.AccountID == hm.ValidatorKey.AccountID
	})
}

// proofsOf returns the maximum bytes of state proofs that a node keeps. `of` is the validator for
// whose chunks the node keeps proofs. If `of` is empty, the node keeps proofs for all chunks.
func proofsOf(hm *home.Home) (bytes int64, of primitives.AccountID) {
	switch c := hm.Config; {
	case c.Proofs == config.ProofsOfAll:
		return int64(c.ProofBytes), ""
	case c.Proofs == config.ProofsOfDuties && hm.ValidatorKey != nil:
		return int64(c.ProofBytes), hm.ValidatorKey.AccountID
	}
	return 0, ""
}

// checkTracked adds advice to the engine's error about a data folder without a tracked shard.
func checkTracked(hm *home.Home, err error) error {
	if !errors.Is(err, engine.ErrUntracked) {
		return err
	}
	what := "config.json tracks it"
	if initialValidator(hm) && !hm.Config.TrackedShards.All {
		what = fmt.Sprintf("%s of validator_key.json produces chunks of every shard", hm.ValidatorKey.AccountID)
	}
	return fmt.Errorf("%w: %s; shards cannot be added to a folder: track the shards that it has, or remove %s and "+
		"start again", err, what, hm.Paths.Data)
}

// checkDuties returns an error if this validator must produce chunks, in the epoch of the next
// block, of a shard whose state the node lacks and cannot get.
func (h *Daemon) checkDuties() error {
	key := h.home.ValidatorKey
	// A node in a network catches up the missing shards, or begins by the state sync of a later block.
	if key == nil || h.Engine.Scheduled() && h.withOthers || h.Engine.GenesisOnly() {
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
			// If the shard is being split, chunk producers of the child shards count too.
			if cares, err := m.CaresAboutShard(id, key.AccountID, s.ID); err == nil && cares && !s.Held() {
				return fmt.Errorf("%w: %s of validator_key.json produces chunks of shard %d in this epoch, but %s lacks it and "+
					"there are no peers to get it from: "+
					"start with a new data folder and \"tracked_shards_config\": \"AllShards\"", errTracked, key.AccountID, s.ID, h.home.Paths.Data)
			}
		}
		return nil
	})
}

// logTracked logs the tracked shards if the node does not track all shards.
func (h *Daemon) logTracked(c *config.TrackedShards) {
	switch held := h.held(); {
	case c.All:
	case h.Engine.Scheduled():
		h.log.Infof("tracked shards: %v; assigned shards catch up for their epochs", held)
	case len(held) == h.Engine.Head().Layout.NumShards() && initialValidator(h.home):
		h.log.Infof("all shards are tracked: %s of validator_key.json produces their chunks", h.home.ValidatorKey.AccountID)
	case len(held) == 0 && !c.None:
		h.log.Warnf("no shard is tracked: config.json names none of %v", h.Engine.Head().Layout.ShardUIDs())
	default:
		h.log.Infof("tracked shards: %v", held)
	}
}

// held returns the shards at the head with a state in this store.
func (h *Daemon) held() []primitives.ShardID {
	out := []primitives.ShardID{}
	for _, id := range h.Engine.Head().Layout.ShardIDs() {
		if h.Engine.Holds(id) {
			out = append(out, id)
		}
	}
	return out
}
