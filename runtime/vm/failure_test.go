package vm

import (
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/runtime/action"
)

// TestFailuresHaveNearcoresNames: the outcome of a call that failed while it ran, of which the chain
// stores only a text, names nearcore's variant of the error. Other outcomes name none.
func TestFailuresHaveNearcoresNames(t *testing.T) {
	v := newVM(t)
	for name, c := range map[string]struct {
		module, method string
		want           action.CallFailure
	}{
		"success":        {`(func (export "main"))`, "main", action.CallFailure{}},
		"no such method": {`(func (export "main"))`, "other", action.CallFailure{}},
		"trap":           {`(func (export "main") unreachable)`, "main", action.CallFailure{Error: "WasmTrap", Kind: "Unreachable"}},
		"out of gas":     {`(func (export "main") (loop $l (br $l)))`, "main", action.CallFailure{Error: "HostError", Kind: "GasExceeded"}},
		"host function":  {`(import "env" "panic" (func $p)) (func (export "main") (call $p))`, "main", action.CallFailure{Error: "HostError", Kind: "GuestPanic"}},
		"unknown import": {`(import "env" "none" (func)) (func (export "main"))`, "main", action.CallFailure{Error: "LinkError"}},
		"like a link error": {`(import "env" "panic_utf8" (func $p (param i64 i64))) (memory 1) (data (i32.const 0) "Link Error: x")
			(func (export "main") (call $p (i64.const 13) (i64.const 0)))`, "main", action.CallFailure{Error: "HostError", Kind: "GuestPanic"}},
	} {
		out, err := v.run(call(wat(t, fmt.Sprintf("(module %s)", c.module)), c.method, 10*tera), &world{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if out.Failure != c.want {
			t.Errorf("%s: %+v (%v), want %+v", name, out.Failure, out.Err, c.want)
		}
	}
}
