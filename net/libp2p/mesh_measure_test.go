package libp2p

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

func TestMeasureMesh(t *testing.T) {
	for _, c := range []struct{ honest, strangers, rounds int }{{12, 18, 24}} {
		t.Run(fmt.Sprint(c.honest, c.strangers), func(t *testing.T) {
			var all []*node
			var boot []wire.PeerInfo
			for i := range c.strangers { // they come first, and are in all meshes
				n := run(t, fmt.Sprint("s", i), how{libp2p: true, change: func(o *Options) { o.MaxPeers = 200 }})
				n.verdict.Store(int32(near.Hold))
				boot = append(boot, n.info())
				boot = boot[max(0, len(boot)-0):]
				all = append(all, n)
			}
			boot = nil
			for _, n := range all {
				boot = append(boot, n.info())
			}
			var honest []*node
			for i := range c.honest {
				n := run(t, fmt.Sprint("h", i), how{libp2p: true, boot: boot, change: func(o *Options) { o.MaxPeers = 200 }})
				boot = append(boot, n.info())
				honest = append(honest, n)
			}
			for _, n := range honest {
				eventually(t, "there", time.Minute, func() bool { return n.peers() >= min(28, len(all)+len(honest)-1) })
			}
			time.Sleep(5 * time.Second)
			var waits []time.Duration
			for r := range c.rounds {
				h := primitives.Height(1000 + r)
				author := run(t, fmt.Sprint("author", r), how{libp2p: true, boot: []wire.PeerInfo{honest[r%c.honest].info()}})
				author.connected(t, 1)
				eventually(t, "reached", time.Minute, func() bool {
					author.way.mu.Lock()
					defer author.way.mu.Unlock()
					return author.way.reaches(blocks, honest[r%c.honest].way.me)
				})
				begun := time.Now()
				author.tells(h)
				took := make(chan time.Duration, c.honest)
				for _, n := range honest {
					go func() {
						deadline := time.After(20 * time.Second)
						for {
							select {
							case d := <-n.got:
								if m, is := d.Msg.(*wire.Block); is && m.Block.Header.Height == h {
									took <- time.Since(begun)
									n.tells(h) // adopted
									return
								}
							case <-deadline:
								took <- -1
								return
							}
						}
					}()
				}
				for range honest {
					waits = append(waits, <-took)
				}
				author.stop()
			}
			slices.Sort(waits)
			n := len(waits)
			t.Logf("min %v median %v p90 %v max %v", waits[0], waits[n/2], waits[n*9/10], waits[n-1])
		})
	}
}
