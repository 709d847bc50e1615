package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHistoryOfAFeedIsChecked: check-history verifies a neardata and a folder in the layout of a Lake
// down to the genesis, in parts. It stops at a changed file, and continues there once the file is
// right. A state file of another check is refused.
func TestHistoryOfAFeedIsChecked(t *testing.T) {
	dir, url := startNode(t)
	run := func(args string) (int, string) {
		t.Helper()
		var out, errs bytes.Buffer
		code := execute(append([]string{"--home", dir}, strings.Fields(args)...), strings.NewReader(""), &out, &errs)
		return code, out.String() + errs.String()
	}
	for range 3 {
		if code, text := run("send near 1 --as test.near --url " + url); code != exitOK {
			t.Fatal(text)
		}
	}
	if code, text := run(`rpc --url ` + url + ` sandbox_mine {"blocks":8}`); code != exitOK {
		t.Fatal(text)
	}
	lake := t.TempDir()
	block := func(h int) string { return filepath.Join(lake, fmt.Sprintf("%012d", h)) }
	top := 0
	for h := 0; ; h++ {
		r, err := http.Get(fmt.Sprintf("http://%s/v0/block/%d", url, h))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil || r.StatusCode != http.StatusOK {
			break
		}
		var j struct {
			Block  json.RawMessage
			Shards []json.RawMessage
		}
		if err := json.Unmarshal(text, &j); err != nil || j.Block == nil {
			t.Fatalf("%s: %v", text, err)
		}
		if err := os.MkdirAll(block(h), 0o755); err != nil {
			t.Fatal(err)
		}
		files := map[string]json.RawMessage{"block.json": j.Block}
		for _, s := range j.Shards {
			var id struct {
				ID int `json:"shard_id"`
			}
			if err := json.Unmarshal(s, &id); err != nil {
				t.Fatal(err)
			}
			files[fmt.Sprintf("shard_%d.json", id.ID)] = s
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(block(h), name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if top = h; h >= 8 {
			break
		}
	}
	if top < 8 {
		t.Fatalf("the node has only %d blocks", top)
	}
	state := filepath.Join(t.TempDir(), "state.json")
	check := func(more string) (int, string) {
		t.Helper()
		return run("view-state check-history lake:" + lake + " --state-file " + state + " " + more)
	}
	if code, text := check("--start-index 8 --end-index 6"); code != exitOK || !strings.Contains(text, "3 blocks of lake:"+lake+" below and at height 8 are of this chain") {
		t.Errorf("%d, %s", code, text)
	}
	path := filepath.Join(block(4), "block.json")
	right := mustRead(t, path)
	if err := os.WriteFile(path, []byte(strings.Replace(right, `"total_supply":"`, `"total_supply":"1`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, text := check(""); code != exitFailure || !strings.Contains(text, "block 4 of lake:"+lake) || !strings.Contains(text, "4 blocks of") {
		t.Errorf("a changed file: %d, %s", code, text)
	}
	if err := os.WriteFile(path, []byte(right), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, text := check(""); code != exitOK || !strings.Contains(text, "8 blocks of") || strings.Contains(text, " 0 outcomes are proven") {
		t.Errorf("the right file again: %d, %s", code, text)
	}
	if code, text := check("--start-index 7"); code != exitFailure || !strings.Contains(text, "or give another --state-file") {
		t.Errorf("another start: %d, %s", code, text)
	}
	if err := os.WriteFile(state, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, text := check(""); code != exitFailure || !strings.Contains(text, "remove the file to begin again") {
		t.Errorf("a broken state file: %d, %s", code, text)
	}
	if code, text := run("view-state check-history neardata:http://" + url); code != exitOK || !strings.Contains(text, "are of this chain") {
		t.Errorf("the node's own neardata: %d, %s", code, text)
	}
	if code, text := check("--start-index 100000000"); code != exitFailure || !strings.Contains(text, "the folder has no block at height 100000000") {
		t.Errorf("above the head: %d, %s", code, text)
	}
	_, text := run("rpc --url " + url + " status")
	var status struct {
		Sync struct {
			Head int `json:"latest_block_height"`
		} `json:"sync_info"`
	}
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if code, text := check(fmt.Sprintf("--start-index %d", status.Sync.Head)); code != exitFailure || !strings.Contains(text, "is not final") {
		t.Errorf("the head: %d, %s", code, text)
	}
	if code, text := run("view-state check-history rpc:http://" + url); code != exitUsage || !strings.Contains(text, "gives no outcomes") {
		t.Errorf("an RPC node: %d, %s", code, text)
	}
	if _, err := os.Stat(filepath.Join(dir, "check-history.json")); err != nil {
		t.Error(err)
	}
}
