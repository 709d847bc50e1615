package near

import (
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// samples returns the lines of a metrics text that begin with a name, without comments.
func samples(m *Meter, prefix string) (out []string) {
	for line := range strings.Lines(string(m.Append(nil))) {
		if strings.HasPrefix(line, prefix) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

// TestMeterCountsByVariant: messages and their bytes are counted by neard's names, a routed message
// by the name of its body.
func TestMeterCountsByVariant(t *testing.T) {
	m := NewMeter()
	for _, x := range []struct {
		msg  wire.Message
		size int
	}{{&wire.PeersRequest{}, 10}, {&wire.PeersRequest{}, 5}, {&wire.Routed{Body: &wire.PartialChunk{}}, 100}, {&wire.Handshake{Tier: wire.T1}, 7}} {
		m.Arrived(x.size)
		m.Received(x.msg, x.size)
	}
	m.Arrived(1000) // a frame that does not decode
	m.Sent(&wire.EpochSyncRequest{}, 3)
	for _, x := range []struct {
		prefix string
		want   []string
	}{
		{"near_peer_message_received_by_type_total", []string{`{type="PeersRequest"} 2`, `{type="Tier1Handshake"} 1`, `{type="VersionedPartialEncodedChunk"} 1`}},
		{"near_peer_message_received_by_type_bytes", []string{`{type="PeersRequest"} 15`, `{type="Tier1Handshake"} 7`, `{type="VersionedPartialEncodedChunk"} 100`}},
		{"near_peer_message_sent_by_type_total", []string{`{type="EpochSyncRequest"} 1`}},
		{"near_peer_message_sent_by_type_bytes", []string{`{type="EpochSyncRequest"} 3`}},
		{"near_peer_data_received_bytes", []string{" 1122"}},
		{"near_peer_data_sent_bytes", []string{" 3"}},
	} {
		got := samples(m, x.prefix)
		for i := range got {
			got[i] = strings.TrimPrefix(got[i], x.prefix)
		}
		if !slices.Equal(got, x.want) {
			t.Errorf("%s: %q, want %q", x.prefix, got, x.want)
		}
	}
}

// TestMeterMeasuresRoutedMessages: latency and hops of messages for this node, by body, tier and
// whether another copy came before. Times that no clock has do not count.
func TestMeterMeasuresRoutedMessages(t *testing.T) {
	m, now := NewMeter(), time.Unix(1_800_000_000, 0)
	at := func(before int64) *int64 { s := now.Unix() - before; return &s }
	lowest, highest := int64(math.MinInt64), int64(math.MaxInt64)
	for _, x := range []struct {
		msg     wire.Routed
		fastest bool
	}{
		{wire.Routed{Body: &wire.BlockApproval{}, CreatedAt: at(0)}, true},
		{wire.Routed{Body: &wire.BlockApproval{}, CreatedAt: at(2), Hops: 3}, true},
		{wire.Routed{Body: &wire.BlockApproval{}, CreatedAt: at(1), Hops: 3}, false},
		{wire.Routed{Body: &wire.BlockApproval{}, CreatedAt: at(-5)}, true}, // from the future
		{wire.Routed{Body: &wire.BlockApproval{}, CreatedAt: &lowest, Hops: math.MaxUint32}, true},
		{wire.Routed{Body: &wire.BlockApproval{}, CreatedAt: &highest}, true},
		{wire.Routed{Body: &wire.BlockApproval{}, CreatedAt: at(1 << 60), Hops: 4}, true},
		{wire.Routed{Body: &wire.BlockApproval{}, CreatedAt: at(-1 << 60), Hops: 4}, true},
		{wire.Routed{Body: &wire.Ping{}}, true},
	} {
		m.arrived(now, &x.msg, wire.T2, x.fastest)
	}
	const labels = `{routed="BlockApproval",tier="T2",fastest=`
	text := strings.Join(samples(m, "near_network_routed_msg"), "\n") + "\n"
	for _, want := range []string{
		"near_network_routed_msg_latency_bucket" + labels + `"true",le="0.0001"} 2`, // one from the future
		"near_network_routed_msg_latency_bucket" + labels + `"true",le="+Inf"} 3`,
		"near_network_routed_msg_latency_count" + labels + `"true"} 3`,
		"near_network_routed_msg_latency_sum" + labels + `"false"} 1`,
		"near_network_routed_msg_latency_sum" + labels + `"true"} -3`,
		`near_network_routed_msg_hops{routed="BlockApproval",hops="0"} 3`,
		`near_network_routed_msg_hops{routed="BlockApproval",hops="3"} 2`,
		`near_network_routed_msg_hops{routed="BlockApproval",hops="20"} 1`,
		`near_network_routed_msg_hops{routed="Ping",hops="0"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, `latency_count{routed="Ping"`) {
		t.Error("a message without a time has a latency")
	}
	if got := len(samples(m, "near_network_routed_msg_latency_bucket"+labels+`"true"`)); got != 21 {
		t.Errorf("%d buckets", got)
	}
}

// TestFirstCopyOfRoutedMessageIsFound: the set of recent messages is bounded.
func TestFirstCopyOfRoutedMessageIsFound(t *testing.T) {
	r := New(Config{Key: keyFor("b")}, start).recentRouted
	key := keyFor("a")
	one := wire.NewRouted(key, wire.ToPeer(idOf("b")), &wire.Ping{Nonce: 1}, 0)
	if !r.isFirst(one) || r.isFirst(one) {
		t.Error("the second copy is not recognised")
	}
	bare := one.Bare()
	for range 2 {
		if !r.isFirst(bare) {
			t.Error("a message without a signature has copies")
		}
	}
	for i := range maxRecentRouted {
		m := *one
		sig := make([]byte, 65)
		sig[1], sig[2], sig[3] = byte(i), byte(i>>8), 77
		m.Signature = primitives.Signature(sig)
		if !r.isFirst(&m) {
			t.Fatal("another message is taken for a copy")
		}
	}
	if r.Len() != maxRecentRouted || !r.isFirst(one) {
		t.Errorf("%d messages are kept", r.Len())
	}
}

// TestMeterOfNetwork: two connected nodes count each other's messages and the edges.
func TestMeterOfNetwork(t *testing.T) {
	f := newTestNetwork(t, 1)
	a, b, c := f.add("a", withoutDialling), f.add("b", withoutDialling), f.add("c", withoutDialling)
	f.dial(a, b, wire.T2)
	f.dial(c, a, wire.T2)
	f.run(5 * time.Second)
	f.step(b, RouteTo{Target: wire.ToPeer(c.me), Body: &wire.Ping{Nonce: 1, Source: b.me}})
	f.run(time.Second)
	i := a.Info()
	if i.Edges.Total != 2 || i.Edges.Active != 2 || i.Edges.Updates == 0 {
		t.Errorf("edges %+v", i.Edges)
	}
	if got := samples(c.Meter, "near_network_routed_msg_hops"); !slices.Equal(got, []string{`near_network_routed_msg_hops{routed="Ping",hops="1"} 1`}) {
		t.Errorf("c has received %q", got)
	}
	if got := samples(a.Meter, "near_network_routed_msg_hops"); len(got) != 0 {
		t.Errorf("a counts messages that it only relays: %q", got)
	}
	for _, x := range b.sorted(wire.T2) {
		f.shut(x.id)
	}
	f.run(10 * time.Second)
	if i := a.Info(); i.Edges.Total != 2 || i.Edges.Active != 1 {
		t.Errorf("after a lost connection: edges %+v", i.Edges)
	}
	for _, m := range []*testNode{a, b, c} { // the count agrees with the graph
		n := 0
		for _, e := range m.graph.edges {
			if e.Active() {
				n++
			}
		}
		if n != m.graph.activeEdges {
			t.Errorf("%s: %d active edges, counted %d", m.name, n, m.graph.activeEdges)
		}
	}
}

// TestTablesCanBeInspected: the debug data shows dials with their results, bans and lasting
// connections.
func TestTablesCanBeInspected(t *testing.T) {
	f := newTestNetwork(t, 1)
	b := f.add("b", withoutDialling)
	a := f.add("a", func(c *Config) {
		c.Boot = []wire.PeerInfo{b.info(), {ID: idOf("silent"), Addr: netip.MustParseAddrPort("9.9.9.9:1")}}
	})
	f.step(a, Tick{})
	began := f.now
	f.run(recentAfter + 2*recentPeriod)
	byID := map[wire.PeerID]KnownPeer{}
	for _, k := range a.KnownPeers() {
		byID[k.Info.ID] = k
	}
	if k := byID[b.me]; k.Status != "Connected" || k.Failed || k.Attempt.IsZero() || !k.FirstSeen.Equal(began) || k.LastSeen.Before(k.Attempt) {
		t.Errorf("b: %+v", k)
	}
	if k := byID[idOf("silent")]; k.Status != "Unknown" || !k.Failed || k.Attempt.IsZero() {
		t.Errorf("a peer that does not answer: %+v", k)
	}
	if r := a.RecentConnections(); len(r) != 1 || r[0].Peer.ID != b.me || r[0].Until.Sub(r[0].Since) < recentAfter {
		t.Errorf("lasting connections %+v", r)
	}
	if r := b.RecentConnections(); len(r) != 0 {
		t.Errorf("an inbound connection is listed: %+v", r)
	}
	edges, hops := a.RoutingGraph()
	if len(edges) != 1 || len(hops) != 1 || !slices.Equal(hops[b.me], []wire.PeerID{b.me}) {
		t.Errorf("edges %v, hops %v", edges, hops)
	}
	f.step(b, Ban{Peer: a.me, Reason: Abusive})
	for _, k := range b.KnownPeers() {
		if k.Info.ID == a.me && (k.Status != "Banned" || k.Reason != Abusive || !k.BannedAt.Equal(f.now) || !k.Attempt.IsZero()) {
			t.Errorf("after a ban %+v", k)
		}
	}
}

// TestRequestsAreCountedByType: each request of another part of the node counts once under neard's name.
// Events of connections, answers that neard's peer actor sends by itself, and pings do not count.
func TestRequestsAreCountedByType(t *testing.T) {
	n := New(Config{Key: keyFor("a")}, start)
	peer := idOf("b")
	witness := &wire.PartialWitness{}
	for _, ev := range []Event{
		ToAll{Msg: &wire.Block{Block: new(primitives.Block)}}, ToPeer{Peer: peer, Msg: &wire.BlockRequest{}},
		ToPeer{Peer: peer, Msg: &wire.HeadersRequest{}}, ToPeer{Peer: peer, Msg: &wire.HeadersRequest{}},
		ToPeer{Peer: peer, Msg: &wire.Headers{}}, ToPeer{Peer: peer, Msg: &wire.PeersRequest{}},
		RouteToAccount{AccountID: "v", Body: witness}, RouteToAccount{AccountID: "w", Body: witness},
		RouteTo{Target: wire.ToPeer(peer), Body: &wire.Ping{}}, RouteTo{Target: wire.ToPeer(peer), Body: &wire.ChunkRequest{}},
		AskState{Host: peer, IsHeader: true}, AskState{Host: peer}, AskState{Host: peer, Part: 1},
		AnnouncementsVerified{From: peer, Good: []*wire.Announcement{}}, AnnouncementsVerified{}, Ban{Peer: peer, Reason: Abusive},
		Tick{}, Closed{}, Heard{},
	} {
		n.Step(start, ev)
	}
	const name = "near_requests_count_by_type_total"
	want := []string{`{type="BanPeer"} 1`, `{type="Block"} 1`, `{type="BlockHeadersRequest"} 2`, `{type="BlockRequest"} 1`,
		`{type="PartialEncodedChunkRequest"} 1`, `{type="PartialEncodedStateWitness"} 2`, `{type="StateRequestHeader"} 1`,
		`{type="StateRequestPart"} 2`}
	got := samples(n.Meter, name)
	for i := range got {
		got[i] = strings.TrimPrefix(got[i], name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
