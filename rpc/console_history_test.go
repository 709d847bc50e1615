package rpc

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"
)

// TestConsoleHistoryKeepsLastSamples: samples come oldest first, with the counters of all methods,
// and only the last ones are kept.
func TestConsoleHistoryKeepsLastSamples(t *testing.T) {
	included := uint64(0)
	s := newServer(t, &fakeNode{}, Options{Console: true, Included: func() uint64 { return included }})
	read := func() (out struct {
		Bounds  []uint64 `json:"bounds_ns"`
		Samples [][]uint64
	}) {
		t.Helper()
		if err := json.Unmarshal(s.history.appendJSON(nil), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if h := read(); len(h.Samples) != 0 || len(h.Bounds) != timeBuckets || h.Bounds[1] != 2_000_000 {
		t.Errorf("at first: %v", h)
	}
	begin := time.UnixMilli(1_000_000)
	for i := range historyKept + 3 {
		included = uint64(10 * i)
		s.metrics.observe("block", 3*time.Millisecond, 0)
		s.metrics.observe("status", time.Hour, 0)
		s.history.add(s.sample(begin.Add(time.Duration(i) * historyEvery)))
	}
	h := read()
	if len(h.Samples) != historyKept {
		t.Fatalf("%d samples", len(h.Samples))
	}
	for i, x := range h.Samples {
		n := uint64(i + 3)
		if len(x) != 2+timeBuckets+1 || x[0] != 1_000_000+n*5000 || x[1] != 10*n || x[2] != 0 || x[4] != n+1 || x[len(x)-1] != n+1 {
			t.Fatalf("sample %d: %v", i, x)
		}
	}
}

// TestConsoleHistoryIsServedFromTheStart: a server with the page keeps samples from its start on;
// one without counters serves an empty list.
func TestConsoleHistoryIsServedFromTheStart(t *testing.T) {
	_, addr := serve(t, &fakeNode{}, Options{Console: true, Included: func() uint64 { return 7 }})
	var h struct{ Samples [][]uint64 }
	for len(h.Samples) == 0 { // the first one is taken at once
		r, err := http.Get("http://" + addr + "/console/api/history")
		if err != nil || r.StatusCode != 200 {
			t.Fatalf("got %v, error %v", r, err)
		}
		err = json.NewDecoder(r.Body).Decode(&h)
		_ = r.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	if h.Samples[0][1] != 7 {
		t.Errorf("got %v", h)
	}
	_, addr = serve(t, &fakeNode{}, Options{Console: true})
	r, err := http.Get("http://" + addr + "/console/api/history")
	if err != nil || r.StatusCode != 200 {
		t.Fatalf("without counters: %v, %v", r, err)
	}
	h.Samples = nil
	if err := json.NewDecoder(r.Body).Decode(&h); err != nil || h.Samples == nil || len(h.Samples) != 0 {
		t.Errorf("without counters: %v, %v", h, err)
	}
	_ = r.Body.Close()
}
