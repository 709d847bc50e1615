package chunkparts

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// Pool holds the chunks around the head. Not safe for concurrent use.
type Pool struct {
	// Sparing pools do not pass parts on to who has enough of them from their maker, as neard's do: whose own have not come a little behind their block asks for
	// others' (Due).
	Sparing bool

	me     primitives.AccountID // none: not a validator
	chain  Chain
	rs     *primitives.ReedSolomon
	verify func(primitives.Signature, []byte, primitives.PublicKey) bool
	random func(n int) int

	head     Head
	highest  primitives.Height
	entries  map[primitives.Hash]*entry
	at       map[place]primitives.Hash
	on       map[primitives.Hash][]*entry             // by the block that they are on
	heights  map[primitives.Height][]*entry           // by the height at which they were made
	low      primitives.Height                        // none was made below
	wants    map[primitives.Hash]*entry               // which are asked for, or were until lately
	facts    map[primitives.EpochID]*epochFacts       // of the last epochs that were asked about
	forwards map[primitives.Hash][]checked            // of unknown chunks
	order    []primitives.Hash                        // of forwards, oldest first
	waiting  int                                      // bytes of forwards
	makers   map[primitives.Hash]primitives.AccountID // of their chunks: who has signed them
	due      int64                                    // ms; when something is to be asked for before the next Tick, 0: nothing is
	coded    []*coded                                 // stored chunks that others have asked for, least recently last
}

// checked is a part that was held to its chunk's root, with its leaf.
type checked struct {
	primitives.ChunkPart
	leaf primitives.Hash
}

// entry is a chunk whose header is known. Its hash says nothing of the signature: while that can't be checked there may be another header of it.
type entry struct {
	hash     primitives.Hash
	place    place
	header   *primitives.ChunkHeader
	other    *primitives.ChunkHeader // with another signature, nil: none
	parts    []*primitives.ChunkPart // by number
	leaves   []primitives.Hash       // of those that are here
	have     int
	receipts map[primitives.ShardID]primitives.ReceiptProof
	signed   bool // the header's signature was checked
	ready    bool
	complete bool
	to       []primitives.ShardID // complete are proofs to these shards; nil: the body
	failed   bool
	told     primitives.EpochID // by whose owners own parts were passed on; zero: they were not
	want     *want
}

// want is that a chunk is asked for.
type want struct {
	ancestor    primitives.Hash
	added, last int64 // ms
	asked       bool
	spared      bool                 // nobody passes on what is missing
	by          primitives.AccountID // who has made a block with it, and has its own parts; none: that is not known
	whom        primitives.AccountID // who holds the shard, or should, and was asked last
}

// New returns an empty pool of a chain whose chunks are coded by rs. random chooses below n.
func New(me primitives.AccountID, c Chain, rs *primitives.ReedSolomon, verify func(primitives.Signature, []byte, primitives.PublicKey) bool, random func(n int) int) *Pool {
	return &Pool{me: me, chain: c, rs: rs, verify: verify, random: random, entries: map[primitives.Hash]*entry{}, at: map[place]primitives.Hash{},
		on: map[primitives.Hash][]*entry{}, heights: map[primitives.Height][]*entry{}, wants: map[primitives.Hash]*entry{}, facts: map[primitives.EpochID]*epochFacts{}, forwards: map[primitives.Hash][]checked{}, makers: map[primitives.Hash]primitives.AccountID{}}
}

