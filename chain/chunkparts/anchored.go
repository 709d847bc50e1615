package chunkparts

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/chain/anchor"
	"github.com/troupe-chain/troupe/primitives"
)

// receive handles a partial chunk from the network. If the anchor does not determine the chunk's
// producer yet, receive queues the partial chunk until the chunk's previous block arrives.
func (p *Pool) receive(out *Out, now int64, c *primitives.PartialChunk) error {
	err := p.partial(out, now, c, nil, false)
	if errors.Is(err, anchor.ErrEarly) {
		err = p.postpone(c, err)
	}
	p.counters.Error(err)
	return err
}

// checkAnchor checks a partial chunk with an anchor: that its epoch requires one, and that its key
// and anchor are possible. If e has no verified signature, it also checks the header's signature.
// The previous block may be unknown. The signature does not cover the anchor, so an error does not
// mean that the chunk is invalid.
func (p *Pool) checkAnchor(e *entry, hash primitives.Hash, c *primitives.PartialChunk) error {
	h := &c.Header
	if anchored, known := p.chain.Anchored(c.Anchor.EpochID); known && !anchored {
		return anchor.WrongForm(h.ShardID, h.HeightCreated, true)
	}
	v, err := p.chain.ProducerAt(placeOf(c))
	p.counters.CountLookup(h.ShardID, anchor.MessageChunk, err)
	if err != nil {
		return err
	}
	if seen := e != nil && e.signed && e.header.Signature == h.Signature; !seen && !p.verify(h.Signature, hash[:], v.PublicKey) {
		return fmt.Errorf("%w: expected %s", ErrSignature, v.AccountID)
	}
	return nil
}

// placeOf returns the key and the anchor that a partial chunk claims. c.Anchor must not be nil.
func placeOf(c *primitives.PartialChunk) (primitives.ChunkKey, primitives.ChunkAnchor) {
	h := &c.Header
	return primitives.ChunkKey{ShardID: h.ShardID, EpochID: c.Anchor.EpochID, HeightCreated: h.HeightCreated},
		primitives.ChunkAnchor{PrevBlock: h.PrevBlockHash, PrevPrevBlock: c.Anchor.PrevPrevBlock}
}

// checkPlain checks a partial chunk without an anchor. Such a chunk is invalid in epochs from
// EarlyKickout on. id is the epoch of the previous block's children; known says whether that epoch
// is known. checkPlain returns the chunk's epoch, or the likely epoch if the chunk's epoch is
// unknown. It also returns whether this node may forward parts to the validators of the returned
// epoch.
func (p *Pool) checkPlain(e *entry, hash primitives.Hash, h *primitives.ChunkHeader, id primitives.EpochID,
	known bool) (primitives.EpochID, bool, error) {
	placed := known
	if !known {
		var err error
		if id, placed, err = p.likelyEpoch(h); err != nil {
			return id, false, err
		}
	}
	if p.isAnchored(id) {
		return id, false, anchor.WrongForm(h.ShardID, h.HeightCreated, false)
	}
	if !known && e == nil {
		if _, err := p.verifyLikelySigner(hash, h.Signature, h.ShardID, h.HeightCreated, false); err != nil {
			return id, false, err
		}
	}
	return id, placed, nil
}

// waiting identifies a queued item of a chunk: a part, the receipts to a shard, or the header
// alone.
type waiting struct {
	chunk  primitives.Hash
	what   byte // 'p': part, 'r': receipts, 'h': header
	number uint64
}

