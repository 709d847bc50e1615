package consensus

import (
	"errors"
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/partialwitness"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// held is a Chain that holds all shards and returns the same result for every witness.
type held struct {
	engineOf
	finds  error
	looked *int
}

func (h held) CheckHeld(*primitives.ChunkStateWitness, *primitives.Chunk) (bool, error) {
	*h.looked++
	return true, h.finds
}
func (held) Head() *engine.BlockNode {
	return &engine.BlockNode{Block: &primitives.Block{Header: new(primitives.BlockHeader)}}
}
func (held) BlockNode(primitives.Hash) *engine.BlockNode { return nil }

func judging(finds error) (*Node, *int) {
	looked := new(int)
	e := held{finds: finds, looked: looked}
	eyes := &assignments{}
	return &Node{e: e, out: new(Out), assigned: eyes, jobs: map[uint64]func(){}, signed: new(Signatures),
		witnesses: partialwitness.NewTracker(partialwitness.Validator{}, eyes, nil)}, looked
}

// TestUnknownInWitnessIsNotFatal: an unknown block or epoch in a witness does not stop the node; a
// fault of this node does.
func TestUnknownInWitnessIsNotFatal(t *testing.T) {
	for _, c := range []struct {
		finds error
		ends  bool
	}{
		{engine.ErrUnknown, false}, {storage.ErrGone, false}, {epoch.ErrMissingBlock, false}, {epoch.ErrEpochOutOfBounds, false},
		{engine.ErrWitness, false}, {engine.ErrNoCode, false}, {errors.New("the disk is full"), true},
	} {
		n, _ := judging(nil)
		n.witnessChecked(partialwitness.PendingWitness{Witness: new(primitives.ChunkStateWitness)}, fmt.Errorf("engine: %w", c.finds))
		if (n.fatal != nil) != c.ends {
			t.Errorf("%v ends this node: %v", c.finds, n.fatal)
		}
		if bad := errors.Is(c.finds, engine.ErrWitness); !c.ends && (len(n.out.Refused) > 0) != bad {
			t.Errorf("%v: refused %v", c.finds, n.out.Refused)
		}
	}
}

// TestLargeWitnessIsCheckedInJob: a large witness is checked in a job, even if the shard is held.
func TestLargeWitnessIsCheckedInJob(t *testing.T) {
	for size, jobs := range map[int]int{maxInlineCheck: 0, maxInlineCheck + 1: 1} {
		n, looked := judging(engine.ErrNoCode)
		n.runWitnessCheck(partialwitness.PendingWitness{Witness: new(primitives.ChunkStateWitness), Size: size})
		if len(n.out.Jobs) != jobs || *looked != 1-jobs {
			t.Errorf("%d bytes: %d jobs, looked at %d times", size, len(n.out.Jobs), *looked)
		}
		for _, j := range n.out.Jobs {
			j.Run()
			n.done(j.ID)
		}
		if *looked != 1 || len(n.out.Notes) != 1 {
			t.Errorf("%d bytes: looked at %d times, %v", size, *looked, n.out.Notes)
		}
	}
}