// Step takes an event at a time in ms. On an error the message is to be dropped; what is in Out is to be done nevertheless.
func (p *Pool) Step(now int64, ev Event) (out Out, err error) {
	switch ev := ev.(type) {
	case Made:
		err = p.made(&out, &ev)
	case Partial:
		err = p.partial(&out, now, ev.PartialChunk, nil, false)
	case Forward:
		err = p.forward(&out, now, ev.ChunkForward)
	case Response:
		e := p.entries[ev.ChunkHash]
		if e == nil {
			return out, fmt.Errorf("%w: %v", ErrUnknown, ev.ChunkHash)
		}
		err = p.partial(&out, now, &primitives.PartialChunk{Header: *e.header, Parts: ev.Parts, Receipts: ev.Receipts}, nil, true)
	case Request:
		out.Answer = []Answer{{ev.From, p.answer(ev.ChunkRequest)}}
	case Wanted:
		err = p.wanted(&out, now, &ev)
	case BlockCame:
		var errs []error
		for _, e := range p.incomplete(ev.Hash) {
			errs = append(errs, p.settle(&out, e))
		}
		err = errors.Join(errs...)
	case Head:
		p.setHead(ev)
	case Tick:
		err = p.tick(&out, now)
	default:
		panic(fmt.Sprintf("parts: no case for %T", ev))
	}
	return out, err
}

// incomplete are the chunks on a block that are not whole, by hash.
func (p *Pool) incomplete(prev primitives.Hash) (list []*entry) {
	for _, e := range p.on[prev] {
		if !e.complete && !e.failed {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *entry) int { return a.hash.Compare(b.hash) })
	return list
}

// setHead moves the horizon.
func (p *Pool) setHead(h Head) {
	if h.Header.IsZero() {
		h.Header, h.HeaderPrev = h.Hash, h.Prev
	}
	if p.head = h; h.Height <= p.highest {
		return
	}
	if p.highest = h.Height; p.highest <= HeightHorizon {
		return
	}
	bound := p.highest - HeightHorizon
	low := bound
	drop := func(height primitives.Height) {
		for _, e := range slices.Clone(p.heights[height]) {
			if e.want == nil {
				p.remove(e.hash, e)
			} else {
				low = min(low, height)
			}
		}
	}
	if bound > p.low && uint64(bound-p.low) > uint64(len(p.heights)) {
		for height := range p.heights {
			if height < bound {
				drop(height)
			}
		}
	} else {
		for height := p.low; height < bound; height++ {
			drop(height)
		}
	}
	p.low = low
}

// outside tells whether a height is not around the head.
func (p *Pool) outside(h primitives.Height) bool {
	return h+HeightHorizon < p.highest || h > p.highest+MaxAhead
}

func (p *Pool) remove(hash primitives.Hash, e *entry) {
	if p.entries[hash] != e {
		return
	}
	delete(p.entries, hash)
	delete(p.wants, hash)
	leave(p.on, e.header.PrevBlockHash, e)
	leave(p.heights, e.header.HeightCreated, e)
	if p.at[e.place] == hash {
		delete(p.at, e.place)
	}
}

// leave takes an entry out of a list.
func leave[K comparable](of map[K][]*entry, k K, e *entry) {
	if of[k] = slices.DeleteFunc(of[k], func(x *entry) bool { return x == e }); len(of[k]) == 0 {
		delete(of, k)
	}
}

// know returns the entry of a header, with the forwards that have come before it.
func (p *Pool) know(hash primitives.Hash, h *primitives.ChunkHeader) *entry {
	if e := p.entries[hash]; e != nil {
		return e
	}
	at, _ := p.placeOf(h)
	e := &entry{hash: hash, place: at, header: h, parts: make([]*primitives.ChunkPart, p.rs.TotalParts()), leaves: make([]primitives.Hash, p.rs.TotalParts()), receipts: map[primitives.ShardID]primitives.ReceiptProof{}}
	p.entries[hash] = e
	p.on[h.PrevBlockHash] = append(p.on[h.PrevBlockHash], e)
	p.heights[h.HeightCreated] = append(p.heights[h.HeightCreated], e)
	p.low = min(p.low, h.HeightCreated)
	p.at[e.place] = hash
	if list, ok := p.forwards[hash]; ok { // checked against the root that makes the hash
		p.forget(hash)
		for i := range list {
			e.put(&list[i].ChunkPart, list[i].leaf)
		}
	}
	return e
}

