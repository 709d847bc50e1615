//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain/earlykickout"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
)

// TestProducerIsReplaced: one of the two chunk producers of a shard is stopped while clients send
// transactions, once the epoch is old enough for EarlyKickout. Its chunks are missing until it has
// missed too many. Then the other producer makes all chunks, and none is missing. After it is
// resumed it produces blocks again at once, but chunks only in the next epoch.
func TestProducerIsReplaced(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	need(t, "node", "npm")
	installed(t, npmInstall)
	guestbook := testutil.Data("contracts/guestbook-sdk5.30.0.wasm")
	testutil.Need(t, guestbook, "a contract built with near-sdk")
	const epoch, still, quiet = 1700, 3, 40
	limits := earlykickout.Protocol()
	c := newClusterWith(t, &clusterOptions{
		n: 4, shards: 2, epoch: epoch,
		config: object{
			"consensus": object{
				"min_block_production_delay": object{"secs": 0, "nanos": 100_000_000},
				"max_block_production_delay": object{"secs": 0, "nanos": 500_000_000},
			},
			"rpc": object{"polling_config": object{"polling_timeout": object{"secs": 60, "nanos": 0}}},
		},
		edit: func(dir string) {
			change(t, filepath.Join(dir, "genesis.json"), func(g object) {
				g["protocol_version"], g["chain_id"] = newest, "test-chain-kickout"
				g["block_producer_kickout_threshold"], g["chunk_producer_kickout_threshold"] = 0, 0
				g["chunk_validator_only_kickout_threshold"] = 0
			})
		},
	})
	first := c.p[0]
	begun := time.Now()
	c.reach([]int{0}, limits.GraceBlocks+10)
	t.Logf("%d blocks in %v", limits.GraceBlocks+10, time.Since(begun).Round(time.Second))
	load := c.scripts([]int{0, 1}, guestbook)
	account := fmt.Sprint("node", still)
	// counters returns how many chunks the node has produced and should have produced, and its shard.
	counters := func() (made, due, shard int) {
		t.Helper()
		for _, v := range first.members().Current {
			if v.Account == account && len(v.Shards) == 1 {
				return v.Chunks, v.ChunksDue, v.Shards[0]
			}
		}
		t.Fatalf("%s is no producer of one shard", account)
		return 0, 0, 0
	}
	_, _, shard := counters()

	if err := c.p[still].cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := first.head("optimistic").Header.Height
	missed, last := 0, stopped
	for h := stopped + 1; h < last+quiet; h++ {
		c.reach([]int{0}, h)
		switch b := c.madeAt(h, shard); {
		case b.author != "" && b.chunkAuthor == "":
			missed, last = missed+1, h
		case b.chunkAuthor == account && h > stopped+5:
			t.Errorf("the chunk of height %d is by %s, which is stopped", h, account)
		}
		if h > stopped+600 {
			t.Fatalf("%d of the chunks of heights %d to %d are missing: node %d is not replaced", missed, stopped, h, still)
		}
	}
	made, due, _ := counters()
	t.Logf("node %d stopped at %d; of %d heights after that %d lack a chunk, the last one is %d; it made %d of %d chunks",
		still, stopped, last-stopped, missed, last, made, due)
	if n := uint64(due - made); n < limits.MinMissed || n > 2*limits.MinMissed {
		t.Errorf("the stopped producer missed %d chunks until it was replaced", n)
	}
	c.reach([]int{0}, first.final()+quiet)
	if _, now, _ := counters(); now != due {
		t.Errorf("expected chunks of the replaced producer rose from %d to %d", due, now)
	}

	if err := c.p[still].cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	begun = time.Now()
	back := first.final()
	c.p[still].comes(back, 2*time.Minute)
	t.Logf("node %d goes on at %d, in step after %v", still, back, time.Since(begun).Round(100*time.Millisecond))
	c.reach([]int{0, 1, 2, still}, epoch+60)
	load.end()
	blocks, chunks, later := 0, 0, 0
	same := c.madeAt(back, shard).epoch
	for h := back + 1; h <= epoch+60; h++ {
		b := c.madeAt(h, shard)
		if b.author == account {
			blocks++
		}
		switch {
		case b.chunkAuthor != account:
		case b.epoch == same:
			chunks++
		default:
			later++
		}
	}
	t.Logf("after that it made %d blocks, %d chunks in the rest of the epoch and %d in the next one", blocks, chunks, later)
	if blocks == 0 || chunks > 0 || later == 0 {
		t.Errorf("want blocks, no chunk in the epoch, and chunks in the next one")
	}
	to := first.final()
	c.requireSameChain(c.p[1:], to-20, to)
	for i, p := range c.p {
		if got := p.metric("troupe_network_bans_total"); got != 0 {
			t.Errorf("node %d banned %v peers, want 0", i, got)
		}
		p.stop(syscall.SIGTERM)
	}
	c.consistent()
}

// authors holds the authors of the block of a height and of its chunk of one shard. An author is
// empty if there is no block or chunk.
type authors struct{ author, chunkAuthor, epoch string }

// madeAt asks node 0 for the authors at a height.
func (c *cluster) madeAt(height uint64, shard int) (m authors) {
	c.t.Helper()
	var b struct {
		Author string `json:"author"`
		Header struct {
			Epoch string `json:"epoch_id"`
		} `json:"header"`
		Chunks []struct {
			Shard    int    `json:"shard_id"`
			Included uint64 `json:"height_included"`
			Hash     string `json:"chunk_hash"`
		} `json:"chunks"`
	}
	r, err := c.p[0].call("block", map[string]any{"block_id": height})
	if err != nil || r.Error != nil {
		return m
	}
	if err := json.Unmarshal(r.Result, &b); err != nil {
		c.t.Fatal(err)
	}
	m.author, m.epoch = b.Author, b.Header.Epoch
	for _, x := range b.Chunks {
		if x.Shard == shard && x.Included == height {
			var chunk struct {
				Author string `json:"author"`
			}
			c.p[0].get("chunk", map[string]any{"chunk_id": x.Hash}, &chunk)
			m.chunkAuthor = chunk.Author
		}
	}
	return m
}
