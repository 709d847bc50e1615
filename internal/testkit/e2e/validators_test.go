//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// cluster is a network of validators, each a process.
type cluster struct {
	t      *testing.T
	homes  []string
	addrs  []string // network addresses
	boot   string
	p      []*process
	frames []string // files with the messages that each node sent and received, one for each start
	// run starts a node; nil: as a plain process on this machine.
	run   func(i int, home string, flags ...string) *process
	boots []string // boot nodes of each; nil: all others
}

// clusterOptions are the deviations from the defaults.
type clusterOptions struct {
	n, shards int
	epoch     uint64
	slow      bool           // neard's block time instead of that of init --fast
	config    map[string]any // additional keys of each config.json
	quic      bool           // boot nodes are QUIC addresses
	// half of the validators use sockets and half libp2p; one more node with both is their only boot
	// node and produces nothing
	bridge bool
	addr   func(i int) string // network address of node i; nil: a free port
	run    func(i int, home string, flags ...string) *process
	edit   func(home string) // called for each home folder before the start; nil: none
}

// newCluster makes the home folders of n validators and starts them.
func newCluster(t *testing.T, n, shards int, epoch uint64) *cluster {
	t.Helper()
	return newClusterWith(t, &clusterOptions{n: n, shards: shards, epoch: epoch})
}

// newClusterOf is newCouncil with a function that edits each home folder before the start.
func newClusterOf(t *testing.T, n, shards int, epoch uint64, edit func(home string)) *cluster {
	t.Helper()
	return newClusterWith(t, &clusterOptions{n: n, shards: shards, epoch: epoch, edit: edit})
}

// newClusterWith is newCouncil with options.
func newClusterWith(t *testing.T, o *clusterOptions) *cluster {
	t.Helper()
	n, shards, epoch := o.n, o.shards, o.epoch
	c := &cluster{t: t, p: make([]*process, n), run: o.run}
	var accounts []primitives.AccountID
	for i := range n {
		accounts = append(accounts, primitives.AccountID(fmt.Sprint("node", i)))
	}
	g, err := genesis.Localnet(genesis.LocalnetOptions{ChainID: "council", Time: genesis.Time(time.Now().UnixNano()), Accounts: accounts, Validators: n, Shards: shards,
		Protocol: parameters.Newest(primitives.NumberingRelease)})
	if err != nil {
		t.Fatal(err)
	}
	g.Config.EpochLength = epoch
	path := genesisFile(t, g)
	var boot []string
	for _, id := range accounts {
		flags := []string{"--genesis", path, "--account-id", string(id), "--test-seed", string(id)}
		if !o.slow {
			flags = append(flags, "--fast")
		}
		c.homes = append(c.homes, newHome(t, flags...))
		if o.config != nil {
			alter(t, filepath.Join(c.homes[len(c.homes)-1], "config.json"), o.config)
		}
		if o.addr != nil {
			c.addrs = append(c.addrs, o.addr(len(c.addrs)))
		} else {
			c.addrs = append(c.addrs, freeAddr(t))
		}
		name := peerOf
		if o.quic {
			name = quicOf
		}
		boot = append(boot, name(t, c.homes[len(c.homes)-1], c.addrs[len(c.addrs)-1]))
	}
	c.boot = strings.Join(boot, ",")
	if o.bridge {
		c.bridge(n, path, !o.slow)
	}
	for i := range c.p {
		if o.edit != nil {
			o.edit(c.homes[i])
		}
		c.start(i)
	}
	return c
}

