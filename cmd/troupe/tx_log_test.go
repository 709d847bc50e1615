package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
)

// TestRunPrintsSelectedTransactions: run prints the transactions that its flags select to stdout,
// and nothing without them.
func TestRunPrintsSelectedTransactions(t *testing.T) {
	user := t.TempDir()
	t.Setenv("HOME", user)
	for _, c := range []struct {
		flags     string
		good, bad bool
	}{
		{"", false, false},
		{"--log-transactions", true, true},
		{"--log-transactions=failed", false, true},
		{"--log-accounts nobody.near,other.near", false, true},
		{"--log-transactions --log-accounts test.near", true, false},
	} {
		t.Run(c.flags, func(t *testing.T) {
			addr := testutil.Addr(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			running := make(chan struct{})
			w := &watched{word: "JSON-RPC on"}
			w.seen = func() {
				select {
				case <-running:
				default:
					close(running)
				}
			}
			var out bytes.Buffer
			root := newRoot(new(app))
			root.SetArgs(append([]string{"--home", newHome(t, ""), "run", "--rpc-addr", addr}, strings.Fields(c.flags)...))
			root.SetOut(&out)
			root.SetErr(w)
			done := make(chan error, 1)
			go func() { done <- root.ExecuteContext(ctx) }()
			select {
			case <-running:
			case err := <-done:
				t.Fatal(err)
			}
			for receiver, want := range map[string]string{"test.near": "  ok  ", "nobody.near": "failed: AccountDoesNotExist"} {
				if got := runLine([]string{"--home", user, "send", receiver, "1", "--as", "near", "--url", "http://" + addr, "--wait", "FINAL"}); !strings.Contains(got, want) {
					t.Errorf("to %s: %s", receiver, got)
				}
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			got := out.String()
			good, bad := strings.Contains(got, "near -> test.near  Transfer 1 NEAR  ok  "), strings.Contains(got, "near -> nobody.near  Transfer 1 NEAR  failed: AccountDoesNotExist")
			if good != c.good || bad != c.bad || !good && !bad && got != "" {
				t.Errorf("good %v, bad %v:\n%s", good, bad, got)
			}
		})
	}
}
