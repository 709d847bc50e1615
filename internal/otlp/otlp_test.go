package otlp

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func trace(n byte) *Trace {
	at := time.Unix(1_700_000_000, 5)
	return &Trace{ID: [16]byte{n}, Spans: []Span{
		{Name: "all", Begin: at, End: at.Add(time.Second), Attributes: [][2]string{{"a", "<b>"}}, Failed: "why"}, {Name: "part", Begin: at, End: at.Add(time.Millisecond)},
	}}
}

// TestTracesArriveInBatches: traces arrive in OTLP's form and in batches; traces that are queued
// when the exporter is closed arrive too.
func TestTracesArriveInBatches(t *testing.T) {
	var mu sync.Mutex
	var spans []span
	var whose []attribute
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		var q request
		if err := json.Unmarshal(b, &q); err != nil || r.Method != "POST" || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%v %v: got %s", err, r.URL, b)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, x := range q.Resources {
			whose = x.Resource.Attributes
			for _, y := range x.Scopes {
				spans = append(spans, y.Spans...)
			}
		}
	}))
	defer s.Close()
	e := New(s.URL+"/v1/traces", [][2]string{{"service.name", "troupe"}}, func(err error) { t.Error(err) })
	const n = 600
	for i := range n {
		e.Add(trace(byte(i)))
	}
	e.Close(t.Context())
	if sent, dropped := e.Counts(); sent != n || dropped != 0 || len(spans) != 2*n {
		t.Fatalf("%d sent, %d dropped, %d spans received", sent, dropped, len(spans))
	}
	all, part := spans[2], spans[3]
	if all.TraceID != "01000000000000000000000000000000" || part.TraceID != all.TraceID || len(all.SpanID) != 16 || part.Parent != all.SpanID || all.Parent != "" || all.Kind != 2 || part.Kind != 1 ||
		all.Begin != "1700000000000000005" || all.End != "1700000001000000005" || all.Status != (status{2, "why"}) || part.Status.Code != 0 || all.Attributes[0].Value.String != "<b>" || whose[0].Key != "service.name" {
		t.Errorf("all %+v\npart:\n%+v\nwhose:\n%+v", all, part, whose)
	}
}

// TestBadCollectorLosesOnlyTraces: a collector that refuses, hangs or does not exist causes lost
// traces and nothing else. It is reported once.
func TestBadCollectorLosesOnlyTraces(t *testing.T) {
	hang := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			<-hang
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer s.Close()
	defer close(hang)
	for _, endpoint := range []string{s.URL + "/full", s.URL + "/hang", "http://127.0.0.1:1/"} {
		var said atomic.Int64
		e := New(endpoint, nil, func(error) { said.Add(1) })
		for range maxWaiting + 100 {
			e.Add(trace(1))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		began := time.Now()
		e.Close(ctx)
		cancel()
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: closing takes %v", endpoint, took)
		}
		if sent, dropped := e.Counts(); sent != 0 || dropped < 100 || said.Load() > 1 {
			t.Errorf("%s: %d sent, %d dropped, reported %d times", endpoint, sent, dropped, said.Load())
		}
	}
	for _, bad := range []string{"", "localhost:4318", "ftp://x", "http://", "://"} {
		if CheckEndpoint(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if err := CheckEndpoint("http://127.0.0.1:4318/v1/traces"); err != nil {
		t.Error(err)
	}
}
