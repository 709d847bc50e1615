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

// held is a Chain that holds all shards. result is the result of the check of every witness.
type held struct {
	engineOf
	result  error
	checked *int
}

// shown is a Witnesses that holds all shards.
type shown struct {
	Witnesses
	of held
}

func (s shown) CheckHeld(*primitives.ChunkStateWitness, *primitives.Chunk) (bool, error) {
	*s.of.checked++
	return true, s.of.result
}
func (held) Head() *engine.BlockNode {
	return &engine.BlockNode{Block: &primitives.Block{Header: new(primitives.BlockHeader)}}
}
func (held) BlockNode(primitives.Hash) *engine.BlockNode { return nil }

func checkingNode(result error) (*Node, *int) {
	checked := new(int)
	e := held{result: result, checked: checked}
	assigned := &assignments{}
	return &Node{e: e, o: Options{Verifier: PlainVerifier{}, Witnesses: shown{of: e}}, out: new(Out), assigned: assigned, jobs: map[uint64]func(){}, signed: new(Signatures),
		witnesses: partialwitness.NewTracker(partialwitness.Validator{}, assigned, nil)}, checked
}

// TestUnknownBlockInWitnessIsNotFatal: an unknown block or epoch in a witness does not stop the
// node; a fault of this node does.
func TestUnknownBlockInWitnessIsNotFatal(t *testing.T) {
	for _, c := range []struct {
		result error
		ends   bool
	}{
		{engine.ErrUnknown, false}, {storage.ErrGone, false}, {epoch.ErrMissingBlock, false}, {epoch.ErrEpochOutOfBounds, false},
		{engine.ErrWitness, false}, {engine.ErrNoCode, false}, {errors.New("the disk is full"), true},
	} {
		n, _ := checkingNode(nil)
		n.witnessChecked(partialwitness.PendingWitness{Witness: new(primitives.ChunkStateWitness)}, fmt.Errorf("engine: %w", c.result))
		if (n.fatal != nil) != c.ends {
			t.Errorf("%v: fatal %v", c.result, n.fatal)
		}
		if bad := errors.Is(c.result, engine.ErrWitness); !c.ends && (len(n.out.Refused) > 0) != bad {
			t.Errorf("%v: refused %v", c.result, n.out.Refused)
		}
	}
}

// TestLargeWitnessIsCheckedInJob holds even if the shard is held.
func TestLargeWitnessIsCheckedInJob(t *testing.T) {
	for size, jobs := range map[int]int{maxInlineCheck: 0, maxInlineCheck + 1: 1} {
		n, checked := checkingNode(engine.ErrNoCode)
		n.runWitnessCheck(partialwitness.PendingWitness{Witness: new(primitives.ChunkStateWitness), Size: size})
		if len(n.out.Jobs) != jobs || *checked != 1-jobs {
			t.Errorf("%d bytes: %d jobs, checked %d times", size, len(n.out.Jobs), *checked)
		}
		for _, j := range n.out.Jobs {
			j.Run()
			n.done(j.ID)
		}
		if *checked != 1 || len(n.out.Notes) != 1 {
			t.Errorf("%d bytes: checked %d times, %v", size, *checked, n.out.Notes)
		}
	}
}
