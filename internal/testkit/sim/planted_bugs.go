package sim

import (
	"fmt"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
)

// Bug is a fault that can be planted in the nodes to test that the checks detect it.
type Bug struct {
	Name, Doc string
	Bit       consensus.Planted
	Scenario  string                         // scenario in which the checks detect it
	spoil     func(n *node, in *apply.Input) // changes the input of a node's chunks; nil: no change
	refuse    func(n *node, b *primitives.Block) error
	// deaf returns whether a received message is dropped. nil: none is dropped.
	deaf    func(n *node, m consensus.Message) bool
	witness func(n *node, w *primitives.ChunkStateWitness) error
}

// Bugs lists all bugs that can be planted.
var Bugs = []Bug{
	{"threshold", "a producer makes blocks with too few approvals", consensus.PlantedThreshold, "calm", nil, nil, nil, nil},
	{"forget", "a restart forgets what the validator has signed", consensus.PlantedForget, "crashes", nil, nil, nil, nil},
	{"endorse", "validators endorse chunks without checking the witness, and chunk producers state wrong results",
		consensus.PlantedEndorse, "calm", nil, nil, nil, nil},
	{"unendorsed", "blocks include chunks without enough endorsements", consensus.PlantedUnendorsed, "lossy", nil, nil, nil, nil},
	{"early", "validators vote for blocks that are not on disk", consensus.PlantedEarly, "outages", nil, nil, nil, nil},
	{"stale", "a request that was not answered is not repeated", consensus.PlantedStaleHead, "lossy", nil, nil, nil, nil},
	{"ready", "chunks are dropped if their block arrives late", consensus.PlantedDropReady, "calm", nil, nil, nil, nil},
	{"skip", "a validator endorses a block at a height that it has skipped", consensus.PlantedSkip, "cuts", nil, nil, nil, nil},
	{"orphans", "orphans are dropped, and their parents are not requested", consensus.PlantedOrphans, "cuts", nil, nil, nil, nil},
	{"forward", "chunk parts are neither forwarded nor sent on request", consensus.PlantedNoForward, "calm", nil, nil, nil, nil},
	{"twin", "a key that another node used signs at once", consensus.PlantedNoWait, "twin", nil, nil, nil, nil},
	{"receipts", "all nodes apply receipts twice", 0, "calm", func(_ *node, in *apply.Input) {
		in.Incoming = append(in.Incoming, in.Incoming...)
	}, nil, nil, nil},
	{"diverge", "one node sometimes loses a receipt", 0, "calm", func(n *node, in *apply.Input) {
		if n.index == 1 && in.Block.Height%7 == 0 && len(in.Incoming) > 0 {
			in.Incoming = in.Incoming[1:]
		}
	}, nil, nil, nil},
	{"form", "one node accepts only headers of version 6", 0, "forms", nil, func(n *node, b *primitives.Block) error {
		if n.index == 1 && b.Header.Version != primitives.HeaderV6 {
			return chain.InvalidHeaderVersion
		}
		return nil
	}, nil, nil},
	{"created", "one node accepts only chunks created at the height after the parent's", 0, "forms", nil,
		func(n *node, b *primitives.Block) error {
			for _, h := range b.Body.Chunks {
				if n.index == 2 && h.HeightIncluded == b.Header.Height && h.HeightCreated != b.Header.PrevHeight+1 {
					return chain.InvalidChunk
				}
			}
			return nil
		}, nil, nil},
	{"challenges", "one node ignores blocks with challenges", 0, "forms", nil, nil, func(n *node, m consensus.Message) bool {
		b, ok := m.(*primitives.Block)
		return ok && n.index == 3 && b.Body.Challenges != nil
	}, nil},
	{"witness", "one node checks a witness field that no other node reads", 0, "forms", nil, nil, nil,
		func(n *node, w *primitives.ChunkStateWitness) error {
			if n.index == 1 && w.Header.HeightIncluded != 0 {
				return fmt.Errorf("%w: its chunk header has height_included %d", engine.ErrWitness, w.Header.HeightIncluded)
			}
			return nil
		}},
}

// BugOf returns a bug by its name. The empty name gives the zero Bug, which is no bug.
func BugOf(name string) (Bug, error) {
	if name == "" {
		return Bug{}, nil
	}
	for _, b := range Bugs {
		if b.Name == name {
			return b, nil
		}
	}
	return Bug{}, fmt.Errorf("sim: unknown planted bug %q; `troupe sim --help` lists them", name)
}

// Precheck implements consensus.Engine. A planted bug may refuse valid blocks.
func (p prompt) Precheck(b *primitives.Block) (engine.Prechecked, error) {
	a, err := p.Engine.Precheck(b)
	if refuse := p.n.w.o.Bug.refuse; refuse != nil && err == nil {
		err = refuse(p.n, b)
	}
	return a, err
}
