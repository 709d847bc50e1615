package partialwitness

import (
	"bytes"
	"math"

	"github.com/troupe-chain/troupe/primitives"
)

// What is kept of contracts that witnesses call.
const (
	keptCode  = 64 << 20 // bytes
	keptCodes = 4096
)

// contract is code with its hash.
type contract struct {
	hash primitives.Hash
	code []byte
}

// contractsOf names codes. They are copied: what was unpacked together is not kept for one of them.
func contractsOf(codes [][]byte) (out []contract) {
	for _, c := range codes {
		out = append(out, contract{primitives.HashBytes(c), bytes.Clone(c)})
	}
	return out
}

// library keeps contracts, those that were used last: each is asked for once, and not with every witness that calls it (a neard keeps what it has
// compiled of them).
type library struct {
	most, bytes int
	kept        recent[primitives.Hash, []byte]
}

func newLibrary(most int) library {
	return library{most: most, kept: newRecent[primitives.Hash, []byte](math.MaxInt)}
}

func (l *library) keep(list []contract) {
	for _, c := range list {
		if _, ok := l.kept.get(c.hash); ok || len(c.code) > l.most {
			continue
		}
		l.kept.put(c.hash, c.code)
		l.bytes += len(c.code)
		for l.bytes > l.most || len(l.kept.order) > keptCodes {
			oldest := l.kept.order[0]
			l.bytes -= len(l.kept.by[oldest])
			l.kept.drop(oldest)
		}
	}
}

// split returns the code of those that are here, and the hashes of the others in their order, each once.
func (l *library) split(hashes []primitives.Hash) (codes [][]byte, missing []primitives.Hash) {
	for _, h := range sorted(hashes) {
		if code, ok := l.kept.get(h); ok {
			codes = append(codes, code)
		} else {
			missing = append(missing, h)
		}
	}
	return codes, missing
}
