package partialwitness

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// Bounds, as in nearcore: partial_witness_tracker.rs:34, partial_deploys_tracker.rs:16, partial_witness_actor.rs:63, orphan_witness_pool.rs,
// chunk_validation_actor.rs:45.
const (
	MaxWitnesses  = 5  // a shard, that come together
	maxProcessed  = 50 // a shard, that have
	maxDeploys    = 20
	maxPassedOn   = 1024 // chunks of whose witness this validator's part was passed on
	maxAnswered   = 1024 // of all chunks; a neard keeps 30, behind which one is answered again
	maxEarly      = 400  // questions, each of MaxRequested hashes at the most
	maxEarlyOfOne = 8    // of a validator
	keptAnswers   = 4
	keptAnswer    = 16 << 20 // bytes of one
	maxLacking    = 5
	maxCalls      = 100
	maxOrphans    = 25
	maxOrphan     = 40 << 20 // bytes, not compressed
	// maxWaiting is how many bytes of memory the witnesses take that wait for their block or their code. maxOrphans and maxLacking of the longest take half of
	// that, but for lists of actions of one byte each.
	maxWaiting   = 2 << 30
	orphanFrom   = 2 // above the head
	orphanTo     = 5
	MaxRequested = 1282 // contracts
	// maxDeployBytes is of code that comes together. Who makes chunks may sign parts of any: what takes most of it goes first.
	maxDeployBytes = 64 << 20
	endorsedUntil  = 5 // producers of so many heights get an endorsement
	endorsedSoon   = 2 // of those, the ones that need it first
)

// Validator is who a Tracker is for.
type Validator struct {
	Account primitives.AccountID
	Key     primitives.SecretKey
}

// Tracker is a validator's part in spreading witnesses: of its own chunks, and of those that it is to judge. Not safe for concurrent use.
type Tracker struct {
	me       Validator
	chain    Chain
	verify   func(primitives.Signature, []byte, primitives.PublicKey) bool
	shards   map[primitives.ShardID]*shard
	passed   recent[primitives.ChunkKey, struct{}] // of which this validator's part was passed on
	orphans  recent[primitives.ChunkKey, Judgement]
	deploys  recent[primitives.ChunkKey, *gathering]
	spread   recent[primitives.ChunkKey, struct{}] // deploys that have come together
	answered recent[asker, struct{}]
	early    recent[asker, *CodeAsked]                                 // of those, what waits for its block
	given    recent[question, []byte]                                  // answers since the last block, compressed
	calls    recent[primitives.ChunkKey, *primitives.ContractAccesses] // what witnesses call
	lacking  recent[primitives.ChunkKey, *lack]
	library  library
	asks     bool // for code: it has not got all
}

type asker struct {
	key primitives.ChunkKey
	by  primitives.AccountID
}

type shard struct {
	coming    recent[primitives.ChunkKey, *coming]
	processed recent[primitives.ChunkKey, struct{}]
}

// coming is a witness of which something has come.
type coming struct {
	parts   *gathering
	asked   []primitives.Hash
	of      primitives.AccountID // who was asked for those
	codes   [][]byte             // what it calls of contracts, as far as it is here
	waits   bool                 // for codes
	reading bool                 // codes that have come
}

// gathering are parts of a payload.
type gathering struct {
	coder  *Coder
	parts  [][]byte
	have   int
	length uint64
}

// NewTracker returns an empty one. verify checks signatures.
func NewTracker(me Validator, c Chain, verify func(primitives.Signature, []byte, primitives.PublicKey) bool) *Tracker {
	return &Tracker{me: me, chain: c, verify: verify, shards: map[primitives.ShardID]*shard{}, passed: newRecent[primitives.ChunkKey, struct{}](maxPassedOn),
		orphans: newRecent[primitives.ChunkKey, Judgement](maxOrphans), deploys: newRecent[primitives.ChunkKey, *gathering](maxDeploys),
		spread: newRecent[primitives.ChunkKey, struct{}](maxProcessed), answered: newRecent[asker, struct{}](maxAnswered),
		early: newRecent[asker, *CodeAsked](maxEarly), given: newRecent[question, []byte](keptAnswers), calls: newRecent[primitives.ChunkKey, *primitives.ContractAccesses](maxCalls),
		lacking: newRecent[primitives.ChunkKey, *lack](maxLacking), library: newLibrary(keptCode)}
}

