//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// newest is the protocol version that these networks have or are voted up to.
const newest = 88

// TestVotedUpgradeFailsNoRequest: four validators of four shards vote a chain of 86 up to 88, one
// version an epoch, while clients of two libraries send. Before the first switch a validator is
// killed, after the second switch another one. Each comes back after the switch. In the end a node
// joins that knows only the genesis, by an epoch sync proof and state sync. No request fails, no
// peer is banned, and all nodes have the same blocks and chunks around both switches.
func TestVotedUpgradeFailsNoRequest(t *testing.T) { underLoad(t, 86) }

// TestNewestVersionFailsNoRequest is the same network with a genesis of 88.
func TestNewestVersionFailsNoRequest(t *testing.T) { underLoad(t, newest) }

func underLoad(t *testing.T, from int) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	need(t, "node", "npm")
	installed(t, npmInstall)
	guestbook := map[int]string{}
	for version, sdk := range map[int]string{86: "5.29.1", 88: "5.30.0"} {
		guestbook[version] = recorded(t, "contracts/guestbook-sdk"+sdk+".wasm")
	}
	const epoch = 60
	t.Setenv("NEAR_TESTS_PROTOCOL_UPGRADE_OVERRIDE", "sequential")
	c := newClusterWith(t, &clusterOptions{
		n: 4, shards: 4, epoch: epoch, slow: true,
		config: object{
			"consensus": object{"min_block_production_delay": object{"secs": 0, "nanos": 250_000_000}},
			// While a validator is away, finality may take longer than the 10 s that a request usually
			// waits.
			"rpc": object{"polling_config": object{"polling_timeout": object{"secs": 60, "nanos": 0}}},
		},
		edit: func(dir string) {
			change(t, filepath.Join(dir, "genesis.json"), func(g object) {
				g["protocol_version"] = from
				// The killed validators keep their seats. A chain of another id ignores these thresholds.
				g["chain_id"] = "test-chain-upgrade"
				g["block_producer_kickout_threshold"], g["chunk_producer_kickout_threshold"] = 0, 0
				g["chunk_validator_only_kickout_threshold"] = 0
			})
		},
	})
	c.together(2, time.Minute)
	if got := c.version(0); got != from {
		t.Fatalf("the chain begins at %d, not %d", got, from)
	}
	load := c.scripts([]int{0, 1}, guestbook[from])

	// kill kills a validator, and starts it again once the others are some blocks further.
	kill := func(i int, blocks uint64) {
		t.Helper()
		h := c.p[0].final()
		c.p[i].stop(syscall.SIGKILL)
		c.reach([]int{0, 1}, h+blocks)
		c.start(i)
		begun, head := time.Now(), c.p[0].final()
		c.p[i].comes(head, 2*time.Minute)
		t.Logf("node %d was killed at %d, and is in step at %d %v after its start", i, h, head, time.Since(begun).Round(100*time.Millisecond))
	}
	c.reach([]int{0, 1}, 2*epoch-4) // the next version begins with the third epoch
	kill(3, 12)
	c.reach([]int{0, 1}, 3*epoch+2)
	kill(2, 12)
	c.reach([]int{0, 1}, 6*epoch+20)
	late := joined(t, c.homes[0])
	p := start(t, late, "--network-addr", freeAddr(t), "--boot-nodes", c.boot)
	begun, head := time.Now(), c.p[0].final()
	p.comes(head, 5*time.Minute)
	p.lacks(20)
	t.Logf("a node that knew only the genesis is in step at %d after %v", head, time.Since(begun).Round(100*time.Millisecond))
	c.reach([]int{0, 1, 2, 3}, c.p[0].final()+10)
	load.end()

	c.upgrades(from, epoch)
	to := c.p[0].final()
	c.requireSameChain(append(c.p[1:], p), to-20, to)
	for i, n := range append(c.p, p) {
		if got := n.metric("troupe_network_bans_total"); got != 0 {
			t.Errorf("node %d banned %v peers, want 0", i, got)
		}
	}
	env := append(c.p[0].env(), "GUESTBOOK="+guestbook[newest])
	script(t, "js", env, "node", "universal.mjs")
	for _, n := range append(c.p, p) {
		n.stop(syscall.SIGTERM)
	}
	c.consistent()
}

// version returns the protocol version of the epoch of a node's head.
func (c *cluster) version(i int) int {
	c.t.Helper()
	var s struct {
		Protocol int `json:"protocol_version"`
	}
	c.p[i].get("status", []any{}, &s)
	return s.Protocol
}

