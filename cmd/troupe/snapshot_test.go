package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestSnapshotCommands: a chain is copied and becomes that of another home.
func TestSnapshotCommands(t *testing.T) {
	dir, snap, other := newHome(t, ""), filepath.Join(t.TempDir(), "snap"), filepath.Join(t.TempDir(), "other")
	if got := runLine([]string{"--home", dir, "snapshot", "create", snap}); !strings.Contains(got, "no node has run here yet") || !strings.Contains(got, "exit 1") {
		t.Error(got)
	}
	runUntil(t, "JSON-RPC on", "--home", dir, "run", "--rpc-addr", "127.0.0.1:0")
	if got := runLine([]string{"--home", dir, "snapshot", "create", snap}); !strings.HasPrefix(got, "block 0 of test, ") || !strings.Contains(got, "a node that does not run") {
		t.Error(got)
	}
	if got := runLine([]string{"--home", dir, "snapshot", "create", snap}); !strings.Contains(got, snap+" is there already") {
		t.Error(got)
	}
	want := []string{filepath.Join(other, "data") + " is at block 0 of test", "made " + filepath.Join(other, "genesis.json"), "keys are not in a snapshot: put node_key.json there"}
	got := runLine([]string{"--home", other, "snapshot", "restore", snap})
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("restore said %s, want %s", got, w)
		}
	}
	if got := runLine([]string{"--home", other, "snapshot", "restore", snap}); !strings.Contains(got, "--replace puts it aside") || !strings.Contains(got, "exit 1") {
		t.Error(got)
	}
	if got := runLine([]string{"--home", other, "snapshot", "restore", "--replace", snap}); !strings.Contains(got, "what was there is in "+filepath.Join(other, "data.replaced-")) {
		t.Error(got)
	}
	if got := runLine([]string{"--home", other, "snapshot", "restore", "--replace", dir}); !strings.Contains(got, "the snapshot is not whole: "+dir+" has no snapshot.json") {
		t.Error(got)
	}
}
