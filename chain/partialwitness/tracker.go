package partialwitness

import (
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/anchor"
	"github.com/troupe-chain/troupe/primitives"
)

// Bounds, as in nearcore unless noted: partial_witness_tracker.rs:34,
// partial_deploys_tracker.rs:16, partial_witness_actor.rs:63, orphan_witness_pool.rs,
// chunk_validation_actor.rs:45.
const (
	MaxWitnesses = 5    // maximum number of incomplete witnesses of a shard
	maxProcessed = 50   // maximum number of remembered completed witnesses of a shard
	maxDeploys   = 20   // maximum number of incomplete sets of deploy parts
	maxForwarded = 1024 // maximum number of remembered chunks whose witness part was forwarded
	// maxAnswered is the maximum number of remembered code requests. neard stores 30, and answers
	// evicted ones again.
	maxAnswered     = 1024
	maxEarly        = 400      // maximum number of deferred code requests, each of at most MaxRequested hashes
	maxEarlyOfOne   = 8        // maximum number of deferred code requests of one validator
	maxResponses    = 4        // maximum number of compressed responses in the cache
	maxResponseSize = 16 << 20 // maximum size of a cached compressed response in bytes
	maxCodeWaits    = 5        // maximum number of witnesses that wait for code
	maxAccessLists  = 100      // maximum number of lists of called contracts
	maxOrphans      = 25       // maximum number of witnesses that wait for their previous block
	maxOrphan       = 40 << 20 // maximum decompressed size of a waiting witness in bytes
	// maxWaiting bounds the memory in bytes of witnesses that wait for their previous block or for
	// code. maxOrphans plus maxCodeWaits witnesses of maximum length take half of it, unless they
	// consist of lists of one-byte actions.
	maxWaiting = 2 << 30
	// A witness whose previous block is unknown is stored if its height is at least orphanFrom and at
	// most orphanTo above the head.
	orphanFrom   = 2
	orphanTo     = 5
	MaxRequested = 1282 // maximum number of contracts in one request
	// maxDeployBytes bounds the parts of incomplete deployed code in bytes. Above maxDeployBytes,
	// the Tracker drops the set of parts with the most bytes first. The bound is needed because a
	// chunk producer may sign parts for any number of chunks.
	maxDeployBytes = 64 << 20
	endorsedUntil  = 5 // number of heights whose block producers receive an endorsement
	endorsedSoon   = 2 // number of those heights, lowest first, that need the endorsement first
)

// Validator is the identity of this node for a Tracker.
type Validator struct {
	Account primitives.AccountID
	Key     primitives.SecretKey
}

