package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestWorldPathReachesItsNode: requests below a world's path go to its node, are counted while they
// run, and are refused if the world does not exist or is about to end. A connection's sessions in
// several worlds end with the world or the connection.
func TestWorldPathReachesItsNode(t *testing.T) {
	root, a, b := &fakeNode{}, &fakeNode{}, &fakeNode{}
	s, addr := serve(t, root, Options{})
	var running, requests atomic.Int64
	var over atomic.Bool
	ask := func() (func(), bool) {
		if over.Load() {
			return nil, false
		}
		requests.Add(1)
		running.Add(1)
		return func() { running.Add(-1) }, true
	}
	o := WorldOptions{Asked: ask, Metrics: func(b []byte) []byte { return append(b, "of_a_world 1\n"...) }}
	s.AddWorld("a", a, o)
	s.AddWorld("b", b, o)
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	post := func(path string) int {
		t.Helper()
		r, err := client.Post("http://"+addr+path, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"sandbox_mine","params":[2]}`))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Body.Close() }()
		var text bytes.Buffer
		if _, err := text.ReadFrom(r.Body); err != nil || r.StatusCode == http.StatusOK && !strings.Contains(text.String(), `"result":{`) {
			t.Fatalf("%s: error %v, text %s", path, err, &text)
		}
		return r.StatusCode
	}
	count := func(what string, want ...int64) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			got := []int64{root.sessions.Load(), a.sessions.Load(), b.sessions.Load()}
			if fmt.Sprint(got) == fmt.Sprint(want) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: sessions %v, want %v", what, got, want)
			}
		}
	}
	for _, path := range []string{"/", "/world/a", "/world/a/", "/world/b", "/world/b/sandbox_mine"} {
		if code := post(path); code != http.StatusOK {
			t.Errorf("%s: code %d", path, code)
		}
	}
	count("one connection in three chains", 1, 1, 1)
	if requests.Load() != 4 || running.Load() != 0 {
		t.Errorf("%d requests, %d running", requests.Load(), running.Load())
	}
	s.RemoveWorld("b")
	count("a world is gone", 1, 1, 0)
	client.CloseIdleConnections()
	count("the connection is gone", 0, 0, 0)
	for _, path := range []string{"/world/b", "/world/", "/world/b/status", "/world/a/world/a"} {
		if code := post(path); code != http.StatusNotFound {
			t.Errorf("%s: code %d", path, code)
		}
	}
	for body, id := range map[string]string{
		`{"jsonrpc":"2.0","id":"x7","method":"status"}`: `"x7"`, `{"id":{"a":1},"method":"status"}`: `{"a":1}`, `[]`: "null", `{`: "null",
		`{"id":1,"x":"` + strings.Repeat("x", maxIDBody) + `"}`: "null",
	} {
		r, err := client.Post("http://"+addr+"/world/b", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		const head = `{"jsonrpc":"2.0","error":{"name":"HANDLER_ERROR","cause":{"info":{},"name":"UNKNOWN_WORLD"},"code":-32000,"message":"Server error","data":"there is no such world as /world/b: `
		if err != nil || r.StatusCode != http.StatusNotFound || r.Header.Get("Content-Type") != jsonType || !strings.HasPrefix(string(got), head) || !strings.HasSuffix(string(got), `,"id":`+id+"}") {
			t.Errorf("%.60s: status code %d, got %s", body, r.StatusCode, got)
		}
	}
	r, err := client.Get("http://" + addr + "/world/a/metrics")
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if _, err := text.ReadFrom(r.Body); err != nil || !strings.HasSuffix(text.String(), "of_a_world 1\n") {
		t.Errorf("metrics of a world: %v: %s", err, &text)
	}
	_ = r.Body.Close()
	over.Store(true)
	if code := post("/world/a"); code != http.StatusNotFound {
		t.Errorf("a world that is about to end: %d", code)
	}
	var bad *APIKeyError
	if _, err := New(root, Options{APIKeys: []string{"world"}}); !errors.As(err, &bad) {
		t.Errorf("an API key that hides the worlds: %v", err)
	}
}
