package partialwitness

import (
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/anchor"
	"github.com/troupe-chain/troupe/primitives"
)

// distribute sends the witness of a chunk that this validator produced (nearcore
// partial_witness_actor.rs:205). First it sends the list of called contracts to the validators that
// do not track the shard, so that they request missing code while the parts are in transit. Then it
// sends one part to each validator of the chunk, including this node, and deployed code to the
// other validators. If this validator is assigned to its own chunk, it endorses the chunk without
// validation.
func (t *Tracker) distribute(m *Made) (out Out, err error) {
	key := m.Witness.Key()
	list, err := t.chain.Validators(key)
	if err != nil {
		return out, err
	}
	begun := t.now()
	payload, size, fields, err := encode(m.Witness)
	if err != nil {
		return out, err
	}
	at, err := t.placeOf(key, m.Witness.Header.PrevBlockHash)
	if err != nil {
		return out, err
	}
	encoded := t.now()
	parts, err := Parts(key, at, payload, len(list), t.me.Key)
	if err != nil {
		return out, err
	}
	out.measure(EncodeTime, key.ShardID, encoded-begun)
	out.measure(RawSize, key.ShardID, int64(size))
	out.measure(EncodedSize, key.ShardID, int64(len(payload)))
	out.measure(TransitionSize, key.ShardID, int64(fields.Main))
	out.measure(SourcesSize, key.ShardID, int64(fields.Sources))
	out.measure(CutTime, key.ShardID, t.now()-encoded)
	if slices.ContainsFunc(list, func(a chain.Assigned) bool { return a.AccountID == t.me.Account }) {
		if out, err = t.endorse(out, key, m.Witness.Header.ChunkHash()); err != nil {
			return out, err
		}
	}
	producers, err := t.chain.Producers(key.EpochID, key.ShardID)
	if err != nil {
		return out, err
	}
	if len(m.Accesses) > 0 {
		var to []primitives.AccountID
		for _, a := range list {
			if !slices.Contains(producers, a.AccountID) {
				to = append(to, a.AccountID)
			}
		}
		a := &primitives.ContractAccesses{Key: key, Contracts: m.Accesses, Transition: m.Transition, Anchor: at}
		a.Signature = t.me.Key.Sign(a.SignedBytes())
		if len(to) > 0 {
			out.Send = append(out.Send, Send{To: to, Body: a})
		}
	}
	for i, p := range parts {
		out.Send = append(out.Send, Send{To: []primitives.AccountID{list[i].AccountID}, Body: p})
	}
	if len(m.Deploys) == 0 {
		return out, nil
	}
	all, owners, err := t.deployReceivers(key, producers)
	if err != nil || len(all) == 0 {
		return out, err
	}
	spread, err := DeployParts(key, at, m.Deploys, owners, t.me.Key)
	if err != nil {
		return out, err
	}
	for i, p := range spread {
		out.Send = append(out.Send, Send{To: []primitives.AccountID{all[i]}, Body: p})
	}
	return out, nil
}

// deployReceivers returns the validators that receive deployed code: all validators of the epoch
// that do not produce chunks of the shard, sorted by account id. Each of the first `owners` of
// these validators owns one part.
func (t *Tracker) deployReceivers(
	key primitives.ChunkKey,
	producers []primitives.AccountID,
) (all []primitives.AccountID, owners int, err error) {
	validators, err := t.chain.AllValidators(key.EpochID)
	if err != nil {
		return nil, 0, err
	}
	for _, a := range validators {
		if !slices.Contains(producers, a) {
			all = append(all, a)
		}
	}
	slices.Sort(all)
	return all, min(len(all), primitives.MaxReedSolomonParts), nil
}