// Tracker distributes the witnesses of chunks that this validator produced. Tracker collects the
// witnesses of chunks that this validator is assigned to. A Tracker is not safe for concurrent use.
//
// # Witness tracking
//
// Problem. Validators endorse a chunk without having the state of its shard. The producer sends a
// witness of up to MaxRaw bytes, as one erasure-coded part for each validator of the chunk. Each
// validator forwards its part to the other validators of the chunk. The witness contains no
// contract code. Instead the producer announces the contracts that the witness calls, and a
// validator requests the contracts that it lacks. Parts, announcement, code and the chunk's
// previous block arrive in any order. Any of these messages may be missing or forged.
//
// Invariants.
//
//   - Only messages for relevant chunks that this validator is assigned to are stored. Parts,
//     accesses and deploys must be signed by the chunk's producer, code requests by an
//     assigned validator. So a peer without such a key cannot fill any list.
//   - All maps are bounded by count, and large values also by bytes. Some bounds apply to each
//     shard or validator, so that one cannot evict the entries of others.
//   - The own part is forwarded once for each chunk (forwarded), even if the producer signs
//     several.
//   - For each witness, one code response is decoded at a time. It must come from the producer from
//     which the code was requested.
//   - A witness leaves pending exactly once. After that its key is in processed, and further parts
//     are rejected before their signature is verified.
//   - All messages with the same chunkID have the same signer. If messages have an anchor, the
//     producer for a key depends on the fork, so the anchor is part of the id.
//   - A message with an anchor is stored under its id only if the anchor fits the known blocks. If
//     the anchor cannot be checked before the parent is known, the message is queued in early,
//     provided that the likely producer signed it. Before the chunk is endorsed, the anchor is
//     checked again against the parent.
//
// Outline. The method part stores parts in a partSet; the method accesses requests code
// (requestCode). When enough parts and all code are present, tryDecode emits a Work, since decoding
// may take long and must run outside the Tracker. decoded then emits a PendingWitness. The caller
// validates it and reports WitnessValidated. A valid witness is endorsed (endorse); an early one is
// stored in orphans until BlockArrived; one with missing code waits in codeWaits and is emitted
// once more. A validator that tracks the shard validates the chunk itself and reports Held, which
// ends the collection.
//
// Rejected: decoding only once the previous block is known. That would add the decoding time after
// the block. Rejected: requesting code only after decoding. That would add a round trip.
type Tracker struct {
	me            Validator
	chain         Chain
	verify        func(primitives.Signature, []byte, primitives.PublicKey) bool
	shards        map[primitives.ShardID]*shard
	forwarded     recent[chunkID, struct{}] // chunks whose part this node owns and has forwarded
	orphans       recent[chunkID, PendingWitness]
	deploys       recent[chunkID, *partSet]
	deploysDone   recent[chunkID, struct{}] // chunks whose deployed code is complete
	answered      recent[requestKey, struct{}]
	earlyRequests recent[requestKey, *CodeAsked] // code requests that wait for a block
	responses     recent[requestContent, []byte] // compressed code responses since the last block
	accessLists   recent[chunkID, *accessList]   // lists of called contracts that arrived
	codeWaits     recent[chunkID, *codeWait]
	early         *anchor.Queue[Event] // messages that wait for the previous block of the chunk that they are about
	contracts     contractCache
	needsCode     bool // this validator has requested code, so this node does not track all shards
	counters      *anchor.Counters

	// Clock returns the time in ns since any point, for Out.Measured only. It must be safe for
	// concurrent use. nil: all measured times are 0.
	Clock func() int64
}

// chunkID identifies a chunk in messages. anchor is zero if the messages have no anchor.
type chunkID struct {
	primitives.ChunkKey
	anchor primitives.Hash
}

func idOf(key primitives.ChunkKey, at *primitives.ChunkAnchor) chunkID {
	if at == nil {
		return chunkID{ChunkKey: key}
	}
	return chunkID{key, at.PrevPrevBlock}
}

type requestKey struct {
	key primitives.ChunkKey
	by  primitives.AccountID
}

type shard struct {
	pending   recent[chunkID, *pendingWitness]
	processed recent[chunkID, struct{}]
}

// pendingWitness is a witness of which some messages have arrived.
type pendingWitness struct {
	signer    primitives.AccountID    // the chunk's producer
	at        *primitives.ChunkAnchor // the anchor in the messages; nil: none
	parts     *partSet
	asked     []primitives.Hash    // requested contracts, sorted
	askedFrom primitives.AccountID // the producer from which this node requested code
	codes     [][]byte             // cached or received code that the witness calls
	waiting   bool                 // requested code has not arrived yet
	decoding  bool                 // a code response is being decoded

	// Times of Tracker.Clock: of the first message, of the request for code, and at which enough parts
	// had arrived.
	begun, askedAt, enoughAt int64
}

// partSet collects the parts of a payload. All parts must state the same encoded length.
type partSet struct {
	coder  *Coder
	parts  [][]byte
	have   int
	bytes  int // total length of the present parts
	length uint64
	begun  int64 // time of the first part, of Tracker.Clock; only for deployed code
}

// NewTracker returns an empty tracker. verify checks signatures.
func NewTracker(me Validator, c Chain, verify func(primitives.Signature, []byte, primitives.PublicKey) bool) *Tracker {
	t := &Tracker{
		me: me, chain: c, verify: verify, shards: map[primitives.ShardID]*shard{}, forwarded: newRecent[chunkID, struct{}](maxForwarded),
		orphans: newRecent[chunkID, PendingWitness](maxOrphans), deploys: newRecent[chunkID, *partSet](maxDeploys),
		deploysDone: newRecent[chunkID, struct{}](maxProcessed), answered: newRecent[requestKey, struct{}](maxAnswered),
		earlyRequests: newRecent[requestKey, *CodeAsked](maxEarly), responses: newRecent[requestContent, []byte](maxResponses),
		accessLists: newRecent[chunkID, *accessList](maxAccessLists), codeWaits: newRecent[chunkID, *codeWait](maxCodeWaits),
		contracts: newContractCache(maxCodeBytes), early: anchor.NewQueue[Event](),
	}
	t.Count(new(anchor.Counters))
	return t
}

