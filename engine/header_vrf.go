package engine

import (
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// vrfCache caches the random values that keys recently produced. A value depends only on the
// previous block and the key, so it is computed while that block is applied and synced: proving it
// takes as long as the rest of producing a small block. An engine and its children share one cache,
// since chains that continue from the same block (worlds, or after a revert) have the same values.
// Safe for concurrent use.
type vrfCache struct {
	mu   sync.Mutex
	of   map[vrfInput]*vrfOutput
	last [maxVRFOutputs]vrfInput // keys of the map in insertion order, a ring
	next int
}

// maxVRFOutputs is the number of cached values.
const maxVRFOutputs = 128

// vrfInput determines a value.
type vrfInput struct {
	random primitives.Hash // of the block before
	key    primitives.SecretKey
}

// vrfOutput is the random value of a key's next block, computed once.
type vrfOutput struct {
	once  sync.Once
	value [32]byte
	proof [64]byte
	err   error
}

func (f *vrfOutput) compute(q *vrfInput) {
	f.once.Do(func() { f.value, f.proof, f.err = q.key.ProveVRF(q.random[:]) })
}

// find returns the entry of a value; fresh: no caller has asked for it before.
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

// precomputeVRF starts to compute the value after b if the key that produced b is to produce the
// next block too. A wrong guess, as at the end of an epoch, only wastes the work. The caller holds
// epochMu.
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

// proveVRF returns the random value after a block, and its proof.
func (e *Engine) proveVRF(
	random primitives.Hash,
	key primitives.SecretKey,
) (value [32]byte, proof [64]byte, err error) {
	q := vrfInput{random, key}
	f, _ := e.vrf.find(&q)
	f.compute(&q)
	return f.value, f.proof, f.err
}

// vrfKeys caches the decoded keys of recent block producers: decoding takes longer than verifying a
// value. Safe for concurrent use.
type vrfKeys struct {
	mu sync.Mutex
	of map[primitives.PublicKey]*primitives.VRFPublicKey
}

// maxVRFKeys bounds the cache. When it is full, it is emptied.
const maxVRFKeys = 512

// verify is primitives.VerifyVRF with the cache.
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
