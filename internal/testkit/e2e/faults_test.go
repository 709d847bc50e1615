//go:build e2e && linux

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// promise is what a client was told about a transaction: that it is FINAL, and in which blocks.
type promise struct {
	by     int
	hash   primitives.Hash
	sender primitives.AccountID
	blocks []string
	took   time.Duration
	at     time.Time
}

// clients submit one transfer after the other to each node, wait for FINAL, and record the replies.
type clients struct {
	c     *cluster
	stop  chan struct{}
	once  sync.Once
	group sync.WaitGroup

	mu     sync.Mutex
	told   []promise
	failed map[string]int
}

// clients starts one client for each node. A transfer that is not FINAL in time is not recorded. A
// failed test ends the clients too, because the nodes of the next test have the same addresses and
// keys.
func (c *cluster) clients() *clients {
	x := &clients{c: c, stop: make(chan struct{}), failed: map[string]int{}}
	c.t.Cleanup(func() { x.end() })
	for i := range c.p {
		s := c.p[i].signer()
		addr := c.p[i].addr // the node has another address after each restart
		x.group.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-x.stop:
					return
				default:
				}
				if n%10 == 9 { // a block hash is valid for a hundred heights
					rebase(&process{t: c.t, addr: addr}, s)
				}
				x.submit(i, addr, s)
			}
		})
	}
	return x
}

// invalidity matches the kind of error of an invalid transaction, without its numbers.
var invalidity = regexp.MustCompile(`InvalidTxError":\W*\w+`)

// submit submits one transfer. After a failed one it reads the nonce again. The node may be down.
func (x *clients) submit(i int, addr string, s *signer) {
	p := &process{t: x.c.t, addr: addr}
	encoded, hash := s.next()
	begun := time.Now()
	r, err := p.call("send_tx", map[string]any{"signed_tx_base64": encoded, "wait_until": "FINAL"})
	var st status
	if err == nil && r.Error == nil && json.Unmarshal(r.Result, &st) == nil && st.Level == "FINAL" {
		x.mu.Lock()
		x.told = append(x.told, promise{i, hash, s.key.AccountID, st.blocks(), time.Since(begun), time.Now()})
		x.mu.Unlock()
		return
	}
	what := "no answer"
	if r.Error != nil {
		if what = r.Error.Cause.Name; what == "INVALID_TRANSACTION" {
			what += " " + string(invalidity.Find(r.Error.Data))
		}
	}
	x.mu.Lock()
	x.failed[what]++
	x.mu.Unlock()
	select {
	case <-x.stop:
		return
	case <-time.After(200 * time.Millisecond):
	}
	var key struct {
		Nonce primitives.Nonce `json:"nonce"`
	}
	r, err = p.call("query", map[string]any{"request_type": "view_access_key", "finality": "optimistic", "account_id": s.key.AccountID, "public_key": s.key.SecretKey.PublicKey().String()})
	if err == nil && r.Error == nil && json.Unmarshal(r.Result, &key) == nil {
		s.nonce = max(s.nonce, key.Nonce)
	}
	rebase(p, s)
}

// rebase makes a signer sign on the last final block, if the node reports it.
func rebase(p *process, s *signer) {
	var at head
	r, err := p.call("block", map[string]any{"finality": "final"})
	if err == nil && r.Error == nil && json.Unmarshal(r.Result, &at) == nil {
		if base, err := primitives.ParseHash(at.Header.Hash); err == nil {
			s.base = base
		}
	}
}

// blocks returns the blocks of the transaction and of its receipts.
func (s *status) blocks() []string {
	out := []string{s.Outcome.Block}
	for _, r := range s.Receipts {
		out = append(out, r.Block)
	}
	return out
}

// end stops the clients and returns the promises they received.
func (x *clients) end() []promise {
	x.once.Do(func() { close(x.stop) })
	x.group.Wait()
	return x.told
}

// during summarizes the promises received since a time.
func (x *clients) during(from time.Time) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var took []time.Duration
	for _, f := range x.told {
		if f.at.After(from) {
			took = append(took, f.took)
		}
	}
	slices.Sort(took)
	failed := ""
	for _, what := range slices.Sorted(maps.Keys(x.failed)) {
		failed += fmt.Sprintf(", %d times %s", x.failed[what], what)
	}
	clear(x.failed)
	if len(took) == 0 {
		return "nothing FINAL" + failed
	}
	return fmt.Sprintf("%d FINAL, %v (p50), %v (longest)%s", len(took), took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond), failed)
}

// kept requires that every node reports for each transaction what its client was told.
func (c *cluster) kept(all []promise) {
	c.t.Helper()
	for i, p := range c.p {
		lost := 0
		for _, f := range all {
			if st := p.tx(f.hash, f.sender, "NONE"); st.Level != "FINAL" || !slices.Equal(st.blocks(), f.blocks) {
				if lost++; lost <= 3 {
					c.t.Errorf("node %d reports %v as %s in %v; node %d reported it FINAL in %v", i, f.hash, st.Level, st.blocks(), f.by, f.blocks)
				}
			}
		}
		if lost > 0 {
			c.t.Errorf("node %d: %d of %d transactions differ from the replies that clients got", i, lost, len(all))
		}
	}
}

// highest returns the highest final height of the running nodes.
func (c *cluster) highest(of ...int) (h uint64) {
	for _, i := range of {
		h = max(h, c.p[i].final())
	}
	return h
}

// tip returns the highest head of the running nodes.
func (c *cluster) tip(of ...int) (h uint64) {
	c.t.Helper()
	for _, i := range of {
		h = max(h, c.p[i].place().Sync.Height)
	}
	return h
}

