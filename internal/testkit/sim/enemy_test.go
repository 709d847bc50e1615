package sim

import (
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/primitives"
)

// newFaultlessWorld is a world without faults and without load, that has come to a height.
func newFaultlessWorld(t *testing.T, h primitives.Height, change func(*Scenario)) *World {
	t.Helper()
	s, err := ScenarioOf("calm", 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Shards = 2
	if change != nil {
		change(&s)
	}
	w, err := newWorld(Options{Seed: 1, Scenario: s})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	w.reach(t, h)
	return w
}

// reach goes on until all have a head of a height.
func (w *World) reach(t *testing.T, h primitives.Height) {
	t.Helper()
	limit := w.now + 100*second
	for {
		low := ^primitives.Height(0)
		for _, n := range w.nodes {
			low = min(low, n.engine.Head().Height())
		}
		if low >= h {
			return
		}
		if w.check.violation != nil || len(w.agenda) == 0 || w.now > limit {
			t.Fatalf("at %d: %v, %s", low, w.check.violation, w.where())
		}
		w.next()
	}
}

// TestFarBlockWithoutApprovalsIsRefused: the block does not keep any node from producing chunks.
func TestFarBlockWithoutApprovalsIsRefused(t *testing.T) {
	w := newFaultlessWorld(t, 6, nil)
	w.s.Byzantine = true // so that its blocks may be refused; it says nothing by itself
	w.net.sendFarBlocks(w.nodes[0], w.nodes[0].engine.Head().Block)
	if w.result.FalseMessages != 2 {
		t.Fatalf("%d false blocks sent, want 2", w.result.FalseMessages)
	}
	w.reach(t, 20)
	if w.check.gaps+w.check.missed > 0 {
		t.Errorf("%d chunks and %d heights missed", w.check.gaps, w.check.missed)
	}
}

func TestOnlyByzantineMessagesAreRefused(t *testing.T) {
	w := newFaultlessWorld(t, 5, func(s *Scenario) { s.Byzantine, s.Faults = true, 30*second })
	n := w.nodes[2]
	for at := n.engine.Head(); at.Height() > 0; {
		by, err := n.engine.BlockProducer(at.Header().PrevHash, at.Height())
		if err != nil {
			t.Fatal(err)
		}
		bad := []error{&consensus.Refusal{Block: at.Hash, Err: chain.InvalidBlockHeight}}
		for i, h := range at.Block.Body.Chunks {
			p, err := n.engine.ChunkProducer(h.PrevBlockHash, at.Layout.ShardIDs()[i])
			if err == nil && h.HeightIncluded == at.Height() && (p.AccountID == w.nodes[0].name) == (by.AccountID == w.nodes[0].name) {
				bad = append(bad, &consensus.ChunkRefusal{Chunk: h.ChunkHash(), Err: chain.InvalidChunk})
			}
		}
		for _, err := range bad {
			w.check.violation = nil
			w.check.verdicts.init(&w.check) // others have taken it: here its producer counts
			n.do(consensus.Out{Refused: []error{err}})
			if lied := by.AccountID == w.nodes[0].name; (w.check.violation == nil) != lied {
				t.Errorf("%v, of the byzantine validator %v: %v", err, lied, w.check.violation)
			}
		}
		var err2 error
		if at, err2 = n.engine.Block(at.Header().PrevHash); err2 != nil {
			t.Fatal(err2)
		}
	}
}
