package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/signature"
	"github.com/troupe-chain/troupe/net/libp2p"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	peerwire "github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// nodeAddrs is a node's addresses on both transports. An invalid address means that the node does
// not use the transport.
type nodeAddrs struct {
	id         peerwire.PeerID
	near, over netip.AddrPort
}

// transports makes nodes listen on neard's sockets, on libp2p or on both, and dial earlier nodes
// over a transport that both use.
type transports struct {
	mu    sync.Mutex
	spots map[peerwire.PeerID]nodeAddrs
}

func newTransports() *transports { return &transports{spots: map[peerwire.PeerID]nodeAddrs{}} }

// take sets the transports of a node. After a restart it listens at the same addresses.
func (r *transports) take(name string, o *Options, sockets, over bool) {
	key := primitives.SecretKeyFromSeed(primitives.ED25519, name)
	genesis := peerwire.GenesisID{ChainID: "test", Hash: o.Engine.Genesis().Hash}
	any0 := netip.MustParseAddrPort("127.0.0.1:0")
	s := nodeAddrs{id: key.PublicKey()}
	o.Network.Listener = listenFunc(func(deliver func(near.Deliver), verify func(near.VerifyAnnouncements) near.AnnouncementsVerified) (*tcp.Server,
		error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		c := near.Config{Key: key, Genesis: genesis, Version: 86, Oldest: 83, Draw: rand.IntN}
		here := map[peerwire.PeerID]bool{}
		for id, x := range r.spots {
			switch {
			case id == s.id:
			case sockets && x.near.IsValid():
				c.Boot = append(c.Boot, peerwire.PeerInfo{ID: id, Addr: x.near})
			case over && x.over.IsValid():
				c.Boot, here[id] = append(c.Boot, peerwire.PeerInfo{ID: id, Addr: x.over}), true
			}
		}
		at := func(before netip.AddrPort) netip.AddrPort {
			if before.IsValid() {
				return before
			}
			return any0
		}
		var l net.Listener
		if sockets {
			var err error
			if l, err = tcp.Bind(at(s.near).String()); err != nil {
				return nil, err
			}
			s.near = l.Addr().(*net.TCPAddr).AddrPort()
		}
		if over {
			way, err := libp2p.New(libp2p.Options{Key: key, Genesis: genesis, Listen: at(s.over), Here: here})
			if err != nil {
				if l != nil {
					_ = l.Close()
				}
				return nil, err
			}
			s.over = way.Addr()
			r.spots[s.id] = s
			return tcp.NewOver(l, way, c, deliver, verify), nil
		}
		r.spots[s.id] = s
		return tcp.New(l, c, deliver, verify), nil
	})
}

// requirePaymentsFinal requires that payments at each validator become final there, and that the
// chain continues with few missing chunks.
func (c *cluster) requirePaymentsFinal() {
	c.t.Helper()
	c.reach(10, 120*time.Second)
	var group sync.WaitGroup
	for i := range c.members {
		group.Go(func() {
			for k := range 2 {
				c.t.Logf("node %d: FINAL in %v", i, c.pay(i, payer((i+k+1)%4)))
			}
		})
	}
	group.Wait()
	c.requireFewMissingChunks()
}

// TestValidatorsMakeBlocksOverLibp2p: four validators make blocks over libp2p, also after one was
// stopped and started again.
func TestValidatorsMakeBlocksOverLibp2p(t *testing.T) {
	t.Parallel()
	r := newTransports()
	c := validators(t, 4, 4, 1000, func(i int, o *Options) { r.take(fmt.Sprint("host", i), o, false, true) })
	c.requirePaymentsFinal()
	c.stop(c.members[3])
	h := c.members[0].e.Final().Height
	c.reach(h+5, 120*time.Second)
	c.start(3)
	c.reach(c.members[0].e.Final().Height+5, 120*time.Second)
}

// TestValidatorsMakeBlocksOverBridge: two validators with only neard's sockets and two with only
// libp2p make blocks through a node that has both transports and makes no blocks.
func TestValidatorsMakeBlocksOverBridge(t *testing.T) {
	t.Parallel()
	r := newTransports()
	c := validators(t, 4, 4, 1000, func(i int, o *Options) { r.take(fmt.Sprint("host", i), o, i < 2, i >= 2) })
	checker := signature.New()
	e := c.engineOn(nil, func(o *engine.Options) { o.Signature = checker.Check })
	o := Options{Engine: e, Signatures: checker, Vote: parameters.Newest(primitives.NumberingRelease), Mode: production.Manual,
		Exit: func(who string, reason any, stack []byte) {
			panic(fmt.Sprintf("%s failed: %v\n%s", who, reason, stack))
		}}
	front, _ := networked(t, &o, "bridge")
	r.take("bridge", &o, true, true)
	bridge, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := bridge.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
		if err := e.Store().Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	until(t, func() bool { return front.Peers() == 4 })
	c.requirePaymentsFinal()
	for i, m := range c.members {
		if n := m.front.Peers(); n > 2 {
			t.Errorf("node %d has %d peers: not only its own kind and the bridge", i, n)
		}
	}
}
