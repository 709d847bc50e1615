package rpc

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/rpc/console"
)

// TestConsoleExistsOnlyIfEnabled: the page exists if it is enabled, with a restrictive policy, also
// below a key and a world. If keys are required it needs one. Unknown files are 404, and other
// methods behave as on any path.
func TestConsoleExistsOnlyIfEnabled(t *testing.T) {
	const key = "0123456789abcdef"
	actors := func(b []byte, most int) []byte { return append(b, `{"actors":[]}`...) }
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ask := func(method, addr, path string) *http.Response {
		t.Helper()
		q, err := http.NewRequest(method, "http://"+addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Body.Close() })
		return r
	}
	s, addr := serve(t, &fakeNode{}, Options{Console: true, Actors: actors, APIKeys: []string{key}})
	s.AddWorld("7", &fakeNode{}, WorldOptions{Asked: func() (func(), bool) { return func() {}, true }, Actors: actors})
	for path, want := range map[string]int{
		"/console": 307, "/console/": 200, "/console/main.js": 200, "/console/console.css": 200, "/console/api/actors": 200, "/" + key + "/console/": 200, "/world/7/console/": 200,
		"/world/7/console/api/actors": 200, "/" + key + "/world/7/console/main.js": 200,
		"/console/none": 404, "/console/../metrics": 200, "/console/web/main.js": 404, "/console/api/": 404, "/consoles": 404, "/world/8/console/": 404,
	} {
		r := ask("GET", addr, path)
		if r.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, r.StatusCode, want)
		}
		if got := r.Header.Get("Content-Security-Policy"); got != console.Policy && strings.Contains(path, "console/") && want != 404 && !strings.Contains(path, "..") {
			t.Errorf("%s: policy %q", path, got)
		}
	}
	r := ask("GET", addr, "/"+key+"/console")
	if to, err := r.Location(); err != nil || to.Path != "/"+key+"/console/" {
		t.Errorf("leads to %v, %v", to, err)
	}
	page := ask("GET", addr, "/console/")
	if body, _ := io.ReadAll(page.Body); !strings.HasPrefix(string(body), "<!doctype html>") || page.Header.Get("X-Content-Type-Options") != "nosniff" || page.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("header %v\nreply:\n%s", page.Header, body)
	}
	if r := ask("POST", addr, "/console/"); r.StatusCode != 404 {
		t.Errorf("POST: %d", r.StatusCode)
	}
	again, _ := http.NewRequest("GET", "http://"+addr+"/console/", nil)
	again.Header.Set("If-None-Match", page.Header.Get("ETag"))
	if r, err := client.Do(again); err != nil || r.StatusCode != 304 {
		t.Errorf("again: %v, %v", r, err)
	}

	_, closed := serve(t, &fakeNode{}, Options{Console: true, Actors: actors, APIKeys: []string{key}, RequireAPIKey: true})
	_, off := serve(t, &fakeNode{}, Options{Actors: actors})
	for _, path := range []string{"/console", "/console/", "/console/main.js", "/console/api/actors"} {
		if r := ask("GET", closed, path); r.StatusCode != 401 {
			t.Errorf("%s without the key: %d", path, r.StatusCode)
		}
		if r := ask("GET", off, path); r.StatusCode != 404 || r.Header.Get("Content-Security-Policy") != "" {
			t.Errorf("%s switched off: %d", path, r.StatusCode)
		}
	}
	if r := ask("GET", closed, "/"+key+"/console/api/actors"); r.StatusCode != 200 {
		t.Errorf("with the key: %d", r.StatusCode)
	}
}

// TestRootLeadsBrowsersToConsole: GET / of a browser leads to the page, also below a key and a
// world; all others get what nearcore answers. Where the page is off its 404 says so.
func TestRootLeadsBrowsersToConsole(t *testing.T) {
	const key, browser = "0123456789abcdef", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ask := func(method, addr, path, accept string) (*http.Response, string) {
		t.Helper()
		q, err := http.NewRequest(method, "http://"+addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if accept != "" {
			q.Header.Set("Accept", accept)
		}
		r, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Body.Close() }()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r, string(body)
	}
	s, on := serve(t, &fakeNode{}, Options{Console: true, APIKeys: []string{key}})
	s.AddWorld("7", &fakeNode{}, WorldOptions{Asked: func() (func(), bool) { return func() {}, true }})
	_, off := serve(t, &fakeNode{}, Options{})
	for path, want := range map[string]string{"/": "/console/", "/" + key: "/" + key + "/console/",
		"/" + key + "/": "/" + key + "/console/", "/world/7": "/world/7/console/", "/world/7/": "/world/7/console/",
		"/" + key + "/world/7": "/" + key + "/world/7/console/"} {
		r, _ := ask("GET", on, path, browser)
		if to, err := r.Location(); r.StatusCode != 307 || err != nil || to.Path != want || to.Host != on || r.Header.Get("Vary") != "Accept" {
			t.Errorf("%s: %d, leads to %v, %v", path, r.StatusCode, to, err)
		}
	}
	for _, accept := range []string{"", "*/*", "application/json", "application/json, text/plain, */*",
		"text/html;q=0", "text/html; q=0.0", "text/htmlx", "text/*"} {
		if r, body := ask("GET", on, "/", accept); r.StatusCode != 405 || r.Header.Get("Allow") != "POST" || body != "" {
			t.Errorf("%q: status code %d, header %v, reply %q", accept, r.StatusCode, r.Header, body)
		}
	}
	for _, accept := range []string{"text/html", "application/json, TEXT/HTML;q=0.5", "text/html;level=1"} {
		if r, _ := ask("GET", on, "/", accept); r.StatusCode != 307 {
			t.Errorf("%q: status code %d", accept, r.StatusCode)
		}
	}
	if r, _ := ask("POST", on, "/", browser); r.StatusCode != 400 {
		t.Errorf("POST: %d", r.StatusCode)
	}
	if r, _ := ask("GET", off, "/", browser); r.StatusCode != 405 {
		t.Errorf("without a console: %d", r.StatusCode)
	}
	for _, path := range []string{"/console", "/console/", "/console/main.js"} {
		if r, body := ask("GET", off, path, browser); r.StatusCode != 404 || !strings.Contains(body, "troupe.rpc.console") {
			t.Errorf("%s: status code %d, reply %s", path, r.StatusCode, body)
		}
		if r, body := ask("POST", off, path, browser); r.StatusCode != 404 || body != "" {
			t.Errorf("POST %s: %d %s", path, r.StatusCode, body)
		}
	}
}

// TestConsoleActorsAreListedRarely: however many clients ask for the list of actors at once, it is
// made once in a quarter of a second, and is bounded.
func TestConsoleActorsAreListedRarely(t *testing.T) {
	var made atomic.Int64
	s := newServer(t, &fakeNode{}, Options{Console: true, Actors: func(b []byte, most int) []byte {
		made.Add(1)
		if most != mostActors {
			t.Errorf("%d actors were requested", most)
		}
		return append(b, "{}"...)
	}})
	began := time.Now()
	for range 1000 {
		if string(s.actors()) != "{}" {
			t.Fatal("another list")
		}
	}
	if n, most := made.Load(), int64(time.Since(began)/liveFor)+1; n < 1 || n > most {
		t.Errorf("made %d times, at most %d", n, most)
	}
	s.listed.at = time.Now().Add(-2 * liveFor)
	before := made.Load()
	if s.actors(); made.Load() != before+1 {
		t.Error("an old list was given")
	}
}
