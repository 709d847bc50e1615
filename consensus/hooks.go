package consensus

// Hooks let tests change a node. The zero value does nothing.
type Hooks struct {
	// Planted is the set of bugs that this node has, for tests of the simulator. 0: none.
	Planted Planted
}

func (h *Hooks) planted(p Planted) bool { return h.Planted&p != 0 }

// Planted is a set of bugs. Tests give a node such bugs to check that the simulator detects the
// bugs.
type Planted uint32

// The bugs.
const (
	PlantedThreshold  Planted = 1 << iota // produces a block with too few approvals
	PlantedForget                         // forgets signatures at a restart
	PlantedEndorse                        // endorses witnesses unchecked, and produces wrong chunks
	PlantedUnendorsed                     // includes chunks without endorsements
	PlantedEarly                          // approves a block before it is on disk
	PlantedStaleHead                      // does not repeat requests
	PlantedDropReady                      // forgets chunks if their block arrives late
	PlantedSkip                           // endorses a height after it has skipped that height
	PlantedOrphans                        // drops orphans and does not request their parents
	PlantedNoWait                         // signs at once with a key that another node used
	PlantedNoForward                      // neither forwards nor requests chunk parts
)
