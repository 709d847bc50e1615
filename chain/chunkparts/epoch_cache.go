package chunkparts

import "github.com/troupe-chain/troupe/primitives"

// epochFacts is what is asked about an epoch with each part that comes. It stays the same.
type epochFacts struct {
	layout    primitives.ShardLayout
	owners    []primitives.AccountID       // of parts, by number
	own       []uint64                     // numbers of this validator's parts
	parts     map[primitives.AccountID]int // how many each owner has
	producers []primitives.AccountID       // of blocks
}

// maxFacts is of how many epochs they are kept: of the last, this and the next there are chunks, and of what others ask for.
const maxFacts = 8

// factsOf are those of an epoch. They are only read.
func (p *Pool) factsOf(id primitives.EpochID) (*epochFacts, error) {
	if f := p.facts[id]; f != nil {
		return f, nil
	}
	f := &epochFacts{parts: map[primitives.AccountID]int{}}
	var err error
	if f.layout, err = p.chain.Layout(id); err != nil {
		return nil, err
	}
	if f.producers, err = p.chain.BlockProducers(id); err != nil {
		return nil, err
	}
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
	if len(p.facts) >= maxFacts {
		clear(p.facts)
	}
	p.facts[id] = f
	return f, nil
}

// want has a chunk asked for from now on.
func (p *Pool) want(e *entry, ancestor primitives.Hash, now int64) {
	e.want = &want{ancestor: ancestor, added: now, last: now}
	p.wants[e.hash] = e
}
