package blockdoc

import (
	"errors"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// ErrProducers means that the block producers of the block's epoch are unknown. The caller provides
// them with Chain.Producers.
var ErrProducers = errors.New("blockdoc: the epoch's block producers are unknown")

// maxEpochs is the number of epochs whose producers a Chain keeps: the previous, the current and
// the next one.
const maxEpochs = 3

// Chain verifies a sequence of headers as a light client does, beginning at a trusted block hash.
// It needs no state, only the block producers of each epoch. The producers of the next epoch may
// come from any source, because the header contains their hash.
//
// Chain is for programs that do not have the chain's state. The engine has the state, so it also
// checks that the producers are the elected ones, and checks the effects of each block. Not safe
// for concurrent use.
type Chain struct {
	verify func(primitives.Signature, []byte, primitives.PublicKey) bool
	want   primitives.Hash // hash of the checkpoint; not used after the checkpoint was added
	epochs map[primitives.EpochID][]primitives.ValidatorStake
	order  []primitives.EpochID
	last   [2]*Document // the last added block and its parent; nil: not added yet
}

// NewChain returns a Chain that begins at a checkpoint: the hash of a block, the id of its epoch,
// and the producers of that epoch in order. verify reports whether a signature is valid.
func NewChain(block primitives.Hash, epoch primitives.EpochID, producers []primitives.ValidatorStake, verify func(primitives.Signature, []byte, primitives.PublicKey) bool) *Chain {
	c := &Chain{verify: verify, want: block, epochs: map[primitives.EpochID][]primitives.ValidatorStake{}}
	c.keep(epoch, producers)
	return c
}

func (c *Chain) keep(id primitives.EpochID, list []primitives.ValidatorStake) {
	if c.epochs[id] != nil {
		return
	}
	c.epochs[id], c.order = list, append(c.order, id)
	if len(c.order) > maxEpochs {
		delete(c.epochs, c.order[0])
		c.order = c.order[1:]
	}
}

// Producers sets the block producers of the epoch after the last block's epoch. It returns false if
// the list does not match the hash in the last block's header.
func (c *Chain) Producers(list []primitives.ValidatorStake) bool {
	if c.last[0] == nil {
		return false
	}
	h := c.last[0].Block.Header
	if len(list) == 0 || primitives.BlockProducersHash(list) != h.NextBPHash {
		return false
	}
	c.keep(h.NextEpochID, list)
	return true
}

// Needs returns whether the producers of the next epoch are unknown, so that the caller should
// provide them.
func (c *Chain) Needs() bool {
	return c.last[0] != nil && c.epochs[c.last[0].Block.Header.NextEpochID] == nil
}

// Tip returns the last block, or nil if not even the checkpoint was added.
func (c *Chain) Tip() *Document { return c.last[0] }

// Add verifies a block and adds it as the next one; the first block must be the checkpoint. Add
// returns the block that becomes final with d, or nil if no block does. A block becomes final when
// the block, its child and d have consecutive heights. d's header must contain approvals of its
// parent by more than two thirds of the stake. On an error the Chain is unchanged. Errors:
// MismatchError, ErrProducers.
func (c *Chain) Add(d *Document) (final *Document, err error) {
	h := d.Block.Header
	if c.last[0] == nil {
		if d.Hash != c.want {
			return nil, mismatchf("block.header.hash", "%v, and the checkpoint is %v", d.Hash, c.want)
		}
		c.last[0] = d
		return nil, nil
	}
	parent := c.last[0].Block.Header
	if h.PrevHash != c.last[0].Hash {
		return nil, mismatchf("block.header.prev_hash", "%v, and the block before is %v", h.PrevHash, c.last[0].Hash)
	}
	if h.Height <= parent.Height || h.Timestamp <= parent.Timestamp {
		return nil, mismatchf("block.header.height", "%d at %d ns, on %d at %d ns", h.Height, h.Timestamp, parent.Height, parent.Timestamp)
	}
	if h.EpochID != parent.EpochID && h.EpochID != parent.NextEpochID || h.EpochID == parent.EpochID && !parent.IsGenesis() && (h.NextEpochID != parent.NextEpochID || h.NextBPHash != parent.NextBPHash) {
		return nil, mismatchf("block.header.epoch_id", "%v with %v next, on a block of %v with %v next", h.EpochID, h.NextEpochID, parent.EpochID, parent.NextEpochID)
	}
	producers := c.epochs[h.EpochID]
	if producers == nil {
		return nil, ErrProducers
	}
	if err := c.signed(d, producers); err != nil {
		return nil, err
	}
	approved, err := c.approved(d, parent, c.last[0].Hash, producers)
	if err != nil {
		return nil, err
	}
	if !approved {
		return nil, mismatchf("block.header.approvals", "by no more than two thirds of the stake")
	}
	if before := c.last[1]; before != nil && h.Height == parent.Height+1 && parent.Height == before.Block.Header.Height+1 {
		final = before
	}
	c.last = [2]*Document{d, c.last[0]}
	return final, nil
}

// signed checks that the account in d.Author has signed the block. It does not check that this
// account is the producer of the height, because that check needs the epoch's random seed.
func (c *Chain) signed(d *Document, producers []primitives.ValidatorStake) error {
	for i := range producers {
		if producers[i].AccountID == d.Author {
			if !c.verify(d.Block.Header.Signature, d.Hash[:], producers[i].PublicKey) {
				return mismatchf("block.header.signature", "is not %s's", d.Author)
			}
			return nil
		}
	}
	return mismatchf("block.author", "%s makes no blocks in this epoch", d.Author)
}

// approved returns whether the header contains approvals of its parent by more than two thirds of
// the producers' stake. Near the end of an epoch the header also contains approvals by the next
// epoch's producers. The approvals of the next epoch's producers do not count.
func (c *Chain) approved(d *Document, parent *primitives.BlockHeader, hash primitives.Hash, producers []primitives.ValidatorStake) (bool, error) {
	h := d.Block.Header
	inner := primitives.NewApprovalInner(hash, parent.Height, h.Height)
	signed := inner.SignedBytes(h.Height)
	var have, total primitives.Balance
	for i := range producers {
		total = total.SaturatingAdd(producers[i].Stake)
		if i >= len(h.Approvals) || h.Approvals[i] == "" {
			continue
		}
		if !c.verify(h.Approvals[i], signed, producers[i].PublicKey) {
			return false, mismatchf("block.header.approvals", "the signature of %s is invalid", producers[i].AccountID)
		}
		have = have.SaturatingAdd(producers[i].Stake)
	}
	return chain.OverTwoThirds(have, total), nil
}
