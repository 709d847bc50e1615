package backend

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/stream"
)

// TestLastParentsAreKnown: the parents of the last keptParents blocks are known, and of no others.
func TestLastParentsAreKnown(t *testing.T) {
	var p parents
	hash := func(i int) (h primitives.Hash) {
		binary.BigEndian.PutUint32(h[:], uint32(i))
		return h
	}
	const n = 3*keptParents + 7
	for i := 1; i < n; i++ {
		for range 2 { // many tell the same
			p.put(hash(i), view.At{Height: primitives.Height(i - 1), Hash: hash(i - 1)})
		}
	}
	if len(p.of) != keptParents || len(p.ring) != keptParents {
		t.Errorf("%d and %d are kept, want %d", len(p.of), len(p.ring), keptParents)
	}
	for i := range n {
		at, ok := p.get(hash(i))
		if want := i >= n-keptParents; ok != want || ok && at.Hash != hash(i-1) {
			t.Fatalf("of block %d: %v %v", i, at, ok)
		}
	}
}

// TestReadersOfPastEvictNoHeadDigest: a reader of the past evicts no digest that followers of the
// head use, and keeps no more than its own bounds.
func TestReadersOfPastEvictNoHeadDigest(t *testing.T) {
	var c digests
	digest := func(height int, logs int) *stream.Digest {
		h := &primitives.BlockHeader{Version: primitives.HeaderV6, Signature: primitives.ZeroED25519Signature}
		h.Height = primitives.Height(height)
		b := &stream.Block{Block: &primitives.Block{Header: h.Init()}, Hash: h.Hash(), Shards: []stream.Shard{{}}}
		o := primitives.OutcomeWithID{}
		o.Outcome.Logs = []string{strings.Repeat("x", logs)}
		b.Shards[0].Outcomes = append(b.Shards[0].Outcomes, o)
		return stream.NewDigest(b, nil)
	}
	var head []*stream.Digest
	for i := range keptDigests {
		head = append(head, c.put(digest(1000+i, 1), false))
	}
	for i := range 500 {
		c.put(digest(i, 1), true)
	}
	for _, d := range head {
		if c.get(d.Hash) != d {
			t.Fatalf("block %d is driven out", d.At().Height)
		}
	}
	if n := len(c.far.list); n != keptPast {
		t.Errorf("%d of the past are kept, want %d", n, keptPast)
	}
	for i := range 50 {
		c.put(digest(2000+i, 1<<20), true)
	}
	total := 0
	for _, d := range c.far.list {
		total += weightOf(d)
	}
	if total > keptWeight || total < keptWeight/2 || len(c.far.list) < 2 {
		t.Errorf("%d of the past weigh %d", len(c.far.list), total)
	}
	huge := c.put(digest(5000, keptWeight), true)
	if len(c.far.list) != 1 || c.get(huge.Hash) != huge {
		t.Errorf("%d digests kept beside one that is too large", len(c.far.list))
	}
	if again := c.put(digest(5000, keptWeight), true); again != huge {
		t.Error("a block has two digests")
	}
	for _, d := range []*stream.Digest{huge, head[3]} {
		if c.forget(d.Hash); c.get(d.Hash) != nil {
			t.Errorf("block %d is not forgotten", d.At().Height)
		}
	}
	if len(c.far.list) != 0 || len(c.head.list) != keptDigests-1 {
		t.Errorf("%d and %d are left", len(c.far.list), len(c.head.list))
	}
}
