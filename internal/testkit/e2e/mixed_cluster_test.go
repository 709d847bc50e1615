//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// mixedCluster is a network of validators in home folders that neard's localnet makes. Some are
// neards, the others troupes.
type mixedCluster struct {
	t       *testing.T
	program string // the neard binary
	homes   []nodeHome
	neards  int // the first validators, which are neards
	shards  int // the number of shard ids whose chunks are compared
	light   int // epochs that a light client must be able to follow at the end
	p       []*process
}

// newMixedCluster makes n home folders, edits them, and starts a validator in each.
func newMixedCluster(t *testing.T, n, neards, shards, epoch int, edit func(nodeHome)) *mixedCluster {
	t.Helper()
	return newMixedClusterAt(t, n, neards, shards, epoch, func(i int, dir string) nodeHome {
		return nodeHome{home: dir, network: freeAddr(t), rpc: freeAddr(t)}
	}, edit)
}

// newMixedClusterAt is newMixedCluster with given addresses.
func newMixedClusterAt(t *testing.T, n, neards, shards, epoch int, place func(i int, dir string) nodeHome, edit func(nodeHome)) *mixedCluster {
	t.Helper()
	b := &mixedCluster{t: t, program: neardOrNone(t), neards: neards, shards: shards, p: make([]*process, n)}
	if b.program == "" {
		b.neards = 0
	}
	b.homes = neardNetAt(t, b.program, n, shards, epoch, place)
	for _, s := range b.homes {
		if edit != nil {
			edit(s)
		}
	}
	for i := range b.homes {
		b.start(i)
	}
	return b
}

func (b *mixedCluster) kind(i int) string {
	if i < b.neards {
		return "neard"
	}
	return "troupe"
}

// start starts validator i, for the first time or again.
func (b *mixedCluster) start(i int) {
	b.t.Helper()
	if i < b.neards {
		b.p[i] = runNeard(b.t, b.program, b.homes[i])
		return
	}
	s := b.homes[i]
	b.p[i] = serving(b.t, time.Now(), launchBy(b.t, s.by, s.home, s.rpc, "--network-addr", s.network))
}

