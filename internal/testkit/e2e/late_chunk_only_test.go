//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestLateChunkOnlyValidatorJoinsMixedNetwork: two neards and two troupes make the blocks and chunks
// of four shards under load. After more than four epochs a troupe that only validates chunks begins
// with an empty data folder. It begins by epoch sync, asks no node for a state part, and uses less
// than 1 GiB. Of the epochs that begin after it is in step, 99.9 % of its endorsements are in
// blocks.
func TestLateChunkOnlyValidatorJoinsMixedNetwork(t *testing.T) {
	const makers, shards, epoch, epochs = 4, 4, 90, 3
	b := newMixedCluster(t, makers+1, 2, shards, epoch, func(s nodeHome) {
		makeChunkOnly(t, s, makers, epoch)
		change(t, filepath.Join(s.home, "config.json"), func(c object) { c.at("consensus")["min_num_peers"] = makers - 1 }) // neards wait for so many
	})
	b.p[makers].stop(syscall.SIGKILL)
	if err := os.RemoveAll(filepath.Join(b.homes[makers].home, "data")); err != nil {
		t.Fatal(err)
	}
	b.until(3, 3*time.Minute)
	clients, token := (&mixed{shards: shards, nodes: b.p[:1]}).settle(t, b.p[makers-1])
	for _, p := range b.p[1:makers] {
		clients = append(clients, &submitter{s: p.signer(), to: p})
	}
	stop := make(chan struct{})
	group := (&mixed{shards: shards, nodes: b.p[:1]}).load(t, clients, token, stop)
	b.until(4*epoch+epoch/2, 15*time.Minute)

	before, head, begun := servedStates(b.p[:makers]), b.highest(), time.Now()
	b.start(makers)
	late := b.p[makers]
	late.comes(head, 5*time.Minute)
	since := late.final()
	t.Logf("in step at %d after %v", since, time.Since(begun).Round(100*time.Millisecond))
	late.lacks(20)

	// epochs that begin after that, by their last blocks
	account := fmt.Sprintf("node%d", makers)
	last, sum, missed := since, producerCounters{}, 0
	for counted := -1; counted < epochs; {
		from := last + 1
		b.until(from+epoch+3, 10*time.Minute)
		end, list := b.ended(from, b.highest())
		if end == 0 {
			t.Fatalf("no epoch ended between %d and %d", from, b.highest())
		}
		if counted++; counted > 0 {
			_, chunks, _ := (&cluster{t: t}).missing(b.p[0], last+1, end)
			missed += chunks
			for _, x := range list {
				if x.Account == account {
					sum.Blocks, sum.Chunks, sum.Endorsed, sum.Due = sum.Blocks+x.Blocks, sum.Chunks+x.Chunks, sum.Endorsed+x.Endorsed, sum.Due+x.Due
				}
			}
		}
		t.Logf("epoch up to %d: %s", end, shares(list))
		last = end
	}
	close(stop)
	group.Wait()
	if lost := sum.Due - sum.Endorsed; sum.Blocks+sum.Chunks > 0 || sum.Due < epochs*epoch || lost > missed && (lost-missed)*1000 > sum.Due {
		t.Errorf("the late validator: %+v, with %d chunks missed", sum, missed)
	}
	t.Logf("%d of %d endorsements in blocks (%.2f %%), %d chunks missed", sum.Endorsed, sum.Due, 100*float64(sum.Endorsed)/float64(max(sum.Due, 1)), missed)
	if n := servedStates(b.p[:makers]) - before; n > 0 {
		t.Errorf("the nodes got %.0f requests for state parts, want 0", n)
	}
	_, held := late.figures()
	t.Logf("it has shards %v and used %.0f MiB at most", held, late.peak())
	if len(held) > 0 || late.peak() > 1024 {
		t.Errorf("the late validator has shards %v and used %.0f MiB", held, late.peak())
	}
	for i, p := range b.p {
		if i < b.neards {
			if said := complaints(p.out.String()); len(said) > 0 {
				t.Errorf("neard %d logged %d complaints, want 0: %s", i, len(said), strings.Join(said[:min(len(said), 5)], "\n"))
			}
			p.end(syscall.SIGTERM)
			continue
		}
		p.stop(syscall.SIGTERM)
	}
}