// tops waits until one of the nodes has a block above a height.
func (c *cluster) tops(what string, tip uint64, begun time.Time, within time.Duration, of ...int) time.Duration {
	c.t.Helper()
	for c.tip(of...) <= tip {
		if time.Since(begun) > within {
			c.t.Fatalf("%s: no head above %d after %v", what, tip, within)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(begun)
}

// awaitFinality waits until nodes have finalized a number of heights after a given one, and returns
// how long that took.
func (c *cluster) awaitFinality(what string, from, more uint64, within time.Duration, of ...int) time.Duration {
	c.t.Helper()
	begun := time.Now()
	for c.highest(of...) < from+more {
		if time.Since(begun) > within {
			c.t.Fatalf("%s: final height %d, want %d after %v", what, c.highest(of...), from+more, within)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(begun)
}

// TestFinalTransactionsSurviveFaults: four validators of four shards, each in a network namespace
// of its own, with latency, packet loss, a partition into halves, kill -9, and two of four stopped,
// over each transport. Transactions that were reported FINAL are final on all nodes afterwards, no
// validator has signed a contradiction, and the remaining validators continue.
func TestFinalTransactionsSurviveFaults(t *testing.T) {
	for _, transport := range []string{"near", "libp2p", "quic"} {
		t.Run(transport, func(t *testing.T) { faults(t, transport) })
	}
}

func faults(t *testing.T, transport string) {
	s := newTunNetwork(t, 4)
	quic := transport == "quic"
	if quic {
		transport = "libp2p"
	}
	c := newClusterWith(t, &clusterOptions{n: 4, shards: 4, epoch: 500, config: map[string]any{"network": map[string]any{"transport": transport}}, addr: s.net,
		run: s.start, quic: quic})
	c.together(5, 60*time.Second)
	x := c.clients()
	all := []int{0, 1, 2, 3}
	phase := func(name string, span time.Duration) {
		t.Helper()
		from, begun := c.highest(all...), time.Now()
		time.Sleep(span)
		to := c.highest(all...)
		t.Logf("%s: %d heights final in %v; %s", name, to-from, time.Since(begun).Round(time.Millisecond), x.during(begun))
		if to == from {
			t.Errorf("%s: no block became final", name)
		}
	}
	phase("calm", 8*time.Second)
	s.lag.Store(int64(200 * time.Millisecond))
	phase("200 ms one way", 20*time.Second)
	s.lag.Store(0)
	s.loss.Store(20_000)
	phase("2 % of packets lost", 20*time.Second)
	s.lag.Store(int64(50 * time.Millisecond))
	phase("2 % lost, 50 ms one way", 20*time.Second)
	s.loss.Store(0)
	s.lag.Store(0)

	s.part(0, 1)
	time.Sleep(2 * time.Second) // packets in transit
	was, begun := c.highest(all...), time.Now()
	time.Sleep(10 * time.Second)
	if now := c.highest(all...); now > was {
		t.Errorf("blocks became final during the partition: height %d, then %d", was, now)
	}
	t.Logf("cut 2/2: %s", x.during(begun))
	tip, cut := c.tip(all...), s.Cut.Load()
	begun = time.Now()
	s.part()
	first := s.across(begun, 60*time.Second)
	t.Logf("healed: the first packet of what was cut comes after %v, a higher block after %v", first.Round(time.Millisecond), c.tops("healed", tip, begun, 60*time.Second, all...).Round(time.Millisecond))
	// Blocks made on one side before the repair become final with it, so only a block above the tip
	// shows that the chain continues.
	c.awaitFinality("healed", tip, 1, 60*time.Second, all...)
	t.Logf("healed: a block that was made since is final after %v; %d packets were cut", time.Since(begun).Round(time.Millisecond), cut)
	phase("behind the cut", 5*time.Second)

	for _, i := range []int{0, 3} {
		c.p[i].stop(syscall.SIGKILL)
		rest := slices.DeleteFunc(slices.Clone(all), func(k int) bool { return k == i })
		took := c.awaitFinality("one killed", c.highest(rest...), 10, 60*time.Second, rest...)
		t.Logf("node %d killed: 10 heights final after %v", i, took.Round(time.Millisecond))
		c.start(i)
		begun = time.Now()
		c.together(3, 60*time.Second)
		t.Logf("node %d started: together after %v", i, time.Since(begun).Round(time.Millisecond))
	}
	c.p[1].stop(syscall.SIGKILL)
	c.p[2].stop(syscall.SIGTERM)
	time.Sleep(2 * time.Second)
	was = c.highest(0, 3)
	time.Sleep(5 * time.Second)
	if now := c.highest(0, 3); now > was {
		t.Errorf("two of four validators finalized blocks: height %d, then %d", was, now)
	}
	c.start(1)
	t.Logf("two of four stopped, one started: final again after %v", c.awaitFinality("three of four", was, 1, 60*time.Second, 0, 1, 3).Round(time.Millisecond))
	c.start(2)
	begun = time.Now()
	c.together(10, 60*time.Second)
	t.Logf("all four: together after %v", time.Since(begun).Round(time.Millisecond))
	list := x.end()
	c.kept(list)
	t.Logf("%d transactions were reported FINAL, and are so on all four nodes; %d packets passed (%d of UDP), %d lost, %d cut", len(list), s.Passed.Load(), s.UDP.Load(), s.Lost.Load(), s.Cut.Load())
	if over := s.UDP.Load() > s.Passed.Load()/2; over != quic {
		t.Errorf("most traffic over QUIC: %v", over)
	}
	for _, p := range c.p {
		p.stop(syscall.SIGTERM)
	}
	c.consistent()
}