// offer shows a header of the chunk that another has given. Who is asked for its block's chunks has it from the block: that one is believed first.
func (e *entry) offer(h *primitives.ChunkHeader, block bool) {
	switch {
	case e.signed || e.header.Signature == h.Signature:
	case block:
		e.header, e.other = h, e.header
	case e.other == nil:
		e.other = h
	}
}

// add takes a copy of a part that was checked, and tells whether it is new.
func (e *entry) add(x *primitives.ChunkPart, leaf primitives.Hash) bool {
	if e.parts[x.Ord] != nil {
		return false
	}
	e.put(&primitives.ChunkPart{Ord: x.Ord, Part: bytes.Clone(x.Part), Proof: x.Proof}, leaf)
	return true
}

// put takes a part that was checked, and that nobody else changes, unless it is here.
func (e *entry) put(x *primitives.ChunkPart, leaf primitives.Hash) {
	if e.parts[x.Ord] == nil {
		e.parts[x.Ord], e.leaves[x.Ord] = x, leaf
		e.have++
	}
}

func sizeOf(x *primitives.ChunkPart) int { return len(x.Part) + 64*len(x.Proof) }

// verifyParts checks parts against the root that their producer has signed, as far as he can be held to it: he may have signed any. It gives their leaves.
func (p *Pool) verifyParts(list []primitives.ChunkPart, root primitives.Hash) ([]primitives.Hash, error) {
	leaves := make([]primitives.Hash, len(list))
	for i := range list {
		x, good := &list[i], false
		if len(x.Part) <= MaxCoded/p.rs.DataParts() {
			leaves[i], good = x.VerifyLeaf(root, p.rs.TotalParts())
		}
		if !good {
			return nil, fmt.Errorf("%w: %d", ErrPart, x.Ord)
		}
	}
	return leaves, nil
}

// likelySigned wants what is about a block that is not known to be within the horizon and signed by who makes that chunk in the head's epoch or the next:
// it is kept, and takes the place of others, before more can be looked at. Upstream takes no forwards there, and headers unsigned
// (shards_manager_actor.rs:1303, :1633).
func (p *Pool) likelySigned(hash primitives.Hash, signature primitives.Signature, shard primitives.ShardID, height primitives.Height) (by primitives.AccountID, err error) {
	if p.outside(height) {
		return "", fmt.Errorf("%w: shard %d at %d", ErrHorizon, shard, height)
	}
	var ids []primitives.EpochID
	if id, known := p.chain.Epoch(p.head.Hash); known {
		ids = append(ids, id)
	}
	if id, err := p.chain.NextEpoch(p.head.Hash); err == nil {
		ids = append(ids, id)
	}
	for _, id := range ids {
		if v, err := p.chain.Producer(id, shard, height); err == nil && p.verify(signature, hash[:], v.PublicKey) {
			return v.AccountID, nil
		}
	}
	return "", fmt.Errorf("%w: on a block that is not known", ErrSignature)
}