// Step takes an event. Whose account has no key hears nothing. On an error the message is to be dropped; what is in Out is to be done nevertheless.
func (t *Tracker) Step(ev Event) (Out, error) {
	if t.me.Key.IsZero() {
		return Out{}, nil
	}
	switch ev := ev.(type) {
	case Made:
		return t.made(&ev)
	case Part:
		return t.part(ev.Part, ev.Forward)
	case Held:
		return t.held(&ev)
	case Accesses:
		return t.accesses(&ev)
	case CodeAsked:
		return t.codeAsked(&ev)
	case Code:
		return t.code(ev.Response)
	case Deploys:
		return t.deploysPart(ev.Part)
	case Worked:
		return ev.then(ev.err)
	case Judged:
		return t.judged(&ev)
	case BlockCame:
		return t.blockCame(&ev), nil
	}
	panic(fmt.Sprintf("witness: no case for %T", ev))
}

// add puts a part into its place.
func (g *gathering) add(ord uint64, part []byte, length uint64) error {
	switch {
	case ord >= uint64(len(g.parts)):
		return fmt.Errorf("%w: number %d of %d", ErrPart, ord, len(g.parts))
	case length != g.length:
		return fmt.Errorf("%w: of a length of %d, not %d", ErrPart, length, g.length)
	case g.parts[ord] != nil:
		return fmt.Errorf("%w: part %d", ErrKnown, ord)
	}
	g.parts[ord] = append(make([]byte, 0, len(part)), part...)
	g.have++
	return nil
}

// enough tells whether the last needed part has come.
func (g *gathering) enough() bool { return g != nil && g.have >= g.coder.DataParts() }

// size is how long what has come is. What its sender says of that is not looked at where there is one part.
func (g *gathering) size() (n int) {
	for _, p := range g.parts {
		n += len(p)
	}
	return n
}

// join returns the payload.
func (g *gathering) join() ([]byte, error) { return g.coder.Join(slices.Clone(g.parts), g.length) }

func newGathering(c *Coder, length uint64) *gathering {
	return &gathering{coder: c, parts: make([][]byte, c.TotalParts()), length: length}
}

// signedBy tells whether the chunk's producer has signed.
func (t *Tracker) signedBy(key primitives.ChunkKey, data []byte, sig primitives.Signature) error {
	p, err := t.chain.Producer(key)
	if err != nil {
		return err
	}
	if !t.verify(sig, data, p.PublicKey) {
		return fmt.Errorf("%w: %s", ErrSigner, p.AccountID)
	}
	return nil
}

