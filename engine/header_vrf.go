package engine

import (
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// vrfCache has the random values that keys have given lately. One follows from the block before and the key alone, so it is computed while that
// block is applied and synced: proving takes as long as the rest of making a small block. Chains that go on from the same block, as worlds do and
// what comes behind a way back, have the same values, so an engine and its children have one oracle. Safe from any goroutine.
type vrfCache struct {
	mu   sync.Mutex
	of   map[vrfInput]*vrfOutput
	last [maxVRFOutputs]vrfInput // of which it has the values, as a ring
	next int
}

// maxVRFOutputs is how many values are kept.
const maxVRFOutputs = 128

// vrfInput is what a value follows from.
type vrfInput struct {
	random primitives.Hash // of the block before
	key    primitives.SecretKey
}

// vrfOutput is the random value that a key is going to give the next block.
type vrfOutput struct {
	once  sync.Once
	value [32]byte
	proof [64]byte
	err   error
}

func (f *vrfOutput) compute(q *vrfInput) {
	f.once.Do(func() { f.value, f.proof, f.err = q.key.ProveVRF(q.random[:]) })
}

// find returns the place of a value; fresh: nobody has asked for it yet.
func (o *vrfCache) find(q *vrfInput) (f *vrfOutput, fresh bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f, ok := o.of[*q]; ok {
		return f, false
	}
	if o.of == nil {
		o.of = map[vrfInput]*vrfOutput{}
	}
	delete(o.of, o.last[o.next])
	o.last[o.next], o.next = *q, (o.next+1)%maxVRFOutputs
	f = &vrfOutput{}
	o.of[*q] = f
	return f, true
}

// precomputeVRF begins to compute the value after b, if the key that made b is to make the next block too. A wrong guess, as at
// the end of an epoch, costs nothing but the work. The caller holds epochMu.
func (e *Engine) precomputeVRF(b *primitives.Block, key primitives.SecretKey) {
	next, err := e.epochs.BlockProducer(b.Header.EpochID, b.Header.Height+1)
	if err != nil || next.PublicKey != key.PublicKey() {
		return
	}
	q := vrfInput{b.Header.RandomValue, key}
	if f, fresh := e.vrf.find(&q); fresh {
		go f.compute(&q)
	}
}

// proveVRF returns the random value after a block and its proof.
func (e *Engine) proveVRF(random primitives.Hash, key primitives.SecretKey) (value [32]byte, proof [64]byte, err error) {
	q := vrfInput{random, key}
	f, _ := e.vrf.find(&q)
	f.compute(&q)
	return f.value, f.proof, f.err
}

// vrfKeys are those of who has made blocks lately, as what verifies their random values needs them: to make one of them takes longer than that. Safe from any
// goroutine.
type vrfKeys struct {
	mu sync.Mutex
	of map[primitives.PublicKey]*primitives.VRFPublicKey
}

// maxVRFKeys bounds them.
const maxVRFKeys = 512

// verify is primitives.VerifyVRF.
func (v *vrfKeys) verify(k primitives.PublicKey, input []byte, value *[32]byte, proof *[64]byte) bool {
	v.mu.Lock()
	key := v.of[k]
	v.mu.Unlock()
	if key == nil {
		var err error
		if key, err = primitives.NewVRFPublicKey(k); err != nil {
			return false
		}
		v.mu.Lock()
		if v.of == nil || len(v.of) >= maxVRFKeys {
			v.of = map[primitives.PublicKey]*primitives.VRFPublicKey{}
		}
		v.of[k] = key
		v.mu.Unlock()
	}
	return key.Verify(input, value, proof)
}
