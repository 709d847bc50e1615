package daemon

import (
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/config"
)

// TestConsoleIsServedBySandboxAndWorlds: a sandbox and its worlds serve the page, each with its own
// actors; another chain serves it only if configured.
func TestConsoleIsServedBySandboxAndWorlds(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		sandbox, console *bool
		want             int
	}{
		"a sandbox": {nil, nil, 200}, "none": {&no, nil, 404}, "none, and asked for": {&no, &yes, 200}, "a sandbox, and not wanted": {nil, &no, 404},
	} {
		t.Run(name, func(t *testing.T) {
			hm := loaded(t, made(t))
			hm.Config.Production, hm.Config.RPC.Sandbox, hm.Config.RPC.Console = config.Manual, c.sandbox, c.console
			h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
			if err != nil {
				t.Fatal(err)
			}
			defer stop(t, h)
			for _, path := range []string{"/console/", "/console/api/actors"} {
				if status, body := get(t, h, path); status != c.want {
					t.Errorf("%s: status %d, reply %s", path, status, body)
				}
			}
			if c.want != 200 || c.sandbox != nil {
				return
			}
			var w struct{ Path string }
			if f := rpcOf(t, h, "sandbox_new_world", `{"quiet":true}`, &w); f != "" {
				t.Fatal(f)
			}
			for _, path := range []string{"/console/api/actors", w.Path + "/console/api/actors"} {
				if status, body := get(t, h, path); status != 200 || !strings.Contains(body, `["shards/0/mempool",`) {
					t.Errorf("%s: status %d, reply %s", path, status, body)
				}
			}
		})
	}
}
