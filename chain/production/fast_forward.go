package production

import "github.com/troupe-chain/troupe/primitives"

// Epoch is the position of a block in its epoch.
type Epoch struct {
	First, Length primitives.Height // height of the first block; planned length in blocks
	Last          bool              // the block's children begin the next epoch
}

// MinForward is the minimum epoch length that Forward supports.
const MinForward = 4

// longEpoch is the epoch_length that neard's init command writes into a genesis. In longer epochs,
// Forward chooses the heights so that the last final block is the same as if epochs had this
// length.
const longEpoch = 500

// Forward returns the height of the block to produce next. at is the height of the current block, e
// is that block's epoch, and target is the height to fast-forward to, which must be greater than
// at.
//
// The heights are those of neard (nearcore chain/client/src/client_actor.rs:1089), which assumes
// that epochs begin after multiples of their length. If target is beyond the epoch, the next block
// is three heights before the epoch's planned end. From there, the blocks that end the epoch and
// begin the next one have consecutive heights. If target is within the epoch, the next block is at
// target+1.
//
// Skipped heights finalize nothing. So after the last skip, the last final block is still the block
// before the skip. In an epoch of more than longEpoch heights, that block could be far below.
// Therefore, in such an epoch, four blocks get consecutive heights around the last multiple of
// longEpoch before target, as if an epoch ended there. These four blocks make the block below that
// multiple final.
func Forward(at, target primitives.Height, e Epoch) primitives.Height {
	end := e.First + e.Length
	stop := end - min(3, e.Length)
	switch {
	case e.Last || at < e.First || at+1 >= stop:
		return at + 1
	case target+1 >= end:
		return stop
	}
	if last := target - target%longEpoch; e.Length > longEpoch && at < last+1 && last >= 3 {
		return max(at+1, last-2)
	}
	return target + 1
}
