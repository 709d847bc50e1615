//go:build e2e

package e2e

import (
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/home"
)

// TestLocalnetNodesEndWithCommand makes a network and runs it: a validator, and two nodes that
// follow it. All end when the command does: cleanly after a signal, and also when the command is
// killed.
func TestLocalnetNodesEndWithCommand(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "net")
	if out, err := troupe(t, "--home", dir, "localnet", "-v", "1", "-s", "2", "--non-validators-rpc", "1", "-n", "1",
		"--base-port", "0"); err != nil {
		t.Fatalf("localnet: %v\n%s", err, out)
	}
	nodes, err := home.FindLocalnet(dir, "node")
	if err != nil || len(nodes) != 3 {
		t.Fatalf("nodes %+v, error %v", nodes, err)
	}
	run := func() (*exec.Cmd, *output) {
		cmd, out := exec.Command(binary, "--home", dir, "localnet", "run", "--every", "500ms"), new(output)
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd, out
	}
	await := func(out *output, what string) {
		t.Helper()
		for began := time.Now(); !regexp.MustCompile(what).MatchString(out.String()); time.Sleep(50 * time.Millisecond) {
			if time.Since(began) > time.Minute {
				t.Fatalf("no %q in\n%s", what, out)
			}
		}
	}
	gone := func() {
		t.Helper()
		for _, n := range nodes {
			for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
				conn, err := net.Dial("tcp", n.RPC.String())
				if err != nil {
					break
				}
				_ = conn.Close()
				if time.Since(began) > 10*time.Second {
					t.Fatalf("%s still listens at %v", n.Name, n.RPC)
				}
			}
		}
	}
	cmd, out := run()
	await(out, `blocks/s .* node0 \d+ \(2 peers\)  node1 ([5-9]|\d\d) \(\d peers?\)  node2 ([5-9]|\d\d) `)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the command ended with %v:\n%s", err, out)
	}
	await(out, "node0 has ended")
	gone()
	if runtime.GOOS != "linux" {
		return
	}
	cmd, out = run()
	await(out, `node2 \d\d* \(`)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	gone()
}
