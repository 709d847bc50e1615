package load

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// Heights describes the blocks and chunks of the heights From to To, which were produced during a
// run.
type Heights struct {
	From   primitives.Height `json:"from"`
	To     primitives.Height `json:"to"`
	Empty  int               `json:"without_block"`
	Chunks int               `json:"chunks"`        // number of chunks that the blocks could contain
	Missed int               `json:"chunks_missed"` // number of chunks that the blocks lack
	// Behind is the largest distance from a block to its last final block, in heights.
	Behind primitives.Height `json:"final_behind"`
}

// Heights describes the blocks and chunks of the heights from `from` to `to`, including `from` and
// `to`.
func (t *Chain) Heights(ctx context.Context, from, to primitives.Height) (*Heights, error) {
	h := &Heights{From: from, To: to}
	known := map[string]primitives.Height{}
	for at := from; at <= to; at++ {
		var b struct {
			Header struct {
				Hash  string `json:"hash"`
				Final string `json:"last_final_block"`
			} `json:"header"`
			Chunks []struct {
				Included primitives.Height `json:"height_included"`
			} `json:"chunks"`
		}
		err := t.c.Call(ctx, "block", map[string]any{"block_id": at}, &b)
		if e := (*RPCError)(nil); errors.As(err, &e) && e.Cause == "UNKNOWN_BLOCK" {
			h.Empty++
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("load: read block %d: %w", at, err)
		}
		known[b.Header.Hash] = at
		if final, ok := known[b.Header.Final]; ok {
			h.Behind = max(h.Behind, at-final)
		}
		h.Chunks += len(b.Chunks)
		for _, c := range b.Chunks {
			if c.Included != at {
				h.Missed++
			}
		}
	}
	return h, nil
}

func (h *Heights) words() string {
	return fmt.Sprintf("; heights %d to %d: %d without a block, %d of %d chunks missed, final at most %d behind", h.From,
		h.To, h.Empty, h.Missed, h.Chunks, h.Behind)
}
