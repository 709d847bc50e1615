package workload

import (
	"errors"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/verify"
	"github.com/troupe-chain/troupe/storage"
)

// shown is a status without the parts that only a real block has: its hash, and proofs.
func shown(o view.FinalOutcome) string {
	o.Outcomes = slices.Clone(o.Outcomes)
	for _, x := range append([]*view.OutcomeProof{&o.Outcome}, pointers(o.Outcomes)...) {
		x.BlockHash, x.Proof = primitives.Hash{}, nil
	}
	o.Level = view.LevelFinal
	return string(view.AppendFinalOutcome(nil, &o, true))
}

func pointers[T any](list []T) (out []*T) {
	for i := range list {
		out = append(out, &list[i])
	}
	return out
}

// TestSimulationEqualsExecution simulates random transactions of every kind on the head and then
// sends them: the results are equal, including gas and receipt ids, and a simulation changes
// nothing.
func TestSimulationEqualsExecution(t *testing.T) {
	o := ChainOptions{Disk: storage.NewMemDisk(), Options: Options{Seed: 7, Accounts: 60, Shards: 4, Skew: 0.5}}
	o.EpochLength, o.Validity = 10_000, 20_000
	c, err := OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	gen := NewGenerator(o.Options)
	kinds := map[string]int{}
	type tried struct {
		at   primitives.Hash
		tx   *primitives.SignedTransaction
		want string
	}
	var past []tried
	for range 250 {
		tx := gen.Transaction(c.Base())
		head := c.Engine.Head()
		at, err := c.Engine.StateAt(head.Hash)
		if err != nil {
			t.Fatal(err)
		}
		sim, err := c.Engine.Simulate(t.Context(), at, tx, engine.SimulateOptions{Signature: verify.CheckSignature})
		at.Release()
		var invalid *primitives.InvalidTxError
		if errors.As(err, &invalid) {
			kinds["refused"]++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Next([]*primitives.SignedTransaction{tx}); err != nil {
			t.Fatal(err)
		}
		for n := 1; n < sim.Blocks; n++ {
			if _, err := c.Next(nil); err != nil {
				t.Fatal(err)
			}
		}
		real, err := c.Engine.Transactions().FullStatus(tx.Hash())
		if err != nil {
			t.Fatal(err)
		}
		kinds[statusName(&real.Outcome.Status)]++
		for i := range real.Outcomes {
			kinds[statusName(&real.Outcomes[i].Status)]++
		}
		past = append(past, tried{head.Hash, tx, shown(real)})
		if got, want := shown(sim.FinalOutcome), shown(real); got != want || !sim.Complete {
			t.Fatalf("block %d: simulated (complete %v in %d blocks)\n%s\nhappened\n%s", head.Height(), sim.Complete, sim.Blocks, got, want)
		}
	}
	if kinds["ok"] < 200 || kinds["refused"] < 5 || len(kinds) < 8 {
		t.Errorf("too little was tried: %v", kinds)
	}
	// Again, when these blocks are old and their states exist only as history.
	if err := c.Engine.AdvanceFlatHead(); err != nil {
		t.Fatal(err)
	}
	old := 0
	for _, x := range past {
		if c.Engine.BlockNode(x.at) == nil {
			old++
		}
		at, err := c.Engine.StateAt(x.at)
		if err != nil {
			t.Fatal(err)
		}
		sim, err := c.Engine.Simulate(t.Context(), at, x.tx, engine.SimulateOptions{Signature: verify.CheckSignature})
		at.Release()
		if err != nil {
			t.Fatal(err)
		}
		if got := shown(sim.FinalOutcome); got != x.want {
			t.Fatalf("on the state of block %v, later: simulated\n%s\nhappened\n%s", x.at, got, x.want)
		}
	}
	if old < len(past)/2 {
		t.Errorf("only %d of %d blocks were out of memory", old, len(past))
	}
}