// accesses handles the list of contracts that a witness calls. accesses requests the contracts that
// this node lacks, once for each witness, from the chunk's producer. A node that tracks the shard
// requests nothing. Such a node stores the list in case validation reports missing code. neard
// instead requests from a random producer of the shard. That random producer does not answer if it
// lacks the chunk's previous block, and neard does not retry.
func (t *Tracker) accesses(ev *Accesses) (out Out, err error) {
	a := ev.Accesses
	id := idOf(a.Key, a.Anchor)
	if err := t.checkForm(a.Key, a.Anchor); err != nil {
		return out, err
	}
	if len(a.Contracts) > MaxRequested { // checked first, because the signature check hashes the list
		return out, fmt.Errorf("%w: the list for shard %d at height %d has %d contracts, the limit is %d", ErrContracts,
			a.Key.ShardID, a.Key.HeightCreated, len(a.Contracts), MaxRequested)
	}
	if _, err := t.assigned(a.Key, t.me.Account); err != nil {
		return out, err
	}
	producer, err := t.signedBy(anchor.MessageAccesses, a.Key, a.Anchor, a.SignedBytes(), a.Signature)
	if err != nil {
		return out, err
	}
	switch {
	case len(a.Contracts) == 0:
		return out, nil
	case t.accessLists.has(id):
		return out, fmt.Errorf("%w: the list of contracts called by the chunk of shard %d at height %d", ErrKnown,
			a.Key.ShardID, a.Key.HeightCreated)
	}
	// A list of contracts for this witness has arrived before this list.
	if w, _, err := t.codeWaiter(id); err == nil && w.asked != nil {
		return out, fmt.Errorf("%w: the list of contracts called by the chunk of shard %d at height %d", ErrKnown,
			a.Key.ShardID, a.Key.HeightCreated)
	}
	list := &accessList{a, producer}
	t.accessLists.put(id, list)
	if l, ok := t.codeWaits.get(id); ok {
		return t.requestMissing(out, list, l), nil
	}
	if ev.Held || t.shard(id).processed.has(id) {
		return out, nil
	}
	w, err := t.begin(id, producer, a.Anchor)
	if err != nil {
		return out, err
	}
	return t.requestCode(out, list, w), nil
}

// accessList is a list of called contracts. producer is the chunk's producer, which signed the
// list.
type accessList struct {
	*primitives.ContractAccesses
	producer primitives.AccountID
}

// requestCode requests the missing contracts of a witness and stores the cached ones in w.codes.
func (t *Tracker) requestCode(out Out, a *accessList, w *pendingWitness) Out {
	t.needsCode = true
	w.codes, w.asked = t.contracts.split(a.Contracts)
	if len(w.asked) == 0 {
		return out
	}
	w.waiting, w.askedFrom, w.askedAt = true, a.producer, t.now()
	q := &primitives.ContractCodeRequest{Requester: t.me.Account, Key: a.Key, Contracts: w.asked, Transition: a.Transition}
	q.Signature = t.me.Key.Sign(q.SignedBytes())
	out.Send = append(out.Send, Send{To: []primitives.AccountID{w.askedFrom}, Body: q})
	return out
}

// codeWait is a witness that waits for code. Its validation reported that the code is missing.
type codeWait struct {
	PendingWitness
	pendingWitness
}

// waitForCode stores a witness until the code that its validation reported as missing arrives. Code
// is missing if validation began before the list of contracts arrived, or if this validator has
// stopped tracking the shard.
func (t *Tracker) waitForCode(out Out, j PendingWitness) (Out, error) {
	if j.again || j.Size > maxOrphan {
		return out, nil
	}
	j.again = true
	l := &codeWait{PendingWitness: j}
	t.codeWaits.put(j.id(), l)
	t.boundWaiting()
	if a, ok := t.accessLists.get(j.id()); ok {
		out = t.requestMissing(out, a, l)
	}
	return out, nil
}

// requestMissing requests the code that a stored witness needs. If all code is cached,
// requestMissing emits the witness for validation instead.
func (t *Tracker) requestMissing(out Out, a *accessList, l *codeWait) Out {
	out = t.requestCode(out, a, &l.pendingWitness)
	if !l.waiting {
		out = t.validateAgain(out, l)
	}
	return out
}

// validateAgain emits the witness for validation again, with the code that the witness needs.
func (t *Tracker) validateAgain(out Out, l *codeWait) Out {
	t.codeWaits.drop(l.id())
	l.Codes = l.codes
	out.Validate = append(out.Validate, l.PendingWitness)
	return out
}

