package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// TestPollReportsFailures: poll asks again after a failure, which it reports as an answer, and ends with
// its context.
func TestPollReportsFailures(t *testing.T) {
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(w, "busy", http.StatusServiceUnavailable)
	}))
	defer s.Close()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	polls := poll(ctx, s.URL, time.Millisecond)
	for n := range int64(3) {
		if look, err := nextPoll(ctx, polls); err == nil || look != nil {
			t.Fatalf("%v, %v; want an error", look, err)
		}
		if got := asked.Load(); got <= n {
			t.Errorf("%d requests for %d answers", got, n+1)
		}
	}
	end()
	if _, err := nextPoll(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// TestWatchedNodeIsNotAskedTooOften: the commands that poll refuse a short period.
func TestWatchedNodeIsNotAskedTooOften(t *testing.T) {
	for _, x := range []struct {
		every time.Duration
		want  bool
	}{{99 * time.Millisecond, false}, {100 * time.Millisecond, true}} {
		w := watchFlags{url: "http://127.0.0.1:1", every: x.every}
		if _, err := w.node(new(app)); (err == nil) != x.want {
			t.Errorf("--every %v: %v", x.every, err)
		}
	}
}
