package rpc

import (
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestMineDefaultsToOneBlock: one block without a number, that many with one, and a refusal with
// its reason.
func TestMineDefaultsToOneBlock(t *testing.T) {
	n := &fakeNode{}
	s := newServer(t, n, Options{})
	for params, want := range map[string]string{
		`null`: "101", `{}`: "101", `[]`: "101", `{"blocks":3}`: "103", `[10000]`: "10100",
	} {
		want = `{"jsonrpc":"2.0","result":{"hash":"` + testHash.String() + `","height":` + want + `},"id":1}`
		if status, got := callMethod(s, "sandbox_mine", params); status != 200 || got != want {
			t.Errorf("%s: %d %s, want %s", params, status, got, want)
		}
	}
	n.err = &view.SandboxError{Reason: "because"}
	const refused = `{"jsonrpc":"2.0","error":{"name":"HANDLER_ERROR","cause":{"info":{"reason":"because"},"name":"CANNOT_MINE"},"code":-32000,"message":"Server error","data":"because"},"id":1}`
	if status, got := callMethod(s, "sandbox_mine", `{}`); status != 200 || got != refused {
		t.Errorf("%d %s, want %s", status, got, refused)
	}
}

// TestPatchStateRefusesInvalidRecords: records by name and by position, removals, extra members;
// invalid records are refused with nearcore's words.
func TestPatchStateRefusesInvalidRecords(t *testing.T) {
	n := &fakeNode{}
	s := newServer(t, n, Options{})
	const records = `[{"Account":{"account_id":"a.near","account":{"amount":"1","locked":"0","code_hash":"11111111111111111111111111111111","storage_usage":0,"block_hash":"x"}}},` +
		`{"Data":{"account_id":"a.near","data_key":"YQ==","value":"Yg=="}},{"Contract":{"account_id":"a.near","code":null}}]`
	for _, params := range []string{`{"records":` + records + `,"account_id":"bob"}`, `[` + records + `]`} {
		n.patched = nil
		const want = `{"jsonrpc":"2.0","result":{},"id":1}`
		if status, got := callMethod(s, "sandbox_patch_state", params); status != 200 || got != want {
			t.Errorf("%s: %d %s, want %s", params, status, got, want)
		}
		if len(n.patched) != 3 || n.patched[1].Owner() != "a.near" {
			t.Errorf("%s: the node got %v", params, n.patched)
		}
	}
	if _, ok := n.patched[2].(*genesis.Removal); !ok {
		t.Errorf("a removal was decoded as %T", n.patched[2])
	}
	n.err = &view.SandboxError{Reason: "because"}
	const refused = `{"jsonrpc":"2.0","error":{"name":"HANDLER_ERROR","cause":{"info":{"reason":"because"},"name":"CANNOT_PATCH"},"code":-32000,"message":"Server error","data":"because"},"id":1}`
	if status, got := callMethod(s, "sandbox_patch_state", `[[]]`); status != 200 || got != refused {
		t.Errorf("%d %s, want %s", status, got, refused)
	}
}

// TestFastForwardTakesNameOrPosition: the number by name or by place.
func TestFastForwardTakesNameOrPosition(t *testing.T) {
	n := &fakeNode{}
	s := newServer(t, n, Options{})
	for params, want := range map[string]uint64{`{"delta_height":1000}`: 1000, `[7]`: 7} {
		if status, got := callMethod(s, "sandbox_fast_forward", params); status != 200 || got != `{"jsonrpc":"2.0","result":{},"id":1}` || n.forwarded != want {
			t.Errorf("%s: %d %s, %d heights", params, status, got, n.forwarded)
		}
	}
	off := newServer(t, n, Options{NoSandbox: true})
	for _, method := range []string{"sandbox_mine", "sandbox_patch_state", "sandbox_fast_forward"} {
		if status, got := callMethod(off, method, `[1]`); status == 200 && !strings.Contains(got, "METHOD_NOT_FOUND") {
			t.Errorf("%s is switched off: %d %s", method, status, got)
		}
	}
}
