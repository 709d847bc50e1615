package chunkparts

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// forward takes parts that their owner passes on; where the header is not known yet they wait for it.
func (p *Pool) forward(out *Out, now int64, f *primitives.ChunkForward) error {
	if !f.Consistent() {
		return fmt.Errorf("%w: of a forward", ErrHeader)
	}
	e := p.entries[f.ChunkHash]
	if e != nil && (e.complete || e.failed) {
		return nil
	}
	leaves, err := p.verifyParts(f.Parts, f.MerkleRoot)
	if err != nil {
		return fmt.Errorf("%w of a forward", err)
	}
	if p.outside(f.HeightCreated) && e == nil {
		return fmt.Errorf("%w: shard %d at %d", ErrHorizon, f.ShardID, f.HeightCreated)
	}
	var maker primitives.AccountID
	if _, known := p.chain.Epoch(f.PrevBlockHash); known {
		producer, err := p.chain.Maker(f.PrevBlockHash, f.ShardID)
		if err != nil {
			return err
		}
		maker = producer.AccountID
		if seen := e != nil && e.signed && e.header.Signature == f.Signature; !seen && !p.verify(f.Signature, f.ChunkHash[:], producer.PublicKey) {
			return fmt.Errorf("%w: %s", ErrSignature, producer.AccountID)
		}
	} else if maker, err = p.likelySigned(f.ChunkHash, f.Signature, f.ShardID, f.HeightCreated); err != nil {
		return err
	}
	if e != nil {
		return p.partial(out, now, &primitives.PartialChunk{Header: *e.header, Parts: f.Parts}, leaves, true)
	}
	list, ok := p.forwards[f.ChunkHash]
	if !ok {
		p.order = append(p.order, f.ChunkHash)
		p.makers[f.ChunkHash] = maker
	}
	for i := range f.Parts {
		x := &f.Parts[i]
		if !slices.ContainsFunc(list, func(y checked) bool { return y.Ord == x.Ord }) {
			list = append(list, checked{primitives.ChunkPart{Ord: x.Ord, Part: bytes.Clone(x.Part), Proof: x.Proof}, leaves[i]})
			p.waiting += sizeOf(x)
		}
	}
	p.forwards[f.ChunkHash] = list
	for len(p.order) > MaxForwards || p.waiting > MaxForwardBytes {
		p.forget(p.oldest())
	}
	return nil
}

// oldest is the chunk whose forwards go first: the first to come of the maker that has most. He may sign any number of chunks for a height, and takes no place of others'.
func (p *Pool) oldest() (hash primitives.Hash) {
	const each = MaxForwardBytes / MaxForwards // as how many bytes a chunk counts beside its parts
	taken, most := map[primitives.AccountID]int{}, 0
	for _, h := range p.order {
		n := each
		for i := range p.forwards[h] {
			n += sizeOf(&p.forwards[h][i].ChunkPart)
		}
		taken[p.makers[h]] += n
	}
	for _, n := range taken {
		most = max(most, n)
	}
	return p.order[slices.IndexFunc(p.order, func(h primitives.Hash) bool { return taken[p.makers[h]] == most })]
}

// forget drops the forwards of a chunk.
func (p *Pool) forget(hash primitives.Hash) {
	for i := range p.forwards[hash] {
		p.waiting -= sizeOf(&p.forwards[hash][i].ChunkPart)
	}
	delete(p.forwards, hash)
	delete(p.makers, hash)
	i := slices.Index(p.order, hash)
	p.order = slices.Delete(p.order, i, i+1)
}