// codeWaiter returns the state of the witness that waits for code. The second result is nil while
// parts of the witness are still missing.
func (t *Tracker) codeWaiter(key chunkID) (*pendingWitness, *codeWait, error) {
	if l, ok := t.codeWaits.get(key); ok {
		return &l.pendingWitness, l, nil
	}
	w, err := t.pending(key, false)
	return w, nil, err
}

// askedFor returns the id of the witness whose code this node has requested from producer.
// Responses contain no anchor, so a response's key may fit several witnesses. Errors: ErrUnasked,
// ErrKnown.
func (t *Tracker) askedFor(key primitives.ChunkKey, producer primitives.AccountID) (chunkID, error) {
	plain := chunkID{ChunkKey: key}
	candidates := t.codeWaits.order
	if s := t.shards[key.ShardID]; s != nil {
		candidates = slices.Concat(candidates, s.pending.order)
	}
	for _, id := range candidates {
		if id.ChunkKey != key {
			continue
		}
		if w, _, err := t.codeWaiter(id); err == nil && w.waiting && w.askedFrom == producer {
			return id, nil
		}
	}
	if _, _, err := t.codeWaiter(plain); err != nil {
		return plain, err
	}
	return plain, fmt.Errorf("%w: contract code for shard %d at height %d", ErrUnasked, key.ShardID, key.HeightCreated)
}

// receiveCodeRequest answers a request of a validator that is assigned to the chunk.
// receiveCodeRequest answers each validator once for each chunk, and sends only contracts that the
// chunk's main transition called.
func (t *Tracker) receiveCodeRequest(ev *CodeAsked) (out Out, err error) {
	q := ev.Request
	if _, err := t.assigned(q.Key, q.Requester); err != nil {
		return out, err
	}
	key, err := t.chain.Key(q.Key.EpochID, q.Requester)
	if err != nil {
		return out, err
	}
	if !t.verify(q.Signature, q.SignedBytes(), key) {
		return out, fmt.Errorf("%w: expected %s", ErrSigner, q.Requester)
	}
	who := requestKey{q.Key, q.Requester}
	if t.answered.has(who) {
		return out, fmt.Errorf("%w: the code request of %s", ErrKnown, q.Requester)
	}
	t.answered.put(who, struct{}{})
	if len(q.Contracts) > MaxRequested {
		return out, fmt.Errorf("%w: the request of %s has %d contracts, the limit is %d", ErrContracts, q.Requester,
			len(q.Contracts), MaxRequested)
	}
	begun := t.now()
	out, err = t.respond(out, who, ev)
	out.measure(AnswerTime, q.Key.ShardID, t.now()-begun)
	return out, err
}

// requestContent identifies requests with equal content. Most validators of a chunk request the
// same contracts, so answers are reused.
type requestContent struct {
	key       primitives.ChunkKey
	at        primitives.TransitionKey
	contracts primitives.Hash // hash of the list of contract hashes, in the order of the request
}

func contentOf(q *primitives.ContractCodeRequest) requestContent {
	b := make([]byte, 0, len(q.Contracts)*len(primitives.Hash{}))
	for i := range q.Contracts {
		b = append(b, q.Contracts[i][:]...)
	}
	return requestContent{q.Key, q.Transition, primitives.HashBytes(b)}
}

// respond sends the requested code. If the chunk's previous block is unknown, the request is
// deferred until that block arrives.
func (t *Tracker) respond(out Out, who requestKey, ev *CodeAsked) (Out, error) {
	q := ev.Request
	same := contentOf(q)
	packed, ok := t.responses.get(same)
	if !ok {
		all, err := ev.Codes(q.Key, q.Transition)
		if errors.Is(err, ErrEarly) {
			return out, t.deferRequest(who, ev)
		}
		if err != nil {
			return out, err
		}
		codes := make([][]byte, len(q.Contracts))
		for i, hash := range q.Contracts {
			code, called := all[hash]
			if !called {
				return out, fmt.Errorf("%w: the request of %s contains code %v, which the chunk did not call", ErrContracts, q.Requester, hash)
			}
			codes[i] = code
		}
		if packed = EncodeContracts(codes); len(packed) <= maxResponseSize {
			t.responses.put(same, packed)
		}
	}
	a := &primitives.ContractCodeResponse{Key: q.Key, Responder: t.me.Account, Compressed: packed}
	a.Signature = t.me.Key.Sign(a.SignedBytes())
	out.Send = append(out.Send, Send{To: []primitives.AccountID{q.Requester}, Body: a})
	return out, nil
}

