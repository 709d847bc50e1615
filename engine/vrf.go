package engine

import (
	"github.com/troupe-chain/troupe/primitives"
)

// foretold is the random value that a key is going to give the next block. It follows from the block before alone, so it is
// computed while that one is applied and synced: proving takes as long as the rest of making a small block.
type foretold struct {
	random primitives.Hash // of the block before
	key    primitives.SecretKey
	done   chan struct{} // closed when the rest is there
	value  [32]byte
	proof  [64]byte
	err    error
}

// foretell begins to compute the value after b, if the key that made b is to make the next block too. A wrong guess, as at
// the end of an epoch, costs nothing but the work. The caller holds epochMu.
func (e *Engine) foretell(b *primitives.Block, key primitives.SecretKey) {
	next, err := e.epochs.BlockProducer(b.Header.EpochID, b.Header.Height+1)
	if err != nil || next.PublicKey != key.PublicKey() {
		return
	}
	f := &foretold{random: b.Header.RandomValue, key: key, done: make(chan struct{})}
	e.foretold = f
	go func() {
		defer close(f.done)
		f.value, f.proof, f.err = key.ProveVRF(f.random[:])
	}()
}

// prove returns the random value after a block and its proof.
func (e *Engine) prove(random primitives.Hash, key primitives.SecretKey) (value [32]byte, proof [64]byte, err error) {
	if f := e.foretold; f != nil && f.random == random && f.key == key {
		<-f.done
		return f.value, f.proof, f.err
	}
	return key.ProveVRF(random[:])
}
