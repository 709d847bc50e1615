package partialwitness

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/chain/anchor"
	"github.com/troupe-chain/troupe/primitives"
)

// checkForm returns anchor.ErrForm if a message has an anchor although its chunk's epoch is before
// EarlyKickout, or has no anchor although EarlyKickout is in force. If the epoch is unknown,
// checkForm returns nil, and the checks after it reject the message (nearcore 2.14.0-rc.1
// partial_witness_actor.rs:72).
func (t *Tracker) checkForm(key primitives.ChunkKey, at *primitives.ChunkAnchor) error {
	if anchored, known := t.chain.Anchored(key.EpochID); known && anchored != (at != nil) {
		return anchor.WrongForm(key.ShardID, key.HeightCreated, at != nil)
	}
	return nil
}

// placeOf returns the anchor of a chunk whose previous block prev is known, or nil if messages
// about the chunk have no anchor.
func (t *Tracker) placeOf(key primitives.ChunkKey, prev primitives.Hash) (*primitives.ChunkAnchor, error) {
	if anchored, _ := t.chain.Anchored(key.EpochID); !anchored {
		return nil, nil
	}
	parent, err := t.chain.Parent(prev)
	if err != nil {
		return nil, err
	}
	return &primitives.ChunkAnchor{PrevBlock: prev, PrevPrevBlock: parent}, nil
}

// producer returns the producer of a chunk. at is the anchor in the message, or nil if the message
// has none. kind is the message kind for the counters. With the error anchor.ErrEarly, producer
// also returns the producer that the anchor determines, if the anchor is known.
func (t *Tracker) producer(kind string, key primitives.ChunkKey, at *primitives.ChunkAnchor) (primitives.ValidatorStake, error) {
	if at == nil {
		return t.chain.Producer(key)
	}
	p, err := t.chain.ProducerAt(key, *at)
	t.counters.CountLookup(key.ShardID, kind, err)
	return p, err
}

// checkPlace checks the anchor of a chunk's messages again, once the chunk's previous block is
// known. The check on arrival may have been weaker. Without this second check, a producer on an
// abandoned block could get an endorsement for a chunk on another block. This validator could then
// no longer endorse the real chunk on that other block.
func (t *Tracker) checkPlace(key primitives.ChunkKey, at *primitives.ChunkAnchor) error {
	if at == nil {
		return nil
	}
	_, err := t.chain.ProducerAt(key, *at)
	if errors.Is(err, anchor.ErrEarly) {
		return fmt.Errorf("%w: %w", anchor.ErrWrong, err)
	}
	return err
}

// waiting identifies a message in the queue of early messages.
type waiting struct {
	kind    byte // 'p': witness part, 'f': forwarded part, 'a': contract accesses, 'd': contract deploys
	shard   primitives.ShardID
	epoch   primitives.EpochID
	anchor  primitives.Hash
	ordinal uint64
}

// postpone queues a message that cannot be checked before its chunk's previous block is known. The
// producer that the anchor determines must have signed the message. If the anchor is unknown, the
// canonical producer of the height must have signed the message: the canonical producer is the
// chunk's producer unless heights were skipped or EarlyKickout has excluded that producer. If the
// message cannot be queued, postpone returns why.
func (t *Tracker) postpone(ev Event, why error) error {
	var at *primitives.ChunkAnchor
	var key primitives.ChunkKey
	var signed func(func([]byte))
	var sig primitives.Signature
	var keep func() Event // returns a copy that does not share the memory of the message, whose frame may be long
	w, size := waiting{}, 0
	switch m := ev.(type) {
	case Part:
		p := *m.Part
		at, key, signed, sig, size = p.Anchor, p.Key(), p.Signed, p.Signature, len(p.Part)
		if w.kind, w.ordinal = 'p', p.Ord; m.Forward {
			w.kind = 'f'
		}
		keep = func() Event { p.Part = bytes.Clone(p.Part); return Part{&p, m.Forward} }
	case Accesses:
		a := *m.Accesses
		at, key, sig, size = a.Anchor, a.Key, a.Signature, len(a.Contracts)*len(primitives.Hash{})
		signed = func(use func([]byte)) { use(a.SignedBytes()) }
		w.kind, keep = 'a', func() Event { return Accesses{&a, m.Held} }
	case Deploys:
		p := *m.Part
		at, key, sig, size = p.Anchor, p.Key, p.Signature, len(p.Part)
		signed = func(use func([]byte)) { use(p.SignedBytes()) }
		w.kind, w.ordinal = 'd', p.Ord
		keep = func() Event { p.Part = bytes.Clone(p.Part); return Deploys{&p} }
	}
	if at == nil {
		return why
	}
	if _, err := t.chain.Parent(at.PrevBlock); err == nil {
		return why // waiting would not help, because the previous block is known
	}
	p, _ := t.chain.ProducerAt(key, *at) // empty if the anchor is unknown
	if p.AccountID == "" {
		var err error
		if p, err = t.chain.Producer(key); err != nil {
			return why
		}
	}
	good := false
	if signed(func(b []byte) { good = t.verify(sig, b, p.PublicKey) }); !good {
		t.counters.Unsigned.Add(1)
		return fmt.Errorf("%w: %w: expected %s", why, ErrSigner, p.AccountID)
	}
	w.shard, w.epoch, w.anchor = key.ShardID, key.EpochID, at.PrevPrevBlock
	return t.early.Put(anchor.Entry{Parent: at.PrevBlock, Height: key.HeightCreated, Signer: p.AccountID, Kind: w, Size: size}, keep())
}

// replay handles the messages that were queued for a block, and counts the error of each. Messages
// that still cannot be checked are dropped.
func (t *Tracker) replay(out Out, block primitives.Hash) (Out, error) {
	var errs []error
	for _, ev := range t.early.Take(block) {
		o, err := t.step(ev)
		out.Send = append(out.Send, o.Send...)
		out.Work = append(out.Work, o.Work...)
		out.Validate = append(out.Validate, o.Validate...)
		out.Compile = append(out.Compile, o.Compile...)
		if err != nil && !errors.Is(err, ErrKnown) {
			t.counters.Error(err)
			errs = append(errs, err)
		}
	}
	return out, errors.Join(errs...)
}
