//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/sandbox/external"
)

// TestExternalSandboxLeavesNothing: a sandbox in a process starts, serves its worlds, and ends with
// Close and with the process that started it. Each failure has a typed error with the reason.
func TestExternalSandboxLeavesNothing(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv("TROUPE_BIN", binary)
	left := func() string {
		list, err := filepath.Glob(temp + "/troupe-*")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(list, " ")
	}
	ctx := t.Context()
	var log strings.Builder
	s, err := external.Start(ctx, external.Options{Shards: 2, Log: &log})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(ctx, "alice.near", external.NEAR(5)); err != nil {
		t.Fatal(err)
	}
	w, err := s.New(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Send(ctx, external.Named("alice.near"), "near", external.Transfer{Deposit: external.NEAR(1)}); err != nil {
		t.Error(err)
	}
	if b, err := s.Balance(ctx, "alice.near"); err != nil || b.Cmp(external.NEAR(5)) != 0 {
		t.Errorf("balance of alice outside of the world: %v, %v", b, err)
	}
	if _, err := s.Send(ctx, external.Named("alice.near"), "near", external.Transfer{Deposit: external.NEAR(1)}); err != nil {
		t.Error(err)
	}
	if err := w.End(ctx); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if !strings.Contains(log.String(), "alice.near") || left() != "" {
		t.Errorf("the log is %q, left: %s", log.String(), left())
	}
	if _, err := s.Balance(ctx, "near"); !errors.Is(err, external.ErrEnded) {
		t.Errorf("after Close: %v", err)
	}

	if _, err := external.Start(ctx, external.Options{Fork: "ftp://x"}); !errors.Is(err, external.ErrEnded) ||
		!strings.Contains(err.Error(), "--fork") {
		t.Errorf("a wrong option: %v", err)
	}
	for _, name := range []string{temp + "/none", temp} {
		if _, err := external.Start(ctx, external.Options{Program: name}); !errors.Is(err, external.ErrNoProgram) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	silent := filepath.Join(temp, "silent")
	write(t, silent, "#!/bin/sh\necho waits\nread line\n")
	if err := os.Chmod(silent, 0o700); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := external.Start(short, external.Options{Program: silent}); !errors.Is(err,
		context.DeadlineExceeded) || !strings.Contains(err.Error(), "waits") {
		t.Errorf("error for a program without output: %v", err)
	}

	s, err = external.Start(ctx, external.Options{})
	if err != nil {
		t.Fatal(err)
	}
	node := nodeOf(t, temp)
	if err := syscall.Kill(node, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := s.Mine(ctx, 1); !errors.Is(err, external.ErrEnded) || !strings.Contains(err.Error(), "killed") {
		t.Errorf("a node that was killed: %v", err)
	}
	if err := s.Close(); !errors.Is(err, external.ErrEnded) {
		t.Errorf("Close of a node that was killed: %v", err)
	}
}

// nodeOf returns the process of the newest chain in a folder for temporary files.
func nodeOf(t *testing.T, temp string) (pid int) {
	t.Helper()
	list, err := filepath.Glob(temp + "/troupe-dev-*")
	if err != nil || len(list) == 0 {
		t.Fatalf("no node runs: %v", err)
	}
	if _, err := fmt.Sscanf(filepath.Base(list[len(list)-1]), "troupe-dev-%d", &pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

// TestExternalSandboxEndsWithTest: a process that is killed in the middle of a test takes its node
// with it.
func TestExternalSandboxEndsWithTest(t *testing.T) {
	const asTest = "TROUPE_EXTERNAL_TEST"
	if os.Getenv(asTest) != "" {
		if _, err := external.Start(t.Context(), external.Options{}); err != nil {
			t.Fatal(err)
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		return
	}
	temp := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), asTest+"=1", "TMPDIR="+temp, "TROUPE_BIN="+binary)
	if out, err := cmd.CombinedOutput(); err == nil || err.Error() != "signal: killed" {
		t.Fatalf("error %v\noutput:\n%s", err, out)
	}
	list := []string{"?"}
	for limit := time.Now().Add(20 * time.Second); len(list) > 0 && time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		list, _ = filepath.Glob(temp + "/*")
	}
	if len(list) > 0 {
		t.Errorf("left: %v", list)
	}
}
