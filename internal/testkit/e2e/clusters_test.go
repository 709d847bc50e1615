//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestNoChunkIsMissedOverAnyTransport runs four validators of four shards over sockets, over
// libp2p, and with two validators on each transport and a bridge between them, at neard's block
// time. Each block is final within three heights and a transaction within six of its submission. No
// height is missed either.
func TestNoChunkIsMissedOverAnyTransport(t *testing.T) {
	for name, o := range map[string]*clusterOptions{
		"near":   {},
		"libp2p": {config: map[string]any{"network": map[string]any{"transport": "libp2p"}}},
		"bridge": {bridge: true},
	} {
		t.Run(name, func(t *testing.T) {
			o.n, o.shards, o.epoch, o.slow = 4, 4, 500, true
			c := newClusterWith(t, o)
			c.together(5, 60*time.Second)
			from := c.p[0].final()
			var group sync.WaitGroup
			var mu sync.Mutex
			var took []uint64
			for i := range 4 {
				s := c.p[i].signer()
				group.Go(func() {
					for range 8 {
						encoded, _ := s.next()
						at := c.p[i].place().Sync.Height
						if got := c.p[i].send(encoded, "FINAL").Level; got != "FINAL" {
							t.Errorf("node %d: %s", i, got)
							return
						}
						heights := c.p[i].place().Sync.Height - at
						mu.Lock()
						took = append(took, heights)
						mu.Unlock()
					}
				})
			}
			group.Wait()
			to := c.p[0].final()
			empty, missed, blocks := c.missing(c.p[0], from, to)
			behind := c.behind(c.p[0], from, to)
			slices.Sort(took)
			t.Logf("heights %d to %d: %d without a block, %d of %d chunks missed, final at most %d behind; FINAL within %d heights (p50), %d (most)", from, to, empty, missed, 4*blocks,
				behind, took[len(took)/2], took[len(took)-1])
			if behind > 3 || took[len(took)-1] > 6 {
				t.Errorf("blocks are final %d heights behind, transactions %d heights after they were submitted; want 3 and 6", behind, took[len(took)-1])
			}
			c.together(2, 60*time.Second)
			for _, p := range c.p {
				p.stop(syscall.SIGTERM)
			}
			c.consistent()
		})
	}
}

// behind returns the largest distance between a block and its last final block, among a node's
// blocks.
func (c *cluster) behind(p *process, from, to uint64) (most uint64) {
	c.t.Helper()
	known := map[string]uint64{}
	for h := from; h <= to; h++ {
		r, err := p.call("block", map[string]any{"block_id": h})
		var b struct {
			Header struct {
				Hash  string `json:"hash"`
				Final string `json:"last_final_block"`
			} `json:"header"`
		}
		if err != nil || r.Error != nil || json.Unmarshal(r.Result, &b) != nil {
			continue
		}
		known[b.Header.Hash] = h
		if final, ok := known[b.Header.Final]; ok {
			most = max(most, h-final)
		}
	}
	return most
}

// TestLoadedClusterMissesFewChunks loads clusters over each transport with troupe bench load: 1,000
// transfers/s at neard's block time, with at most 0.1 % of chunks missed, and 300/s in eager mode,
// where it logs latencies. TROUPE_CLUSTER_LOAD sets the duration of each; without it the test is
// skipped, because it needs an idle machine.
func TestLoadedClusterMissesFewChunks(t *testing.T) {
	span, err := time.ParseDuration(os.Getenv("TROUPE_CLUSTER_LOAD"))
	if err != nil {
		t.Skip("TROUPE_CLUSTER_LOAD, like 3m, is not set")
	}
	for _, x := range []struct{ pace, rate, accounts string }{{"delays", "1000", "8000"}, {"eager", "300", "1000"}} {
		for _, transport := range []string{"near", "libp2p", "bridge"} {
			t.Run(x.pace+"/"+transport, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "report.json")
				out, err := troupe(t, "bench", "load", "--target", "cluster", "--nodes", "4", "--shards", "4", "--transport", transport, "--pace", x.pace, "--rate", x.rate,
					"--accounts", x.accounts, "--connections", "8192", "--until", "FINAL", "--warm", "5s", "--duration", span.String(), "--dir", t.TempDir(), "--json", file)
				if err != nil {
					t.Fatalf("error %v\noutput:\n%s", err, tail(out, 2000))
				}
				t.Log(out)
				var r struct {
					Phases []struct {
						Offered, Done int
						Heights       struct {
							Missed int `json:"chunks_missed"`
							Chunks int
							Behind int `json:"final_behind"`
						}
					}
				}
				raw, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(raw, &r); err != nil {
					t.Fatal(err)
				}
				p := &r.Phases[0]
				if p.Done < p.Offered || p.Heights.Chunks == 0 || 1000*p.Heights.Missed > p.Heights.Chunks || p.Heights.Behind > 3 {
					t.Errorf("%d of %d done, %d of %d chunks missed, final at most %d behind; want all, 0.1 %% and 3", p.Done, p.Offered, p.Heights.Missed, p.Heights.Chunks, p.Heights.Behind)
				}
			})
		}
	}
}
