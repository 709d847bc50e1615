package engine

import (
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// vrfCache caches VRF outputs. An output depends only on the previous block's random value and the
// producer's key. So the engine can compute the output while the previous block is still being
// applied and synced. This saves time, because computing the VRF proof takes as long as all other
// work for a small block. An engine and its children share one cache, because chains that continue
// from the same block (sandbox worlds, or a reverted chain) have the same outputs. Safe for
// concurrent use.
type vrfCache struct {
	mu   sync.Mutex
	of   map[vrfInput]*vrfOutput
	last [maxVRFOutputs]vrfInput // ring buffer of the keys of the map, in insertion order
	next int
}

// maxVRFOutputs is the capacity of vrfCache.
const maxVRFOutputs = 128

// vrfInput determines a VRF output.
type vrfInput struct {
	random primitives.Hash // random value of the previous block
	key    primitives.SecretKey
}

// vrfOutput is the VRF output of a vrfInput, or the error of computing it. The output is computed
// once.
type vrfOutput struct {
	once  sync.Once
	value [32]byte
	proof [64]byte
	err   error
}

func (f *vrfOutput) compute(q *vrfInput) {
	f.once.Do(func() { f.value, f.proof, f.err = q.key.ProveVRF(q.random[:]) })
}

// find returns the cache's entry for q. fresh means that this call created the entry.
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

// precomputeVRF starts to compute, in the background, the VRF output of the block after b. key is
// the key of b's producer. precomputeVRF does nothing if another validator produces the next
// height. If the next block turns out to have a different producer, as may happen at the end of an
// epoch, the output is not used. The caller holds epochMu.
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

// proveVRF returns the VRF output after a block with the random value random, and the proof of that
// output.
func (e *Engine) proveVRF(
	random primitives.Hash,
	key primitives.SecretKey,
) (value [32]byte, proof [64]byte, err error) {
	q := vrfInput{random, key}
	f, _ := e.vrf.find(&q)
	f.compute(&q)
	return f.value, f.proof, f.err
}

// vrfKeys caches the decoded VRF keys of recent block producers, because decoding a key takes
// longer than verifying an output. Safe for concurrent use.
type vrfKeys struct {
	mu sync.Mutex
	of map[primitives.PublicKey]*primitives.VRFPublicKey
}

// maxVRFKeys is the capacity of vrfKeys. A full cache is emptied.
const maxVRFKeys = 512

// verify does the same as primitives.VerifyVRF, with the cached key.
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
