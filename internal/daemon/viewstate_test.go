package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/internal/viewstate"
	"github.com/troupe-chain/troupe/primitives"
)

// lines collects what a command of view-state prints.
type lines struct {
	text []string
	stop func() // called at the first line, if not nil
}

func (l *lines) Row(string) error              { return nil }
func (l *lines) Progress(uint64, uint64) error { return nil }

func (l *lines) Line(text string) error {
	l.text = append(l.text, text)
	if l.stop != nil {
		l.stop()
	}
	return nil
}

// TestViewStateOfRunningAndStoppedNode: a running node and the folder of the stopped node print the
// same. The chunks that call contracts can be applied again in both cases. A client that leaves ends
// the command in the node. Beside a node without a socket, the error names the node.
func TestViewStateOfRunningAndStoppedNode(t *testing.T) {
	dir := made(t)
	h := mustStart(t, dir)
	key, err := home.ReadKeyFile(filepath.Join(dir, "validator_key.json"))
	if err != nil {
		t.Fatal(err)
	}
	act(t, h, key, 1, &primitives.DeployContract{Code: contracts.C("ft")}, &primitives.FunctionCall{Method: "new", Gas: 100e12,
		Args: []byte(`{"owner_id":"` + string(key.AccountID) + `","total_supply":"10","metadata":{"spec":"ft-1.0.0","name":"T","symbol":"T","decimals":0}}`)})
	hm, to := loaded(t, dir), h.Engine.Head().Height()
	requests := map[string]viewstate.Request{
		"chain":  {Chain: &viewstate.ChainRequest{Height: &to, Block: true, Chunks: true}},
		"apply":  {Apply: &viewstate.ApplyRequest{End: &to, Verbose: true}},
		"epochs": {Epochs: &viewstate.EpochRequest{By: "current", Validator: key.AccountID}},
	}
	show := func(name string) string {
		t.Helper()
		var out lines
		r := requests[name]
		if err := ViewState(t.Context(), hm, &r, &out); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return strings.Join(out.text, "\n")
	}
	running := map[string]string{}
	for name := range requests {
		running[name] = show(name)
	}
	if !strings.Contains(running["apply"], " 0 differ") || !strings.Contains(running["chain"], `"author":"test.near"`) {
		t.Errorf("%q", running)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := ViewState(ctx, hm, &viewstate.Request{Epochs: &viewstate.EpochRequest{By: "all"}}, &lines{stop: cancel}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	above := to + 1_000_000
	missing := viewstate.Request{Chain: &viewstate.ChainRequest{Height: &above}}
	if err := ViewState(t.Context(), hm, &missing, &lines{}); err == nil || !strings.Contains(err.Error(), "the folder has blocks from 0 to ") {
		t.Errorf("a height above the head: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "data", controlName)); err != nil {
		t.Fatal(err)
	}
	if err := ViewState(t.Context(), hm, &missing, &lines{}); err == nil || !strings.Contains(err.Error(), "another node runs on") {
		t.Errorf("beside a node without a socket: %v", err)
	}
	stop(t, h) // returns only after the node has ended the cancelled command
	for _, name := range []string{"chain", "apply"} {
		if got := show(name); got != running[name] {
			t.Errorf("%s, stopped\n%s\nrunning\n%s", name, got, running[name])
		}
	}
	if got := show("epochs"); !strings.Contains(got, `BP="test.near"`) || !strings.Contains(got, "Missing 0 chunks") {
		t.Errorf("epochs: %.500s", got)
	}
}
