package chain

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestBlockOfWhichOnlyHeadersAreKnown: with HeadersOnly, a block is valid although only its chunk
// headers are known; without, it is not. All rules that do not need the rest of the body still
// apply.
func TestBlockOfWhichOnlyHeadersAreKnown(t *testing.T) {
	verify := func(s primitives.Signature, data []byte, k primitives.PublicKey) bool { return s.Verify(data, k) }
	told := func(change func(*rig)) (r *rig, origin, whole error) {
		r = newRig(t)
		body := &r.block.Body
		r.block.Body = primitives.BlockBody{Chunks: body.Chunks}
		r.j.HeadersOnly = true
		change(r)
		return r, ValidateView(r.block, r.j.Producer, 2, verify), ValidateBlock(r.block, r.j)
	}
	r, origin, whole := told(func(*rig) {})
	if origin != nil || whole != nil {
		t.Fatalf("a good one: %v, %v", origin, whole)
	}
	if r.j.HeadersOnly = false; ValidateBlock(r.block, r.j) == nil || ValidateOrigin(r.block, r.j.Producer, 2, r.j.Approvers, verify) == nil {
		t.Error("without its body it is taken for whole")
	}
	sign := func(r *rig) {
		r.block.Header.Init()
		SignBlock(r.block, key("a"))
	}
	for name, c := range map[string]struct {
		want   error
		origin bool // ValidateView detects it, too
		change func(*rig)
	}{
		"another's signature": {InvalidSignature, true, func(r *rig) { SignBlock(r.block, key("b")) }},
		"a header that was changed": {InvalidSignature, true, func(r *rig) {
			r.block.Header.RandomValue[0]++
			r.block.Header.Init()
		}},
		"another version":   {InvalidHeaderVersion, true, func(r *rig) { r.block.Header.Version = primitives.HeaderV5 - 1 }},
		"a chunk too few":   {InvalidNumberOfChunkHeaders, true, func(r *rig) { r.block.Body.Chunks = r.block.Body.Chunks[:1] }},
		"a chunk's gas":     {InvalidChunkHeadersRoot, true, func(r *rig) { r.block.Body.Chunks[0].PrevGasUsed++ }},
		"a chunk's height":  {InvalidChunkHeadersRoot, true, func(r *rig) { r.block.Body.Chunks[0].HeightIncluded++ }},
		"a chunk's signer":  {InvalidChunk, false, func(r *rig) { r.block.Body.Chunks[0].Signature = r.block.Body.Chunks[1].Signature }},
		"too few approvals": {NotEnoughApprovals, false, func(r *rig) { r.block.Header.Approvals[3] = ""; sign(r) }},
		"bits of no validators": {InvalidEndorsementBitmap, false, func(r *rig) {
			r.block.Header.ChunkEndorsements[0] = []byte{1, 1}
			sign(r)
		}},
		"no bits": {InvalidEndorsementBitmap, false, func(r *rig) { r.block.Header.ChunkEndorsements = nil; sign(r) }},
		"supply":  {InvalidTotalSupply, false, func(r *rig) { r.block.Header.TotalSupply = near(1); sign(r) }},
	} {
		_, origin, whole := told(c.change)
		if c.origin != (origin != nil) || c.origin && !errors.Is(origin, c.want) {
			t.Errorf("%s: as told %v, want %v", name, origin, c.want)
		}
		if whole == nil || !c.origin && !errors.Is(whole, c.want) {
			t.Errorf("%s: %v, want %v", name, whole, c.want)
		}
	}
}