// deferRequest stores a request until a block arrives. The number of stored requests of each
// validator is bounded, so that no validator can evict the requests of another validator.
func (t *Tracker) deferRequest(who requestKey, ev *CodeAsked) error {
	n := 0
	for _, other := range t.earlyRequests.order {
		if other.by == who.by {
			n++
		}
	}
	if n >= maxEarlyOfOne {
		return fmt.Errorf("%w: %d code requests of %s wait for it already, the limit for one validator is %d", ErrEarly, n, who.by, maxEarlyOfOne)
	}
	t.earlyRequests.put(who, ev)
	return nil
}

// receiveCode handles a ContractCodeResponse. receiveCode accepts only the requested contracts, and
// only from the producer to which this node sent the request. While one response is decoded,
// receiveCode ignores further responses for the witness. Therefore receiveCode checks the sender
// before decoding. Otherwise an unsolicited response could block the requested response.
func (t *Tracker) receiveCode(a *primitives.ContractCodeResponse) (out Out, err error) {
	if !t.chain.Relevant(a.Key) {
		return out, fmt.Errorf("%w: shard %d at height %d", ErrIrrelevant, a.Key.ShardID, a.Key.HeightCreated)
	}
	if !a.Signed() {
		return out, fmt.Errorf("%w: the code response has no signature", ErrSigner)
	}
	producers, err := t.chain.Producers(a.Key.EpochID, a.Key.ShardID)
	if err != nil {
		return out, err
	}
	key, err := t.chain.Key(a.Key.EpochID, a.Responder)
	if err != nil {
		return out, err
	}
	if !slices.Contains(producers, a.Responder) || !t.verify(a.Signature, a.SignedBytes(), key) {
		return out, fmt.Errorf("%w: expected %s, which must be a chunk producer of shard %d", ErrSigner, a.Responder, a.Key.ShardID)
	}
	id, err := t.askedFor(a.Key, a.Responder)
	if err != nil {
		return out, err
	}
	w, _, err := t.codeWaiter(id)
	if err != nil {
		return out, err
	}
	if w.decoding {
		return out, fmt.Errorf("%w: another response with code for shard %d at height %d is being decoded", ErrUnasked,
			a.Key.ShardID, a.Key.HeightCreated)
	}
	w.decoding = true
	var list []contract
	out.Work = append(out.Work, &Work{size: len(a.Compressed), run: func(most int) error {
		codes, err := decodeContracts(within(most, unpackContracts), a.Compressed, MaxRequested)
		if err != nil {
			return err
		}
		list = contractsOf(codes)
		got := make([]primitives.Hash, len(list))
		for i := range list {
			got[i] = list[i].hash
		}
		if !slices.Equal(sorted(got), w.asked) {
			return fmt.Errorf("%w: the response of %s has %d contracts, expected exactly the %d that this node requested",
				ErrContracts, a.Responder, len(codes), len(w.asked))
		}
		return nil
	}, then: func(err error) (Out, error) {
		if w.decoding = false; err != nil {
			return Out{}, err
		}
		t.contracts.add(list)
		still, l, _ := t.codeWaiter(id)
		if still != w {
			return Out{}, fmt.Errorf("%w: the code for shard %d at height %d came after the witness was checked or dropped",
				ErrUnasked, a.Key.ShardID, a.Key.HeightCreated)
		}
		for i := range list {
			w.codes = append(w.codes, list[i].code)
		}
		var out Out
		now := t.now()
		out.measure(CodeTime, id.ShardID, now-w.askedAt)
		if w.waiting = false; l != nil {
			return t.validateAgain(out, l), nil
		}
		if w.parts.enough() {
			out.measure(CodeDelay, id.ShardID, now-w.enoughAt)
		}
		out = t.tryDecode(out, id, w)
		t.measureCache(&out, id.ShardID)
		return out, nil
	}})
	return out, nil
}