// Count makes the tracker count in c the results of checking messages that have an anchor.
func (t *Tracker) Count(c *anchor.Counters) { t.counters, t.early.Counters = c, c }

// Step handles an event. Without a key (Validator.Key is zero) Step does nothing. After an error
// the caller must drop the message and still carry out Out. Step panics on an unknown Event type.
func (t *Tracker) Step(ev Event) (Out, error) {
	if t.me.Key.IsZero() {
		return Out{}, nil
	}
	out, err := t.step(ev)
	switch ev.(type) {
	case BlockRecorded, BlockArrived: // replay has already counted the errors
		return out, err
	}
	if errors.Is(err, anchor.ErrEarly) {
		err = t.postpone(ev, err)
	}
	t.counters.Error(err)
	return out, err
}

func (t *Tracker) step(ev Event) (Out, error) {
	switch ev := ev.(type) {
	case Made:
		return t.distribute(&ev)
	case Part:
		return t.part(ev.Part, ev.Forward)
	case Held:
		return t.held(&ev)
	case Accesses:
		return t.accesses(&ev)
	case CodeAsked:
		return t.receiveCodeRequest(&ev)
	case Code:
		return t.receiveCode(ev.Response)
	case Deploys:
		return t.deploysPart(ev.Part)
	case Worked:
		return ev.then(ev.err)
	case WitnessValidated:
		return t.witnessValidated(&ev)
	case BlockRecorded:
		return t.replay(Out{}, ev.Hash)
	case BlockArrived:
		return t.replay(t.blockArrived(&ev), ev.Hash)
	}
	panic(fmt.Sprintf("witness: no case for %T", ev))
}

// add stores a copy of a part. Errors: ErrPart, ErrKnown.
func (g *partSet) add(ord uint64, part []byte, length uint64) error {
	switch {
	case ord >= uint64(len(g.parts)):
		return fmt.Errorf("%w: the number of the part is %d, must be 0 to %d", ErrPart, ord, len(g.parts)-1)
	case length != g.length:
		return fmt.Errorf("%w: the part states %d bytes for the whole, expected %d as in the first part", ErrPart, length, g.length)
	case g.parts[ord] != nil:
		return fmt.Errorf("%w: part %d", ErrKnown, ord)
	}
	g.parts[ord] = append(make([]byte, 0, len(part)), part...)
	g.have++
	g.bytes += len(part)
	return nil
}

// enough returns whether the payload can be restored.
func (g *partSet) enough() bool { return g != nil && g.have >= g.coder.DataParts() }

// size returns the total length of the present parts in bytes. A single part may be longer than the
// length that its message states.
func (g *partSet) size() int { return g.bytes }

// payload restores the payload.
func (g *partSet) payload() ([]byte, error) { return g.coder.Join(slices.Clone(g.parts), g.length) }

func newPartSet(c *Coder, length uint64) *partSet {
	return &partSet{coder: c, parts: make([][]byte, c.TotalParts()), length: length}
}

// signedBy returns the producer of the chunk that a message of the given kind is about. It returns
// ErrSigner if that producer has not signed data. For a message with an anchor, signedBy also
// returns the errors of Chain.ProducerAt.
func (t *Tracker) signedBy(kind string, key primitives.ChunkKey, at *primitives.ChunkAnchor, data []byte,
	sig primitives.Signature) (primitives.AccountID, error) {
	p, err := t.producer(kind, key, at)
	if err != nil {
		return "", err
	}
	if !t.verify(sig, data, p.PublicKey) {
		return "", fmt.Errorf("%w: expected %s", ErrSigner, p.AccountID)
	}
	return p.AccountID, nil
}

// assigned returns the validators of a chunk. assigned returns ErrAssigned if account is not one of
// these validators, and ErrIrrelevant if no block can include the chunk any more.
func (t *Tracker) assigned(key primitives.ChunkKey, account primitives.AccountID) ([]chain.Assigned, error) {
	if !t.chain.Relevant(key) {
		return nil, fmt.Errorf("%w: shard %d at height %d", ErrIrrelevant, key.ShardID, key.HeightCreated)
	}
	list, err := t.chain.Validators(key)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(list, func(a chain.Assigned) bool { return a.AccountID == account }) {
		return nil, fmt.Errorf("%w: %s", ErrAssigned, account)
	}
	return list, nil
}

