package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestSnapshotIsRestoredInAnotherHome: a chain is copied and becomes that of another home.
func TestSnapshotIsRestoredInAnotherHome(t *testing.T) {
	dir, snap, other := newHome(t, ""), filepath.Join(t.TempDir(), "snap"), filepath.Join(t.TempDir(), "other")
	if got := runLine([]string{"--home", dir, "snapshot", "create", snap}); !strings.Contains(got, "no node has run here yet") || !strings.Contains(got, "exit 1") {
		t.Error(got)
	}
	runUntil(t, "JSON-RPC on", "--home", dir, "run", "--rpc-addr", "127.0.0.1:0")
	if got := runLine([]string{"--home", dir, "snapshot", "create", snap}); !strings.HasPrefix(got, "block 0 of test, ") || !strings.Contains(got, "a stopped node") {
		t.Error(got)
	}
	if got := runLine([]string{"--home", dir, "snapshot", "create", snap}); !strings.Contains(got, snap+" already exists") {
		t.Error(got)
	}
	want := []string{filepath.Join(other, "data") + " is at block 0 of test", "made " + filepath.Join(other, "genesis.json"), "snapshots contain no keys: add node_key.json"}
	got := runLine([]string{"--home", other, "snapshot", "restore", snap})
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("restore printed %s, want %s", got, w)
		}
	}
	if got := runLine([]string{"--home", other, "snapshot", "restore", snap}); !strings.Contains(got, "--replace moves it aside") || !strings.Contains(got, "exit 1") {
		t.Error(got)
	}
	if got := runLine([]string{"--home", other, "snapshot", "restore", "--replace", snap}); !strings.Contains(got, "the previous chain is in "+filepath.Join(other, "data.replaced-")) {
		t.Error(got)
	}
	if got := runLine([]string{"--home", other, "snapshot", "restore", "--replace", dir}); !strings.Contains(got, "the snapshot is damaged: "+dir+" has no snapshot.json") {
		t.Error(got)
	}
}
