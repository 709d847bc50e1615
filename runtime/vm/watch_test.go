package vm

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
)

// seen writes down the reports of a watcher.
type seen struct{ text string }

func (s *seen) CallBegins(c *action.Call) { s.text += c.Method + "{ " }
func (s *seen) Enter(name string, burnt primitives.Gas) {
	s.text += fmt.Sprintf("%s(%d ", name, burnt/1e6)
}
func (s *seen) Leave(burnt primitives.Gas) { s.text += fmt.Sprintf("%d) ", burnt/1e6) }
func (s *seen) HostCall(h *HostCall) {
	s.text += fmt.Sprintf("%s %d..%d", h.Name, h.Before/1e6, h.After/1e6)
	if e := h.Entry; e != nil {
		s.text += fmt.Sprintf(" %s=%s %v", e.Key, e.Value, e.Found)
	}
	if h.Failed {
		s.text += " failed"
	}
	s.text += " "
}
func (s *seen) CallEnds(out *action.CallOutcome) {
	s.text += fmt.Sprintf("%d} ", out.GasBurnt/1e6)
}

// TestWatchedCallHasSameOutcome checks that a watched call has the outcome of an unwatched one, and
// that all of it is reported.
func TestWatchedCallHasSameOutcome(t *testing.T) {
	code := wat(t, `(module
		(import "env" "storage_write" (func $write (param i64 i64 i64 i64 i64) (result i64)))
		(import "env" "storage_read" (func $read (param i64 i64 i64) (result i64)))
		(import "env" "panic" (func $panic))
		(memory 1) (data (i32.const 0) "keyvalue")
		(func $put (drop (call $write (i64.const 3) (i64.const 0) (i64.const 5) (i64.const 3) (i64.const 0))))
		(func (export "ok") (call $put) (drop (call $read (i64.const 3) (i64.const 0) (i64.const 0))))
		(func (export "bad") (call $put) (call $panic))
		(func (export "trap") unreachable)
		(func (export "endless") (loop (br 0))))`)
	v := newVM(t)
	for _, c := range []struct{ method, want string }{
		{"ok", "ok{ ok(294 put(305 storage_write 305..70384 key=value false 70385) storage_read 70388..132636 key=value true 132637) 132637} "},
		{"bad", "bad{ bad(294 put(305 storage_write 305..70384 key=value false 70385) panic 70385..70650 failed 70650} "},
		{"trap", "trap{ trap(294 294} "},
		{"endless", "endless{ endless(293 100000000} "},
		{"none", "none{ 0} "},
		{"", "{ 0} "},
	} {
		plain, err := v.run(call(code, c.method, 100*tera), &world{})
		if err != nil {
			t.Fatal(err)
		}
		var s seen
		w := v.Watch(&s)
		s.CallBegins(call(code, c.method, 0))
		got, err := w.run(call(code, c.method, 100*tera), &world{})
		if err != nil {
			t.Fatal(err)
		}
		s.CallEnds(&got)
		w.Close()
		if !reflect.DeepEqual(got, plain) {
			t.Errorf("%s watched: %+v\nelse %+v", c.method, got, plain)
		}
		if s.text != c.want {
			t.Errorf("%s: reported\n%s, want\n%s", c.method, s.text, c.want)
		}
	}
}
