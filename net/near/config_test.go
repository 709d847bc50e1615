package near

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// isReady returns whether a node has an established connection with another node.
func (m *testNode) isReady(other *testNode, tier wire.Tier) bool {
	return m.ready[tier][other.me] != nil
}

// TestNoInboundAdmitsOnlyWhitelist: with NoInbound a peer is refused unless it is in the whitelist.
// The node itself can still dial.
func TestNoInboundAdmitsOnlyWhitelist(t *testing.T) {
	f := newTestNetwork(t, 1)
	b, c := f.add("b", withoutDialling), f.add("c", withoutDialling)
	a := f.add("a", func(x *Config) {
		withoutDialling(x)
		x.NoInbound, x.Whitelist = true, []wire.PeerInfo{c.info()}
	})
	f.dial(b, a, wire.T2)
	f.dial(c, a, wire.T2)
	f.run(5 * time.Second)
	if a.isReady(b, wire.T2) || !a.isReady(c, wire.T2) {
		t.Errorf("the other peer is connected: %v, the whitelisted one: %v", a.isReady(b, wire.T2), a.isReady(c, wire.T2))
	}
	f.dial(a, b, wire.T2)
	f.run(5 * time.Second)
	if !a.isReady(b, wire.T2) {
		t.Error("the node cannot dial")
	}
}

// TestNoOutboundDialsNoPeer: with NoOutbound the node dials not even boot nodes.
func TestNoOutboundDialsNoPeer(t *testing.T) {
	for _, off := range []bool{false, true} {
		f := newTestNetwork(t, 1)
		b := f.add("b", withoutDialling)
		a := f.add("a", func(x *Config) { x.NoOutbound, x.Boot = off, []wire.PeerInfo{b.info()} })
		f.step(a, Tick{})
		f.run(time.Minute)
		if got := a.isReady(b, wire.T2); got == off {
			t.Errorf("NoOutbound %v: connected %v", off, got)
		}
	}
}

// TestMaxPeersSentBoundsAnswer: the node reports at most MaxPeersSent known peers.
func TestMaxPeersSentBoundsAnswer(t *testing.T) {
	for _, x := range []struct{ limit, want int }{{0, 5}, {3, 3}, {-1, 0}, {1 << 20, 5}} {
		t.Run(fmt.Sprint(x.limit), func(t *testing.T) {
			f := newTestNetwork(t, 1)
			a := f.add("a", func(c *Config) {
				withoutDialling(c)
				c.MaxPeersSent = x.limit
				for i := range 4 {
					c.Known = append(c.Known, wire.PeerInfo{ID: idOf(fmt.Sprint(i)), Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{9, 9, 9, byte(i)}), 1)})
				}
			})
			b := f.add("b", withoutDialling)
			f.dial(b, a, wire.T2)
			f.run(5 * time.Second)
			got := -1
			for _, e := range a.Step(f.now, Received{Conn: a.ready[wire.T2][b.me].id, Msg: &wire.PeersRequest{}}) {
				if w, ok := e.(Write); ok {
					if r, ok := w.Msg.(*wire.PeersResponse); ok {
						got = len(r.Peers)
					}
				}
			}
			if got != x.want { // the four, and b
				t.Errorf("%d peers, want %d", got, x.want)
			}
		})
	}
}

// TestTTLIsThatOfTheConfig: messages of this node begin with the configured TTL.
func TestTTLIsThatOfTheConfig(t *testing.T) {
	for _, x := range []struct{ set, want byte }{{0, wire.StartTTL}, {7, 7}} {
		f := newTestNetwork(t, 1)
		a, b := f.add("a", func(c *Config) { withoutDialling(c); c.TTL = x.set }), f.add("b", withoutDialling)
		f.dial(a, b, wire.T2)
		f.run(5 * time.Second)
		var got []byte
		for _, e := range a.Step(f.now, RouteTo{Target: wire.ToPeer(b.me), Body: &wire.Ping{Nonce: 1, Source: a.me}}) {
			if w, ok := e.(Write); ok {
				if r, ok := w.Msg.(*wire.Routed); ok {
					got = append(got, r.TTL)
				}
			}
		}
		if len(got) != 1 || got[0] != x.want {
			t.Errorf("TTL %d: sent %v", x.set, got)
		}
	}
}

