package witness

import (
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

// accesses asks one of the shard's producers for what is missing, once for each witness.
func (t *Tracker) accesses(ev *Accesses) (out Out, err error) {
	a := ev.Accesses
	if _, err := t.assigned(a.Key, t.me.Account); err != nil {
		return out, err
	}
	if err := t.signedBy(a.Key, a.SignedBytes(), a.Signature); err != nil {
		return out, err
	}
	if len(ev.Missing) == 0 {
		return out, nil
	}
	w, err := t.coming(a.Key, true)
	if err != nil {
		return out, err
	}
	if w.asked != nil {
		return out, fmt.Errorf("%w: contracts of shard %d at %d", ErrKnown, a.Key.ShardID, a.Key.HeightCreated)
	}
	producers, err := t.chain.Producers(a.Key.EpochID, a.Key.ShardID)
	if err != nil || len(producers) == 0 {
		return out, err
	}
	w.asked, w.waits, w.of = slices.Clone(ev.Missing), true, producers[ev.Chance%uint64(len(producers))]
	slices.SortFunc(w.asked, primitives.Hash.Compare)
	w.asked = slices.Compact(w.asked)
	q := &primitives.ContractCodeRequest{Requester: t.me.Account, Key: a.Key, Contracts: w.asked, Transition: a.Transition}
	q.Signature = t.me.Key.Sign(q.SignedBytes())
	out.Send = append(out.Send, Send{To: []primitives.AccountID{w.of}, Body: q})
	return out, nil
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
	all, err := ev.Codes(q.Key, q.Transition)
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
	a := &primitives.ContractCodeResponse{Key: q.Key, Responder: t.me.Account, Compressed: EncodeContracts(codes)}
	a.Signature = t.me.Key.Sign(a.SignedBytes())
	out.Send = append(out.Send, Send{To: []primitives.AccountID{q.Requester}, Body: a})
	return out, nil
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
	w, err := t.coming(a.Key, false)
	if err != nil {
		return out, err
	}
	if !w.waits || w.reading || a.Responder != w.of {
		return out, fmt.Errorf("%w: code for shard %d at %d", ErrUnasked, a.Key.ShardID, a.Key.HeightCreated)
	}
	w.reading = true
	var codes [][]byte
	out.Work = append(out.Work, &Work{size: len(a.Compressed), run: func(most int) (err error) {
		if codes, err = decodeContracts(within(most, unpackContracts), a.Compressed, MaxRequested); err != nil {
			return err
		}
		got := make([]primitives.Hash, len(codes))
		for i, c := range codes {
			got[i] = primitives.HashBytes(c)
		}
		slices.SortFunc(got, primitives.Hash.Compare)
		if !slices.Equal(slices.Compact(got), w.asked) {
			return fmt.Errorf("%w: %d", ErrContracts, len(codes))
		}
		return nil
	}, then: func(err error) (Out, error) {
		if w.reading = false; err != nil {
			return Out{}, err
		}
		if still, _ := t.coming(a.Key, false); still != w {
			return Out{}, fmt.Errorf("%w any more: code for shard %d at %d", ErrUnasked, a.Key.ShardID, a.Key.HeightCreated)
		}
		w.codes, w.waits = codes, false
		return t.together(Out{}, a.Key, w), nil
	}})
	return out, nil
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
	if err := g.add(p.Ord, p.Part, p.EncodedLength); err != nil {
		return out, err
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
	var codes [][]byte
	out.Work = append(out.Work, &Work{size: g.size(), run: func(most int) error {
		payload, err := g.join()
		if err == nil {
			codes, err = decodeContracts(within(most, unpackContracts), payload, MaxDeployed)
		}
		return err
	}, then: func(err error) (Out, error) { return Out{Compile: codes}, err }})
	return out, nil
}
