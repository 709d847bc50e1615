package partialwitness

import (
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// made spreads the witness of a chunk of this validator: first which contracts it calls, to those validators that hold no code of the shard, so that
// they ask for it while parts are on their way; a part to each validator, itself included; what was deployed to all others. If it is assigned itself,
// it endorses without looking: it has done all that (nearcore partial_witness_actor.rs:205).
func (t *Tracker) made(m *Made) (out Out, err error) {
	key := m.Witness.Key()
	list, err := t.chain.Validators(key)
	if err != nil {
		return out, err
	}
	payload, err := Encode(m.Witness)
	if err != nil {
		return out, err
	}
	parts, err := Parts(key, payload, len(list), t.me.Key)
	if err != nil {
		return out, err
	}
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
		a := &primitives.ContractAccesses{Key: key, Contracts: m.Accesses, Transition: m.Transition}
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
	all, owners, err := t.deployTo(key, producers)
	if err != nil || len(all) == 0 {
		return out, err
	}
	spread, err := DeployParts(key, m.Deploys, owners, t.me.Key)
	if err != nil {
		return out, err
	}
	for i, p := range spread {
		out.Send = append(out.Send, Send{To: []primitives.AccountID{all[i]}, Body: p})
	}
	return out, nil
}

// deployTo are who gets deployed code: all validators of the epoch that do not make chunks of the shard, in the order of their ids; the first owners of
// them have a part each.
func (t *Tracker) deployTo(key primitives.ChunkKey, producers []primitives.AccountID) (all []primitives.AccountID, owners int, err error) {
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

// accesses asks for the code that a witness calls and that is not here, once for each witness: its maker, who has it. (A neard asks any of those who make the
// shard's chunks; one who has not got the block before yet answers nobody, and is not asked again.) Who holds the shard asks for none; it is kept what the
// witness calls, for the case that it was judged without all of its code.
func (t *Tracker) accesses(ev *Accesses) (out Out, err error) {
	a := ev.Accesses
	if _, err := t.assigned(a.Key, t.me.Account); err != nil {
		return out, err
	}
	if err := t.signedBy(a.Key, a.SignedBytes(), a.Signature); err != nil {
		return out, err
	}
	switch {
	case len(a.Contracts) == 0:
		return out, nil
	case len(a.Contracts) > MaxRequested:
		return out, fmt.Errorf("%w: %d of shard %d at %d", ErrContracts, len(a.Contracts), a.Key.ShardID, a.Key.HeightCreated)
	case t.calls.has(a.Key):
		return out, fmt.Errorf("%w: contracts of shard %d at %d", ErrKnown, a.Key.ShardID, a.Key.HeightCreated)
	}
	if w, _, err := t.awaits(a.Key); err == nil && w.asked != nil { // it was told of long ago
		return out, fmt.Errorf("%w: contracts of shard %d at %d", ErrKnown, a.Key.ShardID, a.Key.HeightCreated)
	}
	t.calls.put(a.Key, a)
	if l, ok := t.lacking.get(a.Key); ok {
		return t.feed(out, a, l)
	}
	if ev.Held || t.shard(a.Key).processed.has(a.Key) {
		return out, nil
	}
	w, err := t.coming(a.Key, true)
	if err != nil {
		return out, err
	}
	return t.ask(out, a, w)
}

// ask asks for what is not here of the code that a witness calls; the rest is given to it.
func (t *Tracker) ask(out Out, a *primitives.ContractAccesses, w *coming) (Out, error) {
	t.asks = true
	w.codes, w.asked = t.library.split(a.Contracts)
	if len(w.asked) == 0 {
		return out, nil
	}
	p, err := t.chain.Producer(a.Key)
	if err != nil {
		return out, err
	}
	w.waits, w.of = true, p.AccountID
	q := &primitives.ContractCodeRequest{Requester: t.me.Account, Key: a.Key, Contracts: w.asked, Transition: a.Transition}
	q.Signature = t.me.Key.Sign(q.SignedBytes())
	out.Send = append(out.Send, Send{To: []primitives.AccountID{w.of}, Body: q})
	return out, nil
}

// lack is a witness that was judged without all of its code, and what is asked for since.
type lack struct {
	Judgement
	coming
}

// lacks keeps a witness until its code comes. It was judged before what it calls was told of, or this validator holds the shard no more.
func (t *Tracker) lacks(out Out, j Judgement) (Out, error) {
	if j.again || j.Size > maxOrphan {
		return out, nil
	}
	j.again = true
	l := &lack{Judgement: j}
	t.lacking.put(j.Key, l)
	t.boundWaiting()
	if a, ok := t.calls.get(j.Key); ok {
		return t.feed(out, a, l)
	}
	return out, nil
}

// feed asks for what it lacks. If all is here, it is judged again.
func (t *Tracker) feed(out Out, a *primitives.ContractAccesses, l *lack) (Out, error) {
	out, err := t.ask(out, a, &l.coming)
	if err == nil && !l.waits {
		out = t.fed(out, l)
	}
	return out, err
}

// fed has it judged again.
func (t *Tracker) fed(out Out, l *lack) Out {
	t.lacking.drop(l.Key)
	l.Codes = l.codes
	out.Judge = append(out.Judge, l.Judgement)
	return out
}

// awaits is what waits for the code of a witness.
func (t *Tracker) awaits(key primitives.ChunkKey) (*coming, *lack, error) {
	if l, ok := t.lacking.get(key); ok {
		return &l.coming, l, nil
	}
	w, err := t.coming(key, false)
	return w, nil, err
}

// codeAsked answers a validator of a chunk, once, if it asks for what the transition has called.
func (t *Tracker) codeAsked(ev *CodeAsked) (out Out, err error) {
	q := ev.Request
	if _, err := t.assigned(q.Key, q.Requester); err != nil {
		return out, err
	}
	key, err := t.chain.Key(q.Key.EpochID, q.Requester)
	if err != nil {
		return out, err
	}
	if !t.verify(q.Signature, q.SignedBytes(), key) {
		return out, fmt.Errorf("%w: %s", ErrSigner, q.Requester)
	}
	who := asker{q.Key, q.Requester}
	if t.answered.has(who) {
		return out, fmt.Errorf("%w: the request of %s", ErrKnown, q.Requester)
	}
	t.answered.put(who, struct{}{})
	if len(q.Contracts) > MaxRequested {
		return out, fmt.Errorf("%w: %d of block %v", ErrContracts, len(q.Contracts), q.Transition.Block)
	}
	return t.answer(out, who, ev)
}

// question is what is asked for, whoever asks: most of a chunk's validators ask for the same.
type question struct {
	key       primitives.ChunkKey
	at        primitives.TransitionKey
	contracts primitives.Hash // of their hashes, as they are asked for
}

func questionOf(q *primitives.ContractCodeRequest) question {
	b := make([]byte, 0, len(q.Contracts)*len(primitives.Hash{}))
	for i := range q.Contracts {
		b = append(b, q.Contracts[i][:]...)
	}
	return question{q.Key, q.Transition, primitives.HashBytes(b)}
}

// answer gives the code that is asked for. Who asks before the block is here on which the chunk is waits for that.
func (t *Tracker) answer(out Out, who asker, ev *CodeAsked) (Out, error) {
	q := ev.Request
	same := questionOf(q)
	packed, ok := t.given.get(same)
	if !ok {
		all, err := ev.Codes(q.Key, q.Transition)
		if errors.Is(err, ErrEarly) {
			return out, t.keepEarly(who, ev)
		}
		if err != nil {
			return out, err
		}
		codes := make([][]byte, len(q.Contracts))
		for i, hash := range q.Contracts {
			code, called := all[hash]
			if !called {
				return out, fmt.Errorf("%w: %v was not called", ErrContracts, hash)
			}
			codes[i] = code
		}
		if packed = EncodeContracts(codes); len(packed) <= keptAnswer {
			t.given.put(same, packed)
		}
	}
	a := &primitives.ContractCodeResponse{Key: q.Key, Responder: t.me.Account, Compressed: packed}
	a.Signature = t.me.Key.Sign(a.SignedBytes())
	out.Send = append(out.Send, Send{To: []primitives.AccountID{q.Requester}, Body: a})
	return out, nil
}

// keepEarly keeps a question until its block comes. Of one validator there are few, so that it takes no place of another's.
func (t *Tracker) keepEarly(who asker, ev *CodeAsked) error {
	n := 0
	for _, other := range t.early.order {
		if other.by == who.by {
			n++
		}
	}
	if n >= maxEarlyOfOne {
		return fmt.Errorf("%w: %d questions of %s wait already", ErrEarly, n, who.by)
	}
	t.early.put(who, ev)
	return nil
}

// code takes the code that was asked for, all of it and nothing else, of whom it was asked: while what another has sent were read, that would be lost.
func (t *Tracker) code(a *primitives.ContractCodeResponse) (out Out, err error) {
	if !t.chain.Relevant(a.Key) {
		return out, fmt.Errorf("%w: shard %d at %d", ErrIrrelevant, a.Key.ShardID, a.Key.HeightCreated)
	}
	if !a.Signed() {
		return out, fmt.Errorf("%w: by nobody", ErrSigner)
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
		return out, fmt.Errorf("%w: %s", ErrSigner, a.Responder)
	}
	w, _, err := t.awaits(a.Key)
	if err != nil {
		return out, err
	}
	if !w.waits || w.reading || a.Responder != w.of {
		return out, fmt.Errorf("%w: code for shard %d at %d", ErrUnasked, a.Key.ShardID, a.Key.HeightCreated)
	}
	w.reading = true
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
			return fmt.Errorf("%w: %d", ErrContracts, len(codes))
		}
		return nil
	}, then: func(err error) (Out, error) {
		if w.reading = false; err != nil {
			return Out{}, err
		}
		t.library.keep(list)
		still, l, _ := t.awaits(a.Key)
		if still != w {
			return Out{}, fmt.Errorf("%w any more: code for shard %d at %d", ErrUnasked, a.Key.ShardID, a.Key.HeightCreated)
		}
		for i := range list {
			w.codes = append(w.codes, list[i].code)
		}
		if w.waits = false; l != nil {
			return t.fed(Out{}, l), nil
		}
		return t.together(Out{}, a.Key, w), nil
	}})
	return out, nil
}

