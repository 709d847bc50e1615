package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRunRecordsPeerMessages records the messages between a node and its boot node.
func TestRunRecordsPeerMessages(t *testing.T) {
	dir := newHome(t, "")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		defer cancel()
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.ReadFull(conn, make([]byte, 50))
	}()
	file := filepath.Join(t.TempDir(), "frames.jsonl.gz")
	run := func(ctx context.Context) error {
		root := newRoot(new(app))
		root.SetArgs([]string{"--home", dir, "run", "--rpc-addr", "127.0.0.1:0", "--network-addr", "127.0.0.1:0", "--capture", file,
			"--boot-nodes", fmt.Sprintf("ed25519:7PGseFbWxvYVgZ89K1uTJKYoKetWs7BJtbyXDzfbAcqX@%v", l.Addr())})
		root.SetOut(io.Discard)
		root.SetErr(new(bytes.Buffer))
		return root.ExecuteContext(ctx)
	}
	if err := run(ctx); err != nil {
		t.Fatal(err)
	}
	got := runLine([]string{"net", "decode", file})
	for _, want := range []string{fmt.Sprintf("#0 -- this node connects to %v\n", l.Addr()), " > 7PGseFbW tier2_handshake: ", "chain test ", "#0 -- the connection ends\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if err := run(ctx); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("over a recording: %v", err)
	}
}

// TestNetConflictsSearchesRecordings searches recordings of neards, and needs the validators' keys.
func TestNetConflictsSearchesRecordings(t *testing.T) {
	const frames = "../../net/wire/testdata/frames.jsonl.gz"
	if got := runLine([]string{"net", "conflicts", frames}); !strings.Contains(got, "blocks, ") || strings.Contains(got, "signed two") || strings.Contains(got, "nothing that") {
		t.Error(got)
	}
	empty := filepath.Join(t.TempDir(), "empty.jsonl")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := runLine([]string{"net", "conflicts", empty}); !strings.Contains(got, "name the genesis with --genesis") {
		t.Error(got)
	}
}

// TestStatePartsChecksItsFlags: flags that are missing or wrong are named, with exit code 2.
func TestStatePartsChecksItsFlags(t *testing.T) {
	dir := newHome(t, "")
	const key = "ed25519:7PGseFbWxvYVgZ89K1uTJKYoKetWs7BJtbyXDzfbAcqX"
	for _, c := range []struct{ flags, want string }{
		{"", "--shard-id is missing"},
		{"--shard-id 0", "has no network.boot_nodes: name peers with --peer"},
		{"--shard-id 0 --peer 127.0.0.1:1", "--peer:"},
		{"--shard-id 0 --peer " + key + "@127.0.0.1:1 --part 3-1", "--part:"},
		{"--shard-id 0 --peer " + key + "@127.0.0.1:1 --sync-hash x", "--sync-hash:"},
		{"--shard-id 0 --peer " + key + "@127.0.0.1:1 --listen 1234", "--listen is"},
		{"--shard-id 0 --peer " + key + "@127.0.0.1:1 --timeout 0s", "--timeout and --sample must be above 0"},
		{"--shard-id 0 --peer " + key + "@127.0.0.1:1 --chain-id a", "--chain-id and --genesis-hash must be given together"},
	} {
		var out, errs bytes.Buffer
		code := execute(append([]string{"--home", dir, "net", "state-parts"}, strings.Fields(c.flags)...), strings.NewReader(""), &out, &errs)
		if code != exitUsage || !strings.Contains(errs.String(), c.want) || out.Len() > 0 {
			t.Errorf("%q: code %d, %q, want %q", c.flags, code, errs.String(), c.want)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // a peer that says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var errs bytes.Buffer
	code := execute([]string{"--home", dir, "net", "state-parts", "--shard-id", "0", "--listen", "127.0.0.1:0", "--connect-timeout", "100ms",
		"--peer", fmt.Sprintf("%s@%v", key, l.Addr())}, strings.NewReader(""), io.Discard, &errs)
	if code != exitFailure || !strings.Contains(errs.String(), "no peer is connected") {
		t.Errorf("with a silent peer: code %d, %q", code, errs.String())
	}
}
