package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// longer has a run last longer and longer, until the machine has had time for something in it.
func longer(t *testing.T, first time.Duration, run func(d time.Duration) (something bool)) {
	t.Helper()
	for d := first; !run(d); d *= 3 {
		if t.Failed() {
			return
		}
		if d > 20*time.Second {
			t.Fatalf("nothing is done in %v", d)
		}
	}
}

func TestRunNodeFinalizesTransfers(t *testing.T) {
	longer(t, time.Second, func(d time.Duration) bool {
		r, err := RunNode(t.Context(), NodeOptions{Accounts: 300, Skew: 1, Shards: 2, Senders: 3, Batch: 8, Window: 200,
			Warm: d / 5, Duration: d, Signed: 20000, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		x := &r.Result
		if x.Refused != 0 || x.Failed != 0 {
			t.Errorf("%d refused (%s), %d failed", x.Refused, x.Refusal, x.Failed)
		}
		if x.Final == 0 {
			return false
		}
		if x.Included < x.Final/2 || x.Blocks == 0 {
			t.Errorf("included %d, FINAL %d, in %d blocks: want some, some, some", x.Included, x.Final, x.Blocks)
		}
		if x.FinalP50 <= 0 || x.FinalP50 > x.FinalP99 || x.BytesPer < 200 {
			t.Errorf("p50 %v, p99 %v, %v bytes a transfer", x.FinalP50, x.FinalP99, x.BytesPer)
		}
		inBothForms(t, r)
		return true
	})
}

func TestRunNodeKeepsItsRate(t *testing.T) {
	got := 0.0
	for range 10 { // a busy machine may take fewer now and then
		r, err := RunNode(t.Context(), NodeOptions{Accounts: 100, Shards: 1, Senders: 2, Batch: 4, Window: 500, Rate: 300,
			Duration: time.Second, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if got = r.Result.AcceptedPerSecond; math.Abs(got-300) <= 150 {
			return
		}
	}
	t.Errorf("%.0f transfers/s accepted, want about 300", got)
}

func TestRunRPCRunsEveryScenario(t *testing.T) {
	longer(t, 300*time.Millisecond, func(d time.Duration) bool {
		r, err := RunRPC(t.Context(), RPCOptions{Accounts: 100, Connections: 4, Background: 5, Rate: 200, Duration: d, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := len(r.Results), len(RPCScenarios()); got != want {
			t.Fatalf("%d scenarios ran, want %d", got, want)
		}
		for i := range r.Results {
			if r.Results[i].Requests == 0 {
				return false
			}
		}
		for i := range r.Results {
			x := &r.Results[i]
			if x.P50 <= 0 || x.P50 > x.P99 {
				t.Errorf("%s: %d requests, p50 %v, p99 %v", x.Scenario, x.Requests, x.P50, x.P99)
			}
			if x.Scenario == "submit" && x.Included != x.Requests {
				t.Errorf("submit: %d of %d in blocks", x.Included, x.Requests)
			}
		}
		inBothForms(t, r)
		return true
	})
}

// inBothForms checks that a report can be read by people and by programs.
func inBothForms(t *testing.T, r interface {
	WriteJSON(io.Writer) error
	WriteText(io.Writer) error
}) {
	t.Helper()
	var text, object bytes.Buffer
	if err := errors.Join(r.WriteText(&text), r.WriteJSON(&object)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "NaN") || strings.Contains(text.String(), "%!") {
		t.Errorf("report reads:\n%s", &text)
	}
	if !json.Valid(object.Bytes()) {
		t.Errorf("report is no JSON:\n%s", &object)
	}
}

func TestInvalidBenchOptionsAreRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func() error
		want string
	}{
		{"one account", func() error { _, err := RunNode(t.Context(), NodeOptions{Accounts: 1}); return err }, "accounts is 1,"},
		{"small window", func() error {
			_, err := RunNode(t.Context(), NodeOptions{Accounts: 10, Senders: 2, Batch: 8, Window: 8, Duration: 1, Signed: 1})
			return err
		}, "must be at least 16"},
		{"no such scenario", func() error {
			_, err := RunRPC(t.Context(), RPCOptions{Scenarios: []string{"walk"}})
			return err
		}, `the scenario "walk" is unknown`},
		{"no connection", func() error { _, err := RunRPC(t.Context(), RPCOptions{}); return err }, "connections is 0,"},
		{"never", func() error { _, err := RunStart(t.Context(), StartOptions{}); return err }, "0 starts"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.run(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestPlanFindsItsTransfers(t *testing.T) {
	p := newPlan(1000, 50, 20, 1)
	for i := range 1000 {
		got, ok := p.find(int(p.from[i]), primitives.Nonce(p.nonce[i]))
		if !ok || got != i {
			t.Fatalf("transfer %d of account %d with nonce %d found as %d, %v", i, p.from[i], p.nonce[i], got, ok)
		}
	}
	if _, ok := p.find(20, 1); ok {
		t.Error("found a transfer of an account that signs none")
	}
}