// partial takes parts and receipts of a chunk; known says that the header is one that is known, leaves are those of the parts if these were checked.
func (p *Pool) partial(out *Out, now int64, c *primitives.PartialChunk, leaves []primitives.Hash, known bool) error {
	h, hash := &c.Header, c.Header.ChunkHash()
	e := p.entries[hash]
	if e != nil && (e.complete || e.failed) {
		return nil
	}
	if e == nil || e.want == nil {
		far := p.outside(h.HeightCreated) // before the store is asked for its block
		var at place
		if !far {
			at, far = p.placeOf(h)
		}
		if far {
			return fmt.Errorf("%w: shard %d at %d", ErrHorizon, h.ShardID, h.HeightCreated)
		}
		if e != nil {
			at = e.place
		}
		if other, ok := p.at[at]; ok && other != hash {
			return fmt.Errorf("%w: shard %d at %d", ErrOther, h.ShardID, h.HeightCreated)
		}
	}
	id, placed := p.chain.Epoch(h.PrevBlockHash)
	if !placed && !known {
		var err error
		if id, placed, err = p.likely(h); err != nil {
			return err
		}
		if e == nil {
			if _, err := p.likelySigned(hash, h.Signature, h.ShardID, h.HeightCreated); err != nil {
				return err
			}
		}
	}
	if leaves == nil {
		var err error
		if leaves, err = p.verifyParts(c.Parts, h.EncodedMerkleRoot); err != nil {
			return err
		}
	}
	for i := range c.Receipts {
		if r := &c.Receipts[i]; r.From != h.ShardID || !r.Verify(h.PrevOutgoingReceiptsRoot) {
			return fmt.Errorf("%w: from shard %d to %d", ErrReceipts, r.From, r.To)
		}
	}
	own := *h
	own.HeightIncluded = 0 // which nobody has signed
	if e == nil {
		e = p.know(hash, &own)
	} else if !known {
		e.offer(&own, false)
	}
	var fresh []primitives.ChunkPart
	for i := range c.Parts {
		if x := &c.Parts[i]; e.add(x, leaves[i]) {
			fresh = append(fresh, *e.parts[x.Ord])
		}
	}
	for _, r := range c.Receipts {
		if _, ok := e.receipts[r.To]; !ok {
			e.receipts[r.To] = r
		}
	}
	if err := p.check(e); err != nil {
		return err
	}
	if placed {
		if err := p.passOn(out, e, id, fresh); err != nil {
			return err
		}
		e.told = id
	}
	if err := p.settle(out, e); err != nil {
		return err
	}
	if !e.complete && !e.failed && e.want == nil {
		if _, here := p.chain.Epoch(h.PrevBlockHash); here {
			p.want(e, h.PrevBlockHash, now)
		}
	}
	return nil
}

// likely is the epoch of a header on an unknown block: that behind the head. What is wrong about the header is seen when its block comes. A shard that only the
// epoch after that has may be of its first block, and the head is not yet the block before: its parts are kept, and passed on when that is here.
func (p *Pool) likely(h *primitives.ChunkHeader) (id primitives.EpochID, placed bool, err error) {
	id, known := p.chain.Epoch(p.head.Hash)
	if !known {
		return id, false, fmt.Errorf("%w: on an unknown block, in no epoch", ErrHeader)
	}
	layout, err := p.chain.Layout(id)
	if err != nil {
		return id, false, fmt.Errorf("%w: on an unknown block: %w", ErrHeader, err)
	}
	if layout.Has(h.ShardID) {
		return id, true, nil
	}
	next, err := p.chain.NextEpoch(p.head.Hash)
	if err == nil {
		layout, err = p.chain.Layout(next)
	}
	if err != nil {
		return id, false, fmt.Errorf("%w: on an unknown block: %w", ErrHeader, err)
	}
	if !layout.Has(h.ShardID) {
		return id, false, fmt.Errorf("%w: of shard %d on an unknown block", ErrHeader, h.ShardID)
	}
	return id, false, nil
}

// check has the header's signature checked once its block is known; an entry without a good one goes.
func (p *Pool) check(e *entry) error {
	if e.signed {
		return nil
	}
	if _, known := p.chain.Epoch(e.header.PrevBlockHash); !known {
		return nil
	}
	producer, err := p.chain.Maker(e.header.PrevBlockHash, e.header.ShardID)
	if err != nil {
		p.remove(e.hash, e)
		return fmt.Errorf("%w: %w", ErrHeader, err)
	}
	for _, h := range []*primitives.ChunkHeader{e.header, e.other} {
		if h != nil && p.verify(h.Signature, e.hash[:], producer.PublicKey) {
			e.header, e.other, e.signed = h, nil, true
			return nil
		}
	}
	p.remove(e.hash, e)
	return fmt.Errorf("%w: %s", ErrSignature, producer.AccountID)
}

