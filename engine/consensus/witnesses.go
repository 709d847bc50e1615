package consensus

import (
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/partialwitness"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// maxInlineCheck is how many bytes of a witness, not packed, are checked without a job where the state is here: each receipt in them has a proof.
const maxInlineCheck = 256 << 10

// maxWaitingChunks is how many chunks on a block wait for it to be endorsed, and on how many blocks.
const maxWaitingChunks = 64

// isUnknown tells whether something is not here, and may never have been: what others' witnesses name is no reason to end.
func isUnknown(err error) bool {
	return errors.Is(err, engine.ErrUnknown) || errors.Is(err, storage.ErrGone) || errors.Is(err, epoch.ErrMissingBlock) || errors.Is(err, epoch.ErrEpochOutOfBounds)
}

// showWitness makes the witness of a chunk of this validator, and spreads it. Where nobody else judges it, it is endorsed at once, and nobody has asked
// for what would prove it.
func (n *Node) showWitness(c *primitives.Chunk) error {
	key := primitives.ChunkKey{ShardID: c.Header.ShardID, EpochID: n.head.epoch, HeightCreated: c.Header.HeightCreated}
	list, err := n.assigned.Validators(key)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(a chain.Assigned) bool { return a.AccountID != n.me }) {
		if e := partialwitness.Endorse(key, c.Hash, n.me, n.o.Key); n.mayEndorse(e) {
			n.sendTo(n.me, e)
		}
		return nil
	}
	spared, err := n.needsNoWitness(list, key.ShardID), error(nil)
	if spared {
		spared, err = n.parts.Brings(&c.Header, accountsOf(list))
	}
	if err != nil {
		return err
	}
	if spared {
		out, err := n.witnesses.Step(partialwitness.Held{Key: key, Chunk: c.Hash})
		n.applyWitnessOut(out, err)
		return nil
	}
	w, err := n.e.Witness(c)
	if err != nil {
		return err
	}
	out, err := n.witnesses.Step(partialwitness.Made{Witness: w.ChunkStateWitness, Transition: w.Transition, Accesses: w.Accesses, Deploys: w.Deploys})
	n.applyWitnessOut(out, err)
	return nil
}

// accountsOf are those of validators.
func accountsOf(list []chain.Assigned) []primitives.AccountID {
	out := make([]primitives.AccountID, len(list))
	for i := range list {
		out[i] = list[i].AccountID
	}
	return out
}

// needsNoWitness tells whether a chunk needs no witness, if its body comes to all who judge it (parts.Pool.Brings): a network hurries, and they all, this validator among them,
// hold the shard's state. Where the last block lacks a chunk somebody may not have told so in time, and witnesses are shown.
func (n *Node) needsNoWitness(list []chain.Assigned, shard primitives.ShardID) bool {
	if n.o.Holds == nil || !n.isEager() || slices.Contains(n.head.block.Header.ChunkMask, false) {
		return false
	}
	mine := false
	for _, a := range list {
		if a.AccountID == n.me {
			mine = true
		} else if !n.o.Holds(a.AccountID, shard) {
			return false
		}
	}
	return mine
}

// witnessMessage takes what others say about witnesses.
func (n *Node) witnessMessage(m Message) {
	if n.witnesses == nil {
		n.note(nil, "%T to who is no validator", m)
		return
	}
	var ev partialwitness.Event
	switch m := m.(type) {
	case *primitives.PartialWitness:
		ev = partialwitness.Part{Part: m}
	case Forwarded:
		ev = partialwitness.Part{Part: m.PartialWitness, Forward: true}
	case *primitives.ContractAccesses:
		ev = partialwitness.Accesses{Accesses: m, Held: n.e.Holds(m.Key.ShardID)}
	case *primitives.ContractCodeRequest:
		ev = partialwitness.CodeAsked{Request: m, Codes: n.e.CodeOf}
	case *primitives.ContractCodeResponse:
		ev = partialwitness.Code{Response: m}
	case *primitives.PartialContractDeploys:
		ev = partialwitness.Deploys{Part: m}
	default:
		n.note(nil, "a message of type %T dropped", m)
		return
	}
	out, err := n.witnesses.Step(ev)
	n.applyWitnessOut(out, err)
}