// genesisFile writes a genesis for home folders and returns its path.
func genesisFile(t *testing.T, g *genesis.Genesis) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "genesis.json")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := genesis.Write(f, &g.Config, slices.Values(g.Records)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// bridge configures one transport for each half of the validators, and starts a node with both
// through which they are connected.
func (c *cluster) bridge(n int, genesis string, fast bool) {
	c.t.Helper()
	flags := []string{"--genesis", genesis}
	if fast {
		flags = append(flags, "--fast")
	}
	home, addr, second := newHome(c.t, flags...), freeAddr(c.t), freeAddr(c.t)
	alter(c.t, filepath.Join(home, "config.json"), map[string]any{"network": map[string]any{"transport": "both", "libp2p": map[string]any{"addr": second}}})
	for i := range n {
		if i < n/2 {
			c.boots = append(c.boots, peerOf(c.t, home, addr))
			continue
		}
		alter(c.t, filepath.Join(c.homes[i], "config.json"), map[string]any{"network": map[string]any{"transport": "libp2p"}})
		c.boots = append(c.boots, peerOf(c.t, home, second))
	}
	c.homes, c.addrs, c.boots, c.p = append(c.homes, home), append(c.addrs, addr), append(c.boots, ""), append(c.p, nil)
}

func (c *cluster) start(i int) {
	c.t.Helper()
	var others []string
	for k, b := range strings.Split(c.boot, ",") {
		if k != i {
			others = append(others, b)
		}
	}
	dir := os.Getenv("TROUPE_LOGS")
	if dir == "" {
		dir = c.t.TempDir()
	}
	file := filepath.Join(dir, fmt.Sprintf("%s-%d-frames%d.jsonl", strings.ReplaceAll(c.t.Name(), "/", "-"), os.Getpid(), len(c.frames)))
	c.frames = append(c.frames, file)
	boot := strings.Join(others, ",")
	if c.boots != nil {
		boot = c.boots[i]
	}
	flags := []string{"--network-addr", c.addrs[i], "--boot-nodes", boot, "--capture", file}
	if c.run != nil {
		c.p[i] = c.run(i, c.homes[i], flags...)
		return
	}
	c.p[i] = start(c.t, c.homes[i], flags...)
}

// alter sets values in the objects of a JSON file.
func alter(t *testing.T, path string, values map[string]any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	var put func(to, from map[string]any)
	put = func(to, from map[string]any) {
		for k, v := range from {
			inner, ok := v.(map[string]any)
			old, is := to[k].(map[string]any)
			switch {
			case ok && is:
				put(old, inner)
			default:
				to[k] = v
			}
		}
	}
	put(doc, values)
	if raw, err = json.MarshalIndent(doc, "", "  "); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// final returns the height of a node's last final block; 0 if there is none yet.
func (p *process) final() uint64 {
	p.t.Helper()
	r, err := p.call("block", map[string]any{"finality": "final"})
	if err != nil {
		p.t.Fatal(err)
	}
	var h head
	if r.Error != nil || json.Unmarshal(r.Result, &h) != nil {
		return 0
	}
	return h.Header.Height
}

// together waits until all nodes have more final heights and requires that they have the same block
// at the last of these.
func (c *cluster) together(further uint64, within time.Duration) {
	c.t.Helper()
	var first uint64
	for limit := time.Now().Add(within); first == 0; time.Sleep(20 * time.Millisecond) {
		for _, p := range c.p {
			first = max(first, p.final())
		}
		if time.Now().After(limit) {
			c.t.Fatal("no block became final")
		}
	}
	for i, p := range c.p {
		for limit := time.Now().Add(within); p.final() < first+further; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(limit) {
				c.t.Fatalf("node %d is at %d, not at %d", i, p.final(), first+further)
			}
		}
	}
	for _, p := range c.p[1:] {
		same(c.t, c.p[0], p, "block", map[string]any{"block_id": first})
		for shard := range 4 {
			same(c.t, c.p[0], p, "chunk", map[string]any{"block_id": first, "shard_id": shard})
		}
	}
}

// missing counts the heights without a block, and the chunks missing from blocks, in a range of a
// node's heights.
func (c *cluster) missing(p *process, from, to uint64) (heights, chunks, blocks int) {
	for h := from; h <= to; h++ {
		var b struct {
			Chunks []struct {
				Included uint64 `json:"height_included"`
			} `json:"chunks"`
		}
		r, err := p.call("block", map[string]any{"block_id": h})
		if err != nil || r.Error != nil {
			heights++
			continue
		}
		p.get("block", map[string]any{"block_id": h}, &b)
		blocks++
		for _, x := range b.Chunks {
			if x.Included != h {
				chunks++
			}
		}
	}
	return heights, chunks, blocks
}

// send submits transfers of each node's account to that node, in turn, until stop is closed. It
// returns how long each took until it was FINAL.
func (c *cluster) send(of []int, stop <-chan struct{}) func() []time.Duration {
	var group sync.WaitGroup
	var mu sync.Mutex
	var took []time.Duration
	for _, i := range of {
		s := c.p[i].signer()
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				encoded, _ := s.next()
				begun := time.Now()
				if got := c.p[i].send(encoded, "FINAL").Level; got != "FINAL" {
					c.t.Errorf("node %d: %s", i, got)
					return
				}
				mu.Lock()
				took = append(took, time.Since(begun))
				mu.Unlock()
			}
		})
	}
	return func() []time.Duration {
		group.Wait()
		slices.Sort(took)
		return took
	}
}

