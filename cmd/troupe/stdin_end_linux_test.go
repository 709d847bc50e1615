package main

import (
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// TestNodeEndsWithItsStdin: dev and run stop cleanly when the pipe of their stdin is closed,
// whatever was written to it, and not before; without the flag the end of stdin changes nothing
// (all other tests start the node with /dev/null). dev removes its folder.
func TestNodeEndsWithItsStdin(t *testing.T) {
	temp, home := t.TempDir(), newHome(t, "")
	for _, c := range []struct {
		name, ready string
		args        []string
	}{
		{"dev", "Transactions:", []string{"dev", "--accounts", "1", "--rpc-addr", "127.0.0.1:0", "--exit-with-stdin"}},
		{"run", "JSON-RPC on", []string{"--home", home, "run", "--rpc-addr", "127.0.0.1:0", "--exit-with-stdin"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = write.Close() }()
			cmd := exec.Command(os.Args[0], c.args...)
			cmd.Env = append(os.Environ(), asCommand+"=1", "TMPDIR="+temp)
			w := &watched{word: c.ready}
			cmd.Stdin, cmd.Stdout, cmd.Stderr = read, w, w
			text := func() string {
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.text.String()
			}
			seen := make(chan struct{})
			w.seen = sync.OnceFunc(func() { close(seen) })
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_ = read.Close()
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			defer func() { _ = cmd.Process.Kill() }()
			limit := time.After(time.Minute)
			select {
			case <-seen:
			case err := <-ended:
				t.Fatalf("ended before %q: %v\n%s", c.ready, err, text())
			case <-limit:
				t.Fatalf("no %q in\n%s", c.ready, text())
			}
			if _, err := io.WriteString(write, "a line\n"); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				t.Fatalf("ended while stdin was open: %v\n%s", err, text())
			case <-time.After(100 * time.Millisecond):
			}
			if err := write.Close(); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("error %v\ntext:\n%s", err, text())
				}
			case <-limit:
				t.Errorf("still runs after the end of stdin\n%s", text())
			}
		})
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
