package shard

import (
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/troupe-chain/troupe/actors/mempool"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/metrics"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
)

// testEngine takes the first transactions of a walk, up to take. It fails with prepare or build.
type testEngine struct {
	take           int
	limit          bool
	prepare, build error
}

func (e *testEngine) Prepare(_ primitives.Hash, _ primitives.ShardIndex, c apply.Candidates,
	_ func() bool) (*apply.Prepared, error) {
	out := new(apply.Prepared)
	for g := c.NextGroup(); g != nil && len(out.Transactions) < e.take; g = c.NextGroup() {
		out.Transactions = append(out.Transactions, g.Peek())
		g.Pop()
	}
	if e.limit {
		out.Limit = apply.LimitGas
	}
	return out, e.prepare
}

func (e *testEngine) NewChunk(parent primitives.Hash, _ primitives.ShardIndex, txs []*primitives.SignedTransaction,
	_ primitives.SecretKey) (*primitives.Chunk, error) {
	c := &primitives.Chunk{ChunkBody: primitives.ChunkBody{Transactions: txs}}
	c.Header.PrevBlockHash = parent
	return c, e.build
}

// recorder implements Out.
type recorder struct {
	t       *testing.T
	made    []messages.ChunkMade
	reports []messages.ChunkChosen
}

func (r *recorder) Made(m messages.ChunkMade) { r.made = append(r.made, m) }
func (r *recorder) More(mempool.Page)         {}

func (r *recorder) Chosen(m messages.ChunkChosen) {
	if len(r.made) > 0 {
		r.t.Error("the mempool learns after the producer what the chunk takes")
	}
	r.reports = append(r.reports, m)
}

// TestChunkProducerReportsOnlyDifferences: the chunk producer sends the chunk to the producer, with
// the era of the request. It reports to the mempool only if the chunk does not take all candidates. A
// chunk on a removed branch is not made; another error is a panic, which halts the node.
func TestChunkProducerReportsOnlyDifferences(t *testing.T) {
	disk := errors.New("disk")
	for _, c := range []struct {
		name             string
		e                testEngine
		page             int
		more             bool
		made             int // number of transactions in the chunk; -1: no chunk
		reported, failed bool
		panics           bool
	}{
		{name: "no candidates", made: 0},
		{name: "all taken", e: testEngine{take: 3}, page: 3, made: 3},
		{name: "one left", e: testEngine{take: 2}, page: 3, made: 2, reported: true},
		{name: "a limit ended the choice", e: testEngine{take: 3, limit: true}, page: 3, made: 3, reported: true},
		{name: "another page", e: testEngine{take: 3}, page: 3, more: true, made: 3, reported: true},
		{name: "branch removed before the choice", e: testEngine{prepare: engine.ErrOrphan}, page: 1, made: -1,
			reported: true, failed: true},
		{name: "branch removed after the choice", e: testEngine{take: 1, build: engine.ErrOrphan}, page: 1, made: -1},
		{name: "choice fails", e: testEngine{prepare: disk}, page: 1, made: -1, reported: true, failed: true, panics: true},
		{name: "chunk fails", e: testEngine{build: disk}, made: -1, panics: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := &recorder{t: t}
			log, times := logrus.New(), new(metrics.Set)
			log.SetOutput(io.Discard)
			a := NewChunkProducer(&c.e, nil, out, 0, times, log)
			m := messages.Candidates{For: messages.ProduceChunk{Parent: primitives.Hash{4}, Shard: 2, ShardID: 5, Era: 7}, Walk: 5, More: c.more}
			for i := range c.page {
				m.Page = append(m.Page, messages.Candidate{Tx: new(primitives.SignedTransaction), Group: int32(i)})
			}
			panicked := func() (p bool) {
				defer func() { p = recover() != nil }()
				a.Handle(m)
				return false
			}()
			made, reports := out.made, out.reports
			if panicked != c.panics {
				t.Errorf("panicked %v, want %v", panicked, c.panics)
			}
			if n := times.Count(engine.ProduceChunkTime, "5"); n != uint64(len(made)) {
				t.Errorf("the time of %d chunks was measured, %d were made", n, len(made))
			}
			if (len(made) == 1) != (c.made >= 0) || len(made) > 1 {
				t.Fatalf("%d chunks", len(made))
			}
			if len(made) == 1 && (made[0].Era != 7 || made[0].Shard != 2 || len(made[0].Chunk.Transactions) != c.made ||
				made[0].Chunk.Header.PrevBlockHash != m.For.Parent) {
				t.Errorf("made %+v", made[0])
			}
			if (len(reports) == 1) != c.reported || slices.ContainsFunc(reports, func(r messages.ChunkChosen) bool {
				return r.Walk != 5 || r.Failed != c.failed || r.Left != c.e.limit
			}) {
				t.Errorf("reports %+v", reports)
			}
		})
	}
}
