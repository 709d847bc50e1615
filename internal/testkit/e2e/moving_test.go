//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// newMoving makes validators that track only the shards whose chunks they produce, which are
// assigned anew for each epoch. One more validator produces no chunks and only validates those of
// the others.
func newMoving(t *testing.T, makers, shards int, epoch uint64) *cluster {
	t.Helper()
	n := makers + 1
	c := &cluster{t: t, p: make([]*process, n)}
	var accounts []primitives.AccountID
	for i := range n {
		accounts = append(accounts, primitives.AccountID(fmt.Sprint("node", i)))
	}
	g, err := genesis.Localnet(genesis.LocalnetOptions{ChainID: "council", Time: genesis.Time(time.Now().UnixNano()), Accounts: accounts, Validators: n, Shards: shards,
		Protocol: parameters.Newest(primitives.NumberingRelease)})
	if err != nil {
		t.Fatal(err)
	}
	g.Config.EpochLength, g.Config.NumBlockProducerSeats = epoch, uint64(makers)
	less := primitives.NEAR(10_000_000) // the last validator has the least stake
	for _, r := range g.Records {
		if a, ok := r.(*genesis.AccountRecord); ok && a.AccountID == accounts[makers] {
			rest, _ := a.Account.Locked.Sub(less)
			a.Account.Amount, a.Account.Locked = a.Account.Amount.SaturatingAdd(rest), less
		}
	}
	g.Config.Validators[makers].Amount = less
	layout, err := g.Config.ShardLayout.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	rules := fmt.Appendf(nil, `{"epoch_length":%d,"num_block_producer_seats":%d,"block_producer_kickout_threshold":0,"chunk_producer_kickout_threshold":0,
"chunk_validator_only_kickout_threshold":0,"target_validator_mandates_per_shard":68,"online_min_threshold":[9,10],"online_max_threshold":[99,100],
"fishermen_threshold":"10000000000000000000000000","minimum_stake_divisor":10,"protocol_upgrade_stake_threshold":[4,5],"num_chunk_producer_seats":%d,
"minimum_validators_per_shard":2,"minimum_stake_ratio":[1,6250],"chunk_producer_assignment_changes_limit":5,
"shuffle_shard_assignment_for_chunk_producers":true,"max_inflation_rate":[1,20],"validator_max_kickout_stake_perc":100,"num_chunk_validator_seats":300,"shard_layout":%s}`,
		epoch, makers, makers, layout)
	path := genesisFile(t, g)
	var boot []string
	for _, id := range accounts {
		// at neard's block time: endorsements that arrive late are in no block
		dir := newHome(t, "--genesis", path, "--account-id", string(id), "--test-seed", string(id))
		config := filepath.Join(dir, "config.json")
		text, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.Replace(string(text), `"AllShards"`, `"NoShards"`, 1))
		rulesAt := filepath.Join(dir, "epoch_configs")
		if !strings.Contains(string(text), `"NoShards"`) || os.WriteFile(config, text, 0o600) != nil || os.MkdirAll(rulesAt, 0o700) != nil ||
			os.WriteFile(filepath.Join(rulesAt, fmt.Sprintf("%d.json", g.Config.ProtocolVersion)), rules, 0o600) != nil {
			t.Fatalf("%s can't be made", dir)
		}
		c.homes = append(c.homes, dir)
		c.addrs = append(c.addrs, freeAddr(t))
		boot = append(boot, peerOf(t, dir, c.addrs[len(c.addrs)-1]))
	}
	c.boot = strings.Join(boot, ",")
	for i := range n {
		c.start(i)
	}
	return c
}

// figures returns the metrics of /metrics that have no labels, and the shards that the node has.
func (p *process) figures() (out map[string]float64, held []string) {
	p.t.Helper()
	r, err := http.Get("http://" + p.addr + "/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	out = map[string]float64{}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		out[name] = v
		if shard, is := strings.CutPrefix(name, `near_client_tracked_shards{shard_id="`); is && v == 1 {
			held = append(held, strings.TrimSuffix(shard, `"}`))
		}
	}
	return out, held
}

// peak returns the peak memory of a process in MiB.
func (p *process) peak() float64 {
	p.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Skip("no /proc")
	}
	for line := range strings.Lines(string(b)) {
		if rest, is := strings.CutPrefix(line, "VmHWM:"); is {
			kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				p.t.Fatal(err)
			}
			return kb / 1024
		}
	}
	p.t.Fatal("no VmHWM")
	return 0
}