// TestNewT1BoundsDials: one round dials at most NewT1 validators.
func TestNewT1BoundsDials(t *testing.T) {
	for _, x := range []struct{ limit, want int }{{0, 6}, {2, 2}, {-1, 0}} {
		f := newTestNetwork(t, 1)
		a := f.add("a", func(c *Config) { withoutDialling(c); c.NewT1 = x.limit })
		vk := keyFor("validator")
		head := headAt(1)
		head.T1 = map[primitives.AccountID][]primitives.PublicKey{"val.near": {vk.PublicKey()}}
		for i := range 6 {
			head.T1[primitives.AccountID(fmt.Sprint("v", i))] = []primitives.PublicKey{keyFor(fmt.Sprint("v", i)).PublicKey()}
		}
		f.step(a, head)
		f.step(a, Validator{AccountID: "val.near", Key: vk})
		for i := range 6 {
			d := &wire.AccountData{PeerID: idOf(fmt.Sprint("node", i)), Version: 1, Timestamp: timestamp(f.now),
				Proxies: []wire.PeerAddr{{PeerID: idOf(fmt.Sprint("node", i)), Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{9, 9, 9, byte(i)}), 1)}}}
			if err := d.Sign(keyFor(fmt.Sprint("v", i))); err != nil {
				t.Fatal(err)
			}
			a.accounts.add(f.now, []*wire.AccountData{d})
		}
		dials := 0
		f.now = f.now.Add(time.Minute)
		for _, e := range a.Step(f.now, Tick{}) {
			if d, ok := e.(Dial); ok && d.Tier == wire.T1 {
				dials++
			}
		}
		if dials != x.want {
			t.Errorf("NewT1 %d: %d dials, want %d", x.limit, dials, x.want)
		}
	}
}

// TestAdvertisePeriodHasAMinimum: the configured period is used, but at least advertisePause.
func TestAdvertisePeriodHasAMinimum(t *testing.T) {
	for _, x := range []struct{ set, want time.Duration }{{0, advertisePeriod}, {time.Minute, time.Minute}, {1, advertisePause}} {
		f := newTestNetwork(t, 1)
		a := f.add("a", func(c *Config) { withoutDialling(c); c.AdvertisePeriod = x.set })
		f.step(a, Validator{AccountID: "val.near", Key: keyFor("validator")})
		if got := a.timers.advertise.Sub(f.now); got != x.want {
			t.Errorf("period %v: the next advertisement is after %v, want %v", x.set, got, x.want)
		}
	}
}

// TestGivenPublicAddressIsKept: peers do not replace a configured address for T3.
func TestGivenPublicAddressIsKept(t *testing.T) {
	given := netip.MustParseAddrPort("203.0.113.5:24567")
	for _, set := range []netip.AddrPort{given, {}} {
		f := newTestNetwork(t, 1)
		a, b := f.add("a", func(c *Config) { withoutDialling(c); c.PublicAddr = set }), f.add("b", withoutDialling)
		f.dial(a, b, wire.T2)
		f.run(5 * time.Second)
		want := set
		if !set.IsValid() {
			want = a.ListenAddr // b reports it
		}
		if got := a.Info().Public; got != want {
			t.Errorf("set %v: %v, want %v", set, got, want)
		}
	}
}

// TestNodeWithoutDrawTriesAllBootNodes: a node without Config.Draw dials each of its boot nodes, so those
// that do not answer do not keep it from the one that does.
func TestNodeWithoutDrawTriesAllBootNodes(t *testing.T) {
	f := newTestNetwork(t, 1)
	b := f.add("b", func(x *Config) { x.NoOutbound = true })
	boot := []wire.PeerInfo{b.info()}
	for i := range 4 {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{9, 9, 9, byte(i)}), 1)
		boot = append(boot, wire.PeerInfo{ID: idOf(fmt.Sprint("silent", i)), Addr: at})
	}
	a := f.add("a", func(x *Config) { x.Draw, x.Boot = nil, boot })
	for range 600 { // at least one dial a minute: the chance that none is of b is below 1e-50
		if f.run(time.Minute); a.isReady(b, wire.T2) {
			return
		}
	}
	t.Error("after ten hours the node has not dialled the only boot node that answers")
}