// applyWitnessOut does what the tracker of witnesses wants done.
func (n *Node) applyWitnessOut(out partialwitness.Out, err error) {
	if err != nil && !errors.Is(err, partialwitness.ErrKnown) {
		n.note(err, "witnesses")
	}
	for _, s := range out.Send {
		var m Message = s.Body
		if e, ok := m.(*primitives.ChunkEndorsement); ok {
			if !n.mayEndorse(e) {
				continue
			}
			if n.o.OnSigned != nil {
				n.o.OnSigned(e.Signature, primitives.ChunkEndorsementBytes(e.ChunkHash), n.public)
			}
			if n.head != nil && n.isEager() {
				n.deferred = append(n.deferred, partialwitness.Send{To: s.To[s.Soon:], Body: e})
				s.To = s.To[:s.Soon]
			}
		}
		if p, ok := m.(*primitives.PartialWitness); ok && s.Forward {
			m = Forwarded{p}
		}
		for _, to := range s.To {
			n.sendTo(to, m)
		}
	}
	for _, w := range out.Work {
		then := func() {
			out, err := n.witnesses.Step(partialwitness.Worked{Work: w})
			n.applyWitnessOut(out, err)
		}
		if w.Quick() {
			then()
		} else {
			n.run(w.Run, then)
		}
	}
	for i := range out.Judge {
		n.checkWitness(out.Judge[i])
	}
	if codes := out.Compile; len(codes) > 0 {
		n.run(func() { n.e.Precompile(codes) }, func() {})
	}
}

// sendDeferred sends endorsements to who makes the heights behind the next two, of whom a hurried network has nothing unless it comes to that.
func (n *Node) sendDeferred() {
	for _, s := range n.deferred {
		for _, to := range s.To {
			n.sendTo(to, s.Body)
		}
	}
	n.deferred = nil
}

// mayEndorse holds back an endorsement beside which another one of that shard and height was made.
func (n *Node) mayEndorse(e *primitives.ChunkEndorsement) bool {
	m := &e.Metadata
	key := primitives.ChunkKey{ShardID: m.ShardID, EpochID: m.EpochID, HeightCreated: m.HeightCreated}
	ahead := primitives.Height(0)
	if n.head != nil && n.isEager() {
		ahead = endorsedAhead
	}
	fresh, may := n.signed.endorse(key, e.ChunkHash, ahead)
	if !may {
		n.note(nil, "endorses no other chunk of shard %d at %d", key.ShardID, key.HeightCreated)
		return false
	}
	if fresh {
		n.save()
	}
	return true
}

