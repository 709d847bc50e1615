package blockdoc

import (
	"errors"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// ErrProducers says that a block is of an epoch whose producers nobody has told yet (Chain.Producers).
var ErrProducers = errors.New("follow: the block producers of the epoch are not known")

// maxEpochs is how many epochs' producers a Chain keeps: that of the last block, the one before, the next.
const maxEpochs = 3

// Chain follows headers by the light client's rule, from a block whose hash is known on: without any state, by the block producers of its epoch alone. Those
// of the next epoch anybody may tell, since the headers name their hash.
//
// It is for who has no state. The engine checks more: that block producers are those that the chain has come to, and what each block does.
type Chain struct {
	verify func(primitives.Signature, []byte, primitives.PublicKey) bool
	want   primitives.Hash // the checkpoint, until it came
	epochs map[primitives.EpochID][]primitives.ValidatorStake
	order  []primitives.EpochID
	last   [2]*Document // and the one before; nil: there is none
}

// NewChain begins with a checkpoint: the hash of a block, the epoch that it is of, and that epoch's producers in their order.
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

// Producers tells those of the epoch after the last block's. It is false if their hash is not the one that its header names.
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

// Needs tells whether the next epoch's producers are not known yet.
func (c *Chain) Needs() bool {
	return c.last[0] != nil && c.epochs[c.last[0].Block.Header.NextEpochID] == nil
}

// Tip is the last block that was taken; nil: the checkpoint has not come.
func (c *Chain) Tip() *Document { return c.last[0] }

// Add takes the block after the last one; the first is the checkpoint. final is the block that it makes final: the last but one, if the three stand at heights
// that follow each other, and more than two thirds of the epoch's stake approve of the last in the header of this one. nil: none. A block that it does
// not take changes nothing.
func (c *Chain) Add(d *Document) (final *Document, err error) {
	h := d.Block.Header
	if c.last[0] == nil {
		if d.Hash != c.want {
			return nil, lief("block.header.hash", "%v, and the checkpoint is %v", d.Hash, c.want)
		}
		c.last[0] = d
		return nil, nil
	}
	parent := c.last[0].Block.Header
	if h.PrevHash != c.last[0].Hash {
		return nil, lief("block.header.prev_hash", "%v, and the block before is %v", h.PrevHash, c.last[0].Hash)
	}
	if h.Height <= parent.Height || h.Timestamp <= parent.Timestamp {
		return nil, lief("block.header.height", "%d at %d ns, on %d at %d ns", h.Height, h.Timestamp, parent.Height, parent.Timestamp)
	}
	if h.EpochID != parent.EpochID && h.EpochID != parent.NextEpochID || h.EpochID == parent.EpochID && !parent.IsGenesis() && (h.NextEpochID != parent.NextEpochID || h.NextBPHash != parent.NextBPHash) {
		return nil, lief("block.header.epoch_id", "%v with %v next, on a block of %v with %v next", h.EpochID, h.NextEpochID, parent.EpochID, parent.NextEpochID)
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
		return nil, lief("block.header.approvals", "of no more than two thirds of the stake")
	}
	if before := c.last[1]; before != nil && h.Height == parent.Height+1 && parent.Height == before.Block.Header.Height+1 {
		final = before
	}
	c.last = [2]*Document{d, c.last[0]}
	return final, nil
}

// signed checks the signature of the producer that the document names. That it was this one's turn only the epoch's seed tells.
func (c *Chain) signed(d *Document, producers []primitives.ValidatorStake) error {
	for i := range producers {
		if producers[i].AccountID == d.Author {
			if !c.verify(d.Block.Header.Signature, d.Hash[:], producers[i].PublicKey) {
				return lief("block.header.signature", "is not %s's", d.Author)
			}
			return nil
		}
	}
	return lief("block.author", "%s makes no blocks in this epoch", d.Author)
}

// approved tells whether more than two thirds of an epoch's stake approve of the parent in a header. Behind the epoch's producers stand, near its end, those of
// the next, which count for nothing here.
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
			return false, lief("block.header.approvals", "the signature of %s does not hold", producers[i].AccountID)
		}
		have = have.SaturatingAdd(producers[i].Stake)
	}
	return chain.OverTwoThirds(have, total), nil
}
