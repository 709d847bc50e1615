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

// maxInlineCheck is the maximum size in bytes of a witness or chunk that is checked within
// Node.Step, if this node holds the shard. The check verifies the proofs of all receipts, which
// takes long for a large witness. So a job (Node.run) checks a larger witness or chunk.
const maxInlineCheck = 256 << 10

// maxWaitingChunks is the maximum number of chunks that wait for one unknown parent block, and also
// the maximum number of such parents.
const maxWaitingChunks = 64

// isUnknown returns whether an error means that this node does not have a block, epoch or state.
// Such an error does not halt the node, because a peer's witness may refer to anything.
func isUnknown(err error) bool {
	return errors.Is(err, engine.ErrUnknown) || errors.Is(err, storage.ErrGone) || errors.Is(err, epoch.ErrMissingBlock) ||
		errors.Is(err, epoch.ErrEpochOutOfBounds)
}

// showWitness builds the witness of a chunk that this node produced, and sends it to the chunk's
// validators. If this node is the only validator, it endorses the chunk and builds no witness. If
// the validators need no witness (needsNoWitness), showWitness builds none either.
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
		out, err := n.witnesses.Step(partialwitness.Held{Key: key, Chunk: c.Hash, Prev: c.Header.PrevBlockHash})
		n.applyWitnessOut(out, err)
		return nil
	}
	w, err := n.e.Witness(c)
	if err != nil {
		return err
	}
	out, err := n.witnesses.Step(
		partialwitness.Made{Witness: w.ChunkStateWitness, Transition: w.Transition, Accesses: w.Accesses, Deploys: w.Deploys},
	)
	n.timeWitness(&c.Header, &out)
	n.applyWitnessOut(out, err)
	return nil
}

// accountsOf returns the accounts of the validators in list.
func accountsOf(list []chain.Assigned) []primitives.AccountID {
	out := make([]primitives.AccountID, len(list))
	for i := range list {
		out[i] = list[i].AccountID
	}
	return out
}

// needsNoWitness returns whether the validators of a chunk can check it without a witness as soon
// as they have its body (chunkparts.Pool.Brings). This requires eager mode, that this node is one
// of the validators, and that all of them track the shard. needsNoWitness returns false if the head
// block lacks a chunk of a shard, because a validator may then be late.
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

// witnessMessage handles messages about witnesses and contract code.
func (n *Node) witnessMessage(m Message) {
	if n.witnesses == nil {
		n.note(nil, "%T ignored: this node is not a validator", m)
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
		n.note(nil, "unknown message %T dropped", m)
		return
	}
	out, err := n.witnesses.Step(ev)
	n.applyWitnessOut(out, err)
}

