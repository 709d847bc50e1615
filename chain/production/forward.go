package production

import "github.com/troupe-chain/troupe/primitives"

// Epoch is where a block stands in its epoch.
type Epoch struct {
	First, Length primitives.Height // the first block's height; the planned length
	Last          bool              // the block's children begin the next epoch
}

// MinForward is the least length of epochs that Forward works with.
const MinForward = 4

// Forward returns the height of the block after one of height at, on the way to target, which is greater: as far as is passed over. The
// heights are neard's (nearcore chain/client/src/client_actor.rs:1089, which takes epochs to begin behind multiples of their length): on a
// way beyond the epoch up to three before its planned end, from where what ends it and begins the next are blocks one after the other; on
// a way within the epoch up to target, and the block is the next.
func Forward(at, target primitives.Height, e Epoch) primitives.Height {
	end := e.First + e.Length
	stop := end - min(3, e.Length)
	switch {
	case e.Last || at < e.First || at+1 >= stop:
		return at + 1
	case target+1 >= end:
		return stop
	}
	return target + 1
}
