package backend

import (
	"errors"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestHintBoundsSearchForReceiptOrigin: with a hint, the outcome that made a receipt is found near
// the hinted height, also if the receipt is not stored or its shard has been split since. It is not
// found outside the window. The number of outcomes that are read is bounded.
func TestHintBoundsSearchForReceiptOrigin(t *testing.T) {
	o, course := workload.RandomSplits(4, 60)
	course.Fork, course.PerStep = 0, 12
	c, err := workload.OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	type made struct {
		receipt, by primitives.Hash
		at          primitives.Height
		shard       primitives.ShardID
	}
	var all []made
	script := workload.NewScript(c, course)
	for range course.Blocks {
		m, err := script.Step()
		if err != nil {
			t.Fatal(err)
		}
		e := m.Accepted.Entry
		for i := range e.Shards {
			for k := range e.Shards[i].Result.Outcomes {
				out := &e.Shards[i].Result.Outcomes[k]
				for _, id := range out.ReceiptIDs {
					all = append(all, made{id, out.ID, e.Height(), e.Shards[i].ID})
				}
			}
		}
	}
	b := New(Options{Engine: c.Engine, Genesis: &genesis.Config{}, Now: time.Now})
	search := func(m *made, hint primitives.Height, shard *primitives.ShardID, window, budget uint64) (primitives.Hash, error) {
		s := &origin{Backend: b, ctx: t.Context(), bounds: Origins{MaxOutcomes: budget}, left: budget}
		return s.around(&view.OriginQuery{Receipt: m.receipt, Height: &hint, Shard: shard}, window)
	}
	layout := c.Engine.Head().Layout
	split := 0
	for i := range all {
		m := &all[i]
		shard := m.shard
		for !layout.Has(shard) { // named as it is called today
			children, ok := layout.Children(shard)
			if !ok {
				break
			}
			shard = children[0]
			split++
		}
		for _, hint := range []primitives.Height{m.at, m.at + 2, m.at - min(m.at, 2)} {
			if got, err := search(m, hint, nil, 2, 1<<20); err != nil || got != m.by {
				t.Fatalf("receipt %v of %v at %d, looked for at %d: %v, %v", m.receipt, m.by, m.at, hint, got, err)
			}
		}
		if got, err := search(m, m.at, &shard, 0, 1<<20); layout.Has(shard) && (err != nil || got != m.by) {
			t.Fatalf("receipt %v of %v at %d in shard %d, now %d: %v, %v", m.receipt, m.by, m.at, m.shard, shard, got, err)
		}
		if _, err := search(m, m.at+3, nil, 2, 1<<20); !errors.Is(err, view.OriginUnknown) {
			t.Fatalf("outside the window: %v", err)
		}
	}
	if len(all) < 100 || split == 0 {
		t.Errorf("%d receipts, %d of shards that were split", len(all), split)
	}
	if _, err := search(&made{receipt: primitives.HashBytes(nil)}, all[len(all)-1].at, nil, 20, 3); !errors.Is(err, view.OriginBudget) {
		t.Errorf("beyond the budget: %v", err)
	}
	b.Origins.NoOutcomes = true
	h := all[0].at
	for _, q := range []struct {
		query view.OriginQuery
		want  view.OriginKind
	}{
		{view.OriginQuery{Shard: new(primitives.ShardID)}, view.OriginHint},
		{view.OriginQuery{Window: new(uint64)}, view.OriginHint},
		{view.OriginQuery{Height: &h, Window: ptr(uint64(21))}, view.OriginWindow},
		{view.OriginQuery{Height: &h}, view.OriginNoOutcomes},
		{view.OriginQuery{}, view.OriginUnknown},
	} {
		if _, err := b.ReceiptToTx(t.Context(), &q.query); !errors.Is(err, q.want) {
			t.Errorf("%+v: %v, want %v", q.query, err, q.want)
		}
	}
	b.Origins.NoMapping = true
	if _, err := b.ReceiptToTx(t.Context(), &view.OriginQuery{}); !errors.Is(err, view.OriginUnsupported) {
		t.Errorf("without a mapping: %v", err)
	}
	if got, err := b.ReceiptToTx(t.Context(), &view.OriginQuery{Receipt: all[0].receipt, Height: &h}); err != nil || got.Transaction.IsZero() {
		t.Errorf("with a hint in place of the mapping: %v, %v", got, err)
	}
}

func ptr[T any](v T) *T { return &v }
