//go:build e2e

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
)

// need skips a test if a program is not installed.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("skipped: %s is not installed", name)
		}
	}
}

// installed runs an installation at most once for all tests.
func installed(t *testing.T, once func() (string, error)) {
	t.Helper()
	if out, err := once(); err != nil {
		t.Fatalf("install the clients: %v\n%s", err, tail(out, 4000))
	}
}

// install runs a command in a folder.
func install(limit time.Duration, dir, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	return string(out), err
}

// upToDate returns whether a stamp file is newer than the list of dependencies.
func upToDate(stamp, list string) bool {
	a, errA := os.Stat(stamp)
	b, errB := os.Stat(list)
	return errA == nil && errB == nil && a.ModTime().After(b.ModTime())
}

var npmInstall = sync.OnceValues(func() (string, error) {
	if upToDate("js/node_modules/.package-lock.json", "js/package-lock.json") {
		return "", nil
	}
	// Without scripts: near-workspaces would download a binary, which the node under test replaces.
	return install(5*time.Minute, "js", "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
})

var pipInstall = sync.OnceValues(func() (string, error) {
	if upToDate("py/.venv/done", "py/requirements.txt") {
		return "", nil
	}
	if out, err := install(time.Minute, "py", "python3", "-m", "venv", ".venv"); err != nil {
		return out, err
	}
	out, err := install(5*time.Minute, "py", ".venv/bin/pip", "install", "-q", "-r", "requirements.txt")
	if err == nil {
		err = os.WriteFile("py/.venv/done", nil, 0o644)
	}
	return out, err
})

// script runs a client's script with the node's address and home folder in its environment.
func script(t *testing.T, dir string, env []string, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	c.Env = append(append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%s %v: error %v\noutput:\n%s", name, args, err, tail(string(out), 12000))
		return
	}
	t.Logf("%s", out)
}

func (p *process) env() []string {
	return []string{"NEAR_RPC_URL=http://" + p.addr, "NEAR_HOME=" + p.home}
}

func TestJavaScriptClientsWork(t *testing.T) {
	need(t, "node", "npm")
	installed(t, npmInstall)
	for _, name := range []string{"native", "openapi", "schemas", "kit", "token", "kittoken", "nearjs"} {
		for _, shards := range []string{"1", "4"} {
			t.Run(name+"/shards="+shards, func(t *testing.T) {
				script(t, "js", start(t, newHome(t, "--num-shards", shards)).env(), "node", name+".mjs")
			})
		}
	}
	t.Run("universal", func(t *testing.T) {
		contract := recorded(t, "contracts/guestbook-sdk5.30.0.wasm")
		for _, shards := range []string{"1", "4"} {
			p := start(t, newHome(t, "--num-shards", shards))
			script(t, "js", append(p.env(), "GUESTBOOK="+contract), "node", "universal.mjs")
		}
	})
	t.Run("sandboxes", func(t *testing.T) {
		dir := t.TempDir() // near-workspaces looks for a folder with a program of this name
		if err := os.Symlink(binary, filepath.Join(dir, "near-sandbox")); err != nil {
			t.Fatal(err)
		}
		script(t, "js", []string{"NEAR_RPC_URL=none", "NEAR_SANDBOX_BIN_PATH=" + binary, "NEAR_SANDBOX_BINARY_PATH=" + dir}, "node", "sandboxes.mjs")
	})
	t.Run("expired", func(t *testing.T) {
		// 20 blocks of 120 ms: a block hash expires after about three seconds.
		home := newHome(t, "--fast")
		edit(t, filepath.Join(home, "genesis.json"), `"transaction_validity_period": 100`, `"transaction_validity_period": 20`)
		script(t, "js", start(t, home, "--block-production", "interval").env(), "node", "expired.mjs")
	})
}

// recorded returns the absolute path of a contract built with near-sdk, for scripts that run in other
// folders. It skips the test if the contract is absent.
func recorded(t *testing.T, name string) string {
	t.Helper()
	path := testutil.Data(name)
	testutil.Need(t, path, "a contract built with near-sdk")
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPythonClientsWork(t *testing.T) {
	need(t, "python3")
	installed(t, pipInstall)
	python, err := filepath.Abs("py/.venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pynear", "models", "independent"} {
		t.Run(name, func(t *testing.T) {
			env := start(t, newHome(t)).env()
			if name == "independent" {
				tools, err := filepath.Abs("../../../../shared/tools")
				if err == nil {
					_, err = os.Stat(filepath.Join(tools, "near.py"))
				}
				if err != nil {
					t.Skip("skipped: ../shared is not here")
				}
				env = append(env, "PYTHONPATH="+tools)
			}
			script(t, "py", env, python, name+".py")
		})
	}
}

// edit replaces a text in a file. It fails the test if the file does not contain the text.
func edit(t *testing.T, path, old, text string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), old) {
		t.Fatalf("%s has no %s", path, old)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(b), old, text, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestRustClientsStartTheirSandbox builds the crate in rust with the versions of its lock file and
// runs its tests: near-sandbox and near-workspaces start the node under test.
func TestRustClientsStartTheirSandbox(t *testing.T) {
	need(t, "cargo")
	env := []string{"NEAR_SANDBOX_BIN_PATH=" + binary, "CARGO_TERM_COLOR=never"}
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	for _, args := range [][]string{{"test", "--locked", "--no-run"}, {"test", "--locked", "--quiet", "--", "--test-threads=4"}} {
		c := exec.CommandContext(ctx, "cargo", args...)
		c.Dir, c.Env = "rust", append(os.Environ(), env...)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("cargo %v: %v\n%s", args, err, tail(string(out), 12000))
		}
		t.Logf("%s", tail(string(out), 2000))
	}
}