// TestValidatorsFollowMovedShards: four validator processes track only the shards whose chunks they
// produce, which are assigned anew for each epoch, and include transfers. One is killed while it
// downloads a shard's state, and recovers after the restart. A fifth tracks no shard and validates
// chunks by state witnesses; its endorsements are in blocks.
func TestValidatorsFollowMovedShards(t *testing.T) {
	const epoch, epochs = 60, 5
	c := newMoving(t, 4, 4, epoch)
	blind := c.p[4]
	killed := -1
	begun := time.Now()
	for limit := time.Now().Add(8 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		at := c.p[0].final()
		if at >= epoch*epochs && killed >= 0 {
			break
		}
		for i, p := range c.p[:4] {
			if killed >= 0 {
				break
			}
			if f, held := p.figures(); f["troupe_shards_incoming"] > 0 {
				t.Logf("node %d is killed at %d, with %v, and %v parts of %v", i, at, held, f["troupe_shards_incoming_parts_here"], f["troupe_shards_incoming_parts"])
				p.stop(syscall.SIGKILL)
				c.start(i)
				killed = i
			}
		}
		if time.Now().After(limit) {
			t.Fatalf("at %d", at)
		}
		if killed >= 0 {
			time.Sleep(200 * time.Millisecond)
		}
	}
	to := c.p[0].final()
	heights, chunks, blocks := c.missing(c.p[0], epoch, to)
	t.Logf("heights %d to %d in %v: %d without a block, %d of %d chunks missed", epoch, to, time.Since(begun), heights, chunks, 4*blocks)
	if chunks > blocks*4/10 {
		t.Errorf("%d of %d chunks missed", chunks, blocks*4)
	}
	holders, gone := map[string]int{}, 0.
	for i, p := range c.p {
		f, held := p.figures()
		t.Logf("node %d holds %v; %v came, %v went; %.0f MiB at most", i, held, f["troupe_shards_come"], f["troupe_shards_gone"], p.peak())
		if p == blind {
			if len(held) > 0 || f["troupe_shards_come"] > 0 {
				t.Errorf("the validator without chunks tracks shards %v, want none", held)
			}
			continue
		}
		if f["troupe_shards_come"] == 0 {
			t.Errorf("node %d caught up no shard", i)
		}
		gone += f["troupe_shards_gone"]
		for _, s := range held {
			holders[s]++
		}
	}
	if len(holders) != 4 || gone == 0 {
		t.Errorf("shard holders: %v; untracked: %v", holders, gone)
	}
	if p := blind.peak(); p > 1024 {
		t.Errorf("the validator without shards uses %.0f MiB", p)
	}
	c.endorsed("node4")
	for _, p := range c.p {
		p.stop(syscall.SIGTERM)
	}
	c.consistent()
}

// endorsed requires that a validator's chunk endorsements are in blocks, in the last complete
// epoch.
func (c *cluster) endorsed(account string) {
	c.t.Helper()
	p := c.p[0]
	var last struct {
		Start uint64 `json:"epoch_start_height"`
	}
	p.get("validators", []any{nil}, &last)
	var all struct {
		Current []struct {
			Account  string `json:"account_id"`
			Produced uint64 `json:"num_produced_endorsements"`
			Expected uint64 `json:"num_expected_endorsements"`
			Blocks   uint64 `json:"num_expected_blocks"`
			Chunks   uint64 `json:"num_expected_chunks"`
		} `json:"current_validators"`
	}
	for h := last.Start - 1; ; h-- { // the last block of the previous epoch
		r, err := p.call("validators", []any{h})
		if err != nil || last.Start-h > 100 {
			c.t.Fatalf("no block at %d: %v", h, err)
		}
		if r.Error == nil {
			if err := json.Unmarshal(r.Result, &all); err != nil {
				c.t.Fatal(err)
			}
			break
		}
	}
	found := false
	for _, v := range all.Current {
		c.t.Logf("%s: %d of %d endorsements are in blocks of an epoch", v.Account, v.Produced, v.Expected)
		if v.Account != account {
			continue
		}
		found = true
		if v.Expected < 20 || v.Expected-v.Produced > max(1, v.Expected/100) || v.Blocks+v.Chunks > 0 {
			c.t.Errorf("got %+v", v)
		}
	}
	if !found {
		c.t.Errorf("%s is no validator", account)
	}
}