// postpone queues the parts and receipts of a partial chunk until its previous block is known. The
// header must be signed by the producer that the anchor determines. If the anchor is unknown, the
// header must be signed by the canonical producer of the height. The signature covers only the
// header, so any node can send the header with false contents. Therefore parts and receipts are
// verified first, and each is queued only once. The chunk's epoch must be current or next.
// Otherwise any key that ever signed chunks of the shard could fill the queue. postpone returns why
// if the partial chunk cannot be queued.
func (p *Pool) postpone(c *primitives.PartialChunk, why error) error {
	h, hash := &c.Header, c.Header.ChunkHash()
	if _, known := p.chain.Epoch(h.PrevBlockHash); known {
		return why // the previous block is known, so waiting is pointless
	}
	if !p.isCurrent(c.Anchor.EpochID) {
		return fmt.Errorf("%w: the message states epoch %v, must be the epoch after the head or the next one", why, c.Anchor.EpochID)
	}
	v, _ := p.chain.ProducerAt(placeOf(c)) // empty if the anchor is unknown
	if v.AccountID == "" {
		var err error
		if v, err = p.chain.Producer(c.Anchor.EpochID, h.ShardID, h.HeightCreated); err != nil {
			return why
		}
	}
	if !p.verify(h.Signature, hash[:], v.PublicKey) {
		p.counters.Unsigned.Add(1)
		return fmt.Errorf("%w: %w: expected %s", why, ErrSignature, v.AccountID)
	}
	if _, err := p.verifyParts(c.Parts, h.EncodedMerkleRoot); err != nil {
		return err
	}
	if err := verifyReceipts(c); err != nil {
		return err
	}
	put := func(kind waiting, size int, x *primitives.PartialChunk) error {
		x.Header, x.Anchor = c.Header, c.Anchor
		return p.early.Put(anchor.Entry{Parent: h.PrevBlockHash, Height: h.HeightCreated, Signer: v.AccountID, Kind: kind, Size: size}, x)
	}
	var errs []error
	for i := range c.Parts {
		x := c.Parts[i]
		x.Part = bytes.Clone(x.Part) // Part shares memory with its frame, which may be longer
		errs = append(errs, put(waiting{hash, 'p', x.Ord}, sizeOf(&x), &primitives.PartialChunk{Parts: []primitives.ChunkPart{x}}))
	}
	for i := range c.Receipts {
		r, size := c.Receipts[i], 0
		primitives.Encoded(&r, func(b []byte) { size = len(b) })
		errs = append(errs, put(waiting{hash, 'r', uint64(r.To)}, size, &primitives.PartialChunk{Receipts: []primitives.ReceiptProof{r}}))
	}
	if len(errs) == 0 {
		errs = append(errs, put(waiting{hash, 'h', 0}, 0, new(primitives.PartialChunk)))
	}
	return errors.Join(errs...)
}

// isCurrent returns whether an epoch is the epoch of the head's children or the epoch after that.
func (p *Pool) isCurrent(id primitives.EpochID) bool {
	if at, known := p.chain.Epoch(p.head.Hash); !known || at == id {
		return known
	}
	next, err := p.chain.NextEpoch(p.head.Hash)
	return err == nil && next == id
}

// replay handles a queued partial chunk once the chunk's previous block is known. It replaces the
// claimed anchor by the right anchor. The claimed anchor is not signed. So another node may have
// sent the producer's parts with a false anchor, to keep the producer's own message out of the
// queue.
func (p *Pool) replay(out *Out, now int64, c *primitives.PartialChunk) error {
	prev := c.Header.PrevBlockHash
	if id, known := p.chain.Epoch(prev); known {
		parent, err := p.chain.Parent(prev)
		if err != nil {
			return err
		}
		c.Anchor = &primitives.PartialChunkAnchor{PrevPrevBlock: parent, EpochID: id}
	}
	return p.partial(out, now, c, nil, false)
}

// verifyReceipts checks the sender shard and the proof of each receipt list against the header. It
// rejects a second list to the same shard. Otherwise a peer could repeat a list many times, and
// verification would take seconds.
func verifyReceipts(c *primitives.PartialChunk) error {
	var seen map[primitives.ShardID]bool
	if len(c.Receipts) > 1 {
		seen = make(map[primitives.ShardID]bool)
	}
	for i := range c.Receipts {
		to := c.Receipts[i].To
		if seen[to] {
			return fmt.Errorf("%w: the message has two lists of receipts to shard %d", ErrReceipts, to)
		}
		if seen != nil {
			seen[to] = true
		}
		if r := &c.Receipts[i]; r.From != c.Header.ShardID || !r.Verify(c.Header.PrevOutgoingReceiptsRoot) {
			return fmt.Errorf("%w: the list from shard %d to shard %d", ErrReceipts, r.From, r.To)
		}
	}
	return nil
}
