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

func TestRunNode(t *testing.T) {
	r, err := RunNode(t.Context(), NodeOptions{Accounts: 300, Skew: 1, Shards: 2, Senders: 3, Batch: 8, Window: 200,
		Warm: 200 * time.Millisecond, Duration: time.Second, Signed: 20000, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	x := &r.Result
	if x.Final == 0 || x.Included < x.Final/2 || x.Blocks == 0 || x.Refused != 0 || x.Failed != 0 {
		t.Errorf("included %d, FINAL %d, in %d blocks, %d refused (%s), %d failed: want some, some, some, 0, 0", x.Included, x.Final, x.Blocks, x.Refused, x.Refusal, x.Failed)
	}
	if x.FinalP50 <= 0 || x.FinalP50 > x.FinalP99 || x.BytesPer < 200 {
		t.Errorf("p50 %v, p99 %v, %v bytes a transfer", x.FinalP50, x.FinalP99, x.BytesPer)
	}
	inBothForms(t, r)
}

func TestRunNodeAtRate(t *testing.T) {
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

func TestRunRPC(t *testing.T) {
	r, err := RunRPC(t.Context(), RPCOptions{Accounts: 100, Connections: 4, Background: 5, Rate: 200, Duration: 300 * time.Millisecond, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(r.Results), len(RPCScenarios()); got != want {
		t.Fatalf("%d scenarios ran, want %d", got, want)
	}
	for i := range r.Results {
		x := &r.Results[i]
		if x.Requests == 0 || x.P50 <= 0 || x.P50 > x.P99 {
			t.Errorf("%s: %d requests, p50 %v, p99 %v", x.Scenario, x.Requests, x.P50, x.P99)
		}
		if x.Scenario == "submit" && x.Included != x.Requests {
			t.Errorf("submit: %d of %d in blocks", x.Included, x.Requests)
		}
	}
	inBothForms(t, r)
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

func TestRefusesBenchOptions(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func() error
		want string
	}{
		{"one account", func() error { _, err := RunNode(t.Context(), NodeOptions{Accounts: 1}); return err }, "1 accounts"},
		{"small window", func() error {
			_, err := RunNode(t.Context(), NodeOptions{Accounts: 10, Senders: 2, Batch: 8, Window: 8, Duration: 1, Signed: 1})
			return err
		}, "window of 16"},
		{"no such scenario", func() error {
			_, err := RunRPC(t.Context(), RPCOptions{Scenarios: []string{"walk"}})
			return err
		}, `no scenario "walk"`},
		{"no connection", func() error { _, err := RunRPC(t.Context(), RPCOptions{}); return err }, "0 connections"},
		{"never", func() error { _, err := RunStart(t.Context(), StartOptions{}); return err }, "0 times"},
	} {
		if err := c.run(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
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
