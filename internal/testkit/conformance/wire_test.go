package conformance

import (
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc"
)

var files = []string{"wire", "wire2"}

func load(t *testing.T) (map[string][]Line, Plan) {
	t.Helper()
	plan, err := LoadPlan("../../../rpc/testdata/wire-plan.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string][]Line{}
	for _, f := range files {
		if lines[f], err = Load("testdata/" + f + ".jsonl.gz"); err != nil {
			t.Fatal(err)
		}
	}
	return lines, plan
}

func TestPlanCoversEveryRecordedLine(t *testing.T) {
	lines, plan := load(t)
	for _, f := range files {
		for i := range lines[f] {
			if _, ok := plan[f][i+1]; !ok {
				t.Errorf("%v is not in the plan", &lines[f][i])
			}
		}
		for n := range plan[f] {
			if n < 1 || n > len(lines[f]) {
				t.Errorf("the plan has %s %d, the recording %d lines", f, n, len(lines[f]))
			}
		}
	}
	if got, want := len(lines["wire"])+len(lines["wire2"]), 678; got != want {
		t.Errorf("%d recorded lines, want %d", got, want)
	}
}

// server starts a server over a blank node; waits end at once.
func server(t *testing.T, opts rpc.Options) Client {
	t.Helper()
	opts.PollingTimeout = 20 * time.Millisecond
	s, err := rpc.New(&blank{head: view.At{Height: 1000, Hash: primitives.HashBytes([]byte("head"))}}, opts)
	if err != nil {
		t.Fatal(err)
	}
	client, stop := InProcess(s.Serve)
	t.Cleanup(stop)
	return client
}

func TestWireRepliesEqualNeardsOffline(t *testing.T) {
	lines, plan := load(t)
	client := server(t, rpc.Options{})
	for _, f := range files {
		for _, l := range plan.Select(lines[f], Offline) {
			if diff := Run(client, l); diff != "" {
				t.Errorf("%v: %s\nrequest %.300s", l, diff, l.Request().Body)
			}
		}
	}
}