// part handles a part of a witness. If this validator owns the part and the producer sent it, this
// method forwards the part to all validators of the chunk except the producer. It does so once for
// each chunk, even if the producer signs several parts. neard forwards each of these parts.
func (t *Tracker) part(p *primitives.PartialWitness, forward bool) (out Out, err error) {
	key, id := p.Key(), idOf(p.Key(), p.Anchor)
	if err := t.checkForm(key, p.Anchor); err != nil {
		return out, err
	}
	if p.EncodedLength > MaxEncoded {
		return out, fmt.Errorf("%w: the part states a witness of %d bytes, the limit is %d", ErrPart, p.EncodedLength, MaxEncoded)
	}
	list, err := t.assigned(key, t.me.Account)
	if err != nil {
		return out, err
	}
	c, err := WitnessCoder(len(list))
	if err != nil {
		return out, err
	}
	switch {
	case p.Ord >= uint64(len(list)):
		return out, fmt.Errorf("%w: the number of the part is %d, must be 0 to %d", ErrPart, p.Ord, len(list)-1)
	case len(p.Part) > c.MaxPart():
		return out, fmt.Errorf("%w: part %d has %d bytes, the limit is %d", ErrPart, p.Ord, len(p.Part), c.MaxPart())
	}
	if forward { // skip the signature check of a part that is not needed
		if err := t.checkPartNeeded(id, p.Ord); err != nil {
			return out, err
		}
	}
	var producer primitives.AccountID
	if p.Signed(func(b []byte) { producer, err = t.signedBy(anchor.MessageWitness, key, p.Anchor, b, p.Signature) }); err != nil {
		return out, err
	}
	if own := list[p.Ord].AccountID == t.me.Account; !forward && own && !t.forwarded.has(id) {
		t.forwarded.put(id, struct{}{})
		var to []primitives.AccountID
		for _, a := range list {
			if a.AccountID != producer && a.AccountID != t.me.Account {
				to = append(to, a.AccountID)
			}
		}
		if len(to) > 0 {
			out.Send = append(out.Send, Send{To: to, Body: p, Forward: true})
		}
	}
	w, err := t.begin(id, producer, p.Anchor)
	if err != nil {
		return out, err
	}
	if w.parts.enough() {
		return out, fmt.Errorf("%w: enough parts of the witness have arrived", ErrKnown)
	}
	if w.parts == nil {
		w.parts = newPartSet(c, p.EncodedLength)
	}
	if err := w.parts.add(p.Ord, p.Part, p.EncodedLength); err != nil {
		return out, err
	}
	if w.parts.enough() {
		w.enoughAt = t.now()
		out.measure(w.codeState(), key.ShardID, 1)
	}
	out = t.tryDecode(out, id, w)
	t.measureCache(&out, key.ShardID)
	return out, nil
}

// codeState returns the count of the present state of the called code.
func (w *pendingWitness) codeState() Quantity {
	switch {
	case w.waiting:
		return CodeRequested
	case len(w.asked) > 0:
		return CodeReceived
	}
	return CodeUnknown
}

// checkPartNeeded returns ErrKnown if a part is not needed any more. checkPartNeeded does not check
// the part's signature.
func (t *Tracker) checkPartNeeded(key chunkID, ord uint64) error {
	s := t.shards[key.ShardID]
	if s == nil {
		return nil
	}
	w, _ := s.pending.get(key)
	if s.processed.has(key) || w != nil && w.parts != nil && (w.parts.enough() || w.parts.parts[ord] != nil) {
		return fmt.Errorf("%w: part %d for shard %d at height %d", ErrKnown, ord, key.ShardID, key.HeightCreated)
	}
	return nil
}

// held endorses a chunk and ends the collection of its witness. If the part that this validator
// owns arrives after that, this validator still forwards the part.
func (t *Tracker) held(h *Held) (out Out, err error) {
	if _, err := t.assigned(h.Key, t.me.Account); err != nil {
		return out, err
	}
	at, err := t.placeOf(h.Key, h.Prev)
	if err != nil {
		return out, err
	}
	id := idOf(h.Key, at)
	if t.shard(id).processed.has(id) {
		return out, fmt.Errorf("%w: shard %d at height %d", ErrKnown, h.Key.ShardID, h.Key.HeightCreated)
	}
	if err := t.checkPlace(h.Key, at); err != nil {
		return out, err
	}
	t.done(id)
	return t.endorse(out, h.Key, h.Chunk)
}

