package backend

import (
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/workload"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
)

// catching is a network that the node is behind.
type catching struct{}

func (catching) Info() *view.NetworkInfo            { return &view.NetworkInfo{} }
func (catching) Syncing() (bool, primitives.Height) { return true, 100 }

// TestHasOnlyBegun: behind the genesis of a node that has only begun to come nothing is told yet. It is no place that is lost: who subscribed in this moment was
// told so, and an indexer ended for good.
func TestHasOnlyBegun(t *testing.T) {
	o, _ := workload.RandomSplits(4, 10)
	c, err := workload.OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := New(Options{Engine: c.Engine, Genesis: &genesis.Config{}, Now: time.Now, Network: catching{}})
	if c.Engine.Head() != c.Engine.Genesis() {
		t.Fatal("it has blocks")
	}
	for _, kind := range []view.RefKind{view.RefOptimistic, view.RefNearFinal, view.RefFinal} {
		if s, err := (follower{b: b}).Step(at(c.Engine.Genesis()), kind); err != nil || s.Next != (view.At{}) || s.Lost != nil {
			t.Errorf("kind %d: %+v, %v", kind, s, err)
		}
	}
}