// assigned returns the chunk's validators, among whom account must be.
func (t *Tracker) assigned(key primitives.ChunkKey, account primitives.AccountID) ([]chain.Assigned, error) {
	if !t.chain.Relevant(key) {
		return nil, fmt.Errorf("%w: shard %d at %d", ErrIrrelevant, key.ShardID, key.HeightCreated)
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

// part takes a part of a witness, and passes on its own that came from the producer: to all other validators of the chunk but him, once, whatever else he signs (a neard
// passes on each).
func (t *Tracker) part(p *primitives.PartialWitness, forward bool) (out Out, err error) {
	key := p.Key()
	if p.EncodedLength > MaxEncoded {
		return out, fmt.Errorf("%w: of a witness of %d bytes", ErrPart, p.EncodedLength)
	}
	list, err := t.assigned(key, t.me.Account)
	if err != nil {
		return out, err
	}
	c, err := WitnessCoder(len(list))
	if err != nil {
		return out, err
	}
	if p.Ord >= uint64(len(list)) || len(p.Part) > c.MaxPart() {
		return out, fmt.Errorf("%w: number %d of %d, %d bytes", ErrPart, p.Ord, len(list), len(p.Part))
	}
	if forward { // what is not needed is not looked at
		if err := t.lacksPart(key, p.Ord); err != nil {
			return out, err
		}
	}
	if p.Signed(func(b []byte) { err = t.signedBy(key, b, p.Signature) }); err != nil {
		return out, err
	}
	if own := list[p.Ord].AccountID == t.me.Account; !forward && own && !t.passed.has(key) {
		t.passed.put(key, struct{}{})
		producer, err := t.chain.Producer(key)
		if err != nil {
			return out, err
		}
		var to []primitives.AccountID
		for _, a := range list {
			if a.AccountID != producer.AccountID && a.AccountID != t.me.Account {
				to = append(to, a.AccountID)
			}
		}
		if len(to) > 0 {
			out.Send = append(out.Send, Send{To: to, Body: p, Forward: true})
		}
	}
	w, err := t.coming(key, true)
	if err != nil {
		return out, err
	}
	if w.parts.enough() {
		return out, fmt.Errorf("%w: enough parts", ErrKnown)
	}
	if w.parts == nil {
		w.parts = newGathering(c, p.EncodedLength)
	}
	if err := w.parts.add(p.Ord, p.Part, p.EncodedLength); err != nil {
		return out, err
	}
	return t.together(out, key, w), nil
}

// lacksPart is ErrKnown where a part of a witness is of no use any more, whoever has signed it.
func (t *Tracker) lacksPart(key primitives.ChunkKey, ord uint64) error {
	s := t.shards[key.ShardID]
	if s == nil {
		return nil
	}
	w, _ := s.coming.get(key)
	if s.processed.has(key) || w != nil && w.parts != nil && (w.parts.enough() || w.parts.parts[ord] != nil) {
		return fmt.Errorf("%w: part %d of shard %d at %d", ErrKnown, ord, key.ShardID, key.HeightCreated)
	}
	return nil
}

// held endorses a chunk, and wants nothing of its witness any more: parts of this validator are passed on, and no more.
func (t *Tracker) held(h *Held) (out Out, err error) {
	if _, err := t.assigned(h.Key, t.me.Account); err != nil {
		return out, err
	}
	if t.shard(h.Key).processed.has(h.Key) {
		return out, fmt.Errorf("%w: shard %d at %d", ErrKnown, h.Key.ShardID, h.Key.HeightCreated)
	}
	t.done(h.Key)
	return t.endorse(out, h.Key, h.Chunk)
}

// coming returns what there is of a witness, and begins with nothing if it may.
func (t *Tracker) coming(key primitives.ChunkKey, begin bool) (*coming, error) {
	s := t.shard(key)
	if s.processed.has(key) {
		return nil, fmt.Errorf("%w: shard %d at %d", ErrKnown, key.ShardID, key.HeightCreated)
	}
	w, ok := s.coming.get(key)
	if !ok && !begin {
		return nil, fmt.Errorf("%w: shard %d at %d", ErrUnasked, key.ShardID, key.HeightCreated)
	}
	if !ok {
		w = new(coming)
		s.coming.put(key, w)
	}
	return w, nil
}

// shard is what there is of a chunk's shard.
func (t *Tracker) shard(key primitives.ChunkKey) *shard {
	s := t.shards[key.ShardID]
	if s == nil {
		s = &shard{newRecent[primitives.ChunkKey, *coming](MaxWitnesses), newRecent[primitives.ChunkKey, struct{}](maxProcessed)}
		t.shards[key.ShardID] = s
	}
	return s
}

func (t *Tracker) done(key primitives.ChunkKey) {
	s := t.shards[key.ShardID]
	s.coming.drop(key)
	s.processed.put(key, struct{}{})
}

// together goes on with a witness if nothing is awaited any more.
func (t *Tracker) together(out Out, key primitives.ChunkKey, w *coming) Out {
	if !w.parts.enough() || w.waits {
		return out
	}
	t.done(key)
	var witness *primitives.ChunkStateWitness
	var size, memory int
	out.Work = append(out.Work, &Work{size: w.parts.size(), run: func(most int) error {
		payload, err := w.parts.join()
		if err == nil {
			witness, size, memory, err = decode(within(most, unpackWitness), payload)
		}
		return err
	}, then: func(err error) (Out, error) {
		if err != nil { // whoever has signed the parts is at fault
			return Out{}, err
		}
		return t.joined(Judgement{Key: key, Witness: witness, Size: size, Memory: memory, Codes: w.codes})
	}})
	return out
}

// joined has a witness judged that is whole.
func (t *Tracker) joined(j Judgement) (out Out, err error) {
	key, witness := j.Key, j.Witness
	if witness.Key() != key {
		return out, fmt.Errorf("%w: a witness of shard %d at %d", ErrPart, witness.Header.ShardID, witness.Header.HeightCreated)
	}
	producer, err := t.chain.Producer(key)
	if err != nil {
		return out, err
	}
	if producer.AccountID != t.me.Account {
		out.Send = append(out.Send, Send{To: []primitives.AccountID{producer.AccountID}, Body: &primitives.WitnessAck{ChunkHash: witness.Header.ChunkHash()}})
	}
	out.Judge = append(out.Judge, j)
	return out, nil
}

// judged endorses what was good, and keeps what came before its block.
func (t *Tracker) judged(j *Judged) (out Out, err error) {
	switch {
	case j.Good:
		return t.endorse(out, j.Key, j.Witness.Header.ChunkHash())
	case j.Lacks:
		return t.lacks(out, j.Judgement)
	case !j.Early:
		return out, nil
	}
	above := int64(j.Key.HeightCreated) - int64(j.Head)
	if above < orphanFrom || above > orphanTo || j.Size > maxOrphan {
		return out, fmt.Errorf("%w: an orphan %d above the head, %d bytes", ErrIrrelevant, above, j.Size)
	}
	t.orphans.put(j.Key, j.Judgement)
	t.boundWaiting()
	return out, nil
}

// boundWaiting drops witnesses that wait for their block or their code, the oldest first, until the rest takes at most maxWaiting bytes of memory.
func (t *Tracker) boundWaiting() {
	total := 0
	for _, j := range t.orphans.by {
		total += j.Memory
	}
	for _, l := range t.lacking.by {
		total += l.Memory
	}
	for total > maxWaiting {
		if len(t.orphans.order) > 0 {
			key := t.orphans.order[0]
			total -= t.orphans.by[key].Memory
			t.orphans.drop(key)
			continue
		}
		key := t.lacking.order[0]
		total -= t.lacking.by[key].Memory
		t.lacking.drop(key)
	}
}

// blockCame has those judged that have waited for the block, answers who has asked before it was here, and forgets what is below the final one.
func (t *Tracker) blockCame(b *BlockCame) (out Out) {
	for _, key := range slices.Clone(t.orphans.order) {
		j := t.orphans.by[key]
		switch {
		case j.Witness.Header.PrevBlockHash == b.Hash:
			out.Judge = append(out.Judge, j)
		case key.HeightCreated > b.Final:
			continue
		}
		t.orphans.drop(key)
	}
	for _, key := range slices.Clone(t.lacking.order) {
		if key.HeightCreated <= b.Final {
			t.lacking.drop(key)
		}
	}
	t.given = newRecent[question, []byte](keptAnswers)
	for _, who := range slices.Clone(t.early.order) {
		ev := t.early.by[who]
		t.early.drop(who)
		if o, err := t.answer(Out{}, who, ev); err == nil {
			out.Send = append(out.Send, o.Send...)
		}
	}
	return out
}

// endorse sends an endorsement to the producers of the next heights, each once.
func (t *Tracker) endorse(out Out, key primitives.ChunkKey, chunk primitives.Hash) (Out, error) {
	var to []primitives.AccountID
	soon := 0
	for i := range primitives.Height(endorsedUntil) {
		p, err := t.chain.BlockProducer(key.EpochID, key.HeightCreated+i)
		if err != nil {
			break // beyond the epoch
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

// Rekey has the account sign with another key, or with none.
func (t *Tracker) Rekey(key primitives.SecretKey) { t.me.Key = key }
