package logic

import (
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestErrorsArePrintedLikeRustDebug checks that errors are printed as Rust's {:?} prints them; the
// method query shows them.
func TestErrorsArePrintedLikeRustDebug(t *testing.T) {
	for want, e := range map[string]HostError{
		"BadUTF8": {Kind: BadUTF8},
		`GuestPanic { panic_msg: "say \"oh\"\n" }`:                 {Kind: GuestPanic, Text: "say \"oh\"\n"},
		"InvalidRegisterId { register_id: 7 }":                     {Kind: InvalidRegisterID, A: 7},
		"InvalidActionIndex { receipt_index: 1, action_index: 2 }": {Kind: InvalidActionIndex, A: 1, B: 2},
		"RecordedStorageExceeded { limit: 4.0 MB }":                {Kind: RecordedStorageExceeded, B: 4_000_000},
		`ProhibitedInView { method_name: "storage_write" }`:        {Kind: ProhibitedInView, Text: "storage_write"},
	} {
		if got := e.Debug(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if got, want := DebugExecution(e.Execution(), &e), "HostError("+want+")"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for k := HostErrorKind(1); k < numHostErrors; k++ {
		e := HostError{Kind: k, Text: "text"}
		d := e.Debug()
		if name, _, _ := strings.Cut(d, " "); name == "" {
			t.Errorf("kind %d is printed as %q", k, d)
		}
		if fixedTexts[k] != "" && strings.Contains(d, "{") || fixedTexts[k] == "" && !strings.Contains(d, "{") {
			t.Errorf("kind %d is printed as %q", k, d)
		}
	}
	for want, e := range map[string]*primitives.FunctionCallError{
		`WasmUnknownError { msg: "other" }`: execution("other"),
		`LinkError { msg: "none" }`:         LinkError("none"),
		`LoadingError { msg: "large" }`:     LoadingError("large"),
		"WasmTrap(IllegalArithmetic)":       TrapError(primitives.TrapIllegalArithmetic),
	} {
		if got := DebugExecution(e, nil); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
