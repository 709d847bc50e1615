package network

import "testing"

// TestLaggingNodeWithoutPeersIsSyncing: a node with boot nodes that was behind its peers and has
// lost them still reports that it is syncing. A node without boot nodes does not.
func TestLaggingNodeWithoutPeersIsSyncing(t *testing.T) {
	for _, awaits := range []bool{true, false} {
		f := &Status{Awaits: awaits}
		f.knows.Store(true)
		if is, _ := f.Syncing(); is {
			t.Error("the node reports syncing before any peer announced a height")
		}
		f.syncs(false, true, 0)
		if is, _ := f.Syncing(); is != awaits {
			t.Errorf("with boot nodes %v: syncing %v", awaits, is)
		}
		f.syncs(false, false, 7)
		if is, _ := f.Syncing(); is {
			t.Error("the node reports syncing although it is at the head")
		}
	}
}