// boundDeploys has the longest code go that comes together while there is too much.
func (t *Tracker) boundDeploys() {
	for {
		all, most, longest := 0, -1, primitives.ChunkKey{}
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

// deploysPart takes a part of deployed code, passes its own on, and has the code compiled when it has come together.
func (t *Tracker) deploysPart(p *primitives.PartialContractDeploys) (out Out, err error) {
	if !t.chain.Relevant(p.Key) {
		return out, fmt.Errorf("%w: shard %d at %d", ErrIrrelevant, p.Key.ShardID, p.Key.HeightCreated)
	}
	if err := t.signedBy(p.Key, p.SignedBytes(), p.Signature); err != nil {
		return out, err
	}
	if p.EncodedLength > MaxEncoded {
		return out, fmt.Errorf("%w: of %d bytes of code", ErrPart, p.EncodedLength)
	}
	if t.spread.has(p.Key) {
		return out, fmt.Errorf("%w: code of shard %d at %d", ErrKnown, p.Key.ShardID, p.Key.HeightCreated)
	}
	producers, err := t.chain.Producers(p.Key.EpochID, p.Key.ShardID)
	if err != nil {
		return out, err
	}
	all, owners, err := t.deployTo(p.Key, producers)
	if err != nil {
		return out, err
	}
	own := slices.Index(all[:owners], t.me.Account)
	if own < 0 {
		return out, fmt.Errorf("%w: %s", ErrAssigned, t.me.Account)
	}
	g, ok := t.deploys.get(p.Key)
	if !ok {
		c, err := DeploysCoder(owners)
		if err != nil {
			return out, err
		}
		g = newGathering(c, p.EncodedLength)
		t.deploys.put(p.Key, g)
	}
	if len(p.Part) > g.coder.MaxPart() {
		return out, fmt.Errorf("%w: of code, %d bytes", ErrPart, len(p.Part))
	}
	if err := g.add(p.Ord, p.Part, p.EncodedLength); err != nil {
		return out, err
	}
	if t.boundDeploys(); !t.deploys.has(p.Key) {
		return out, fmt.Errorf("%w: of code, for which there is no room", ErrPart)
	}
	if p.Ord == uint64(own) && len(all) > 1 {
		to := slices.DeleteFunc(slices.Clone(all), func(a primitives.AccountID) bool { return a == t.me.Account })
		out.Send = append(out.Send, Send{To: to, Body: p})
	}
	if !g.enough() {
		return out, nil
	}
	t.deploys.drop(p.Key)
	t.spread.put(p.Key, struct{}{})
	asks := t.asks
	var codes [][]byte
	var list []contract
	out.Work = append(out.Work, &Work{size: g.size(), run: func(most int) error {
		payload, err := g.join()
		if err != nil {
			return err
		}
		if codes, err = decodeContracts(within(most, unpackContracts), payload, MaxDeployed); err == nil && asks {
			list = contractsOf(codes)
		}
		return err
	}, then: func(err error) (Out, error) {
		if err == nil {
			t.library.keep(list) // it will be called
		}
		return Out{Compile: codes}, err
	}})
	return out, nil
}

// sorted returns hashes in their order, each once.
func sorted(hashes []primitives.Hash) []primitives.Hash {
	out := slices.Clone(hashes)
	slices.SortFunc(out, primitives.Hash.Compare)
	return slices.Compact(out)
}
