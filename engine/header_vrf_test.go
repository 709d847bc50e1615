package engine

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestVRFCacheComputesEachOutputOnce: the cache returns the output that the key proves, computes it
// once, and evicts the oldest entry.
func TestVRFCacheComputesEachOutputOnce(t *testing.T) {
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "oracle")
	parent := &Engine{vrf: new(vrfCache)}
	child := &Engine{vrf: parent.vrf}
	random := primitives.Hash{7}
	value, proof, err := parent.proveVRF(random, key)
	if err != nil || !primitives.VerifyVRF(key.PublicKey(), random[:], &value, &proof) {
		t.Fatalf("%x is not proven, %v", value, err)
	}
	q := vrfInput{random, key}
	f, fresh := child.vrf.find(&q)
	if fresh || f.value != value || f.proof != proof {
		t.Errorf("a child has %x, computed anew %v", f.value, fresh)
	}
	f.value[0]++ // so a second computation would be noticed
	if again, _, _ := child.proveVRF(random, key); again != f.value {
		t.Error("a child computes the value again")
	}
	other := vrfInput{random, primitives.SecretKeyFromSeed(primitives.ED25519, "another")}
	if _, fresh := child.vrf.find(&other); !fresh {
		t.Error("the cache returns the value of another key")
	}
	for i := range maxVRFOutputs {
		child.vrf.find(&vrfInput{primitives.Hash{1, byte(i), byte(i >> 8)}, key})
	}
	if n := len(child.vrf.of); n != maxVRFOutputs {
		t.Errorf("%d values are kept, want %d", n, maxVRFOutputs)
	}
	if again, _, _ := parent.proveVRF(random, key); again != value {
		t.Errorf("%x was forgotten and is %x now", value, again)
	}
}