// begin returns the state of a witness, and creates the state if needed. producer signed a message
// with the anchor at. begin returns ErrPart if a message of this producer that arrived before named
// a different previous block.
func (t *Tracker) begin(id chunkID, producer primitives.AccountID, at *primitives.ChunkAnchor) (*pendingWitness, error) {
	w, err := t.pending(id, true)
	if err != nil {
		return nil, err
	}
	if w.signer == "" {
		w.signer, w.at = producer, at
	}
	if at != nil && (w.at == nil || *w.at != *at) {
		return nil, fmt.Errorf("%w: the previous block %v or the block before it differs from those in the producer's "+
			"first message about this chunk", ErrPart, at.PrevBlock)
	}
	return w, nil
}

// pending returns the state of a witness. If there is no such state, pending creates it if begin is
// set, and otherwise returns ErrUnasked. pending returns ErrKnown if the witness was completed
// before.
func (t *Tracker) pending(key chunkID, begin bool) (*pendingWitness, error) {
	s := t.shard(key)
	if s.processed.has(key) {
		return nil, fmt.Errorf("%w: shard %d at height %d", ErrKnown, key.ShardID, key.HeightCreated)
	}
	w, ok := s.pending.get(key)
	if !ok && !begin {
		return nil, fmt.Errorf("%w: shard %d at height %d", ErrUnasked, key.ShardID, key.HeightCreated)
	}
	if !ok {
		w = &pendingWitness{begun: t.now()}
		s.pending.put(key, w)
	}
	return w, nil
}

// shard returns the state of a chunk's shard.
func (t *Tracker) shard(key chunkID) *shard {
	s := t.shards[key.ShardID]
	if s == nil {
		s = &shard{newRecent[chunkID, *pendingWitness](MaxWitnesses), newRecent[chunkID, struct{}](maxProcessed)}
		t.shards[key.ShardID] = s
	}
	return s
}

func (t *Tracker) done(key chunkID) {
	s := t.shards[key.ShardID]
	s.pending.drop(key)
	s.processed.put(key, struct{}{})
}

// tryDecode emits the work of decoding a witness if enough parts and all code are present.
func (t *Tracker) tryDecode(out Out, key chunkID, w *pendingWitness) Out {
	if !w.parts.enough() || w.waiting {
		return out
	}
	t.done(key)
	out.measure(LastPartTime, key.ShardID, t.now()-w.begun)
	var witness *primitives.ChunkStateWitness
	var size, memory int
	var took int64
	out.Work = append(out.Work, &Work{size: w.parts.size(), run: func(most int) error {
		payload, err := w.parts.payload()
		if err == nil {
			begun := t.now()
			witness, size, memory, err = decode(within(most, unpackWitness), payload)
			took = t.now() - begun
		}
		return err
	}, then: func(err error) (out Out, _ error) {
		if err != nil { // the signer of the parts sent invalid data
			return out, err
		}
		out.measure(DecodeTime, key.ShardID, took)
		return t.decoded(out, PendingWitness{Key: key.ChunkKey, Witness: witness, Size: size, Memory: memory, Codes: w.codes, at: w.at}, w.signer)
	}})
	return out
}

// decoded acknowledges a decoded witness to the chunk's producer and emits it for validation.
// decoded rejects a witness whose previous block is not the block that its parts name: the signer
// of the parts was checked only for the block that the parts name.
func (t *Tracker) decoded(out Out, j PendingWitness, producer primitives.AccountID) (Out, error) {
	witness := j.Witness
	if witness.Key() != j.Key || j.at != nil && witness.Header.PrevBlockHash != j.at.PrevBlock {
		return out, fmt.Errorf("%w: the decoded witness is for shard %d at height %d on block %v, but its parts (shard %d "+
			"at height %d) name a different chunk or block", ErrPart,
			witness.Header.ShardID, witness.Header.HeightCreated, witness.Header.PrevBlockHash, j.Key.ShardID, j.Key.HeightCreated)
	}
	if producer != t.me.Account {
		out.Send = append(
			out.Send,
			Send{To: []primitives.AccountID{producer}, Body: &primitives.WitnessAck{ChunkHash: witness.Header.ChunkHash()}},
		)
	}
	out.Validate = append(out.Validate, j)
	return out, nil
}

