package chain

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestBlockOfChunkHeadersIsValidIfAllowed: with HeadersOnly, a block is valid although only its
// chunk headers are known; without, it is not. All rules that do not need the rest of the body
// still apply.
func TestBlockOfChunkHeadersIsValidIfAllowed(t *testing.T) {
	t.Parallel()
	verify := func(s primitives.Signature, data []byte, k primitives.PublicKey) bool { return s.Verify(data, k) }
	headersOnly := func(change func(*validCase)) (r *validCase, origin, whole error) {
		r = newValidCase(t)
		body := &r.block.Body
		r.block.Body = primitives.BlockBody{Chunks: body.Chunks}
		r.j.HeadersOnly = true
		change(r)
		return r, ValidateView(r.block, r.j.Producer, 2, verify), ValidateBlock(r.block, r.j)
	}
	r, origin, whole := headersOnly(func(*validCase) {})
	if origin != nil || whole != nil {
		t.Fatalf("a valid block: %v, %v", origin, whole)
	}
	if r.j.HeadersOnly = false; ValidateBlock(r.block, r.j) == nil || ValidateOrigin(r.block, r.j.Producer, 2, r.j.Approvers, verify) == nil {
		t.Error("a block without its body is valid although HeadersOnly is false")
	}
	sign := func(r *validCase) {
		r.block.Header.Init()
		SignBlock(r.block, key("a"))
	}
	for name, c := range map[string]struct {
		want   error
		origin bool // ValidateView detects it, too
		change func(*validCase)
	}{
		"another's signature": {InvalidSignature, true, func(r *validCase) { SignBlock(r.block, key("b")) }},
		"a header that was changed": {InvalidSignature, true, func(r *validCase) {
			r.block.Header.RandomValue[0]++
			r.block.Header.Init()
		}},
		"another version":   {InvalidHeaderVersion, true, func(r *validCase) { r.block.Header.Version = primitives.HeaderV5 - 1 }},
		"a chunk too few":   {InvalidNumberOfChunkHeaders, true, func(r *validCase) { r.block.Body.Chunks = r.block.Body.Chunks[:1] }},
		"a chunk's gas":     {InvalidChunkHeadersRoot, true, func(r *validCase) { r.block.Body.Chunks[0].PrevGasUsed++ }},
		"a chunk's height":  {InvalidChunkHeadersRoot, true, func(r *validCase) { r.block.Body.Chunks[0].HeightIncluded++ }},
		"a chunk's signer":  {InvalidChunk, false, func(r *validCase) { r.block.Body.Chunks[0].Signature = r.block.Body.Chunks[1].Signature }},
		"too few approvals": {NotEnoughApprovals, false, func(r *validCase) { r.block.Header.Approvals[3] = ""; sign(r) }},
		"bits of no validators": {InvalidEndorsementBitmap, false, func(r *validCase) {
			r.block.Header.ChunkEndorsements[0] = []byte{1, 1}
			sign(r)
		}},
		"no bits": {InvalidEndorsementBitmap, false, func(r *validCase) { r.block.Header.ChunkEndorsements = nil; sign(r) }},
		"supply":  {InvalidTotalSupply, false, func(r *validCase) { r.block.Header.TotalSupply = near(1); sign(r) }},
	} {
		t.Run(name, func(t *testing.T) {
			_, origin, whole := headersOnly(c.change)
			if c.origin != (origin != nil) || c.origin && !errors.Is(origin, c.want) {
				t.Errorf("as headersOnly %v, want %v", origin, c.want)
			}
			if whole == nil || !c.origin && !errors.Is(whole, c.want) {
				t.Errorf("got %v, want %v", whole, c.want)
			}
		})
	}
}
