package libp2p

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// TestIdleMeshPeersAreReplaced: peers that joined first and relay nothing are replaced in the
// meshes: after a while, a message that reaches one honest node reaches the others at once, not
// only by gossipsub's periodic gossip.
func TestIdleMeshPeersAreReplaced(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute")
	}
	many := func(o *Options) { o.MaxPeers = 200 } // all peers have one address
	var boot []wire.PeerInfo
	for i := range 18 {
		s := run(t, fmt.Sprint("stranger", i), how{libp2p: true, change: many})
		s.verdict.Store(int32(near.Hold))
		boot = append(boot, s.info())
	}
	var honest []*node
	for i := range 8 {
		n := run(t, fmt.Sprint("honest", i), how{libp2p: true, boot: boot, change: many})
		boot = append(boot, n.info())
		honest = append(honest, n)
	}
	for _, n := range honest {
		eventually(t, "there", time.Minute, func() bool { return n.peers() >= 24 })
	}
	author := run(t, "author", how{libp2p: true, boot: []wire.PeerInfo{honest[0].info()}})
	author.connected(t, 1)
	author.reached(t, honest[0])
	inARow := 0
	for h, begun := primitives.Height(1), time.Now(); inARow < 12; h++ {
		if time.Since(begun) > 100*time.Second {
			t.Fatalf("after %d blocks there were not 12 fast ones in succession", h)
		}
		told := time.Now()
		author.broadcastBlock(h)
		// A block that reaches no other node in the first heartbeats is not gossiped later: it counts as slow.
		limit, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		all := true
		for _, n := range honest {
			all = arrives(limit, n, h) && all
		}
		cancel()
		most := time.Since(told)
		if inARow++; !all || most > 250*time.Millisecond {
			inARow = 0
		}
		t.Logf("%d: %v after %v", h, most, time.Since(begun))
		time.Sleep(50 * time.Millisecond)
	}
}

// arrives returns whether the node receives the block of height h before limit ends.
func arrives(limit context.Context, n *node, h primitives.Height) bool {
	for {
		select {
		case d := <-n.got:
			if b, ok := d.Msg.(*wire.Block); ok && isHeight(h)(b) {
				return true
			}
		case <-limit.Done():
			return false
		}
	}
}