// witnessValidated endorses a valid witness. witnessValidated stores a witness that is early or
// that lacks code.
func (t *Tracker) witnessValidated(j *WitnessValidated) (out Out, err error) {
	switch {
	case j.Good:
		if err := t.checkPlace(j.Key, j.at); err != nil {
			return out, err
		}
		return t.endorse(out, j.Key, j.Witness.Header.ChunkHash())
	case j.Lacks:
		return t.waitForCode(out, j.PendingWitness)
	case !j.Early:
		return out, nil
	}
	above := int64(j.Key.HeightCreated) - int64(j.Head)
	if above < orphanFrom || above > orphanTo || j.Size > maxOrphan {
		return out, fmt.Errorf("%w: the parent block is unknown, and the witness cannot wait for it: %d heights above the "+
			"head, must be %d to %d; %d bytes, the limit is %d",
			ErrIrrelevant, above, orphanFrom, orphanTo, j.Size, maxOrphan)
	}
	t.orphans.put(j.id(), j.PendingWitness)
	t.boundWaiting()
	return out, nil
}

// Orphans are witnesses that wait for their previous block. Bytes is their total decompressed size.
type Orphans struct{ Count, Bytes int }

// Orphans returns the witnesses that wait for their previous block, by shard.
func (t *Tracker) Orphans() map[primitives.ShardID]Orphans {
	out := map[primitives.ShardID]Orphans{}
	for key, j := range t.orphans.by {
		w := out[key.ShardID]
		out[key.ShardID] = Orphans{w.Count + 1, w.Bytes + j.Size}
	}
	return out
}

// boundWaiting drops the oldest witnesses that wait for their previous block or for code, until the
// remaining witnesses take at most maxWaiting bytes of memory.
func (t *Tracker) boundWaiting() {
	total := 0
	for _, j := range t.orphans.by {
		total += j.Memory
	}
	for _, l := range t.codeWaits.by {
		total += l.Memory
	}
	for total > maxWaiting {
		if len(t.orphans.order) > 0 {
			key := t.orphans.order[0]
			total -= t.orphans.by[key].Memory
			t.orphans.drop(key)
			continue
		}
		key := t.codeWaits.order[0]
		total -= t.codeWaits.by[key].Memory
		t.codeWaits.drop(key)
	}
}

// blockArrived emits the witnesses that waited for the block, answers deferred code requests, and
// drops everything at or below the final height.
func (t *Tracker) blockArrived(b *BlockArrived) (out Out) {
	for _, key := range slices.Clone(t.orphans.order) {
		j := t.orphans.by[key]
		switch {
		case j.Witness.Header.PrevBlockHash == b.Hash:
			out.Validate = append(out.Validate, j)
		case key.HeightCreated > b.Final:
			continue
		}
		t.orphans.drop(key)
	}
	for _, key := range slices.Clone(t.codeWaits.order) {
		if key.HeightCreated <= b.Final {
			t.codeWaits.drop(key)
		}
	}
	t.early.DropTo(b.Final)
	t.responses = newRecent[requestContent, []byte](maxResponses)
	for _, who := range slices.Clone(t.earlyRequests.order) {
		ev := t.earlyRequests.by[who]
		t.earlyRequests.drop(who)
		if o, err := t.respond(Out{}, who, ev); err == nil {
			out.Send = append(out.Send, o.Send...)
		}
	}
	return out
}

// endorse sends an endorsement to the block producers of the next endorsedUntil heights, once to
// each account.
func (t *Tracker) endorse(out Out, key primitives.ChunkKey, chunk primitives.Hash) (Out, error) {
	var to []primitives.AccountID
	soon := 0
	for i := range primitives.Height(endorsedUntil) {
		p, err := t.chain.BlockProducer(key.EpochID, key.HeightCreated+i)
		if err != nil {
			break // the height is beyond the epoch
		}
		if !slices.Contains(to, p) {
			to = append(to, p)
		}
		if i < endorsedSoon {
			soon = len(to)
		}
	}
	out.Send = append(out.Send, Send{To: to, Body: Endorse(key, chunk, t.me.Account, t.me.Key), Soon: soon})
	return out, nil
}

// Rekey replaces the signing key. With a zero key the tracker ignores all events.
func (t *Tracker) Rekey(key primitives.SecretKey) { t.me.Key = key }
