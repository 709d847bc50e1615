package chunkparts

import (
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// epochData caches the data of an epoch that each arriving part needs. It is immutable.
type epochData struct {
	layout    primitives.ShardLayout
	owners    []primitives.AccountID       // owner of each part, by part number
	own       []uint64                     // numbers of the parts that this validator owns
	parts     map[primitives.AccountID]int // number of parts of each owner
	producers []primitives.AccountID       // block producers, without duplicates
	anchored  bool                         // partial chunks must have an anchor
}

// maxEpochs is the maximum number of cached epochs. Chunks around the head belong to the previous,
// the current or the next epoch. Peers may also request chunks of older epochs.
const maxEpochs = 8

// epochDataOf returns the cached data of an epoch. The caller must not change it.
func (p *Pool) epochDataOf(id primitives.EpochID) (*epochData, error) {
	if f := p.epochs[id]; f != nil {
		return f, nil
	}
	f := &epochData{parts: map[primitives.AccountID]int{}}
	var err error
	if f.layout, err = p.chain.Layout(id); err != nil {
		return nil, err
	}
	if f.producers, err = p.chain.BlockProducers(id); err != nil {
		return nil, err
	}
	f.anchored, _ = p.chain.Anchored(id)
	for ord := range uint64(p.rs.TotalParts()) {
		owner, err := p.chain.Owner(id, ord)
		if err != nil {
			return nil, err
		}
		f.owners = append(f.owners, owner)
		f.parts[owner]++
		if p.me != "" && owner == p.me {
			f.own = append(f.own, ord)
		}
	}
	if len(p.epochs) >= maxEpochs {
		clear(p.epochs)
		clear(p.unions)
	}
	p.epochs[id] = f
	return f, nil
}

// trackersKey identifies the validators that track a shard (Chain.Trackers). this is the epoch of
// the children of a block, and next the epoch after it.
type trackersKey struct {
	this, next primitives.EpochID
	shard      primitives.ShardID
}

// maxTrackers is the maximum number of cached results of Chain.Trackers.
const maxTrackers = 256

// trackersOf returns the cached result of Chain.Trackers. The caller must not change it. ok is false
// if prev or an epoch is unknown.
func (p *Pool) trackersOf(prev primitives.Hash, shard primitives.ShardID) (list []primitives.AccountID, ok bool) {
	key := trackersKey{shard: shard}
	var err error
	if key.this, ok = p.chain.Epoch(prev); !ok {
		return nil, false
	}
	if key.next, err = p.chain.NextEpoch(prev); err != nil {
		return nil, false
	}
	if list, ok = p.trackers[key]; ok {
		return list, true
	}
	if list, err = p.chain.Trackers(prev, shard); err != nil {
		return nil, false
	}
	if len(p.trackers) >= maxTrackers {
		clear(p.trackers)
	}
	p.trackers[key] = list
	return list, true
}

// cares returns whether an account is one of trackersOf.
func (p *Pool) cares(account primitives.AccountID, prev primitives.Hash, shard primitives.ShardID) bool {
	list, _ := p.trackersOf(prev, shard)
	return slices.Contains(list, account)
}

// isAnchored returns whether partial chunks of an epoch must have an anchor. It returns false if
// the epoch is unknown.
func (p *Pool) isAnchored(id primitives.EpochID) bool {
	f, err := p.epochDataOf(id)
	return err == nil && f.anchored
}

// want begins to request a chunk. now is in ms. ancestor is a known block. Requests go to the
// validators of the epoch of the ancestor's children.
func (p *Pool) want(e *entry, ancestor primitives.Hash, now int64) {
	e.want = &want{ancestor: ancestor, added: now, last: now}
	p.wants[e.hash] = e
}