// endorseHeld endorses a chunk of another by the state that is here, if this validator is to judge it: its witness could show no more, and comes later. What
// is not good, or can't be told yet, its witness is judged for. Who is behind has chunks of blocks that are made: nobody waits for what it says of them.
func (n *Node) endorseHeld(c *primitives.Chunk) {
	h := &c.Header
	if n.witnesses == nil || n.head == nil || c.Proofs != nil || n.o.Key.IsZero() || n.isBehind() {
		return
	}
	if n.e.BlockNode(h.PrevBlockHash) == nil {
		if h.HeightCreated > n.head.height && h.HeightCreated-n.head.height <= partialwitness.MaxAhead {
			n.waitForBlock(c)
		}
		return
	}
	id := n.head.epoch
	if h.PrevBlockHash != n.head.hash && n.e.Epochs(func(m *epoch.Manager) (err error) {
		id, err = m.EpochIDFromPrev(h.PrevBlockHash)
		return err
	}) != nil {
		return
	}
	key := primitives.ChunkKey{ShardID: h.ShardID, EpochID: id, HeightCreated: h.HeightCreated}
	if list, err := n.assigned.Validators(key); err != nil || !slices.ContainsFunc(list, func(a chain.Assigned) bool { return a.AccountID == n.me }) {
		return
	}
	if p, err := n.e.Validation().Producer(key); err != nil || n.isMe(p.AccountID, p.PublicKey) {
		return // its own, which it has endorsed when it was made
	}
	var held bool
	var err error
	then := func() {
		switch {
		case err != nil && !isUnknown(err) && engine.VerdictOf(err) == engine.VerdictLocalFault:
			n.fail(err)
		case err != nil || !held:
		default:
			out, err := n.witnesses.Step(partialwitness.Held{Key: key, Chunk: c.Hash})
			n.applyWitnessOut(out, err)
		}
	}
	if h.EncodedLength <= maxInlineCheck {
		held, err = n.e.CheckChunk(c)
		then()
		return
	}
	n.run(func() { held, err = n.e.CheckChunk(c) }, then)
}

// waitForBlock keeps a chunk until its block is here: some of each block, of some blocks.
func (n *Node) waitForBlock(c *primitives.Chunk) {
	on := c.Header.PrevBlockHash
	if list := n.waitingChunks[on]; len(list) < maxWaitingChunks && (list != nil || len(n.waitingChunks) < maxWaitingChunks) {
		n.waitingChunks[on] = append(list, c)
	}
}

// checkWitness judges a witness: by the state, if that is here, else by what the witness shows, which is a job.
func (n *Node) checkWitness(j partialwitness.Judgement) {
	if n.o.planted(PlantedEndorse) {
		n.witnessChecked(j, nil)
		return
	}
	if p, err := n.e.Validation().Producer(j.Key); err == nil && n.isMe(p.AccountID, p.PublicKey) {
		return // its own, which it has endorsed when it was made
	}
	n.runWitnessCheck(j)
}

// runWitnessCheck does so, in a job where that takes long.
func (n *Node) runWitnessCheck(j partialwitness.Judgement) {
	var held bool
	var err error
	whole := n.complete[j.Witness.Header.ChunkHash()]
	if j.Size <= maxInlineCheck {
		if held, err = n.e.CheckHeld(j.Witness, whole); held || err != nil {
			n.witnessChecked(j, err)
			return
		}
	}
	n.run(func() {
		if j.Size > maxInlineCheck {
			held, err = n.e.CheckHeld(j.Witness, whole)
		}
		if !held && err == nil {
			err = n.e.CheckWitness(j.Witness, j.Codes)
		}
	}, func() { n.witnessChecked(j, err) })
}

// witnessChecked says what became of a judgement.
func (n *Node) witnessChecked(j partialwitness.Judgement, err error) {
	ev := partialwitness.Judged{Judgement: j, Good: err == nil, Early: errors.Is(err, engine.ErrOrphan), Lacks: errors.Is(err, engine.ErrNoCode), Head: n.e.Head().Height()}
	if ev.Early && n.e.BlockNode(j.Witness.Header.PrevBlockHash) != nil { // the block has come while it was judged
		n.checkWitness(j)
		return
	}
	switch {
	case err == nil, ev.Early:
	case isUnknown(err):
		n.note(err, "witness of shard %d at %d can't be judged", j.Key.ShardID, j.Key.HeightCreated)
	case engine.VerdictOf(err) == engine.VerdictLocalFault:
		n.fail(err)
		return
	case engine.VerdictOf(err) == engine.VerdictInvalid:
		n.refuseChunk(&j.Witness.Header, fmt.Errorf("witness: %w", err))
	default:
		n.note(err, "witness of shard %d at %d can't be judged", j.Key.ShardID, j.Key.HeightCreated)
	}
	out, err := n.witnesses.Step(ev)
	n.applyWitnessOut(out, err)
}
