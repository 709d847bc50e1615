package chunkparts

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/anchor"
	"github.com/troupe-chain/troupe/primitives"
)

// Pool distributes and collects chunk parts around the head. It is not safe for concurrent use.
//
// # Chunk parts
//
// Problem. A chunk reaches the network as TotalParts erasure-coded parts, of which DataParts
// restore the body. The producer sends each part to its owner, a block producer. A block producer
// may include the chunk in a block once it has the parts that it owns. Nodes that track the shard
// need the whole body, others only receipts to their shards. A part may arrive before the chunk
// header, before the chunk's previous block, twice, or never.
//
// Invariants.
//
//   - A part is stored only if its Merkle proof leads to the root in the header. So stored parts
//     need no other check. Reassembly fails only if the producer signed parts that do not decode.
//   - A header on a known block is checked against the key of the chunk's producer.
//     The chunk hash does not cover the signature; until the check an entry stores up to two headers
//     with different signatures (header, altHeader).
//   - If the previous block is unknown, the header must be signed by the producer that the anchor
//     determines or, in epochs before EarlyKickout, by the producer of that height in the head's epoch
//     or the next (verifyLikelySigner). Otherwise anyone could occupy a slot. If the anchor does not
//     determine the producer yet, the partial chunk waits in the queue Pool.early.
//   - Each slot (shard and height, and the anchor if there is one) has one chunk, so one signer. A
//     second chunk of the slot is stored only if a block includes it.
//   - Own parts are forwarded once for each epoch that the chunk is assigned to (forwardedFor).
//
// Outline. Partial, Forward and Response lead to the method partial: it checks and stores the
// parts, forwards own parts, then calls tryComplete. tryComplete reports Ready when own parts are
// present. tryComplete reports Complete when all needed receipts and own parts are present.
// tryComplete also reports Complete when DataParts parts are present, because reassemble restores
// the body from these parts. Wanted starts requests: at once if no peer forwards parts to this
// node, otherwise after the first Tick. Tick repeats the requests: first to the producer, after
// ToOthers to other validators of the shard, after FullFetch for all parts. BlockArrived completes
// entries that waited for their previous block, and handles the partial chunks queued for it. Head
// moves the horizon.
//
// Differences from nearcore (shards_manager_actor.rs): the option Sparing; and a header whose
// previous block is unknown needs a signature, and then forwards for it are accepted. nearcore
// accepts such headers unsigned, and no forwards for them. Rejected: a pool for each shard.
// Requests and the horizon are common to all shards, and most nodes get parts of the chunks of all
// shards.
type Pool struct {
	// Sparing turns off forwards to validators that own at least DataParts parts. Such a validator
	// restores the body from its own parts. If its own parts do not arrive shortly after the block,
	// the validator requests the parts of other owners (Due). neard has no such option.
	Sparing bool

	me     primitives.AccountID // account of this node's validator; empty: none
	chain  Chain
	rs     *primitives.ReedSolomon
	verify func(primitives.Signature, []byte, primitives.PublicKey) bool
	random func(n int) int

	now      int64 // time in ms of the step
	head     Head
	highest  primitives.Height
	entries  map[primitives.Hash]*entry
	bySlot   map[slot]primitives.Hash
	byPrev   map[primitives.Hash][]*entry   // entries by hash of the previous block
	byHeight map[primitives.Height][]*entry // entries by HeightCreated
	low      primitives.Height              // lower bound of the entries' HeightCreated
	// wants has the requested chunks by hash. A complete chunk is removed at the next tick.
	wants  map[primitives.Hash]*entry
	epochs map[primitives.EpochID]*epochData // recently used epochs
	// unions has the block producers of both epochs of a pair, without duplicates.
	unions       map[[2]primitives.EpochID][]primitives.AccountID
	trackers     map[trackersKey][]primitives.AccountID
	forwards     map[primitives.Hash][]verifiedPart // forwarded parts of chunks without header
	forwardOrder []primitives.Hash                  // keys of forwards, oldest first
	forwardBytes int                                // total size of forwards in bytes
	// forwardSigners are the producers that signed the chunks in forwards
	forwardSigners map[primitives.Hash]primitives.AccountID
	early          *anchor.Queue[*primitives.PartialChunk] // partial chunks that wait for their previous block
	counters       *anchor.Counters
	// due is the time in ms of the first request before the next Tick; 0: none
	due     int64
	encoded []*encodedChunk // re-encoded stored chunks that peers requested, most recent first
}

