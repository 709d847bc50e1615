package external

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
)

// nodeOf returns the chain of a node that replies to each method with what reply returns.
func nodeOf(t *testing.T, reply func(method string) string) *World {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Method string }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, reply(q.Method))
	}))
	t.Cleanup(s.Close)
	return Connect(s.URL)
}

// TestReplyOfAnotherFormIsAnError: replies of another form than a node's are errors that say so.
func TestReplyOfAnotherFormIsAnError(t *testing.T) {
	ctx, named := t.Context(), Named("a.near")
	create := func(w *World) error { _, err := w.Create(ctx, "a.near", NEAR(1)); return err }
	balance := func(w *World) error { _, err := w.Balance(ctx, "a.near"); return err }
	call := func(w *World) error { _, err := w.Call(ctx, named, "a.near", "x", nil, nil); return err }
	view := func(w *World) error { var x any; return w.View(ctx, "a.near", "x", nil, &x) }
	world := func(w *World) error { _, err := w.New(ctx); return err }
	for name, c := range map[string]struct {
		do           func(*World) error
		result, want string
	}{
		"account is null":        {create, `null`, "account a.near is null"},
		"account is a list":      {create, `[]`, "reply of query"},
		"balance is missing":     {balance, `{}`, `the balance of a.near is ""`},
		"balance is negative":    {balance, `{"amount":"-1"}`, `the balance of a.near is "-1"`},
		"balance is too large":   {balance, `{"amount":"` + strings.Repeat("9", 40) + `"}`, "the balance of a.near is"},
		"nonce is too large":     {call, `{"nonce":1e400}`, "reply of query"},
		"hash is too long":       {call, `{"nonce":1,"block_hash":"` + strings.Repeat("1", 1<<20) + `"}`, "hash of the head"},
		"transaction is missing": {call, `{"nonce":18446744073709551615,"block_hash":"1"}`, `with that of ""`},
		"another transaction":    {call, `{"nonce":1,"transaction":{"hash":"\u001b[2J"}}`, `with that of "\x1b[2J"`},
		"no byte":                {view, `{"result":[49,304]}`, "contains 304, which is not a byte"},
		"world is missing":       {world, `{}`, "has no valid form"},
		"world of another host":  {world, `{"id":"x","path":"@evil/"}`, `path "@evil/"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := nodeOf(t, func(string) string { return `{"result":` + c.result + `}` })
			if err := c.do(w); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("no %q in %v", c.want, err)
			}
		})
	}
}

// TestErrorTextIsShortAndPrintable: a node's text in an error has no control characters.
func TestErrorTextIsShortAndPrintable(t *testing.T) {
	long := strings.Repeat("y", 1<<20)
	for name, reply := range map[string]string{
		"refusal": `{"error":{"cause":{"name":"A\u001b[2J` + long + `","info":{"x":"` + "\u202e\x9b" + long + `"}}}}`,
		"text":    "\x1b[2J\u202e" + long,
		"failure": `{"result":{"error":"\u001b[2J` + "\u202e" + long + `"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := nodeOf(t, func(string) string { return reply })
			err := w.View(t.Context(), "a.near", "x", nil, nil)
			if err == nil {
				t.Fatal(name)
			}
			text := err.Error()
			if i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 || len(text) > 10_000 {
				t.Errorf("%d bytes, at %d %q", len(text), i, text[max(i, 0):max(i, 0)+9])
			}
		})
	}
}

// TestRedirectedTransactionIsNotSent: a transaction is not sent to another server than the caller
// named.
func TestRedirectedTransactionIsNotSent(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the redirect to %s is followed", r.Host)
	}))
	defer other.Close()
	for _, status := range []int{302, 307} {
		s := httptest.NewServer(http.RedirectHandler(other.URL, status))
		if err := Connect(s.URL).Mine(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "is no reply of a NEAR node") {
			t.Error(status, err)
		}
		s.Close()
	}
}

// TestLastTransactionReplyCounts: of two replies about a transaction only the last counts.
func TestLastTransactionReplyCounts(t *testing.T) {
	w := nodeOf(t, func(method string) string {
		if method == "sandbox_mine" {
			return `{"result":{}}`
		}
		return `{"result":{"status":{"Failure":{"A":1}},"transaction":{"hash":"h"}}}`
	})
	var first status
	first.Status.Value, first.Transaction.Hash, first.Outcome.Outcome.Receipts = new(string), "h", []string{"r"}
	last, err := w.settle(t.Context(), Named("a.near"), "h", first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := last.result("x"); !errors.As(err, new(*CallError)) {
		t.Errorf("a failed transaction: %v", err)
	}
}

// TestForeignProgramEndsTheStart: a program that is called troupe and is another ends the start
// with an error that has its output, and leaves no process that Close waits for.
func TestForeignProgramEndsTheStart(t *testing.T) {
	hooks.stopLimit = time.Second
	defer func() { hooks.stopLimit = 0 }()
	for name, c := range map[string]struct{ script, want string }{
		"usage":              {"echo 'usage: troupe [play]'; exit 64", "usage: troupe [play]"},
		"control characters": {`printf '\033[2J'; exit 1`, `\x1b[2J`},
		"other address":      {`echo 'JSON-RPC  ftp://x'; cat`, "sandbox_set_production"},
		"endless":            {"cat /dev/zero", "has not started in time"},
		"it does not end":    {"sleep 1000 & sleep 1000", "has not started in time"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "troupe")
			if err := os.WriteFile(file, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			_, err := Start(ctx, Options{Program: file})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("no %q in %.2000v", c.want, err)
			} else if text := err.Error(); len(text) > maxLines*20_000 || strings.ContainsAny(text, "\x00\x1b") {
				t.Errorf("%d bytes: %.200q", len(text), text)
			}
			if took := time.Since(began); took > drainLimit*3/4 {
				t.Errorf("the start took %v", took)
			}
		})
	}
}
