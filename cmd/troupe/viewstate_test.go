package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestViewStateCommandsPrint: the commands take neard's flags and names, of a running node and of a
// stopped one, and refuse what they cannot show.
func TestViewStateCommandsPrint(t *testing.T) {
	dir, url := startNode(t)
	var out, errs bytes.Buffer
	if code := execute([]string{"rpc", "--url", url, "sandbox_mine", `{"blocks":5}`}, strings.NewReader(""), &out, &errs); code != exitOK {
		t.Fatalf("rpc: %d, %s", code, errs.String())
	}
	csv := filepath.Join(t.TempDir(), "chunks.csv")
	for _, x := range []struct {
		args string
		code int
		want string // in the output or the error
	}{
		{"view-chain", exitOK, `head: {"height":`},
		{"view_chain --height 0 --block --chunk", exitOK, `last block: {"author":`},
		{"view-chain --height 100000000", exitFailure, "the folder has blocks from 0 to "},
		{"epoch-info current", exitOK, "Epoch Height: "},
		{"epoch-info --validator-account-id test.near block-height 2", exitOK, "Missing 0 chunks: []"},
		{"epoch_info --kickouts-summary all", exitOK, "Found "},
		{"epoch-info --validator-account-id A.near current", exitUsage, "--validator-account-id"},
		{"epoch-info", exitUsage, "protocol-version VERSION"},
		{"epoch-info epoch-id", exitUsage, "protocol-version VERSION"},
		{"epoch-info current 7", exitUsage, "protocol-version VERSION"},
		{"apply-range --start-index 1 --end-index 4 --shard-id 0 --verbose-output --csv-file " + csv, exitOK, "block_height: 2, "},
		{"apply_range --storage trie parallel", exitOK, " 0 differ"},
		{"apply-range benchmark", exitUsage, "sequential or parallel"},
		{"apply-range --shard-id x", exitUsage, "--shard-id"},
		{"apply-range --csv-file " + filepath.Join(dir, "absent", "x.csv"), exitFailure, "no such file"},
	} {
		out.Reset()
		errs.Reset()
		code := execute(append([]string{"--home", dir, "view-state"}, strings.Fields(x.args)...), strings.NewReader(""), &out, &errs)
		if code != x.code || !strings.Contains(out.String()+errs.String(), x.want) {
			t.Errorf("%s: exit %d, %.500s%s, want %d and %q", x.args, code, out.String(), errs.String(), x.code, x.want)
		}
	}
	text, err := os.ReadFile(csv)
	if err != nil || !strings.HasPrefix(string(text), "Height,Hash,Author,") || strings.Count(string(text), "\n") != 5 {
		t.Errorf("%v: %s", err, text)
	}
}