// applyWitnessOut executes the effects that a step of the witness tracker (partialwitness)
// returned.
func (n *Node) applyWitnessOut(out partialwitness.Out, err error) {
	if err != nil && !errors.Is(err, partialwitness.ErrKnown) {
		n.note(err, "witnesses")
	}
	n.measureWitnesses(out.Measured)
	for _, s := range out.Send {
		var m Message = s.Body
		if e, ok := m.(*primitives.ChunkEndorsement); ok {
			if !n.mayEndorse(e) {
				continue
			}
			n.o.Verifier.Add(e.Signature, primitives.ChunkEndorsementBytes(e.ChunkHash), n.public)
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
	for i := range out.Validate {
		n.checkWitness(out.Validate[i])
	}
	if codes := out.Compile; len(codes) > 0 {
		n.run(func() { n.e.Precompile(codes) }, func() {})
	}
}

// sendDeferred sends the deferred endorsements to the producers of later heights. In eager mode,
// these producers get endorsements only when a height is skipped.
func (n *Node) sendDeferred() {
	for _, s := range n.deferred {
		for _, to := range s.To {
			n.sendTo(to, s.Body)
		}
	}
	n.deferred = nil
}

// mayEndorse returns whether this node may send an endorsement. If so, mayEndorse records the
// endorsement. mayEndorse returns false for a second chunk of the same shard and height.
func (n *Node) mayEndorse(e *primitives.ChunkEndorsement) bool {
	m := &e.Metadata
	key := primitives.ChunkKey{ShardID: m.ShardID, EpochID: m.EpochID, HeightCreated: m.HeightCreated}
	ahead := primitives.Height(0)
	if n.head != nil && n.isEager() {
		ahead = endorsedAhead
	}
	fresh, may := n.signed.endorse(key, e.ChunkHash, ahead)
	if !may {
		n.note(nil, "refuses to endorse a second chunk of shard %d at %d", key.ShardID, key.HeightCreated)
		return false
	}
	if fresh {
		n.save()
	}
	return true
}

// endorseHeld checks a peer's chunk against this node's own state, and endorses the chunk if this
// node is one of its validators. endorseHeld does not wait for the witness, because the witness
// would prove nothing more than this node's own state does. If the check fails or is not possible
// yet, the node decides when it checks the witness. A node that is behind the network skips this
// check, because an endorsement would be too late.
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
	if list, err := n.assigned.Validators(key); err != nil ||
		!slices.ContainsFunc(list, func(a chain.Assigned) bool { return a.AccountID == n.me }) {
		return
	}
	if p, err := n.e.ChunkProducer(h.PrevBlockHash, h.ShardID); err != nil || n.isMe(p.AccountID, p.PublicKey) {
		return // this node endorsed its own chunk when it produced the chunk
	}
	var held bool
	var err error
	then := func() {
		switch {
		case err != nil && !isUnknown(err) && engine.VerdictOf(err) == engine.VerdictLocalFault:
			n.fail(err)
		case err != nil || !held:
		default:
			out, err := n.witnesses.Step(partialwitness.Held{Key: key, Chunk: c.Hash, Prev: h.PrevBlockHash})
			n.applyWitnessOut(out, err)
		}
	}
	if h.EncodedLength <= maxInlineCheck {
		held, err = n.o.Witnesses.CheckChunk(c)
		then()
		return
	}
	n.run(func() { held, err = n.o.Witnesses.CheckChunk(c) }, then)
}

// waitForBlock keeps a chunk until its parent is known. waitForBlock drops the chunk if a limit of
// maxWaitingChunks is reached.
func (n *Node) waitForBlock(c *primitives.Chunk) {
	on := c.Header.PrevBlockHash
	if list := n.waitingChunks[on]; len(list) < maxWaitingChunks &&
		(list != nil || len(n.waitingChunks) < maxWaitingChunks) {
		n.waitingChunks[on] = append(list, c)
	}
}

// checkWitness checks a witness. If this node holds the shard, checkWitness uses this node's own
// state; otherwise the state in the witness. checkWitness does not check the witness of a chunk
// that this node produced.
func (n *Node) checkWitness(j partialwitness.PendingWitness) {
	if n.o.Hooks.planted(PlantedEndorse) {
		n.witnessChecked(j, nil)
		return
	}
	h := &j.Witness.Header
	if p, err := n.e.ChunkProducer(h.PrevBlockHash, h.ShardID); err == nil && n.isMe(p.AccountID, p.PublicKey) {
		return // this node endorsed its own chunk when it produced the chunk
	}
	n.runWitnessCheck(j)
}

// runWitnessCheck checks a witness. If the witness is small and this node holds the shard, the
// check runs within the step, otherwise in a job.
func (n *Node) runWitnessCheck(j partialwitness.PendingWitness) {
	var held bool
	var err error
	whole := n.complete[j.Witness.Header.ChunkHash()]
	if j.Size <= maxInlineCheck {
		if held, err = n.o.Witnesses.CheckHeld(j.Witness, whole); held || err != nil {
			n.witnessChecked(j, err)
			return
		}
	}
	var took int64
	checked := false
	n.run(func() {
		if j.Size > maxInlineCheck {
			held, err = n.o.Witnesses.CheckHeld(j.Witness, whole)
		}
		if !held && err == nil {
			begun := n.elapsed()
			err = n.o.Witnesses.CheckWitness(j.Witness, j.Codes)
			took, checked = n.elapsed()-begun, true
		}
	}, func() {
		if checked { // nearcore does not time a check against its own state either
			n.measured.Add(witnessTime, took, label(j.Witness.Header.ShardID))
		}
		n.witnessChecked(j, err)
	})
}

// witnessChecked handles the result of checking a witness.
func (n *Node) witnessChecked(j partialwitness.PendingWitness, err error) {
	ev := partialwitness.WitnessValidated{
		PendingWitness: j,
		Good:           err == nil,
		Early:          errors.Is(err, engine.ErrOrphan),
		Lacks:          errors.Is(err, engine.ErrNoCode),
		Head:           n.e.Head().Height(),
	}
	if ev.Early && n.e.BlockNode(j.Witness.Header.PrevBlockHash) != nil { // the parent arrived during the check
		n.checkWitness(j)
		return
	}
	if err != nil && !ev.Early && !ev.Lacks && !isUnknown(err) {
		n.measured.Add(witnessFailed, 1, label(j.Witness.Header.ShardID), chain.ErrorLabel(err))
	}
	switch {
	case err == nil, ev.Early:
	case isUnknown(err):
		n.note(err, "the witness of shard %d at height %d cannot be checked", j.Key.ShardID, j.Key.HeightCreated)
	case engine.VerdictOf(err) == engine.VerdictLocalFault:
		n.fail(err)
		return
	case engine.VerdictOf(err) == engine.VerdictInvalid:
		n.refuseChunk(&j.Witness.Header, fmt.Errorf("its state witness: %w", err))
	default:
		n.note(err, "the witness of shard %d at height %d cannot be checked", j.Key.ShardID, j.Key.HeightCreated)
	}
	out, err := n.witnesses.Step(ev)
	if ev.Early {
		if err == nil {
			n.measured.Add(orphanWitnesses, 1, label(j.Witness.Header.ShardID))
		}
		n.measureOrphans()
	}
	n.applyWitnessOut(out, err)
}
