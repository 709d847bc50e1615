package rpc

import (
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives/view"
)

// TestSandboxTimeMethodParams: parameters by name and by position, as numbers and strings, of the
// methods about snapshots, clock and production; their results; refusals with their reason; and
// that they do not exist if the sandbox is off.
func TestSandboxTimeMethodParams(t *testing.T) {
	n := &fakeNode{}
	s := newServer(t, n, Options{})
	at := `"hash":"` + testHash.String() + `","height":`
	for _, c := range []struct{ method, params, want string }{
		{"sandbox_snapshot", `null`, `"result":{"id":"of ","hash":`},
		{"sandbox_snapshot", `{"name":"x"}`, `"result":{"id":"of x","hash":`},
		{"sandbox_snapshot", `["x"]`, `"result":{"id":"of x","hash":`},
		{"sandbox_snapshot", `{"name":""}`, `invalid value: a name of 0 bytes, expected 1 to 128`},
		{"sandbox_revert", `{"id":"x"}`, `"result":{"hash":`},
		{"sandbox_revert", `[7]`, `"result":{"hash":`},
		{"sandbox_revert", `{}`, "missing field `id`"},
		{"sandbox_drop_snapshot", `{"id":1}`, `"result":{}`},
		{"sandbox_snapshots", `[]`, `"result":[{"id":"a","hash":`},
		{"sandbox_new_world", `null`, `"result":{"id":"7","path":"/world/7","addr":null,"parent":null,"begin":{` + at + `100},"bytes":0,` + at + `100}`},
		{"sandbox_new_world", `{"snapshot":5,"quiet":true,"port":false}`, `"parent":"5"`},
		{"sandbox_new_world", `{"port":1}`, "invalid type: integer `1`, expected a boolean"},
		{"sandbox_new_world", `[1]`, "invalid type: sequence, expected struct RpcSandboxNewWorldRequest"},
		{"sandbox_drop_world", `[7]`, `"result":{}`},
		{"sandbox_drop_world", `{}`, "missing field `id`"},
		{"sandbox_worlds", `null`, `"result":[{"id":"7","path":"/world/7","addr":"127.0.0.1:1","parent":null,"begin":{` + at + `100},"bytes":5,` + at + `100}]`},
		{"sandbox_next_epoch", `null`, `"result":{"hash":`},
		{"sandbox_mine", `{"until":"` + testHash.String() + `"}`, `"result":{` + at + `7}`},
		{"sandbox_set_clock", `[]`, `"result":{"frozen":true,"interval_nanosec":"3","next_timestamp_nanosec":"2","timestamp_nanosec":"1"}`},
		{"sandbox_set_clock", `[1]`, "invalid type: sequence, expected struct RpcSandboxSetClockRequest"},
		{"sandbox_set_clock", `{"advance_nanosec":"-1"}`, `invalid value: string \"-1\", expected u64`},
		{"sandbox_set_production", `null`, `"result":{"interval_nanosec":"5","mode":"manual","quiet":true}`},
		{"sandbox_set_production", `{"mode":"often"}`, "unknown variant `often`, expected one of `instant`, `interval`, `manual`"},
	} {
		if _, got := callMethod(s, c.method, c.params); !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %s, want %s", c.method, c.params, got, c.want)
		}
	}
	callMethod(s, "sandbox_set_clock", `{"timestamp_nanosec":"5","advance_nanosec":6,"frozen":false,"next_timestamp_nanosec":7,"interval_nanosec":8}`)
	if c := n.clock; *c.Time != 5 || c.Advance != 6 || *c.Frozen || *c.Next != 7 || *c.Interval != 8 {
		t.Errorf("the clock was set to %+v", c)
	}
	callMethod(s, "sandbox_set_production", `{"mode":"interval","quiet":false,"interval_nanosec":9}`)
	if p := n.production; *p.Mode != "interval" || *p.Quiet || *p.Interval != 9 {
		t.Errorf("production was set to %+v", p)
	}
	n.err = &view.SandboxError{Reason: "because"}
	off := newServer(t, n, Options{NoSandbox: true})
	for i := range methods {
		r := &methods[i]
		if !strings.HasPrefix(r.name, "sandbox_") {
			continue
		}
		if _, got := callMethod(off, r.name, `null`); !r.sandbox || !strings.Contains(got, "METHOD_NOT_FOUND") {
			t.Errorf("%s, where there is no sandbox: %s", r.name, got)
		}
	}
	for method, params := range map[string]string{"sandbox_snapshot": `null`, "sandbox_revert": `[1]`, "sandbox_drop_snapshot": `[1]`, "sandbox_snapshots": `[]`,
		"sandbox_new_world": `null`, "sandbox_drop_world": `[1]`, "sandbox_worlds": `[]`,
		"sandbox_next_epoch": `[]`, "sandbox_set_clock": `null`, "sandbox_set_production": `null`} {
		if _, got := callMethod(s, method, params); !strings.Contains(got, `"cause":{"info":{"reason":"because"},"name":"SANDBOX_REFUSED"}`) {
			t.Errorf("%s refused: %s", method, got)
		}
	}
}
