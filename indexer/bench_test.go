package indexer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/indexer"
	"github.com/troupe-chain/troupe/indexer/node"
	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/net/jetstream"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
)

// commits records when blocks were committed and became final.
type commits struct {
	mu           sync.Mutex
	known, final map[primitives.Height]time.Time
	last         primitives.Height
	times        []time.Time
}

func (c *commits) observe(m *messages.BlockAccepted) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[m.Block.Header.Height] = now
	c.times = append(c.times, now)
	for ; c.last < m.Final; c.last++ {
		c.final[c.last+1] = now
	}
}

// since is how long ago a block was committed, or became final.
func (c *commits) since(h primitives.Height, final bool) (time.Duration, bool) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.known[h]
	if final {
		at, ok = c.final[h]
	}
	return now.Sub(at), ok
}

// perSecond is the load: transfers.
const perSecond = 1000

// loadedNode runs a node under load with a block interval, and with a NATS server inside if it has
// an address for one.
func loadedNode(b *testing.B, interval time.Duration, nats string) (*node.Node, *commits) {
	own := `"block_production":"interval"`
	if nats != "" {
		own += `,"jetstream":{"enabled":true,"listen":"` + nats + `"}`
	}
	dir := folder(b, 4, own)
	edit(b, filepath.Join(dir, "config.json"), func(c map[string]any) {
		c["consensus"].(map[string]any)["min_block_production_delay"] = map[string]int64{"secs": 0, "nanos": int64(interval)}
	})
	hm, err := home.Load(dir)
	if err != nil {
		b.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	c := &commits{known: map[primitives.Height]time.Time{}, final: map[primitives.Height]time.Time{}}
	n, err := node.Under(daemon.Options{Home: hm, Log: log, Listen: "127.0.0.1:0", Observe: c.observe})
	if err != nil {
		b.Fatal(err)
	}
	back := n.Host().Backend()
	type signer struct {
		id    primitives.AccountID
		key   primitives.SecretKey
		nonce primitives.Nonce
	}
	var all []*signer
	var records []genesis.Record
	for i := range 50 {
		s := &signer{id: primitives.AccountID(fmt.Sprintf("%c%d.near", 'a'+i%26, i)), key: primitives.SecretKeyFromSeed(primitives.ED25519, fmt.Sprint(i))}
		records = append(records, &genesis.AccountRecord{AccountID: s.id, Account: primitives.Account{Amount: primitives.NEAR(1000), StorageUsage: 182}},
			&genesis.AccessKeyRecord{AccountID: s.id, PublicKey: s.key.PublicKey().Handle()})
		all = append(all, s)
	}
	if err := back.PatchState(b.Context(), records); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var load sync.WaitGroup
	load.Go(func() {
		due, begun := 0, time.Now()
		for t := time.NewTicker(2 * time.Millisecond); ; {
			select {
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
				return
			}
			for ; due < int(time.Since(begun).Seconds()*perSecond); due++ {
				s := all[due%len(all)]
				s.nonce++
				x := primitives.Transaction{SignerID: s.id, PublicKey: s.key.PublicKey(), ReceiverID: all[(due*7+1)%len(all)].id, Nonce: primitives.TransactionNonce{Nonce: s.nonce},
					BlockHash: back.Head().Hash, Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.Yocto(1)}}}
				hash := x.Hash()
				if _, err := back.SendTx(ctx, &view.SendTx{Tx: primitives.NewSignedTransaction(x, s.key.Sign(hash[:])), WaitUntil: view.LevelNone}); err != nil && ctx.Err() == nil {
					b.Errorf("transfer %d: %v", due, err)
					return
				}
			}
		}
	})
	b.Cleanup(func() {
		cancel()
		load.Wait()
		_ = n.Close()
	})
	return n, c
}

// follows connects to a node's stream like a replica, over a socket, and calls f with the height of
// each record.
func follows(ctx context.Context, n *node.Node, nats string, f func(primitives.Height)) error {
	g := n.Host().Engine.Genesis()
	follower, err := jetstream.Follow(jetstream.FollowerOptions{Link: jetstream.Link{URL: "nats://" + nats}, Names: jetstream.NamesOf("streamed", g.Hash)})
	if err != nil {
		return err
	}
	defer follower.Close()
	for {
		r, err := follower.Next(ctx)
		if err != nil {
			return err
		}
		if r.Pending == 0 { // else it is of the past
			f(r.Height)
		}
	}
}

