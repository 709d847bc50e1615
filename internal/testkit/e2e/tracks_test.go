//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shuffleShards configures home folders of neard's localnet so that shards are assigned anew in
// each epoch, each to two of the four validators.
func shuffleShards(t *testing.T, homes []nodeHome, epoch int) {
	t.Helper()
	for _, s := range homes {
		var g struct {
			Version uint64          `json:"protocol_version"`
			Layout  json.RawMessage `json:"shard_layout"`
		}
		if err := json.Unmarshal(mustRead(t, filepath.Join(s.home, "genesis.json")), &g); err != nil {
			t.Fatal(err)
		}
		rules := fmt.Sprintf(`{"epoch_length":%d,"num_block_producer_seats":50,"block_producer_kickout_threshold":0,"chunk_producer_kickout_threshold":0,
"chunk_validator_only_kickout_threshold":0,"target_validator_mandates_per_shard":68,"online_min_threshold":[9,10],"online_max_threshold":[99,100],
"fishermen_threshold":"10000000000000000000000000","minimum_stake_divisor":10,"protocol_upgrade_stake_threshold":[4,5],"num_chunk_producer_seats":100,
"minimum_validators_per_shard":2,"minimum_stake_ratio":[1,6250],"chunk_producer_assignment_changes_limit":5,"shuffle_shard_assignment_for_chunk_producers":true,
"max_inflation_rate":[1,40],"validator_max_kickout_stake_perc":100,"num_chunk_validator_seats":300,"shard_layout":%s}`, epoch, g.Layout)
		at := filepath.Join(s.home, "epoch_configs")
		if err := os.MkdirAll(at, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(at, fmt.Sprintf("%d.json", g.Version)), rules)
		change(t, filepath.Join(s.home, "config.json"), func(c object) {
			c.at("store").at("state_snapshot_config")["state_snapshot_type"] = "Enabled"
		})
	}
}

// chunksOf returns how many chunks a validator should have produced and did produce in the epochs
// that ended in a range of heights, from the last blocks of these epochs.
func chunksOf(p *process, account string, from, to uint64) (made, expected uint64, epochs int) {
	for h := from; h <= to; h++ {
		r, err := p.call("validators", []any{h})
		if err != nil || r.Error != nil { // not the last block of an epoch
			continue
		}
		var v struct {
			Current []struct {
				Account  string `json:"account_id"`
				Produced uint64 `json:"num_produced_chunks"`
				Expected uint64 `json:"num_expected_chunks"`
			} `json:"current_validators"`
		}
		if json.Unmarshal(r.Result, &v) != nil {
			continue
		}
		for _, x := range v.Current {
			if x.Account == account {
				made, expected, epochs = made+x.Produced, expected+x.Expected, epochs+1
			}
		}
	}
	return made, expected, epochs
}

// tracksNone runs four validators, of which one tracks only the shards whose chunks it produces.
// These are assigned anew for each epoch. It must produce all of its chunks in time.
func tracksNone(t *testing.T, neards func(i int) bool) {
	const epoch, epochs, odd = 60, 5, 3
	program := neardProgram(t)
	homes := neardNet(t, program, 4, 4, epoch)
	shuffleShards(t, homes, epoch)
	change(t, filepath.Join(homes[odd].home, "config.json"), func(c object) { c["tracked_shards_config"] = "NoShards" })
	var boot, names []string
	for _, s := range homes {
		boot = append(boot, s.peer(t))
	}
	c := &cluster{t: t, p: make([]*process, len(homes))}
	for i, s := range homes {
		names = append(names, fmt.Sprintf("node%d", i))
		if neards(i) {
			c.p[i] = runNeard(t, program, s)
			continue
		}
		var others []string
		for k := range boot {
			if k != i {
				others = append(others, boot[k])
			}
		}
		c.p[i] = start(t, s.home, "--network-addr", s.network, "--boot-nodes", strings.Join(others, ","))
	}
	for limit := time.Now().Add(8 * time.Minute); c.p[0].final() < epoch*epochs+5; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("at %d", c.p[0].final())
		}
	}
	to := c.p[0].final()
	heights, missed, blocks := c.missing(c.p[0], epoch, to)
	t.Logf("heights %d to %d: %d without a block, %d of %d chunks missed", epoch, to, heights, missed, 4*blocks)
	for i, name := range names {
		// from the second epoch on; the third is the first with a new assignment
		made, expected, n := chunksOf(c.p[0], name, 2*epoch-20, to)
		t.Logf("%s made %d of %d chunks in %d epochs", name, made, expected, n)
		if i == odd && (expected < 60 || made*100 < expected*95) {
			t.Errorf("the validator that tracks no shard produced %d of %d chunks", made, expected)
		}
	}
	for i, p := range c.p {
		if neards(i) {
			if said := complaints(p.out.String()); len(said) > 0 {
				t.Errorf("node %d logged %d complaints, want 0: %s", i, len(said), said[0])
			}
			p.end(syscall.SIGTERM)
			continue
		}
		f, held := p.figures()
		t.Logf("node %d holds %v; %v came, %v went", i, held, f["troupe_shards_come"], f["troupe_shards_gone"])
		if i == odd && f["troupe_shards_come"] == 0 {
			t.Error("no shard was caught up")
		}
		p.stop(syscall.SIGTERM)
	}
}

// TestTroupeTracksOnlyItsShardsAmongNeards: three neards, and a troupe that tracks no shard beyond
// its own chunks.
func TestTroupeTracksOnlyItsShardsAmongNeards(t *testing.T) {
	tracksNone(t, func(i int) bool { return i != 3 })
}

// TestNeardTracksOnlyItsShardsAmongTroupes: three troupes, and a neard that tracks no shard beyond
// its own chunks.
func TestNeardTracksOnlyItsShardsAmongTroupes(t *testing.T) {
	tracksNone(t, func(i int) bool { return i == 3 })
}
