package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/prom"
)

// TestHistoryNeedsAnImport: the command says what to set on a node without an import, and refuses wrong
// arguments.
func TestHistoryNeedsAnImport(t *testing.T) {
	dir, url := startNode(t)
	for args, want := range map[string]string{
		"--url " + url: "troupe.history.source", "--url 127.0.0.1:1": "no reply", "--every 1ms": "at least 100ms", "more": "unknown command",
	} {
		var out, errs bytes.Buffer
		if code := execute(append([]string{"--home", dir, "history"}, strings.Fields(args)...), strings.NewReader(""), &out, &errs); code == exitOK || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: code %d, %s%s", args, code, out.String(), errs.String())
		}
	}
}

// TestHistoryLineShowsProgress: one line has what the metrics say, in each state.
func TestHistoryLineShowsProgress(t *testing.T) {
	const some = `troupe_history_blocks 50
troupe_history_lowest_height 51
troupe_history_highest_height 100
troupe_history_bytes 2097152
`
	const running = some + `troupe_history_first_height 1
troupe_history_progress 0.5
troupe_history_seconds_left 3661.2
troupe_history_outcomes 7
troupe_history_unproven_outcomes 0
troupe_history_errors 2
`
	for _, x := range []struct {
		text, want string
		ended      bool
		done       int64
	}{
		{running + `troupe_history_state{state="importing"} 1
troupe_history_state{state="done"} 0`, "importing: 50.00 % down to height 1; 50 blocks, heights 51 to 100, 2.0 MiB; 7 outcomes are proven, 0 are not; 1h1m1s left; 2 failed attempts", false, 50},
		{running + `troupe_history_state{state="done"} 1`, "done: 50.00 % down to height 1; 50 blocks, heights 51 to 100, 2.0 MiB; 7 outcomes are proven, 0 are not; 2 failed attempts", true, 50},
		{some, "50 blocks, heights 51 to 100, 2.0 MiB; no feed is configured", true, 50},
		{"troupe_history_blocks 0\ntroupe_history_seconds_left -1\ntroupe_history_state{state=\"waiting\"} 1", "waiting: 0.00 % down to height 0; no blocks yet; 0 outcomes are proven, 0 are not; time left unknown; it begins when the node has a recent state and the next blocks", false, 0},
	} {
		m, err := prom.Read(strings.NewReader(x.text))
		if err != nil {
			t.Fatal(err)
		}
		p := historyOf(m)
		if p == nil || p.String() != x.want || p.ended() != x.ended || p.done() != x.done {
			t.Errorf("%v\nwant %s", p, x.want)
		}
	}
	m, err := prom.Read(strings.NewReader("up 1"))
	if err != nil || historyOf(m) != nil {
		t.Errorf("no import: %v, %v", historyOf(m), err)
	}
}