// freeAddress is an address without a listener.
func freeAddress(b *testing.B) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// BenchmarkDelay measures delays while 1,000 transfers a second are in blocks of 100 ms: how long
// after a block's commit a subscriber's handler has the block's message, or also its text, and how
// long after it a follower of the node's JetStream has the block's record. For final blocks the
// time counts from the commit of the block that makes them final. It also measures how much the
// subscribers slow down block production. One iteration is ten seconds, 100 blocks; percentiles are
// over all iterations:
//
//	go test ./indexer -run '^$' -bench Delay -benchtime 3x
func BenchmarkDelay(b *testing.B) {
	for _, c := range []struct {
		source      string
		finality    indexer.Finality
		subscribers int
		text        bool
	}{
		{"none", indexer.None, 0, false},
		{"node", indexer.None, 1, false}, {"node", indexer.None, 1, true}, {"node", indexer.Final, 1, true}, {"node", indexer.None, 100, false}, {"node", indexer.None, 100, true},
		{"jetstream", indexer.None, 1, false}, {"jetstream", indexer.None, 2, false},
		{"url", indexer.None, 1, true}, {"url", indexer.Final, 1, true}, {"url", indexer.Final, 100, true},
		{"none", indexer.None, 0, false},
	} {
		b.Run(fmt.Sprintf("source=%s/finality=%v/subscribers=%d/text=%v", c.source, c.finality, c.subscribers, c.text), func(b *testing.B) {
			nats := ""
			if c.source == "jetstream" {
				nats = freeAddress(b)
			}
			n, marks := loadedNode(b, 100*time.Millisecond, nats)
			time.Sleep(time.Second)
			var source indexer.Source = n
			if c.source == "url" {
				source = indexer.URL("http://" + n.Host().Addr.String())
			}
			var mu sync.Mutex
			var delays []time.Duration // of all iterations
			for b.Loop() {
				ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
				var bytes, told, early atomic.Int64
				var all sync.WaitGroup
				cpu, begun := cpuTime(), time.Now()
				for range c.subscribers {
					all.Go(func() {
						first := true
						came := func(height primitives.Height) {
							d, ok := marks.since(height, c.finality == indexer.Final)
							if first { // where it begins: a block that was there before
								first = false
								return
							}
							if !ok { // delivered before the node's observer was
								early.Add(1)
								return
							}
							told.Add(1)
							mu.Lock()
							delays = append(delays, d)
							mu.Unlock()
						}
						var err error
						if nats != "" {
							err = follows(ctx, n, nats, came)
						} else {
							err = indexer.Run(ctx, indexer.Config{Source: source, Finality: c.finality}, func(_ context.Context, m *indexer.Message) error {
								if c.text {
									text, err := m.JSON()
									if err != nil {
										return err
									}
									bytes.Add(int64(len(text)))
								}
								came(m.Cursor.Height)
								return nil
							})
						}
						if !errors.Is(err, context.Cause(ctx)) {
							b.Error(err)
						}
					})
				}
				<-ctx.Done()
				all.Wait()
				cancel()
				took := time.Since(begun)
				slices.Sort(delays)
				if len(delays) > 0 {
					b.ReportMetric(delays[len(delays)/2].Seconds()*1e3, "p50_ms")
					b.ReportMetric(delays[(len(delays)*99+99)/100-1].Seconds()*1e3, "p99_ms")
					b.ReportMetric(float64(bytes.Load())/float64(told.Load())/1024, "KiB/message")
				}
				if early.Load() > 0 {
					b.ReportMetric(float64(early.Load()), "early")
				}
				marks.mu.Lock()
				blocks := 0
				for _, at := range marks.times {
					if at.After(begun) {
						blocks++
					}
				}
				marks.mu.Unlock()
				b.ReportMetric(took.Seconds()*1e3/float64(blocks), "ms/block")
				b.ReportMetric((cpuTime()-cpu).Seconds()/took.Seconds()*100, "%cpu")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}
