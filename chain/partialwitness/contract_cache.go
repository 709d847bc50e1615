package partialwitness

import (
	"bytes"
	"math"

	"github.com/troupe-chain/troupe/primitives"
)

// Bounds of the contract cache.
const (
	maxCodeBytes = 64 << 20 // maximum total size of cached code
	maxCodes     = 4096     // maximum number of cached codes
)

// contract is code with its hash.
type contract struct {
	hash primitives.Hash
	code []byte
}

// contractsOf returns contracts with their hashes. contractsOf copies the code. Otherwise one
// cached contract would keep the whole decompressed message in memory.
func contractsOf(codes [][]byte) (out []contract) {
	for _, c := range codes {
		out = append(out, contract{primitives.HashBytes(c), bytes.Clone(c)})
	}
	return out
}

// contractCache stores the most recently used contracts: at most maxCodes contracts and at most
// `most` bytes in total. So this node requests a contract once, not with every witness that calls
// the contract. neard stores compiled contracts instead.
type contractCache struct {
	most, bytes int
	kept        recent[primitives.Hash, []byte]
}

func newContractCache(most int) contractCache {
	return contractCache{most: most, kept: newRecent[primitives.Hash, []byte](math.MaxInt)}
}

func (l *contractCache) add(list []contract) {
	for _, c := range list {
		if _, ok := l.kept.get(c.hash); ok || len(c.code) > l.most {
			continue
		}
		l.kept.put(c.hash, c.code)
		l.bytes += len(c.code)
		for l.bytes > l.most || len(l.kept.order) > maxCodes {
			oldest := l.kept.order[0]
			l.bytes -= len(l.kept.by[oldest])
			l.kept.drop(oldest)
		}
	}
}

// split returns the code of the cached contracts, and the sorted distinct hashes of the missing
// ones.
func (l *contractCache) split(hashes []primitives.Hash) (codes [][]byte, missing []primitives.Hash) {
	for _, h := range sorted(hashes) {
		if code, ok := l.kept.get(h); ok {
			codes = append(codes, code)
		} else {
			missing = append(missing, h)
		}
	}
	return codes, missing
}
