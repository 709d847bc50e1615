//go:build e2e

package e2e

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// world creates a world of a node and returns the environment with which a script uses it.
func (p *process) world() []string {
	p.t.Helper()
	r, err := http.Post("http://"+p.addr, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"sandbox_new_world"}`))
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	var out struct {
		Result struct{ Path string }
		Error  json.RawMessage
	}
	if err := json.NewDecoder(r.Body).Decode(&out); err != nil || out.Result.Path == "" {
		p.t.Fatalf("%v: error %s", err, out.Error)
	}
	return []string{"NEAR_RPC_URL=http://" + p.addr + out.Result.Path, "NEAR_HOME=" + p.home}
}

// TestUnmodifiedClientsWorkInWorlds: unmodified clients work in worlds with nothing but another
// URL. Several run in one process at the same time, with changes that would conflict on one chain.
func TestUnmodifiedClientsWorkInWorlds(t *testing.T) {
	need(t, "node", "npm")
	installed(t, npmInstall)
	p := start(t, newHome(t))
	for _, name := range []string{"native", "token", "token", "kittoken"} {
		env := p.world()
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script(t, "js", env, "node", name+".mjs")
		})
	}
}

// TestPynearWorksInWorlds is TestUnmodifiedClientsWorkInWorlds for py-near.
func TestPynearWorksInWorlds(t *testing.T) {
	need(t, "python3")
	installed(t, pipInstall)
	python, err := filepath.Abs("py/.venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, newHome(t))
	for range 2 {
		env := p.world()
		t.Run("pynear", func(t *testing.T) {
			t.Parallel()
			script(t, "py", env, python, "pynear.py")
		})
	}
}