// verifiedPart is a part whose proof was verified, with its Merkle leaf.
type verifiedPart struct {
	primitives.ChunkPart
	leaf primitives.Hash
}

// entry is a chunk with a known header. The chunk hash does not cover the signature. So while
// signed is false, the right signature may be in another header with the same hash.
type entry struct {
	hash      primitives.Hash
	slot      slot
	header    *primitives.ChunkHeader
	altHeader *primitives.ChunkHeader // header with the hash of header and a different signature; nil: none
	parts     []*primitives.ChunkPart // parts by number; nil: the part is missing
	leaves    []primitives.Hash       // hashes of the parts by number; zero: the part is missing
	have      int                     // number of present parts
	receipts  map[primitives.ShardID]primitives.ReceiptProof
	signed    bool // the signature of header was checked
	plain     bool // no message about the chunk had an anchor, and no block includes the chunk
	ready     bool // Out.Ready was reported
	complete  bool // Out.Complete was reported
	// proofsTo is set for a complete chunk without a body. It lists the shards to which the chunk
	// has receipt proofs. nil: the chunk has its body.
	proofsTo []primitives.ShardID
	failed   bool           // Out.Bad was reported
	arrived  int64          // time in ms at which the header arrived
	timed    [Received]bool // Out.Timed was reported
	needed   bool           // a block needs the chunk, since the time neededAt in ms
	neededAt int64
	// forwardedFor is the epoch to whose validators own parts were forwarded, or zero.
	forwardedFor primitives.EpochID
	want         *want // state of the requests; nil: the chunk is not requested
}

// want is the state of the requests for a chunk.
type want struct {
	ancestor    primitives.Hash
	added, last int64 // times in ms of the first and the last request; before a request: time of Wanted
	asked       bool
	noForwards  bool // no peer forwards the missing parts to this node (Sparing)
	// blockProducer is the producer of a block that includes the chunk. That validator has its own
	// parts of the chunk. Empty: unknown.
	blockProducer primitives.AccountID
	lastAsked     primitives.AccountID // account to which the last request for own parts went
}

// New returns an empty pool. me is the own account, empty for a node that does not validate. rs
// encodes and decodes the chunks of this chain, verify checks signatures, random returns a number
// in [0, n).
func New(me primitives.AccountID, c Chain, rs *primitives.ReedSolomon,
	verify func(primitives.Signature, []byte, primitives.PublicKey) bool, random func(n int) int) *Pool {
	p := &Pool{
		me: me, chain: c, rs: rs, verify: verify, random: random, entries: map[primitives.Hash]*entry{}, bySlot: map[slot]primitives.Hash{},
		byPrev: map[primitives.Hash][]*entry{}, byHeight: map[primitives.Height][]*entry{}, wants: map[primitives.Hash]*entry{},
		epochs: map[primitives.EpochID]*epochData{}, unions: map[[2]primitives.EpochID][]primitives.AccountID{},
		trackers: map[trackersKey][]primitives.AccountID{}, forwards: map[primitives.Hash][]verifiedPart{},
		forwardSigners: map[primitives.Hash]primitives.AccountID{}, early: anchor.NewQueue[*primitives.PartialChunk](),
	}
	p.Count(new(anchor.Counters))
	return p
}

// Count makes the pool count in c the results of checking partial chunks that have an anchor.
func (p *Pool) Count(c *anchor.Counters) { p.counters, p.early.Counters = c, c }

