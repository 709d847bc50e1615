package production

import "github.com/troupe-chain/troupe/primitives"

// Epoch is where a block stands in its epoch.
type Epoch struct {
	First, Length primitives.Height // the first block's height; the planned length
	Last          bool              // the block's children begin the next epoch
}

// MinForward is the least length of epochs that Forward works with.
const MinForward = 4

// longEpoch is neard's epoch_length in the genesis that its init writes. Epochs that are longer are passed over as if they were of
// that length, as far as that decides which block is final in the end.
const longEpoch = 500

// Forward returns the height of the block after one of height at, on the way to target, which is greater. The
// heights are neard's (nearcore chain/client/src/client_actor.rs:1089, which takes epochs to begin after multiples of their length): on a
// way beyond the epoch up to three before its planned end, from where what ends it and begins the next are blocks one after the other; on
// a way within the epoch up to target, and the block is the next.
//
// A jump makes no block final, so what is final in the end is what was final before the last jump. In an epoch of more than longEpoch
// heights that could be far back. There, four blocks come one after the other around the last multiple of longEpoch before target, as they
// would if an epoch ended there: the final block in the end is the one below that multiple.
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
