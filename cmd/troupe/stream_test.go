package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lineOf is the part of a line of troupe stream that the test reads.
type lineOf struct {
	Block struct {
		Header struct {
			Height uint64
			Hash   string
		}
	}
	Shards []struct {
		Chunk json.RawMessage
	}
}

func linesOf(t *testing.T, text string) (out []lineOf) {
	t.Helper()
	for line := range strings.Lines(text) {
		var x lineOf
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatalf("%v: line %.300s", err, line)
		}
		out = append(out, x)
	}
	return out
}

// TestStreamPrintsEachBlockOnce: a node of the home folder prints its blocks; with a cursor file
// each once over several runs; shards that are not asked for are not shown.
func TestStreamPrintsEachBlockOnce(t *testing.T) {
	dir := newHome(t, `{"consensus":{"min_block_production_delay":{"secs":0,"nanos":5000000}},"troupe":{"block_production":"interval","stream":{"finality":"None"}}}`)
	cursor := filepath.Join(t.TempDir(), "cursor")
	var all []lineOf
	for _, args := range [][]string{
		{"--sync-mode", "FromInterruption=0", "--count", "3"},
		{"--count", "2", "--finality", "DoomSlug"},
		{"--sync-mode", "FromInterruption", "--count", "4", "--finality", "Final", "--shards", "s7.v9"},
	} {
		out := runLine(append([]string{"--home", dir, "stream", "--cursor", cursor}, args...))
		if strings.Contains(out, "\nexit ") {
			t.Fatal(out)
		}
		var lines []string
		for line := range strings.Lines(out) {
			if !strings.HasPrefix(line, "! ") {
				lines = append(lines, line)
			}
		}
		all = append(all, linesOf(t, strings.Join(lines, ""))...)
	}
	if len(all) != 9 {
		t.Fatalf("%d lines, want 9", len(all))
	}
	for i, x := range all {
		if x.Block.Header.Height != uint64(i) || (string(x.Shards[0].Chunk) == "null") != (i >= 5) {
			t.Errorf("line %d: height %d, chunk %.30s", i, x.Block.Header.Height, x.Shards[0].Chunk)
		}
	}
	text, err := os.ReadFile(cursor)
	if want := "8:" + all[8].Block.Header.Hash + "\n"; err != nil || string(text) != want {
		t.Errorf("the cursor is %q, %v, want %q", text, err, want)
	}
}

// TestStreamRefusesContradictingFlags: contradicting flags are refused before anything is started.
func TestStreamRefusesContradictingFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--from http://127.0.0.1:1 --archive":             "--archive is for a node that this command starts",
		"--sync-mode latest":                              "FromInterruption=HEIGHT or BlockHeight=HEIGHT",
		"--sync-mode FromInterruption":                    "needs --cursor",
		"--finality final":                                "Final, DoomSlug, None",
		"--streaming-mode now":                            "StreamWhileSyncing, WaitForFullSync",
		"--shards 3":                                      "is not a shard like s0.v3",
		"--accounts A":                                    "--accounts",
		"--boot-nodes x":                                  "node_key@host:port",
		"--rpc-addr x":                                    "must be host:port",
		"--from ftp://node --count 1":                     "is not the URL of a node",
		"--cursor " + os.DevNull + "/x --from http://h:1": "not a directory",
	} {
		got := runLine(append([]string{"--home", "/nowhere", "stream"}, strings.Fields(args)...))
		if !strings.Contains(got, want) || !strings.Contains(got, "exit ") {
			t.Errorf("%s: %s, want %q", args, got, want)
		}
	}
}