// Step handles an event at the time now, in ms. After an error the caller must drop the message and
// still carry out Out. It panics on an unknown Event type.
func (p *Pool) Step(now int64, ev Event) (out Out, err error) {
	p.now = now
	switch ev := ev.(type) {
	case Made:
		err = p.distribute(&out, &ev)
	case Partial:
		err = p.receive(&out, now, ev.PartialChunk)
	case Forward:
		err = p.forward(&out, now, ev.ChunkForward)
	case Response:
		e := p.entries[ev.ChunkHash]
		if e == nil {
			return out, fmt.Errorf("%w: %v", ErrUnknown, ev.ChunkHash)
		}
		err = p.partial(&out, now, &primitives.PartialChunk{Header: *e.header, Parts: ev.Parts, Receipts: ev.Receipts}, nil, true)
	case Request:
		out.Answer = []Answer{{ev.From, p.respond(ev.ChunkRequest)}}
	case Wanted:
		err = p.wanted(&out, now, &ev)
	case BlockArrived:
		var errs []error
		count := func(err error) { // counts each error before they are joined
			p.counters.Error(err)
			errs = append(errs, err)
		}
		for _, e := range p.incomplete(ev.Hash) {
			count(p.tryComplete(&out, e))
		}
		for _, c := range p.early.Take(ev.Hash) {
			count(p.replay(&out, now, c))
		}
		err = errors.Join(errs...)
	case Head:
		p.setHead(ev)
	case Tick:
		err = p.tick(&out, now)
	default:
		panic(fmt.Sprintf("chunkparts: no case for %T", ev))
	}
	return out, err
}

// incomplete returns the incomplete chunks on a block, sorted by hash.
func (p *Pool) incomplete(prev primitives.Hash) (list []*entry) {
	for _, e := range p.byPrev[prev] {
		if !e.complete && !e.failed {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *entry) int { return a.hash.Compare(b.hash) })
	return list
}