// settle does what can be done with a chunk whose block is known: says that own parts are here, puts it together, or is content with what it needs.
func (p *Pool) settle(out *Out, e *entry) error {
	id, known := p.chain.Epoch(e.header.PrevBlockHash)
	if !known || e.complete || e.failed {
		return nil
	}
	if err := p.check(e); err != nil {
		return err
	}
	if e.told != id { // the epoch was not known, or another one was likely
		var all []primitives.ChunkPart
		for _, x := range e.parts {
			if x != nil {
				all = append(all, *x)
			}
		}
		e.told = id
		if err := p.passOn(out, e, id, all); err != nil {
			return err
		}
	}
	facts, err := p.factsOf(id)
	if err != nil {
		return err
	}
	own, layout := facts.own, facts.layout
	all := !slices.ContainsFunc(own, func(ord uint64) bool { return e.parts[ord] == nil })
	if all && !e.ready {
		e.ready = true
		out.Ready = append(out.Ready, e.header)
	}
	held, err := p.held(layout, e.header.PrevBlockHash)
	if err != nil {
		return err
	}
	receipts := !slices.ContainsFunc(held, func(s primitives.ShardID) bool { _, ok := e.receipts[s]; return !ok })
	holds := slices.Contains(held, e.header.ShardID)
	switch {
	case !holds && all && receipts:
		c := &primitives.Chunk{Hash: e.hash, Header: *e.header, Proofs: []primitives.ReceiptProof{}}
		for _, s := range held {
			c.Proofs = append(c.Proofs, e.receipts[s])
		}
		p.done(out, e, c, own)
	case e.have >= p.rs.DataParts():
		c := p.join(e, layout)
		if c == nil {
			e.failed, e.want = true, nil
			out.Bad = append(out.Bad, e.header)
			return nil
		}
		if !e.ready { // own parts are among those that were made; nearcore does not say so then
			e.ready = true
			out.Ready = append(out.Ready, e.header)
		}
		if !holds {
			c = chain.CutChunk(c, layout, held)
		}
		p.done(out, e, c, own)
	}
	return nil
}

func (p *Pool) done(out *Out, e *entry, c *primitives.Chunk, own []uint64) {
	e.complete, e.want, e.to = true, nil, nil
	if c.Proofs != nil {
		e.to = []primitives.ShardID{}
		for i := range c.Proofs {
			e.to = append(e.to, c.Proofs[i].To)
		}
	}
	kept := &primitives.PartialChunk{Header: *e.header}
	for _, x := range e.parts {
		if x != nil && (c.Proofs == nil || slices.Contains(own, x.Ord)) {
			kept.Parts = append(kept.Parts, *x)
		}
	}
	for _, r := range e.receipts {
		if c.Proofs == nil || chain.ProofTo(c, r.To) != nil {
			kept.Receipts = append(kept.Receipts, r)
		}
	}
	slices.SortFunc(kept.Receipts, func(a, b primitives.ReceiptProof) int { return int(a.To) - int(b.To) })
	out.Complete = append(out.Complete, Complete{c, kept})
	if p.outside(e.header.HeightCreated) { // a block far from the head has wanted it: nothing would remove it
		p.remove(e.hash, e)
	}
}

// enough tells whether what is complete of a chunk is what this node needs, which may hold other shards by now. What can't be told is.
func (p *Pool) enough(e *entry) bool {
	id, known := p.chain.Epoch(e.header.PrevBlockHash)
	if !known {
		return true
	}
	layout, err := p.chain.Layout(id)
	if err != nil {
		return true
	}
	held, err := p.held(layout, e.header.PrevBlockHash)
	if err != nil {
		return true
	}
	if slices.Contains(held, e.header.ShardID) || e.to == nil {
		return e.to == nil && slices.Contains(held, e.header.ShardID)
	}
	return !slices.ContainsFunc(held, func(s primitives.ShardID) bool { return !slices.Contains(e.to, s) })
}

// held are the shards that this node holds, or will.
func (p *Pool) held(layout primitives.ShardLayout, prev primitives.Hash) (out []primitives.ShardID, err error) {
	for _, s := range layout.ShardIDs() {
		holds, err := p.chain.Holds(prev, s)
		if err != nil {
			return nil, err
		}
		if holds {
			out = append(out, s)
		}
	}
	return out, nil
}
