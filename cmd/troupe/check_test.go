package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckFindsChangedByte: a valid folder passes; a changed byte in the log is reported with its
// position; a folder without a chain is reported as such.
func TestCheckFindsChangedByte(t *testing.T) {
	dir := newHome(t, "")
	if got := runLine([]string{"--home", dir, "check"}); !strings.Contains(got, "no node has run here yet") || !strings.Contains(got, "exit 1") {
		t.Error(got)
	}
	runUntil(t, "JSON-RPC on", "--home", dir, "run", "--rpc-addr", "127.0.0.1:0")
	// a restored snapshot has no keys and can be checked
	for _, gone := range []string{"", "validator_key.json", "node_key.json"} {
		if gone != "" {
			if err := os.Remove(filepath.Join(dir, gone)); err != nil {
				t.Fatal(err)
			}
		}
		if got := runLine([]string{"--home", dir, "check"}); !strings.HasPrefix(got, "head 0, flat head 0") || !strings.Contains(got, "states: those of 1 shard match their roots") {
			t.Errorf("without %q: %s", gone, got)
		}
	}
	names, err := filepath.Glob(filepath.Join(dir, "data", "log", "*.seg"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	b, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-3] ^= 1
	if err := os.WriteFile(names[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := runLine([]string{"--home", dir, "check"}); !strings.Contains(got, "exit 1") || !strings.Contains(got, filepath.Base(names[0])) && !strings.Contains(got, "data") {
		t.Error(got)
	}
}