// setHead moves the horizon and removes chunks below it, except those that are requested.
func (p *Pool) setHead(h Head) {
	if h.Header.IsZero() {
		h.Header, h.HeaderPrev = h.Hash, h.Prev
	}
	if p.head = h; h.Height <= p.highest {
		return
	}
	p.early.DropTo(h.Height - min(h.Height, earlyHorizon))
	if p.highest = h.Height; p.highest <= HeightHorizon {
		return
	}
	bound := p.highest - HeightHorizon
	low := bound
	drop := func(height primitives.Height) {
		for _, e := range slices.Clone(p.byHeight[height]) {
			if e.want == nil {
				p.remove(e.hash, e)
			} else {
				low = min(low, height)
			}
		}
	}
	if bound > p.low && uint64(bound-p.low) > uint64(len(p.byHeight)) {
		for height := range p.byHeight {
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

// outsideHorizon returns whether a height is too far from the head.
func (p *Pool) outsideHorizon(h primitives.Height) bool {
	return h+HeightHorizon < p.highest || h > p.highest+MaxAhead
}

func (p *Pool) remove(hash primitives.Hash, e *entry) {
	if p.entries[hash] != e {
		return
	}
	delete(p.entries, hash)
	delete(p.wants, hash)
	removeFrom(p.byPrev, e.header.PrevBlockHash, e)
	removeFrom(p.byHeight, e.header.HeightCreated, e)
	if p.bySlot[e.slot] == hash {
		delete(p.bySlot, e.slot)
	}
}

// removeFrom removes an entry from a list.
func removeFrom[K comparable](of map[K][]*entry, k K, e *entry) {
	if of[k] = slices.DeleteFunc(of[k], func(x *entry) bool { return x == e }); len(of[k]) == 0 {
		delete(of, k)
	}
}

// entryFor returns the entry of a header. If there is no entry, entryFor creates one, with the
// stored forwards of the chunk. claimed is the anchor in the message, or nil if the message has
// none.
func (p *Pool) entryFor(hash primitives.Hash, h *primitives.ChunkHeader, claimed *primitives.PartialChunkAnchor) *entry {
	if e := p.entries[hash]; e != nil {
		return e
	}
	at, _ := p.slotOf(h, claimed)
	e := &entry{hash: hash, slot: at, header: h, arrived: p.now, parts: make([]*primitives.ChunkPart, p.rs.TotalParts()),
		leaves: make([]primitives.Hash, p.rs.TotalParts()), receipts: map[primitives.ShardID]primitives.ReceiptProof{}}
	p.entries[hash] = e
	p.byPrev[h.PrevBlockHash] = append(p.byPrev[h.PrevBlockHash], e)
	p.byHeight[h.HeightCreated] = append(p.byHeight[h.HeightCreated], e)
	p.low = min(p.low, h.HeightCreated)
	p.bySlot[e.slot] = hash
	if list, ok := p.forwards[hash]; ok { // these parts are valid: their proofs lead to the root, which the hash covers
		p.dropForwards(hash)
		for i := range list {
			e.put(&list[i].ChunkPart, list[i].leaf)
		}
	}
	return e
}

// offerHeader adds a header with the entry's hash and a different signature, unless the entry's
// signature was verified already. A header from a block replaces the entry's header, because the
// peers that this node asks for the chunk know the header from that block.
func (e *entry) offerHeader(h *primitives.ChunkHeader, block bool) {
	switch {
	case e.signed || e.header.Signature == h.Signature:
	case block:
		e.header, e.altHeader = h, e.header
	case e.altHeader == nil:
		e.altHeader = h
	}
}

// add stores a copy of a verified part, and returns whether it is new.
func (e *entry) add(x *primitives.ChunkPart, leaf primitives.Hash) bool {
	if e.parts[x.Ord] != nil {
		return false
	}
	e.put(&primitives.ChunkPart{Ord: x.Ord, Part: bytes.Clone(x.Part), Proof: x.Proof}, leaf)
	return true
}

// put stores a verified part, which the caller must not change later. If a part with that number is
// present already, put does nothing.
func (e *entry) put(x *primitives.ChunkPart, leaf primitives.Hash) {
	if e.parts[x.Ord] == nil {
		e.parts[x.Ord], e.leaves[x.Ord] = x, leaf
		e.have++
	}
}

func sizeOf(x *primitives.ChunkPart) int { return len(x.Part) + 64*len(x.Proof) }

// verifyParts checks parts against the Merkle root of a header and returns their leaves. Verified
// parts may still not decode, since the producer may have signed any root. verifyParts rejects more
// parts than a chunk has, because otherwise a peer could repeat a part so often that verifying
// takes seconds.
func (p *Pool) verifyParts(list []primitives.ChunkPart, root primitives.Hash) ([]primitives.Hash, error) {
	if len(list) > p.rs.TotalParts() {
		return nil, fmt.Errorf("%w: the message has %d parts, the limit is %d", ErrPart, len(list), p.rs.TotalParts())
	}
	leaves := make([]primitives.Hash, len(list))
	for i := range list {
		x, good := &list[i], false
		if len(x.Part) <= MaxCoded/p.rs.DataParts() {
			leaves[i], good = x.VerifyLeaf(root, p.rs.TotalParts())
		}
		if !good {
			return nil, fmt.Errorf("%w: part %d is longer than %d bytes, or does not match the chunk's Merkle root", ErrPart,
				x.Ord, MaxCoded/p.rs.DataParts())
		}
	}
	return leaves, nil
}

// verifyLikelySigner checks a chunk without an anchor whose previous block is unknown. The chunk's
// height must be within the horizon. The producer of that height in the head's epoch or the next
// must have signed the chunk; verifyLikelySigner returns this producer. The check comes before the
// chunk occupies a slot. nearcore accepts no forwards in this case, and accepts headers without
// this check (shards_manager_actor.rs:1303, :1633).
//
// If anchored is set, verifyLikelySigner considers epochs from EarlyKickout on too. In these epochs
// the producer depends on the chunk's anchor, which is most likely the head or its parent.
func (p *Pool) verifyLikelySigner(hash primitives.Hash, signature primitives.Signature, shard primitives.ShardID,
	height primitives.Height, anchored bool) (by primitives.AccountID, err error) {
	if p.outsideHorizon(height) {
		return "", fmt.Errorf("%w: shard %d at height %d, the head is at %d", ErrHorizon, shard, height, p.head.Height)
	}
	var ids []primitives.EpochID
	if id, known := p.chain.Epoch(p.head.Hash); known {
		ids = append(ids, id)
	}
	if id, err := p.chain.NextEpoch(p.head.Hash); err == nil {
		ids = append(ids, id)
	}
	var tried []primitives.PublicKey
	is := func(v primitives.ValidatorStake, err error) bool {
		if err != nil || slices.Contains(tried, v.PublicKey) {
			return false
		}
		by, tried = v.AccountID, append(tried, v.PublicKey)
		return p.verify(signature, hash[:], v.PublicKey)
	}
	for _, id := range ids {
		if p.isAnchored(id) {
			if !anchored {
				continue
			}
			for _, parent := range []primitives.Hash{p.head.Hash, p.head.Prev} {
				if _, known := p.chain.Epoch(parent); known && is(p.chain.Following(id, parent, shard, height)) {
					return by, nil
				}
			}
		}
		if is(p.chain.Producer(id, shard, height)) {
			return by, nil
		}
	}
	return "", fmt.Errorf("%w: the chunk's parent block is unknown, and no likely producer of shard %d at height %d "+
		"has signed", ErrSignature, shard, height)
}

// partial handles parts and receipts of a chunk. known says that the header comes from an entry.
// leaves are the Merkle leaves of parts that are verified already; nil means that partial must
// verify the parts.
func (p *Pool) partial(out *Out, now int64, c *primitives.PartialChunk, leaves []primitives.Hash, known bool) error {
	h, hash := &c.Header, c.Header.ChunkHash()
	e := p.entries[hash]
	if e != nil && (e.complete || e.failed) {
		return nil
	}
	if e == nil || e.want == nil {
		far := p.outsideHorizon(h.HeightCreated) // checked first, because the lookup of the block may read the store
		var at slot
		if !far {
			at, far = p.slotOf(h, c.Anchor)
		}
		if far {
			return fmt.Errorf("%w: shard %d at height %d, the head is at %d", ErrHorizon, h.ShardID, h.HeightCreated, p.head.Height)
		}
		if e != nil {
			at = e.slot
		}
		if other, ok := p.bySlot[at]; ok && other != hash {
			return fmt.Errorf("%w: shard %d at height %d", ErrOther, h.ShardID, h.HeightCreated)
		}
	}
	id, placed := p.chain.Epoch(h.PrevBlockHash)
	if !known {
		var err error
		if c.Anchor != nil {
			id, placed, err = c.Anchor.EpochID, true, p.checkAnchor(e, hash, c)
		} else {
			id, placed, err = p.checkPlain(e, hash, h, id, placed)
		}
		if err != nil {
			return err
		}
	}
	if leaves == nil {
		var err error
		if leaves, err = p.verifyParts(c.Parts, h.EncodedMerkleRoot); err != nil {
			return err
		}
	}
	if err := verifyReceipts(c); err != nil {
		return err
	}
	own := *h
	own.HeightIncluded = 0 // the signature does not cover HeightIncluded
	if e == nil {
		e = p.entryFor(hash, &own, c.Anchor)
		e.plain = c.Anchor == nil
	} else if !known {
		e.plain = e.plain && c.Anchor == nil
		e.offerHeader(&own, false)
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
		if err := p.forwardOwn(out, e, id, fresh); err != nil {
			return err
		}
		e.forwardedFor = id
	}
	if err := p.tryComplete(out, e); err != nil {
		return err
	}
	if !e.complete && !e.failed && e.want == nil {
		if _, here := p.chain.Epoch(h.PrevBlockHash); here {
			p.want(e, h.PrevBlockHash, now)
		}
	}
	return nil
}

// likelyEpoch guesses the epoch of a chunk whose previous block has not arrived. If the shard
// exists in the epoch of the head's children, the result is that epoch, with placed set. If the
// shard exists only in the next epoch, the chunk may be one of the first after a shard split. The
// result is then the next epoch, and placed is false: the caller stores the chunk's parts, but
// forwards its own parts only after the previous block has arrived. A wrong guess admits no wrong
// chunk, because the header is checked in full when the previous block arrives. Errors wrap
// ErrHeader.
func (p *Pool) likelyEpoch(h *primitives.ChunkHeader) (id primitives.EpochID, placed bool, err error) {
	id, known := p.chain.Epoch(p.head.Hash)
	if !known {
		return id, false, fmt.Errorf("%w: the chunk's parent block and the epoch after the head are unknown", ErrHeader)
	}
	layout, err := p.chain.Layout(id)
	if err != nil {
		return id, false, fmt.Errorf("%w: the chunk's parent block is unknown, and so are the shards of this epoch: %w", ErrHeader, err)
	}
	if layout.Has(h.ShardID) {
		return id, true, nil
	}
	next, err := p.chain.NextEpoch(p.head.Hash)
	if err == nil {
		layout, err = p.chain.Layout(next)
	}
	if err != nil {
		return id, false, fmt.Errorf("%w: the chunk's parent block is unknown, and so are the shards of the next epoch: %w", ErrHeader, err)
	}
	if !layout.Has(h.ShardID) {
		return id, false, fmt.Errorf("%w: the chunk's parent block is unknown, and neither this epoch nor the next has "+
			"shard %d", ErrHeader, h.ShardID)
	}
	return id, false, nil
}

// check verifies the header's signature. check returns nil if the chunk's previous block is
// unknown. check removes an entry without a valid signature from the pool.
func (p *Pool) check(e *entry) error {
	if e.signed {
		return nil
	}
	id, known := p.chain.Epoch(e.header.PrevBlockHash)
	if !known {
		return nil
	}
	if e.plain && p.isAnchored(id) { // this node took the chunk's epoch for one before EarlyKickout
		p.remove(e.hash, e)
		return anchor.WrongForm(e.header.ShardID, e.header.HeightCreated, false)
	}
	producer, err := p.chain.Maker(e.header.PrevBlockHash, e.header.ShardID)
	if err != nil {
		p.remove(e.hash, e)
		return fmt.Errorf("%w: %w", ErrHeader, err)
	}
	for _, h := range []*primitives.ChunkHeader{e.header, e.altHeader} {
		if h != nil && p.verify(h.Signature, e.hash[:], producer.PublicKey) {
			e.header, e.altHeader, e.signed = h, nil, true
			return nil
		}
	}
	p.remove(e.hash, e)
	return fmt.Errorf("%w: expected %s", ErrSignature, producer.AccountID)
}

// tryComplete does all that is possible for a chunk whose previous block is known: it reports that
// this validator's own parts are present, reassembles the body, or completes the chunk with receipt
// proofs alone.
func (p *Pool) tryComplete(out *Out, e *entry) error {
	id, known := p.chain.Epoch(e.header.PrevBlockHash)
	if !known || e.complete || e.failed {
		return nil
	}
	if err := p.check(e); err != nil {
		return err
	}
	if e.forwardedFor != id { // this node has not forwarded its parts to this epoch's validators yet
		var all []primitives.ChunkPart
		for _, x := range e.parts {
			if x != nil {
				all = append(all, *x)
			}
		}
		e.forwardedFor = id
		if err := p.forwardOwn(out, e, id, all); err != nil {
			return err
		}
	}
	facts, err := p.epochDataOf(id)
	if err != nil {
		return err
	}
	own, layout := facts.own, facts.layout
	all := !slices.ContainsFunc(own, func(ord uint64) bool { return e.parts[ord] == nil })
	if all && !e.ready {
		e.ready = true
		out.Ready = append(out.Ready, e.header)
	}
	held, err := p.heldShards(layout, e.header.PrevBlockHash)
	if err != nil {
		return err
	}
	receipts := !slices.ContainsFunc(held, func(s primitives.ShardID) bool { _, ok := e.receipts[s]; return !ok })
	for at, is := range [Received]bool{OwnParts: all, Receipts: receipts, Decodable: e.have >= p.rs.DataParts()} {
		if is && !e.timed[at] {
			e.timed[at] = true
			out.Timed = append(out.Timed, Timed{Timing(at), e.header.ShardID, p.now - e.arrived})
		}
	}
	holds := slices.Contains(held, e.header.ShardID)
	switch {
	case !holds && all && receipts:
		c := &primitives.Chunk{Hash: e.hash, Header: *e.header, Proofs: []primitives.ReceiptProof{}}
		for _, s := range held {
			c.Proofs = append(c.Proofs, e.receipts[s])
		}
		p.finish(out, e, c, own)
	case e.have >= p.rs.DataParts():
		c := p.reassemble(e, layout)
		if c == nil {
			e.failed, e.want = true, nil
			out.Bad = append(out.Bad, e.header)
			return nil
		}
		if !e.ready { // the restored parts may contain this validator's parts; nearcore reports no Ready here
			e.ready = true
			out.Ready = append(out.Ready, e.header)
		}
		if !holds {
			c = chain.CutChunk(c, layout, held)
		}
		p.finish(out, e, c, own)
	}
	return nil
}

// finish reports a chunk as complete. own are the numbers of the parts that this validator owns.
func (p *Pool) finish(out *Out, e *entry, c *primitives.Chunk, own []uint64) {
	if e.needed {
		out.Timed = append(out.Timed, Timed{Received, e.header.ShardID, p.now - e.neededAt})
		e.needed = false
	}
	e.complete, e.want, e.proofsTo = true, nil, nil
	if c.Proofs != nil {
		e.proofsTo = []primitives.ShardID{}
		for i := range c.Proofs {
			e.proofsTo = append(e.proofsTo, c.Proofs[i].To)
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
	// A block far from the head needed this chunk. setHead would never remove it.
	if p.outsideHorizon(e.header.HeightCreated) {
		p.remove(e.hash, e)
	}
}

// suffices returns whether a complete chunk contains all data that this node needs now. The node
// may need more than before if its tracked shards have changed. suffices returns true if the
// tracked shards are unknown.
func (p *Pool) suffices(e *entry) bool {
	id, known := p.chain.Epoch(e.header.PrevBlockHash)
	if !known {
		return true
	}
	layout, err := p.chain.Layout(id)
	if err != nil {
		return true
	}
	held, err := p.heldShards(layout, e.header.PrevBlockHash)
	if err != nil {
		return true
	}
	if slices.Contains(held, e.header.ShardID) || e.proofsTo == nil {
		return e.proofsTo == nil && slices.Contains(held, e.header.ShardID)
	}
	return !slices.ContainsFunc(held, func(s primitives.ShardID) bool { return !slices.Contains(e.proofsTo, s) })
}

// heldShards returns the shards that this node tracks in the epoch of a block on prev or in the
// next epoch.
func (p *Pool) heldShards(layout primitives.ShardLayout, prev primitives.Hash) (out []primitives.ShardID, err error) {
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

// slot identifies a place for one chunk in the pool. Normally it consists of the chunk's shard and
// height. From EarlyKickout on it also includes the anchor, because the producer of a height
// depends on the anchor. The slot of a chunk whose height is not 1 + the height of its previous
// block consists of its shard and its previous block. The producer of such a chunk need not be the
// canonical producer of its height, so the chunk must not occupy the slot of the canonical
// producer's chunk. In nearcore it can (shards_manager_actor.rs:1628).
type slot struct {
	height primitives.Height
	shard  primitives.ShardID
	// on is the previous block if height is 0. Otherwise on is the anchor, or zero before
	// EarlyKickout.
	on primitives.Hash
}

// slotOf returns the slot of a header. outside says that the height after the header's previous
// block is outside the horizon. claimed is the anchor in the message, or nil if the message has
// none.
func (p *Pool) slotOf(h *primitives.ChunkHeader, claimed *primitives.PartialChunkAnchor) (at slot, outside bool) {
	at = slot{height: h.HeightCreated, shard: h.ShardID}
	on, known := p.chain.Height(h.PrevBlockHash)
	switch {
	case known && h.HeightCreated != on+1:
		return slot{shard: h.ShardID, on: h.PrevBlockHash}, p.outsideHorizon(on + 1)
	case known:
		if id, ok := p.chain.Epoch(h.PrevBlockHash); ok && p.isAnchored(id) {
			at.on, _ = p.chain.Parent(h.PrevBlockHash) // cannot fail, because the block is known
		}
	case claimed != nil:
		at.on = claimed.PrevPrevBlock
	}
	return at, false
}