// boundDeploys drops the largest sets of deploy parts until all sets together have at most
// maxDeployBytes.
func (t *Tracker) boundDeploys() {
	for {
		all, most, longest := 0, -1, chunkID{}
		for _, k := range t.deploys.order {
			n := t.deploys.by[k].size()
			if all += n; n > most {
				most, longest = n, k
			}
		}
		if all <= maxDeployBytes {
			return
		}
		t.deploys.drop(longest)
	}
}

// deploysPart stores a part of deployed code and forwards the part that this validator owns. Once
// the code is complete, deploysPart emits the contracts to precompile.
func (t *Tracker) deploysPart(p *primitives.PartialContractDeploys) (out Out, err error) {
	id := idOf(p.Key, p.Anchor)
	if err := t.checkForm(p.Key, p.Anchor); err != nil {
		return out, err
	}
	if !t.chain.Relevant(p.Key) {
		return out, fmt.Errorf("%w: shard %d at height %d", ErrIrrelevant, p.Key.ShardID, p.Key.HeightCreated)
	}
	if _, err := t.signedBy(anchor.MessageDeploys, p.Key, p.Anchor, p.SignedBytes(), p.Signature); err != nil {
		return out, err
	}
	if p.EncodedLength > MaxEncoded {
		return out, fmt.Errorf("%w: the part states %d bytes of deployed code, the limit is %d", ErrPart, p.EncodedLength, MaxEncoded)
	}
	if t.deploysDone.has(id) {
		return out, fmt.Errorf("%w: code deployed in shard %d at height %d", ErrKnown, p.Key.ShardID, p.Key.HeightCreated)
	}
	producers, err := t.chain.Producers(p.Key.EpochID, p.Key.ShardID)
	if err != nil {
		return out, err
	}
	all, owners, err := t.deployReceivers(p.Key, producers)
	if err != nil {
		return out, err
	}
	own := slices.Index(all[:owners], t.me.Account)
	if own < 0 {
		return out, fmt.Errorf("%w: %s", ErrAssigned, t.me.Account)
	}
	g, ok := t.deploys.get(id)
	if !ok {
		c, err := DeploysCoder(owners)
		if err != nil {
			return out, err
		}
		g = newPartSet(c, p.EncodedLength)
		g.begun = t.now()
		t.deploys.put(id, g)
	}
	if len(p.Part) > g.coder.MaxPart() {
		return out, fmt.Errorf("%w: the part of deployed code has %d bytes, the limit is %d", ErrPart, len(p.Part), g.coder.MaxPart())
	}
	if err := g.add(p.Ord, p.Part, p.EncodedLength); err != nil {
		return out, err
	}
	if t.boundDeploys(); !t.deploys.has(id) {
		return out, fmt.Errorf("%w: this node has no memory left for parts of deployed code", ErrPart)
	}
	if p.Ord == uint64(own) && len(all) > 1 {
		to := slices.DeleteFunc(slices.Clone(all), func(a primitives.AccountID) bool { return a == t.me.Account })
		out.Send = append(out.Send, Send{To: to, Body: p})
	}
	if !g.enough() {
		return out, nil
	}
	t.deploys.drop(id)
	t.deploysDone.put(id, struct{}{})
	out.measure(LastDeployTime, p.Key.ShardID, t.now()-g.begun)
	asks := t.needsCode
	var codes [][]byte
	var list []contract
	out.Work = append(out.Work, &Work{size: g.size(), run: func(most int) error {
		payload, err := g.payload()
		if err != nil {
			return err
		}
		if codes, err = decodeContracts(within(most, unpackContracts), payload, MaxDeployed); err == nil && asks {
			list = contractsOf(codes)
		}
		return err
	}, then: func(err error) (Out, error) {
		if err == nil {
			t.contracts.add(list) // cached, because new contracts are likely to be called soon
		}
		return Out{Compile: codes}, err
	}})
	return out, nil
}

// sorted returns the distinct hashes in order.
func sorted(hashes []primitives.Hash) []primitives.Hash {
	out := slices.Clone(hashes)
	slices.SortFunc(out, primitives.Hash.Compare)
	return slices.Compact(out)
}
