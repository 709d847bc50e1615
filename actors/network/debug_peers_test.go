package network

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestPeerPagesHaveNeardsForm compares the data of debug pages with what serde makes of nearcore's
// structs (core/primitives/src/views.rs), and their texts with Rust's debug forms.
func TestPeerPagesHaveNeardsForm(t *testing.T) {
	id := func(seed string) wire.PeerID {
		return primitives.SecretKeyFromSeed(primitives.ED25519, seed).PublicKey()
	}
	a, b := id("a"), id("b")
	addr := netip.MustParseAddrPort("1.2.3.4:24567")
	at := time.Unix(1_800_000_000, 120_000_000)
	list := []near.KnownPeer{
		{Info: wire.PeerInfo{ID: a}, Status: "Unknown", FirstSeen: at, LastSeen: at.Add(9 * time.Second)},
		{Info: wire.PeerInfo{ID: b, Addr: addr}, Status: "Banned", Reason: near.Abusive, BannedAt: at, FirstSeen: at, LastSeen: at},
		{Info: wire.PeerInfo{ID: a, Addr: netip.MustParseAddrPort("[::1]:5")}, Status: "Connected", FirstSeen: at, LastSeen: at, Attempt: at},
		{Info: wire.PeerInfo{ID: b, Addr: addr}, Status: "NotConnected", FirstSeen: at, LastSeen: at, Attempt: at.Add(time.Second), Failed: true},
	}
	want := `{"peer_states":[` +
		`{"peer_id":"` + b.String() + `","status":"NotConnected","addr":"Some(1.2.3.4:24567)","first_seen":1800000000,"last_seen":1800000000,` +
		`"last_attempt":[1800000001,"Error: \"the dial or the handshake failed\""]},` +
		`{"peer_id":"` + a.String() + `","status":"Connected","addr":"Some([::1]:5)","first_seen":1800000000,"last_seen":1800000000,"last_attempt":[1800000000,"Ok"]},` +
		`{"peer_id":"` + a.String() + `","status":"Unknown","addr":"None","first_seen":1800000000,"last_seen":1800000009,"last_attempt":null},` +
		`{"peer_id":"` + b.String() + `","status":"Banned(Abusive, 2027-01-15 8:00:00.12 +00:00:00)","addr":"Some(1.2.3.4:24567)",` +
		`"first_seen":1800000000,"last_seen":1800000000,"last_attempt":null}]}`
	if got := text(t, peerStore(list)); got != want {
		t.Errorf("peer_store is\n%s, want\n%s", got, want)
	}
	graph := networkGraph([]*wire.Edge{{Low: b, High: a, Nonce: 4}, {Low: a, High: b, Nonce: 3}}, map[wire.PeerID][]wire.PeerID{b: {a}})
	edges := []string{`{"peer0":"` + a.String() + `","peer1":"` + b.String() + `","nonce":3}`, `{"peer0":"` + b.String() + `","peer1":"` + a.String() + `","nonce":4}`}
	if a > b {
		edges[0], edges[1] = edges[1], edges[0]
	}
	if got, want := text(t, graph), `{"edges":[`+strings.Join(edges, ",")+`],"next_hops":{"`+b.String()+`":["`+a.String()+`"]}}`; got != want {
		t.Errorf("network_graph is\n%s, want\n%s", got, want)
	}
	var f Status
	f.info.Store(&near.Info{Hosts: []*wire.SnapshotHost{{PeerID: a, EpochHeight: 7, Shards: []primitives.ShardID{0, 3}}}})
	for page, want := range map[string]string{
		"peer_store": `{"peer_states":[]}`, "network_graph": `{"edges":[],"next_hops":{}}`, "recent_outbound_connections": `{"recent_outbound_connections":[]}`,
		"snapshot_hosts": `{"hosts":[{"peer_id":"` + a.String() + `","sync_hash":"11111111111111111111111111111111","epoch_height":7,"shards":[0,3]}]}`,
		"another":        "null",
	} {
		if got := text(t, f.DebugPeers(page)); got != want {
			t.Errorf("%s without a host is %s, want %s", page, got, want)
		}
	}
	for nanos, want := range map[int64]string{0: "8:00:00.0", 123_456_789: "8:00:00.123456789", 1000: "8:00:00.000001"} {
		if got := rustTime(time.Unix(1_800_000_000, nanos)); got != "2027-01-15 "+want+" +00:00:00" {
			t.Errorf("%d ns: %s", nanos, got)
		}
	}
}
