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

	"github.com/troupe-chain/troupe/primitives"
)

// servedStates returns how many requests for state parts the nodes have handled together.
func servedStates(nodes []*process) (parts float64) {
	for _, p := range nodes {
		figures, _ := p.figures()
		for name, n := range figures { // neard sorts the labels
			if strings.HasPrefix(name, "near_state_sync_requests_served_total{") && strings.Contains(name, `type="part"`) {
				parts += n
			}
		}
	}
	return parts
}

// killedInEachPhase starts a node with run and kills it in each phase of its state sync. The last
// start is not killed.
func killedInEachPhase(t *testing.T, run func() *process) *process {
	t.Helper()
	for _, phase := range []string{"state sync started", "state sync is complete", "installed the synced state"} {
		p := run()
		for limit := time.Now().Add(3 * time.Minute); !strings.Contains(p.out.String(), phase); time.Sleep(time.Millisecond) {
			if strings.Contains(p.out.String(), "installed the synced state") {
				break // the phase was too short
			}
			if time.Now().After(limit) {
				t.Fatalf("the log never has %q\n%s", phase, tail(p.out.String(), 4000))
			}
		}
		p.stop(syscall.SIGKILL)
	}
	return run()
}

// TestLateNodesOfFewShardsJoin: in a network that has gone past the horizon, a validator that only
// validates chunks joins with an empty data folder. It is killed in each phase of its start, fetches
// no state part, uses less than 1 GiB, and endorses. Later its stake grows, so that it is assigned a
// shard: it has the shard when the epoch begins, and produces chunks. An RPC node of one shard that
// joins late answers for this shard only.
func TestLateNodesOfFewShardsJoin(t *testing.T) {
	const makers, shards, epoch = 4, 4, 90
	b := newMixedCluster(t, makers+1, 0, shards, epoch, func(s nodeHome) { makeChunkOnly(t, s, makers, epoch) })
	late := b.homes[makers]
	b.p[makers].stop(syscall.SIGKILL)
	b.until(3, 3*time.Minute)
	staker := b.p[0].signerOf(late.home)
	if err := os.RemoveAll(filepath.Join(late.home, "data")); err != nil {
		t.Fatal(err)
	}
	first := b.p[0]
	load := &submitter{s: first.signer(), to: first}
	grow := func(to uint64) {
		t.Helper()
		for limit := time.Now().Add(10 * time.Minute); first.final() < to; time.Sleep(500 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("at %d, not %d", first.final(), to)
			}
			load.renew(t)
			load.submit(t, "near", &primitives.Transfer{Deposit: primitives.Yocto(1)})
		}
	}
	grow(4*epoch + epoch/2)

	// the validator
	before := servedStates(b.p[:makers])
	begun, head := time.Now(), first.final()
	p := killedInEachPhase(t, func() *process { b.start(makers); return b.p[makers] })
	p.comes(head, 5*time.Minute)
	since := first.final()
	t.Logf("the validator is in step at %d after %v", since, time.Since(begun).Round(100*time.Millisecond))
	p.lacks(20)
	if n := servedStates(b.p[:makers]) - before; n > 0 {
		t.Errorf("a validator without shards fetched %.0f state parts", n)
	}
	if _, held := p.figures(); len(held) > 0 {
		t.Errorf("it has shards %v", held)
	}

	// the RPC node
	dir, at := joined(t, b.homes[0].home), freeAddr(t)
	if err := os.CopyFS(filepath.Join(dir, "epoch_configs"), os.DirFS(filepath.Join(late.home, "epoch_configs"))); err != nil {
		t.Fatal(err)
	}
	var genesis struct {
		Layout json.RawMessage `json:"shard_layout"`
	}
	if err := json.Unmarshal(mustRead(t, filepath.Join(dir, "genesis.json")), &genesis); err != nil {
		t.Fatal(err)
	}
	var layout primitives.ShardLayout
	if err := json.Unmarshal(genesis.Layout, &layout); err != nil {
		t.Fatal(err)
	}
	own := layout.ShardOf("near")
	change(t, filepath.Join(dir, "config.json"), func(c object) {
		c["tracked_shards_config"] = map[string]any{"Accounts": []string{"near"}}
	})
	head = first.final()
	r := killedInEachPhase(t, func() *process { return start(t, dir, "--network-addr", at, "--boot-nodes", b.homes[0].peer(t)) })
	r.comes(head, 5*time.Minute)
	r.lacks(20)
	if _, held := r.figures(); len(held) != 1 || held[0] != fmt.Sprint(own) {
		t.Errorf("the RPC node has shards %v, want %d", held, own)
	}
	for _, account := range []primitives.AccountID{"near", "node0", "node1", "node2", "node3"} {
		reply, err := r.call("query", map[string]any{"request_type": "view_account", "finality": "final", "account_id": account})
		if err != nil {
			t.Fatal(err)
		}
		if unavailable := strings.Contains(replyText(reply), "UNAVAILABLE_SHARD"); unavailable != (layout.ShardOf(account) != own) {
			t.Errorf("view of %s, of shard %d: %s", account, layout.ShardOf(account), replyText(reply))
		}
	}
	r.stop(syscall.SIGTERM)

	// an epoch of endorsements, and a stake with which it is the first validator two epochs later
	stake, _ := new(big.Int).SetString("60000000000000000000000000000000", 10)
	amount, err := primitives.ParseBalance(stake.String())
	if err != nil {
		t.Fatal(err)
	}
	client := &submitter{s: staker, to: first}
	client.renew(t)
	client.submit(t, staker.key.AccountID, &primitives.Stake{Stake: amount, PublicKey: staker.key.SecretKey.PublicKey()})
	counters := func(from uint64) (x producerCounters, end uint64) {
		t.Helper()
		end, list := b.ended(from, first.final())
		for _, v := range list {
			if v.Account == string(staker.key.AccountID) {
				x = v
			}
		}
		return x, end
	}
	next, hadShards := since, false // hadShards: at the end of the last epoch
	for epochs := 0; ; {
		grow(next + epoch + 5)
		x, end := counters(next + 1)
		if end == 0 {
			t.Fatalf("no epoch ended between %d and %d", next, first.final())
		}
		_, held := p.figures()
		t.Logf("epoch up to %d: %+v, shards %v, %.0f MiB", end, x, held, p.peak())
		if epochs++; epochs >= 2 && (x.Due < epoch || x.Endorsed*100 < x.Due*90) { // it joined within the first
			t.Errorf("epoch up to %d: %d of %d endorsements", end, x.Endorsed, x.Due)
		}
		if next = end; x.Chunks > 0 {
			_, missed, _ := (&cluster{t: t}).missing(first, end-epoch+1, end)
			if missed*10 > epoch*shards || len(held) == 0 || !hadShards {
				t.Errorf("epoch up to %d: %d chunks missed; the validator has shards %v, and had some before the epoch: %v",
					end, missed, held, hadShards)
			}
			break
		}
		hadShards = len(held) > 0
		if epochs > 5 {
			t.Fatal("the validator was never assigned a shard")
		}
	}
	if peak := p.peak(); peak > 1024 {
		t.Errorf("the validator used %.0f MiB", peak)
	}
	for _, p := range b.p {
		p.stop(syscall.SIGTERM)
	}
}
