package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/home"
)

// TestTopPrintsOneScreenWithoutTerminal: without a terminal one screen of a running node is
// printed. A URL that is not a node's, and an invalid interval, are refused.
func TestTopPrintsOneScreenWithoutTerminal(t *testing.T) {
	dir := t.TempDir()
	top := func(args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		code := execute(append([]string{"--home", dir, "top", "--every", "100ms"}, args...), strings.NewReader(""), &out, &errs)
		return code, out.String(), errs.String()
	}
	if code := execute([]string{"--home", dir, "init", "--chain-id", "sandbox", "--num-shards", "2"}, strings.NewReader(""), new(bytes.Buffer), new(bytes.Buffer)); code != exitOK {
		t.Fatalf("init: %d", code)
	}
	hm, err := home.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	h, err := daemon.Start(daemon.Options{Home: hm, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Stop(t.Context()) }()
	code, out, errs := top("--once", "--url", h.Addr.String())
	if code != exitOK || errs != "" {
		t.Fatalf("%d: stderr %s", code, errs)
	}
	for _, want := range []string{"sandbox at http://" + h.Addr.String(), "in step", "chunk-producer/1", "mempool/0", "not looked at"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for _, args := range [][]string{{"--url", "127.0.0.1:1"}, {"--url", "ftp://x"}, {"--every", "1ms"}, {"more"}} {
		if code, out, errs := top(args...); code == exitOK || out != "" || errs == "" {
			t.Errorf("%v: code %d, output %s, stderr %s", args, code, out, errs)
		}
	}
}
