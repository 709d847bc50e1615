package production

import "github.com/troupe-chain/troupe/primitives"

// Epoch is the position of a block in its epoch.
type Epoch struct {
	First, Length primitives.Height // the first block's height; the planned length
	Last          bool              // the block's children begin the next epoch
}

// MinForward is the least epoch length that Forward supports.
const MinForward = 4

// longEpoch is neard's epoch_length in the genesis that its init writes. Longer epochs are passed
// as if they had that length, as far as it decides which block is final in the end.
const longEpoch = 500

// Forward returns the height of the block after one at height at, on the way to target, which must
// be greater.
//
// The heights are neard's (nearcore chain/client/src/client_actor.rs:1089, which assumes that
// epochs begin after multiples of their length). A way beyond the epoch jumps to three heights
// before its planned end; from there the blocks that end it and begin the next epoch come one after
// the other. A way within the epoch jumps to target, and the block is the next one.
//
// A jump makes no block final, so the final block in the end is the one that was final before the
// last jump. In an epoch of more than longEpoch heights that could be far back. There, four blocks
// come one after the other around the last multiple of longEpoch before target, as they would if an
// epoch ended there: the final block in the end is the one below that multiple.
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
