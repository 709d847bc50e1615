package blockfeed

import (
	"context"
	"sync"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/primitives"
)

// maxCodeBytes is the maximum size of the cached code. The cache has contract code for transactions
// whose document does not contain the code that they deploy.
const maxCodeBytes = 64 << 20

// maxHashes is the maximum number of cached block hashes. On every public network, the maximum age
// of a transaction, in blocks, is smaller (transaction_validity_period, 86,400).
const maxHashes = 100_000

// books caches the data that complete transactions: code by its hash, and the hashes of recent
// blocks, the newest last. Neither code nor hashes are trusted: a completed transaction is rejected
// unless its hash is the one that was signed.
type books struct {
	mu    sync.Mutex
	code  map[primitives.Hash][]byte
	order []primitives.Hash // keys of code in order of insertion
	bytes int
	ring  []primitives.Hash
	next  int // index of the oldest hash in ring, once ring is full
	seen  map[primitives.Hash]bool
}

func newBooks() *books {
	return &books{code: map[primitives.Hash][]byte{}, seen: map[primitives.Hash]bool{}}
}

// learn adds to the cache the contract codes in a document, the hash of the document's block, and
// the hash of that block's parent.
func (b *books) learn(d *blockdoc.Document) {
	d.Codes(b.learnCode)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range []primitives.Hash{d.Block.Header.PrevHash, d.Hash} {
		switch {
		case b.seen[h]:
			continue
		case len(b.ring) < maxHashes:
			b.ring = append(b.ring, h)
		default:
			delete(b.seen, b.ring[b.next])
			b.ring[b.next] = h
			b.next = (b.next + 1) % maxHashes
		}
		b.seen[h] = true
	}
}

func (b *books) learnCode(code []byte) {
	hash := primitives.HashBytes(code)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.code[hash] != nil || len(code) == 0 {
		return
	}
	b.code[hash], b.order, b.bytes = code, append(b.order, hash), b.bytes+len(code)
	for b.bytes > maxCodeBytes && len(b.order) > 1 {
		b.bytes -= len(b.code[b.order[0]])
		delete(b.code, b.order[0])
		b.order = b.order[1:]
	}
}

func (b *books) codeOf(hash primitives.Hash) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.code[hash]
}

// ancestors yields the cached block hashes, the newest first, then the hashes that older yields,
// until ctx ends.
func (b *books) ancestors(ctx context.Context, older blockdoc.Ancestors) blockdoc.Ancestors {
	return func(each func(primitives.Hash) bool) {
		yield := func(h primitives.Hash) bool { return ctx.Err() == nil && each(h) }
		b.mu.Lock()
		n, next := len(b.ring), b.next
		b.mu.Unlock()
		var some [256]primitives.Hash
		// hashes that were added since the last locked section replace the oldest ones
		for i := 0; i < n; i += len(some) {
			b.mu.Lock()
			k := min(len(some), n-i)
			for x := range k {
				some[x] = b.ring[(next+n-1-i-x)%n]
			}
			b.mu.Unlock()
			for _, h := range some[:k] {
				if !yield(h) {
					return
				}
			}
		}
		if older != nil {
			older(yield)
		}
	}
}
