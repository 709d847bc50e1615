package network

import (
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/chain/blocksync"
)

// TestLogSaysWhyNoProofCame: the line names what is missing and what to do, and whether the node
// executes blocks meanwhile. While a first request is in flight there is no line.
func TestLogSaysWhyNoProofCame(t *testing.T) {
	for name, x := range map[string]struct {
		w    proofWait
		want []string // parts of the line; none: no line
	}{
		"no boot nodes": {proofWait{GenesisOnly: true}, []string{"no peer is connected", "boot_nodes is empty", "--boot-nodes", "it waits"}},
		"boot nodes do not answer": {proofWait{GenesisOnly: true, BootNodes: 1},
			[]string{"no peer is connected", "reaches the 1 node of network.boot_nodes", "it waits"}},
		"no head":     {proofWait{GenesisOnly: true, Peers: 1}, []string{"none of 1 peer has sent its head"}},
		"young peers": {proofWait{GenesisOnly: true, Peers: 2, Heads: 1, Tip: 100, Best: 150, Horizon: 100}, []string{"block 150", "above block 200"}},
		"request":     {proofWait{GenesisOnly: true, Peers: 1, Heads: 1, Best: 900, Horizon: 100, Requests: blocksync.ProofRequests{Sent: 1}}, nil},
		"paused":      {proofWait{GenesisOnly: true, Peers: 1, Heads: 1, Best: 900, Horizon: 100}, []string{"paused"}},
		"silent, unused": {proofWait{GenesisOnly: true, Peers: 3, Heads: 3, Best: 900, Requests: blocksync.ProofRequests{Sent: 4, Silent: 2, Unused: 1}},
			[]string{"4 requests", "2 had no reply", "1 returned a proof", "executes no blocks"}},
		"executes": {proofWait{Peers: 1, Heads: 1, Tip: 41, Best: 900, Horizon: 100, Requests: blocksync.ProofRequests{Wanted: true, Sent: 1, Silent: 1}},
			[]string{"1 request for one", "executes every block from 42 on"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := x.w.text()
			if len(x.want) == 0 && got != "" {
				t.Errorf("line %q, want none", got)
			}
			for _, want := range x.want {
				if !strings.Contains(got, want) {
					t.Errorf("line %q, want it to contain %q", got, want)
				}
			}
		})
	}
}

// TestMissingProofIsLoggedSparingly: the first line comes after stuckAfter, and each further one after
// stuckLogPeriod. A node that has to wait again counts from then on.
func TestMissingProofIsLoggedSparingly(t *testing.T) {
	var l proofWaitLog
	w := &proofWait{GenesisOnly: true}
	lines := func(from, to int64, waits bool) (at []int64) {
		for now := from; now < to; now += 100 {
			if l.next(now, waits, w) != "" {
				at = append(at, now)
			}
		}
		return at
	}
	const begin = 1000
	got := lines(begin, begin+stuckAfter+2*stuckLogPeriod, true)
	if len(got) != 2 || got[0] != begin+stuckAfter || got[1] != begin+stuckAfter+stuckLogPeriod {
		t.Errorf("lines at %v", got)
	}
	end := int64(begin + stuckAfter + 2*stuckLogPeriod)
	if got := lines(end, end+2*stuckLogPeriod, false); len(got) != 0 {
		t.Errorf("a node that does not wait logs at %v", got)
	}
	end += 2 * stuckLogPeriod
	if got := lines(end, end+stuckLogPeriod, true); len(got) != 1 || got[0] != end+stuckAfter {
		t.Errorf("lines at %v, want one at %d", got, end+stuckAfter)
	}
}

// TestProgressNamesWhatStateSyncWaitsFor: the line about a state sync names its stage, and counts no
// parts before their number is known.
func TestProgressNamesWhatStateSyncWaitsFor(t *testing.T) {
	for _, x := range []struct {
		p    syncProgress
		want string
	}{
		{syncProgress{headers: 512, best: 9000}, "headers are at block 512 of 9000"},
		{syncProgress{found: true, unusable: true}, "the sync block of the next epoch"},
		{syncProgress{found: true, blocks: 1}, "waits for 1 block before"},
		{syncProgress{found: true, blocks: 2, shards: 1}, "waits for 2 blocks before"},
		{syncProgress{found: true, shards: 9, shardHeaders: 2}, "2 of 9 state headers; no known node offers this state"},
		{syncProgress{found: true, shards: 1, hosts: 3}, "0 of 1 state header from 3 nodes"},
		{syncProgress{found: true, shards: 1, shardHeaders: 1, hosts: 1}, "1 of 1 state header from 1 node"},
		{syncProgress{found: true, shards: 1, shardHeaders: 1, hosts: 2, have: 3, total: 7}, "3 of 7 parts from 2 nodes"},
		{syncProgress{found: true, shards: 1, shardHeaders: 1, total: 1}, "0 of 1 part; no known node offers the rest"},
	} {
		if got := x.p.String(); !strings.Contains(got, x.want) || strings.Contains(got, "0 of 0") {
			t.Errorf("%+v: %q, want %q", x.p, got, x.want)
		}
	}
}
