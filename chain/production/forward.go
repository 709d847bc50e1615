package production

import "github.com/troupe-chain/troupe/primitives"

// Epoch is where a block stands in its epoch.
type Epoch struct {
	First, Length primitives.Height // the first block's height; the planned length
	Last          bool              // the block's children begin the next epoch
}

// MinForward is the least length of epochs that Forward works with.
const MinForward = 4

// Forward returns the height of the block after one of height at, on the way to target, which is greater: as far as may be passed over.
// Heights are passed over within an epoch, up to three before its planned end, and not behind its first block: what ends an epoch and
// begins the next are blocks one after the other (nearcore chain/client/src/client_actor.rs:1089, which takes epochs to begin at
// multiples of their length).
func Forward(at, target primitives.Height, e Epoch) primitives.Height {
	stop := e.First + e.Length - min(3, e.Length)
	if e.Last || at == e.First || at >= stop {
		return at + 1
	}
	return max(min(target, stop), at+1)
}