// TestThreeOfFourValidatorsContinue: four validator processes produce blocks of four shards. A
// transaction submitted to any of them is FINAL on all. One is killed and recovers after the
// restart. With two of four running the chain stops, with three it continues.
func TestThreeOfFourValidatorsContinue(t *testing.T) {
	c := newCluster(t, 4, 4, 500)
	c.together(5, 60*time.Second)
	from := c.p[0].final()
	begun := time.Now()
	stop := make(chan struct{})
	end := c.send([]int{0, 1, 2, 3}, stop)
	c.together(60, 120*time.Second)
	close(stop)
	took := end()
	to := c.p[0].final()
	heights, chunks, blocks := c.missing(c.p[0], from, to)
	t.Logf("heights %d to %d in %v: %d without a block, %d of %d chunks missed; %d transfers, FINAL in %v (p50), %v (p99)",
		from, to, time.Since(begun), heights, chunks, 4*blocks, len(took), took[len(took)/2], took[len(took)*99/100])
	if len(took) < 20 {
		t.Errorf("%d transfers", len(took))
	}

	c.p[2].stop(syscall.SIGKILL)
	rest := []int{0, 1, 3}
	stop = make(chan struct{})
	end = c.send(rest, stop)
	time.Sleep(5 * time.Second)
	close(stop)
	took = end()
	t.Logf("without one: %d transfers, FINAL in %v (p50), %v (worst)", len(took), took[len(took)/2], took[len(took)-1])
	c.start(2)
	c.together(10, 60*time.Second)

	for _, i := range []int{1, 2} {
		c.p[i].stop(syscall.SIGKILL)
	}
	time.Sleep(time.Second)
	was := c.p[0].final()
	time.Sleep(3 * time.Second)
	if now := c.p[0].final(); now > was {
		t.Errorf("two of four validators finalized blocks: height %d, then %d", was, now)
	}
	c.start(1)
	begun = time.Now()
	for limit := time.Now().Add(60 * time.Second); c.p[0].final() < was+5; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("three of four validators finalize nothing above %d", was)
		}
	}
	t.Logf("three of four again: 5 heights final after %v", time.Since(begun))
	c.start(2)
	begun = time.Now()
	c.together(10, 120*time.Second)
	t.Logf("all four again: together after %v", time.Since(begun))
	for i, p := range c.p {
		encoded, _ := p.signer().next()
		if got := p.send(encoded, "FINAL").Level; got != "FINAL" {
			t.Errorf("transaction at node %d at the end: level %s, want FINAL", i, got)
		}
	}
	for _, p := range c.p {
		p.stop(syscall.SIGTERM)
	}
	c.consistent()
}

// consistent requires that no validator has signed two blocks, chunks or approvals for one height,
// in all recorded messages.
func (c *cluster) consistent() {
	c.t.Helper()
	out, err := troupe(c.t, append([]string{"net", "conflicts", "--genesis", filepath.Join(c.homes[0], "genesis.json")}, c.frames...)...)
	if err != nil {
		c.t.Errorf("%v:\noutput %s", err, tail(out, 2000))
	}
	c.t.Logf("signed: %s", strings.TrimSpace(out))
}
