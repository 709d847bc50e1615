package chunkparts

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// forward handles parts that their owner forwarded. If the chunk header is unknown, forward stores
// the parts until the header arrives.
func (p *Pool) forward(out *Out, now int64, f *primitives.ChunkForward) error {
	if !f.Consistent() {
		return fmt.Errorf("%w: the chunk hash of forwarded parts is not the hash of their inner hash and Merkle root", ErrHeader)
	}
	e := p.entries[f.ChunkHash]
	if e != nil && (e.complete || e.failed) {
		return nil
	}
	leaves, err := p.verifyParts(f.Parts, f.MerkleRoot)
	if err != nil {
		return fmt.Errorf("%w in forwarded parts", err)
	}
	if p.outsideHorizon(f.HeightCreated) && e == nil {
		return fmt.Errorf("%w: shard %d at height %d, the head is at %d", ErrHorizon, f.ShardID, f.HeightCreated, p.head.Height)
	}
	var maker primitives.AccountID
	if _, known := p.chain.Epoch(f.PrevBlockHash); known {
		producer, err := p.chain.Maker(f.PrevBlockHash, f.ShardID)
		if err != nil {
			return err
		}
		maker = producer.AccountID
		if seen := e != nil && e.signed && e.header.Signature == f.Signature; !seen &&
			!p.verify(f.Signature, f.ChunkHash[:], producer.PublicKey) {
			return fmt.Errorf("%w: expected %s", ErrSignature, producer.AccountID)
		}
	} else if maker, err = p.verifyLikelySigner(f.ChunkHash, f.Signature, f.ShardID, f.HeightCreated, true); err != nil {
		return err
	}
	if e != nil {
		return p.partial(out, now, &primitives.PartialChunk{Header: *e.header, Parts: f.Parts}, leaves, true)
	}
	list, ok := p.forwards[f.ChunkHash]
	if !ok {
		p.forwardOrder = append(p.forwardOrder, f.ChunkHash)
		p.forwardSigners[f.ChunkHash] = maker
	}
	for i := range f.Parts {
		x := &f.Parts[i]
		if !slices.ContainsFunc(list, func(y verifiedPart) bool { return y.Ord == x.Ord }) {
			list = append(list, verifiedPart{primitives.ChunkPart{Ord: x.Ord, Part: bytes.Clone(x.Part), Proof: x.Proof}, leaves[i]})
			p.forwardBytes += sizeOf(x)
		}
	}
	p.forwards[f.ChunkHash] = list
	for len(p.forwardOrder) > MaxForwards || p.forwardBytes > MaxForwardBytes {
		p.dropForwards(p.forwardToEvict())
	}
	return nil
}

// forwardToEvict returns the chunk whose forwards are evicted next: the oldest chunk of the
// producer with the most forwarded bytes. A producer can sign any number of chunks for a height.
// With this rule, forwards of these chunks evict only forwards of the same producer.
func (p *Pool) forwardToEvict() (hash primitives.Hash) {
	// each is the number of bytes that a chunk counts in addition to its parts. It also bounds the
	// number of chunks.
	const each = MaxForwardBytes / MaxForwards
	taken, most := map[primitives.AccountID]int{}, 0
	for _, h := range p.forwardOrder {
		n := each
		for i := range p.forwards[h] {
			n += sizeOf(&p.forwards[h][i].ChunkPart)
		}
		taken[p.forwardSigners[h]] += n
	}
	for _, n := range taken {
		most = max(most, n)
	}
	return p.forwardOrder[slices.IndexFunc(p.forwardOrder, func(h primitives.Hash) bool { return taken[p.forwardSigners[h]] == most })]
}

// dropForwards deletes the stored forwards of a chunk.
func (p *Pool) dropForwards(hash primitives.Hash) {
	for i := range p.forwards[hash] {
		p.forwardBytes -= sizeOf(&p.forwards[hash][i].ChunkPart)
	}
	delete(p.forwards, hash)
	delete(p.forwardSigners, hash)
	i := slices.Index(p.forwardOrder, hash)
	p.forwardOrder = slices.Delete(p.forwardOrder, i, i+1)
}
