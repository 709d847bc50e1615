package backend

import (
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
)

// laggingNetwork is a Network whose peers are ahead of the node.
type laggingNetwork struct{}

func (laggingNetwork) Info() *view.NetworkInfo            { return &view.NetworkInfo{} }
func (laggingNetwork) Syncing() (bool, primitives.Height) { return true, 100 }

// TestSyncingNodeDoesNotLoseTheCursor: while a node has only begun to sync, no block follows its
// genesis yet. Step must not report the cursor as lost: an indexer that subscribed at that moment
// would end for good.
func TestSyncingNodeDoesNotLoseTheCursor(t *testing.T) {
	o, _ := workload.RandomSplits(4, 10)
	c, err := workload.OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := New(Options{Engine: c.Engine, Genesis: &genesis.Config{}, Now: time.Now, Network: laggingNetwork{}})
	if c.Engine.Head() != c.Engine.Genesis() {
		t.Fatal("it has blocks")
	}
	for _, kind := range []view.RefKind{view.RefOptimistic, view.RefNearFinal, view.RefFinal} {
		if s, err := (follower{b: b}).Step(at(c.Engine.Genesis()), kind); err != nil || s.Next != (view.At{}) || s.Lost != nil {
			t.Errorf("kind %d: %+v, %v", kind, s, err)
		}
	}
}
