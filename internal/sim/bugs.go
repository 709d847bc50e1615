package sim

import (
	"fmt"

	"github.com/troupe-chain/troupe/engine/consensus"
	"github.com/troupe-chain/troupe/runtime/apply"
)

// Bug is one that can be planted, so that one sees the checks find it.
type Bug struct {
	Name, Doc string
	Bit       consensus.Planted
	Scenario  string                         // that shows it
	spoil     func(n *node, in *apply.Input) // what nodes apply
}

// Bugs are all there are.
var Bugs = []Bug{
	{"threshold", "blocks are made with too few approvals", consensus.PlantedThreshold, "calm", nil},
	{"forget", "what was signed is forgotten by a restart", consensus.PlantedForget, "crashes", nil},
	{"endorse", "witnesses are endorsed unseen, and chunk producers lie", consensus.PlantedEndorse, "calm", nil},
	{"unendorsed", "chunks go into blocks without endorsements", consensus.PlantedUnendorsed, "lossy", nil},
	{"early", "votes for blocks that are not on disk", consensus.PlantedEarly, "outages", nil},
	{"stale", "what has not come is not asked for again", consensus.PlantedStaleHead, "lossy", nil},
	{"ready", "chunks are forgotten when their block comes late", consensus.PlantedDropReady, "calm", nil},
	{"skip", "endorses heights that it has skipped", consensus.PlantedSkip, "cuts", nil},
	{"orphans", "orphans are dropped, and their parents not asked for", consensus.PlantedOrphans, "cuts", nil},
	{"forward", "parts are neither passed on nor given to who asks", consensus.PlantedNoForward, "calm", nil},
	{"receipts", "receipts are applied twice, by all nodes", 0, "calm", func(_ *node, in *apply.Input) {
		in.Incoming = append(in.Incoming, in.Incoming...)
	}},
	{"diverge", "one node loses a receipt now and then", 0, "calm", func(n *node, in *apply.Input) {
		if n.index == 1 && in.Block.Height%7 == 0 && len(in.Incoming) > 0 {
			in.Incoming = in.Incoming[1:]
		}
	}},
}

// BugOf finds a bug by name; "" is none.
func BugOf(name string) (Bug, error) {
	if name == "" {
		return Bug{}, nil
	}
	for _, b := range Bugs {
		if b.Name == name {
			return b, nil
		}
	}
	return Bug{}, fmt.Errorf("sim: there is no bug %q", name)
}
