//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// makeChunkOnly gives the last validator in a home folder's genesis so little stake that it produces
// neither blocks nor chunks and only validates the chunks of the others. Blocks have neard's block
// time, and no validator is kicked out.
func makeChunkOnly(t *testing.T, s nodeHome, makers, epoch int) {
	t.Helper()
	last := fmt.Sprintf("node%d", makers)
	var version json.Number
	var layout any
	change(t, filepath.Join(s.home, "genesis.json"), func(g object) {
		version, _ = g["protocol_version"].(json.Number)
		layout = g["shard_layout"]
		// five million NEAR, a tenth of the others' stakes
		less, _ := new(big.Int).SetString("5000000000000000000000000000000", 10)
		for _, x := range list(g["validators"]) {
			if x["account_id"] == last {
				x["amount"] = less.String()
			}
		}
		for _, x := range list(g["records"]) {
			if a, _ := x["Account"].(map[string]any); a != nil && a["account_id"] == last {
				a := object(a).at("account")
				locked, amount := yocto(t, a["locked"]), yocto(t, a["amount"])
				a["amount"] = amount.Add(amount, locked.Sub(locked, less)).String()
				a["locked"] = less.String()
			}
		}
	})
	rules, err := json.Marshal(map[string]any{
		"epoch_length": epoch, "num_block_producer_seats": makers, "num_chunk_producer_seats": makers, "num_chunk_validator_seats": 300,
		"block_producer_kickout_threshold": 0, "chunk_producer_kickout_threshold": 0, "chunk_validator_only_kickout_threshold": 0,
		"target_validator_mandates_per_shard": 68, "online_min_threshold": []int{9, 10}, "online_max_threshold": []int{99, 100},
		"fishermen_threshold": "10000000000000000000000000", "minimum_stake_divisor": 10, "protocol_upgrade_stake_threshold": []int{4, 5},
		"minimum_validators_per_shard": 2, "minimum_stake_ratio": []int{1, 6250}, "chunk_producer_assignment_changes_limit": 5,
		"shuffle_shard_assignment_for_chunk_producers": false, "max_inflation_rate": []int{1, 40}, "validator_max_kickout_stake_perc": 100, "shard_layout": layout,
	})
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(s.home, "epoch_configs")
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(at, version.String()+".json"), string(rules))
	change(t, filepath.Join(s.home, "config.json"), func(c object) {
		c.at("consensus")["min_block_production_delay"] = map[string]any{"secs": 0, "nanos": 600_000_000}
		if strings.HasSuffix(s.home, last) {
			c["tracked_shards_config"] = "NoShards"
		}
	})
}

// list returns the objects in a JSON array.
func list(x any) (out []object) {
	all, _ := x.([]any)
	for _, v := range all {
		if o, ok := v.(map[string]any); ok {
			out = append(out, o)
		}
	}
	return out
}

func yocto(t *testing.T, x any) *big.Int {
	t.Helper()
	n, ok := new(big.Int).SetString(fmt.Sprint(x), 10)
	if !ok {
		t.Fatalf("%v is no amount", x)
	}
	return n
}

// producerCounters holds an epoch's counters of a validator.
type producerCounters struct {
	Account  string `json:"account_id"`
	Blocks   int    `json:"num_expected_blocks"`
	Chunks   int    `json:"num_expected_chunks"`
	Endorsed int    `json:"num_produced_endorsements"`
	Due      int    `json:"num_expected_endorsements"`
}

