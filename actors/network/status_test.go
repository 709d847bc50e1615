package network

import (
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/net/near"
)

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

// TestConnectionsAreCountedByTierAndDirection: a validator's T1 connections have a metric of their
// own, with neard's name and labels.
func TestConnectionsAreCountedByTierAndDirection(t *testing.T) {
	f := &Status{}
	if got := string(f.Metrics(nil)); strings.Contains(got, "near_peer_connections{") {
		t.Errorf("a node without a host has\n%s", got)
	}
	f.info.Store(&near.Info{T1: []near.PeerState{{Inbound: true}, {Inbound: true}, {}}, Peers: []near.PeerState{{}, {}}, T3: []near.PeerState{{Inbound: true}}})
	got := string(f.Metrics(nil))
	for _, want := range []string{
		`near_peer_connections{tier="T1",peer_type="Inbound"} 2`, `near_peer_connections{tier="T1",peer_type="Outbound"} 1`,
		`near_peer_connections{tier="T2",peer_type="Inbound"} 0`, `near_peer_connections{tier="T2",peer_type="Outbound"} 2`,
		`near_peer_connections{tier="T3",peer_type="Inbound"} 1`, `near_peer_connections{tier="T3",peer_type="Outbound"} 0`,
		"near_peer_connections_total 2",
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}