// length returns the number of blocks that a scenario makes: TROUPE_BLOCKS, or usual.
func length(t *testing.T, usual int) int {
	t.Helper()
	s := os.Getenv("TROUPE_BLOCKS")
	if s == "" {
		return usual
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 10 {
		t.Fatalf("TROUPE_BLOCKS=%q is no number of blocks", s)
	}
	return n
}

// highest returns the highest final height of the running validators.
func (b *mixedCluster) highest() (h uint64) {
	b.t.Helper()
	for _, p := range b.p {
		select {
		case <-p.ended:
		default:
			h = max(h, p.final())
		}
	}
	return h
}

// until waits until all running validators have a final block of a height.
func (b *mixedCluster) until(height uint64, within time.Duration) {
	b.t.Helper()
	limit := time.Now().Add(within)
	for i, p := range b.p {
		select {
		case <-p.ended:
			continue
		default:
		}
		for p.final() < height {
			select {
			case <-p.ended:
				b.t.Fatalf("%s %d ended: %v\n%s", b.kind(i), i, p.err, tail(p.out.String(), 6000))
			case <-time.After(100 * time.Millisecond):
			}
			if time.Now().After(limit) {
				b.t.Fatalf("%s %d is at %d, not at %d", b.kind(i), i, p.final(), height)
			}
		}
	}
}

// production returns how many blocks and chunks each validator produced and should have produced in
// an epoch, as a node reports it.
func (b *mixedCluster) production(p *process, epoch string) string {
	b.t.Helper()
	var v struct {
		Current []struct {
			Account    string `json:"account_id"`
			Blocks     int    `json:"num_produced_blocks"`
			Expected   int    `json:"num_expected_blocks"`
			Chunks     int    `json:"num_produced_chunks"`
			ChunksDue  int    `json:"num_expected_chunks"`
			Endorsed   int    `json:"num_produced_endorsements"`
			EndorseDue int    `json:"num_expected_endorsements"`
		} `json:"current_validators"`
	}
	r, err := p.call("validators", map[string]any{"epoch_id": epoch})
	if err != nil || r.Error != nil {
		return "validators: " + replyText(r)
	}
	if err := json.Unmarshal(r.Result, &v); err != nil {
		return err.Error()
	}
	var lines []string
	for _, x := range v.Current {
		lines = append(lines, fmt.Sprintf("%s blocks %d of %d, chunks %d of %d, endorsements %d of %d",
			x.Account, x.Blocks, x.Expected, x.Chunks, x.ChunksDue, x.Endorsed, x.EndorseDue))
	}
	return strings.Join(lines, "; ")
}

// missedBy logs the producers of missing blocks. The producer of a height is the same on all forks.
func (b *mixedCluster) missedBy(from, to uint64) {
	b.t.Helper()
	missed, made := map[string]int{}, map[string]int{}
	for h := from; h <= to; h++ {
		var x struct {
			Author string `json:"author"`
		}
		r, err := b.p[0].call("block", map[string]any{"block_id": h})
		if err == nil && r.Error == nil && json.Unmarshal(r.Result, &x) == nil {
			made[x.Author]++
			continue
		}
		missed[fmt.Sprint("before ", b.authorAfter(h, to))]++
	}
	b.t.Logf("blocks by author: %v; heights without a block, by the author of the next one: %v", made, missed)
}

func (b *mixedCluster) authorAfter(h, to uint64) string {
	for h++; h <= to; h++ {
		var x struct {
			Author string `json:"author"`
		}
		if r, err := b.p[0].call("block", map[string]any{"block_id": h}); err == nil && r.Error == nil && json.Unmarshal(r.Result, &x) == nil {
			return x.Author
		}
	}
	return "none"
}

// run loads a network of validators for a number of blocks. It requires that all validators have
// the same chain and that the transactions submitted to each are FINAL.
func (b *mixedCluster) run(blocks int, events func(from uint64)) {
	t := b.t
	t.Helper()
	b.until(3, 3*time.Minute)
	m := &mixed{shards: b.shards, nodes: b.p[:1]}
	tested := b.p[len(b.p)-1]
	if events != nil {
		tested = b.p[0] // the others may be stopped
	}
	clients, token := m.settle(t, tested)
	if events == nil {
		for _, p := range b.p[1:] {
			clients = append(clients, &submitter{s: p.signer(), to: p})
		}
	}
	stop := make(chan struct{})
	group := m.load(t, clients, token, stop)
	from, begun := b.highest(), time.Now()
	trusted := b.p[0].head("final")
	if events != nil {
		events(from)
	}
	b.until(from+uint64(blocks), time.Duration(blocks)*4*time.Second+2*time.Minute)
	close(stop)
	group.Wait()
	took := time.Since(begun)
	time.Sleep(3 * time.Second)
	to := b.highest()
	b.until(to, time.Minute)

	c := &cluster{t: t}
	heights, chunks, made := c.missing(b.p[0], from+1, to)
	total := 0
	for _, c := range clients {
		total += len(c.list)
	}
	t.Logf("heights %d to %d in %v (%.2f s a block): %d without a block, %d of %d chunks missed; %d transactions",
		from+1, to, took.Round(time.Second), took.Seconds()/float64(max(1, made)), heights, chunks, b.shards*made, total)
	epochs := &comparison{a: b.p[0]}
	last := ""
	for h := from + 2; h < to-60; h += 60 {
		if r, err := b.p[0].call("block", map[string]any{"block_id": h}); err != nil || r.Error != nil {
			continue
		}
		if epoch := epochs.epochOf(t, h); epoch != last {
			t.Logf("epoch of %d: %s", h, b.production(b.p[0], epoch))
			last = epoch
		}
	}
	b.missedBy(from+1, to)
	var end head
	b.p[0].get("block", map[string]any{"finality": "final"}, &end)
	lost := 0
	for i, p := range b.p[1:] {
		cmp := &comparison{a: b.p[0], b: p}
		p.reaches(end.Header.Height, time.Minute)
		cmp.blocks(t, int(max(from, end.Header.Height-min(end.Header.Height, 200))), int(end.Header.Height), b.shards)
		for _, c := range clients {
			for k := 0; k < len(c.list); k += 1 + len(c.list)/5 {
				if events != nil && b.lost(c.list[k]) {
					lost++
					continue
				}
				cmp.transaction(t, c.list[k].hash, string(c.list[k].sender), end.Header.Hash)
			}
		}
		t.Logf("%s 0 and %s %d: %d requests, %d the same byte for byte, %d proofs of a neard untrue", b.kind(0), b.kind(i+1), i+1, cmp.asked, cmp.equal, cmp.untrue)
	}
	if lost > len(b.p) { // at most one of the sampled ones, asked once for each other node
		t.Errorf("%d of the sampled transactions are unknown to %s 0", lost, b.kind(0))
	}
	if b.light > 0 {
		if _, epochs := b.lightClient(trusted.Header.Hash, clients[0].list); epochs < b.light {
			t.Errorf("a light client followed %d epochs, not %d", epochs, b.light)
		}
	}
	for i, p := range b.p[:b.neards] {
		if list := complaints(p.out.String()); len(list) > 0 {
			t.Errorf("neard %d logged %d complaints, want 0: %s", i, len(list), strings.Join(list[:min(len(list), 5)], "\n"))
		}
	}
}

// lost returns whether the first node does not know a transaction that it accepted. A neard forwards
// a transaction once and drops it if the producer is not reachable (chain/network
// "dropping signed message", PeerUnreachable), for example because the test has killed it.
func (b *mixedCluster) lost(tx sent) bool {
	b.t.Helper()
	r, err := b.p[0].call("tx", map[string]any{"tx_hash": tx.hash, "sender_account_id": string(tx.sender), "wait_until": "NONE"})
	if err != nil {
		b.t.Fatal(err)
	}
	if r.Error == nil || r.Error.Cause.Name != "UNKNOWN_TRANSACTION" && r.Error.Cause.Name != "TIMEOUT_ERROR" {
		return false
	}
	b.t.Logf("%s 0 lost transaction %s", b.kind(0), tx.hash)
	return true
}

// layouts logs the heights at which the number of shards changed, and returns them.
func (b *mixedCluster) layouts(to uint64) (changed []uint64) {
	b.t.Helper()
	shards := 0
	for h := uint64(1); h <= to; h++ {
		var at struct {
			Chunks []struct {
				Shard uint64 `json:"shard_id"`
			} `json:"chunks"`
		}
		r, err := b.p[0].call("block", map[string]any{"block_id": h})
		if err != nil || r.Error != nil || json.Unmarshal(r.Result, &at) != nil || len(at.Chunks) == shards {
			continue
		}
		shards = len(at.Chunks)
		b.t.Logf("from height %d on there are %d shards: %v", h, shards, at.Chunks)
		changed = append(changed, h)
	}
	return changed
}

// across requests proofs of some transactions of each chunk in the block before a height from all
// nodes. The proofs are relative to the block of that height or a later one.
func (b *mixedCluster) across(height uint64) {
	t := b.t
	t.Helper()
	type block struct {
		Header struct {
			Hash   string `json:"hash"`
			Prev   string `json:"prev_hash"`
			Height uint64 `json:"height"`
		} `json:"header"`
		Chunks []struct {
			Hash     string `json:"chunk_hash"`
			Included uint64 `json:"height_included"`
		} `json:"chunks"`
	}
	var end, first, before block
	b.p[0].get("block", map[string]any{"finality": "final"}, &end)
	b.p[0].get("block", map[string]any{"block_id": height}, &first)
	b.p[0].get("block", map[string]any{"block_id": first.Header.Prev}, &before)
	for i, p := range b.p[1:] {
		cmp := &comparison{a: b.p[0], b: p}
		p.reaches(end.Header.Height, time.Minute)
		for _, c := range before.Chunks {
			if c.Included != before.Header.Height {
				continue
			}
			var chunk struct {
				Transactions []struct {
					Hash   string `json:"hash"`
					Signer string `json:"signer_id"`
				} `json:"transactions"`
			}
			b.p[0].get("chunk", map[string]any{"chunk_id": c.Hash}, &chunk)
			for _, tx := range chunk.Transactions[:min(len(chunk.Transactions), 4)] {
				cmp.transaction(t, tx.Hash, tx.Signer, end.Header.Hash)
			}
		}
		t.Logf("%s 0 and %s %d, of the block before %d: %d requests, %d the same byte for byte, %d proofs of a neard untrue",
			b.kind(0), b.kind(i+1), i+1, height, cmp.asked, cmp.equal, cmp.untrue)
	}
}

// TestNeardsAloneKeepOneChain is the baseline of the other tests: four neards, four shards, epochs
// of 60 blocks.
func TestNeardsAloneKeepOneChain(t *testing.T) {
	newMixedCluster(t, 4, 4, 4, 60, nil).run(length(t, 200), nil)
}

// TestMixedValidatorsKeepOneChain: two neards and two troupes produce the blocks and chunks of four
// shards. A chunk needs the endorsements of three of the four, so troupes must endorse chunks of
// neards and neards chunks of troupes. A light client follows them and gets each block and each
// proof from another node.
func TestMixedValidatorsKeepOneChain(t *testing.T) {
	b, blocks := newMixedCluster(t, 4, 2, 4, 60, nil), length(t, 300)
	b.light = max(0, blocks/60-3)
	b.run(blocks, nil)
}

// TestMixedValidatorsRejoinAfterKill: of two neards and two troupes, three are killed and restarted
// one after the other.
func TestMixedValidatorsRejoinAfterKill(t *testing.T) {
	b := newMixedCluster(t, 4, 2, 4, 60, nil)
	b.run(length(t, 300), func(from uint64) {
		for k, i := range []int{3, 1, 2} { // not node 0, which the load uses
			b.until(from+uint64(20+60*k), 10*time.Minute)
			b.p[i].end(syscall.SIGKILL)
			time.Sleep(5 * time.Second)
			begun := time.Now()
			b.start(i)
			b.until(b.highest()+2, 3*time.Minute)
			t.Logf("%s %d killed, away for 5 s, in step %v after its start", b.kind(i), i, time.Since(begun).Round(100*time.Millisecond))
		}
	})
}

// TestMixedValidatorsUpgradeAndSplit: two neards and two troupes upgrade a chain of two shards by
// vote from version 85 to the neards' version, whose configuration then splits shards by size. The
// load writes only a few kB and one contract, so the size limits are lower than those of the
// recorded chain.
func TestMixedValidatorsUpgradeAndSplit(t *testing.T) {
	const files = "../replay/testdata/reshard-epoch-configs"
	b := newMixedCluster(t, 4, 2, 2, 60, func(s nodeHome) {
		var layout any
		change(t, filepath.Join(s.home, "genesis.json"), func(g object) {
			g["protocol_version"], layout = 85, g["shard_layout"]
			// A neard looks up the state of a split shard under layout version 3 whatever version the
			// previous layout had, and stops for ever if it was another one: "cannot start background
			// memtrie loading: flat storage not available shard_uid=s0.v3".
			g.at("shard_layout").at("V2")["version"] = 3
		})
		dir := filepath.Join(s.home, "epoch_configs")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"85.json", "86.json"} {
			write(t, filepath.Join(dir, name), string(mustRead(t, filepath.Join(files, name))))
			change(t, filepath.Join(dir, name), func(c object) {
				if name == "85.json" {
					c["shard_layout"] = layout
					return
				}
				d := c.at("dynamic_resharding_config")
				d["memory_usage_threshold"], d["min_child_memory_usage"], d["max_number_of_shards"] = 1500, 300, 4
			})
		}
	})
	want, err := neardVersion() // all validators must vote for a version
	if err != nil {
		t.Fatal(err)
	}
	if want == 0 {
		want = newest
	}
	b.shards = 8 // child shards have new ids
	b.run(length(t, 420), nil)
	for _, h := range b.layouts(b.highest())[1:] {
		b.across(h)
	}
	for i, p := range b.p {
		var s struct {
			Protocol int `json:"protocol_version"`
		}
		p.get("status", []any{}, &s)
		var at struct {
			Chunks []json.RawMessage `json:"chunks"`
		}
		p.get("block", map[string]any{"finality": "final"}, &at)
		if s.Protocol != want || len(at.Chunks) < 3 {
			t.Errorf("%s %d is at protocol %d with %d shards, want %d", b.kind(i), i, s.Protocol, len(at.Chunks), want)
		}
		t.Logf("%s %d: protocol %d, %d shards", b.kind(i), i, s.Protocol, len(at.Chunks))
	}
}
