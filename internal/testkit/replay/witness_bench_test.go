package replay

import (
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain/partialwitness"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// BenchmarkCheckWitness compares, for each chunk of a recorded chain in turn, validating its
// witness without state with applying the chunk on the whole trie. It also measures building,
// compressing and decompressing a witness.
func BenchmarkCheckWitness(b *testing.B) {
	for _, name := range []string{"native", "probe", "storm"} {
		b.Run("chain="+name, func(b *testing.B) {
			rec := openWay(b, name)
			for b.Loop() {
				var pack, unpack, check, apply time.Duration
				chunks, raw, packed := 0, 0, 0
				o := Options{EpochConfig: epochConfigs(b, name)}
				o.behind = func(r *runner, block *primitives.Block, list []*primitives.Chunk) error {
					for _, c := range list {
						if c == nil {
							continue
						}
						w, err := r.e.Witness(c)
						if err != nil {
							return err
						}
						since := time.Now()
						lap := func(of *time.Duration) {
							now := time.Now()
							*of += now.Sub(since)
							since = now
						}
						payload, err := partialwitness.Encode(w.ChunkStateWitness)
						if err != nil {
							return err
						}
						lap(&pack)
						got, size, err := partialwitness.Decode(payload)
						if err != nil {
							return err
						}
						lap(&unpack)
						at, err := r.e.Block(w.Transition.Block)
						if err != nil {
							return err
						}
						if at.Header().PrevHash.IsZero() {
							continue
						}
						codes, err := codesFor(r.e, w)
						if err != nil {
							return err
						}
						index, err := at.Layout.Index(w.Transition.ShardID)
						if err != nil {
							return err
						}
						since = time.Now()
						if err := r.e.Witnesses().CheckWitness(got, codes); err != nil {
							return err
						}
						lap(&check)
						if _, err := r.e.Reapply(b.Context(), at.Hash, index, r.vm); err != nil {
							return err
						}
						lap(&apply)
						chunks, raw, packed = chunks+1, raw+size, packed+len(payload)
					}
					return nil
				}
				if _, err := Run(rec, o); err != nil {
					b.Fatal(err)
				}
				each := func(d time.Duration, unit string) {
					b.ReportMetric(float64(d.Microseconds())/float64(chunks), unit+"-µs/chunk")
				}
				each(pack, "pack")
				each(unpack, "unpack")
				each(check, "check")
				each(apply, "apply")
				b.ReportMetric(float64(raw)/float64(chunks), "raw-B/chunk")
				b.ReportMetric(float64(packed)/float64(chunks), "packed-B/chunk")
				b.ReportMetric(float64(check)/float64(apply), "check/apply")
			}
		})
	}
}

func codesFor(e *engine.Engine, w *engine.Witness) ([][]byte, error) {
	main, _, err := e.Transitions(w.Header.PrevBlockHash, w.Header.ShardID)
	if err != nil {
		return nil, err
	}
	return e.Codes(main)
}
