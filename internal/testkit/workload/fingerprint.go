package workload

import (
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Fingerprint returns a hash of all results of applying a block: roots, gas, congestion, bandwidth
// requests, outcomes with metadata, receipts, state changes with causes, proof sizes. The engine
// must have applied the block after it was opened.
func Fingerprint(at *engine.BlockNode) primitives.Hash {
	b := at.Hash[:]
	for i := range at.Shards {
		s := &at.Shards[i]
		r := s.Result
		b = s.Extra.AppendBorsh(b)
		b = append(b, r.OutgoingRoot[:]...)
		b = borsh.AppendUint64(b, r.RecordedSize)
		for k := range r.Outcomes {
			b = r.Outcomes[k].Outcome.AppendBorsh(append(b, r.Outcomes[k].ID[:]...))
		}
		for _, x := range r.Processed {
			b = append(append(b, byte(x.Source)), x.ID[:]...)
		}
		for _, k := range r.Changes {
			b = borsh.AppendBytes(b, k.Key)
			for _, c := range k.Changes {
				b = borsh.AppendBytes(append(append(b, byte(c.Cause.Kind)), c.Cause.Hash[:]...), c.Value)
			}
		}
	}
	return primitives.HashBytes(b)
}
