package main

import (
	"strings"
	"testing"
)

// TestInvalidFollowFlagsAreRefused: values of --follow that are invalid, given twice or contradict
// other flags are refused, and a node with unreachable feeds runs and reports them.
func TestInvalidFollowFlagsAreRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"want KIND:URL":                     {"--follow", "ftp://127.0.0.1"},
		"unknown kind \"nats\"":             {"--follow", "nats:http://127.0.0.1"},
		"given twice":                       {"--follow", "http://127.0.0.1:1/", "--follow", "neardata:http://127.0.0.1:1"},
		"--follow excludes --fork":          {"--follow", "http://127.0.0.1:1", "--boot-nodes", "ed25519:7PGseFbWxvYVgZ89K1uTJKYoKetWs7BJtbyXDzfbAcqX@127.0.0.1:24567"},
		"--checkpoint":                      {"--follow", "http://127.0.0.1:1", "--checkpoint", "xyz"},
		"does not contain checkpoint block": {"--follow", "http://127.0.0.1:1", "--checkpoint", "7PGseFbWxvYVgZ89K1uTJKYoKetWs7BJtbyXDzfbAcqX", "--disable-rpc"},
	} {
		got := runLine(append([]string{"--home", newHome(t, ""), "run"}, args...))
		if !strings.Contains(got, want) || !strings.Contains(got, "\nexit ") {
			t.Errorf("%v: %s, want %q", args, got, want)
		}
	}
	_, said := runUntil(t, "a request to a feed failed", "--home", newHome(t, ""), "run", "--follow", "http://127.0.0.1:1", "--disable-rpc")
	if !strings.Contains(said, "follows feeds (1)") || !strings.Contains(said, "a request to a feed failed") {
		t.Errorf("output %s", said)
	}
}
