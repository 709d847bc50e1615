package near

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
)

// TestExcludedHalvesExchangeNothing cuts a network of four in two halves: nothing passes, whichever
// node dials, and all connect again after it is healed.
func TestExcludedHalvesExchangeNothing(t *testing.T) {
	f := newTestNetwork(t, 3)
	var boot []wire.PeerInfo
	var all []*testNode
	for _, name := range []string{"a", "b", "c", "d"} {
		m := f.add(name, func(c *Config) { c.Boot = boot })
		f.step(m, headAt(5))
		boot = append(boot, m.info())
		all = append(all, m)
	}
	peers := func(m *testNode) (out []string) {
		for _, p := range m.Info().Peers {
			for _, o := range all {
				if o.me == p.Info.ID {
					out = append(out, o.name)
				}
			}
		}
		slices.Sort(out)
		return out
	}
	f.run(10 * time.Second)
	for _, m := range all {
		if got := peers(m); len(got) != 3 {
			t.Fatalf("%s is connected to %v", m.name, got)
		}
	}
	halves := [][]*testNode{all[:2], all[2:]}
	exclude := func(m *testNode, others []*testNode) {
		var list []wire.PeerID
		for _, o := range others {
			list = append(list, o.me)
		}
		f.step(m, Exclude{list})
	}
	for i, half := range halves {
		for _, m := range half {
			exclude(m, halves[1-i])
		}
	}
	f.run(time.Second) // what is on its way arrives
	f.log = nil
	for range 20 { // dials that were under way, and those of peers without a list
		f.dial(all[0], all[2], wire.T2)
		f.dial(all[3], all[1], wire.T1)
		f.run(20 * time.Second)
	}
	for i, want := range []string{"b", "a", "d", "c"} {
		if got := strings.Join(peers(all[i]), " "); got != want {
			t.Errorf("%s is connected to %s, want %s", all[i].name, got, want)
		}
	}
	for _, from := range halves[0] {
		for _, to := range halves[1] {
			got := strings.ReplaceAll(f.wrote(from.name, to.name)+f.wrote(to.name, from.name), "disconnect", "") // answers a handshake
			if strings.TrimSpace(got) != "" {
				t.Errorf("between %s and %s passes %s", from.name, to.name, got)
			}
		}
	}
	// one side is healed first: the other refuses it, and it is not forgotten
	for _, m := range halves[0] {
		exclude(m, nil)
	}
	f.run(30 * time.Second)
	if got := peers(all[0]); len(got) != 1 {
		t.Errorf("healed alone, a is connected to %v", got)
	}
	for _, m := range halves[1] {
		exclude(m, nil)
	}
	f.run(10 * time.Second)
	for _, m := range all {
		if got := peers(m); len(got) != 3 {
			t.Errorf("after it is healed %s is connected to %v", m.name, got)
		}
	}
}

// TestExcludedHandshakeIsNotAnswered: a handshake of an excluded peer is not answered, and one in
// progress ends.
func TestExcludedHandshakeIsNotAnswered(t *testing.T) {
	f := newTestNetwork(t, 4)
	a, b := f.add("a", withoutDialling), f.add("b", withoutDialling)
	f.step(a, Exclude{[]wire.PeerID{b.me}})
	f.dial(b, a, wire.T2)
	f.run(time.Second)
	if got := f.wrote("a", "b"); got != "disconnect" {
		t.Errorf("a writes %s", got)
	}
	if len(a.conns)+len(b.conns) != 0 {
		t.Errorf("%d and %d connections", len(a.conns), len(b.conns))
	}
	f.step(a, Exclude{})
	f.dial(a, b, wire.T2)
	f.step(a, Exclude{[]wire.PeerID{b.me}}) // the handshake is on its way
	f.run(2 * time.Second)
	if len(a.conns)+len(b.conns)+len(a.out[wire.T2]) != 0 {
		t.Errorf("%d and %d connections, dialled %v", len(a.conns), len(b.conns), a.out[wire.T2])
	}
	f.step(a, AnswerState{Peer: b.info(), Msg: &wire.StateResponse{}})
	if len(a.answers) != 0 {
		t.Errorf("%d answers wait for an excluded peer", len(a.answers))
	}
}