// testChunkOnly runs validators of four shards, two for each shard, and one troupe that tracks no
// shard and only validates chunks, under transfers and calls. 99.9 % of that troupe's endorsements
// must be in blocks, and it must use less than 1 GiB. Endorsements of chunks that are in no block
// are missing for every validator and do not count.
func testChunkOnly(t *testing.T, neards int) {
	const makers, shards, epoch, epochs = 4, 4, 100, 5
	b := newMixedCluster(t, makers+1, neards, shards, epoch, func(s nodeHome) { makeChunkOnly(t, s, makers, epoch) })
	blind := b.p[makers]
	b.until(3, 3*time.Minute)
	m := &mixed{shards: shards, nodes: b.p[:1]}
	clients, token := m.settle(t, b.p[makers-1])
	for _, p := range b.p[1:makers] {
		clients = append(clients, &submitter{s: p.signer(), to: p})
	}
	stop := make(chan struct{})
	group := m.load(t, clients, token, stop)
	blocks := length(t, epoch*epochs)
	begun, from := time.Now(), b.highest()
	b.until(uint64(blocks)+5, time.Duration(blocks)*2*time.Second+2*time.Minute)
	close(stop)
	group.Wait()
	to := b.highest()
	took := time.Since(begun)
	heights, _, made := (&cluster{t: t}).missing(b.p[0], from+1, to)
	t.Logf("heights %d to %d in %v: %d without a block, %.2f s a block", from+1, to, took.Round(time.Second), heights, took.Seconds()/float64(max(made, 1)))

	all := map[string]*producerCounters{}
	chunks := 0
	// epochs after the first one, by their last blocks: the first block has no endorsements
	for last := uint64(0); ; {
		end, list := b.ended(last+1, to)
		if end == 0 {
			break
		}
		if last > 0 {
			_, missed, _ := (&cluster{t: t}).missing(b.p[0], last+1, end)
			chunks += missed
			for _, x := range list {
				sum := all[x.Account]
				if sum == nil {
					sum = &producerCounters{Account: x.Account}
					all[x.Account] = sum
				}
				sum.Blocks, sum.Chunks, sum.Endorsed, sum.Due = sum.Blocks+x.Blocks, sum.Chunks+x.Chunks, sum.Endorsed+x.Endorsed, sum.Due+x.Due
			}
			t.Logf("heights %d to %d: %d chunks missed, %s", last+1, end, missed, shares(list))
		}
		last = end
	}
	for i := range b.p {
		x := all[fmt.Sprintf("node%d", i)]
		if x == nil {
			t.Errorf("node%d is no validator", i)
			continue
		}
		t.Logf("%s %d: %d of %d endorsements in blocks (%.2f %%)", b.kind(i), i, x.Endorsed, x.Due, 100*float64(x.Endorsed)/float64(max(x.Due, 1)))
	}
	if x := all[fmt.Sprintf("node%d", makers)]; x != nil {
		if lost := x.Due - x.Endorsed; x.Blocks+x.Chunks > 0 || x.Due < made || lost > chunks && (lost-chunks)*1000 > x.Due {
			t.Errorf("the chunk-only validator: %+v, with %d chunks missed", *x, chunks)
		}
	}
	_, held := blind.figures()
	t.Logf("it has shards %v and used %.0f MiB at most", held, blind.peak())
	if len(held) > 0 || blind.peak() > 1024 {
		t.Errorf("the chunk-only validator tracks shards %v and used %.0f MiB", held, blind.peak())
	}
	for i, p := range b.p {
		if i < b.neards {
			if said := complaints(p.out.String()); len(said) > 0 {
				t.Errorf("neard %d logged %d complaints, want 0: %s", i, len(said), said[0])
			}
			p.end(syscall.SIGTERM)
			continue
		}
		p.stop(syscall.SIGTERM)
	}
}

// ended returns the last block of the first epoch that ended in a range of heights, and that
// epoch's counters; 0 if none ended.
func (b *mixedCluster) ended(from, to uint64) (end uint64, list []producerCounters) {
	b.t.Helper()
	for h := from; h <= to; h++ {
		r, err := b.p[0].call("validators", []any{h})
		if err != nil || r.Error != nil { // not the last of an epoch
			continue
		}
		var v struct {
			Current []producerCounters `json:"current_validators"`
		}
		if err := json.Unmarshal(r.Result, &v); err != nil {
			b.t.Fatal(err)
		}
		return h, v.Current
	}
	return 0, nil
}

func shares(list []producerCounters) string {
	var out []string
	for _, x := range list {
		out = append(out, fmt.Sprintf("%s %d of %d", x.Account, x.Endorsed, x.Due))
	}
	return strings.Join(out, ", ")
}

// TestChunkOnlyValidatorEndorsesChunks: two neards and two troupes produce the blocks and chunks,
// and one more troupe only validates chunks.
func TestChunkOnlyValidatorEndorsesChunks(t *testing.T) { testChunkOnly(t, 2) }

// TestChunkOnlyValidatorEndorsesForNeards is TestChunkOnlyValidatorEndorsesChunks with four neards.
func TestChunkOnlyValidatorEndorsesForNeards(t *testing.T) {
	if neardOrNone(t) == "" {
		t.Skip("skipped: it is TestChunkOnlyValidatorEndorsesChunks where there is no neard")
	}
	testChunkOnly(t, 4)
}