// reach waits until nodes have a final block of a height.
func (c *cluster) reach(of []int, height uint64) {
	c.t.Helper()
	for _, i := range of {
		last, since := uint64(0), time.Now()
		for h := c.p[i].final(); h < height; h = c.p[i].final() {
			if h > last {
				last, since = h, time.Now()
			}
			if time.Since(since) > time.Minute {
				c.t.Fatalf("node %d finalizes nothing after %d", i, last)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// requireSameChain requires that nodes have the same blocks as node 0 in a range of heights, and
// the same chunks.
func (c *cluster) requireSameChain(nodes []*process, from, to uint64) {
	c.t.Helper()
	for h := from; h <= to; h++ {
		var b struct {
			Header struct {
				Hash string `json:"hash"`
			} `json:"header"`
			Chunks []struct {
				Hash string `json:"chunk_hash"`
			} `json:"chunks"`
		}
		if r, err := c.p[0].call("block", map[string]any{"block_id": h}); err != nil || r.Error != nil || json.Unmarshal(r.Result, &b) != nil {
			continue // no block has this height
		}
		for _, p := range nodes {
			p.reaches(h, time.Minute)
			same(c.t, c.p[0], p, "block", map[string]any{"block_id": b.Header.Hash})
			for _, x := range b.Chunks {
				same(c.t, c.p[0], p, "chunk", map[string]any{"chunk_id": x.Hash})
			}
		}
	}
}

// upgrades requires that the epochs of node 0 have the versions from that of the genesis to the
// newest, one after the other, and that all validators have the same blocks around each switch. It
// logs missing blocks and chunks.
func (c *cluster) upgrades(from int, epoch uint64) {
	t := c.t
	t.Helper()
	last, before, missing := from, uint64(0), 0
	var gap time.Duration
	var gapAt uint64
	to := c.p[0].final()
	for h := uint64(1); h <= to; h++ {
		var b struct {
			Header struct {
				Time uint64 `json:"timestamp"`
			} `json:"header"`
		}
		if r, err := c.p[0].call("block", map[string]any{"block_id": h}); err != nil || r.Error != nil || json.Unmarshal(r.Result, &b) != nil {
			missing++
			continue
		}
		if d := time.Duration(b.Header.Time - before); before > 0 && d > gap {
			gap, gapAt = d, h
		}
		before = b.Header.Time
		var config struct {
			Protocol int `json:"protocol_version"`
		}
		c.p[0].get("EXPERIMENTAL_protocol_config", map[string]any{"block_id": h}, &config)
		if config.Protocol == last {
			continue
		}
		t.Logf("protocol %d from height %d on", config.Protocol, h)
		if config.Protocol != last+1 {
			t.Errorf("protocol version %d is followed by %d", last, config.Protocol)
		}
		if h < 2*epoch || h > 4*epoch {
			t.Errorf("protocol %d begins at %d, with epochs of %d", config.Protocol, h, epoch)
		}
		last = config.Protocol
		c.requireSameChain(c.p[1:], h-6, h+6)
	}
	if last != newest {
		t.Errorf("at %d the chain has protocol %d", to, last)
	}
	heights, chunks, blocks := c.missing(c.p[0], 1, to)
	t.Logf("heights 1 to %d: %d without a block, %d of %d chunks missed, at most %v between two blocks (before %d)",
		to, heights, chunks, 4*blocks, gap.Round(time.Millisecond), gapAt)
}

// clientLoad is a running load.mjs.
type clientLoad struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
	err   bytes.Buffer
}

// scripts starts load.mjs on nodes, with the account of the first, and waits until its contract is
// deployed.
func (c *cluster) scripts(of []int, contract string) *clientLoad {
	c.t.Helper()
	var urls []string
	for _, i := range of {
		urls = append(urls, "http://"+c.p[i].addr)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Minute)
	c.t.Cleanup(cancel)
	l := &clientLoad{t: c.t, cmd: exec.CommandContext(ctx, "node", "load.mjs")}
	l.cmd.Dir, l.cmd.Stderr = "js", &l.err
	l.cmd.Env = append(append(os.Environ(), c.p[1].env()...), "NEAR_RPC_URLS="+strings.Join(urls, ","), "GUESTBOOK="+contract)
	stdin, err := l.cmd.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	stdout, err := l.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := l.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	l.stdin, l.lines = stdin, bufio.NewScanner(stdout)
	l.lines.Buffer(nil, 1<<20)
	if !l.lines.Scan() || l.lines.Text() != "running" {
		c.t.Fatalf("the clients do not run: %q\n%s", l.lines.Text(), tail(l.err.String(), 4000))
	}
	return l
}

// end ends the load and requires that none of its requests failed.
func (l *clientLoad) end() {
	l.t.Helper()
	_ = l.stdin.Close()
	last := ""
	for l.lines.Scan() {
		last = l.lines.Text()
	}
	err := l.cmd.Wait()
	l.t.Logf("near-api-js and near-kit: %s", last)
	var sent struct{ Transfers, Calls, Reads, Failed int }
	if json.Unmarshal([]byte(last), &sent) != nil || err != nil || sent.Failed > 0 || min(sent.Transfers, sent.Calls, sent.Reads) < 50 {
		l.t.Errorf("the load of the clients: %v, %s", err, last+"\n"+tail(l.err.String(), 2000))
	}
}
