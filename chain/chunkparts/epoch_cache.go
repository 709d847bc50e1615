package chunkparts

import "github.com/troupe-chain/troupe/primitives"

// epochData caches the data of an epoch that each arriving part needs. It is immutable.
type epochData struct {
	layout    primitives.ShardLayout
	owners    []primitives.AccountID       // owner of each part, by part number
	own       []uint64                     // numbers of the parts that this validator owns
	parts     map[primitives.AccountID]int // number of parts of each owner
	producers []primitives.AccountID       // block producers
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
	}
	p.epochs[id] = f
	return f, nil
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
