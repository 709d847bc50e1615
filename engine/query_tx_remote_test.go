package engine

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// TestBadPartialCopyDoesNotCondemnBlock: if a copy of a block is wrong in a part that the block
// hash does not cover, only the copy is refused, and the correct copy is accepted afterwards.
func TestBadPartialCopyDoesNotCondemnBlock(t *testing.T) {
	g := testGenesis(t, "a.near")
	maker := openNode(t, g)
	block, chunks := maker.make(maker.Head().Hash, 1, false)
	n, err := openChanged(t, g, storage.NewMemDisk(), storage.Options{}, func(o *Options) { o.PartialBodies = true })
	if err != nil {
		t.Fatal(err)
	}
	received := func() *primitives.Block {
		b := &primitives.Block{Header: block.Header}
		for _, h := range block.Body.Chunks {
			c := *h
			b.Body.Chunks = append(b.Body.Chunks, &c)
		}
		return b
	}
	altered := received()
	altered.Body.Chunks[0].Signature = altered.Body.Chunks[1].Signature
	if altered.Hash() != block.Hash() {
		t.Fatal("the altered copy has another hash")
	}
	if _, err := n.Precheck(altered); err != nil {
		t.Fatalf("Precheck refuses the altered copy: %v", err)
	}
	if _, err := n.BeginImport(altered, chunks, false); !errors.Is(err, chain.InvalidChunk) || VerdictOf(err) != VerdictEarly {
		t.Fatalf("another chunk's signature: %v, verdict %d", err, VerdictOf(err))
	}
	p, err := n.BeginImport(received(), chunks, false)
	if err != nil {
		t.Fatal(err)
	}
	p.Drop()
}
