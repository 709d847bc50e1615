package replay

import (
	"fmt"

	"github.com/troupe-chain/troupe/chain/partialwitness"
	"github.com/troupe-chain/troupe/engine"
)

// chunkWitnesses builds the state witness of each new chunk of a block, then encodes and decodes
// it. It validates the witness as a chunk validator does, both without access to the state and with
// access.
func (r *runner) chunkWitnesses(entry *engine.BlockNode) error {
	if entry.Header().PrevHash.IsZero() {
		return nil
	}
	for i := range entry.Shards {
		c := entry.Shards[i].Chunk
		if c == nil {
			continue
		}
		where := fmt.Sprintf("witness of the chunk of shard %d in block %d", entry.Shards[i].ID, entry.Height())
		made, err := r.e.Witness(c)
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		payload, err := partialwitness.Encode(made.ChunkStateWitness)
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		got, _, err := partialwitness.Decode(payload)
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		main, err := r.e.Transition(made.Transition.Block, made.Transition.ShardID)
		var codes [][]byte
		if err == nil {
			codes, err = r.e.Codes(main)
		} else if first := r.e.Genesis(); made.Transition.Block == first.Hash {
			err = nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		if err := r.e.Witnesses().CheckWitness(got, codes); err != nil {
			r.differs(where, err, "accepted")
		}
		if held, err := r.e.Witnesses().CheckHeld(got, nil); err != nil || !held {
			r.differs(where, fmt.Sprintf("%v, %v", held, err), "accepted by the state")
		}
		r.report.Witnesses++
		r.report.Implicit += len(made.Implicit)
	}
	return nil
}
