package chunkparts

import "github.com/troupe-chain/troupe/primitives"

// epochData caches what is needed of an epoch for each arriving part. It is immutable.
type epochData struct {
	layout    primitives.ShardLayout
	owners    []primitives.AccountID       // by part number
	own       []uint64                     // part numbers of this validator
	parts     map[primitives.AccountID]int // number of parts of each owner
	producers []primitives.AccountID       // block producers
	anchored  bool                         // partial chunks must have an anchor
}

// maxEpochs is how many epochs are cached. Chunks around the head belong to the last, the present
// or the next epoch, and peers may request chunks of older ones.
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

// want starts to request a chunk. now is in ms. ancestor is a known block; the validators are those
// of the epoch of its children.
func (p *Pool) want(e *entry, ancestor primitives.Hash, now int64) {
	e.want = &want{ancestor: ancestor, added: now, last: now}
	p.wants[e.hash] = e
}
