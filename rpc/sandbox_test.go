package rpc

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives/view"
)

// TestMine: one block without a number, as many as are asked for with one, and a refusal with its reason.
func TestMine(t *testing.T) {
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
	n.err = &view.MineError{Reason: "because"}
	const refused = `{"jsonrpc":"2.0","error":{"name":"HANDLER_ERROR","cause":{"info":{"reason":"because"},"name":"CANNOT_MINE"},"code":-32000,"message":"Server error","data":"because"},"id":1}`
	if status, got := callMethod(s, "sandbox_mine", `{}`); status != 200 || got != refused {
		t.Errorf("%d %s, want %s", status, got, refused)
	}
}
