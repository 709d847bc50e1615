package config

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestPublicAddressesFollowNeardsRules: network.public_addrs is accepted and refused as by neard
// (nearcore chain/network/src/config.rs:301).
func TestPublicAddressesFollowNeardsRules(t *testing.T) {
	t.Parallel()
	const k1, k2 = "ed25519:9CzDfWgcHZpnTX1ZdvsvbK2kPbQdTpFmDp6SkgRz9qfU", "ed25519:7a5h2TYzRTsr7VVT5RRMBmTSZPnWGB6zpGMpdD7ZqLjb"
	for _, x := range []struct {
		name    string
		list    []string
		private bool
		problem string // in the error; empty: none
	}{
		{"none", nil, false, ""},
		{"two", []string{k1 + "@1.2.3.4:24567", k2 + "@[2001:db8::1]:80"}, false, ""},
		{"one key twice", []string{k1 + "@1.2.3.4:24567", k1 + "@1.2.3.5:24567"}, false, "two entries"},
		{"loopback", []string{k1 + "@127.0.0.1:1"}, false, "not a public address"},
		{"loopback allowed", []string{k1 + "@127.0.0.1:1"}, true, ""},
		{"private", []string{k1 + "@10.1.2.3:1"}, false, "not a public address"},
		{"private allowed", []string{k1 + "@192.168.0.1:1"}, true, ""},
		{"unspecified", []string{k1 + "@0.0.0.0:1"}, true, "not an address"},
		{"a name", []string{k1 + "@node.example:1"}, false, "ip:port"},
		{"no key", []string{"1.2.3.4:1"}, false, "node_key@ip:port"},
		{"another key", []string{"ed25519:xyz@1.2.3.4:1"}, false, "ed25519:xyz"},
		{"eleven", make([]string, 11), false, "at most 10"},
	} {
		t.Run(x.name, func(t *testing.T) {
			n := &Network{Public: x.list, AllowPrivate: x.private}
			got, err := n.Proxies()
			if (err == nil) != (x.problem == "") || err != nil && !strings.Contains(err.Error(), x.problem) {
				t.Errorf("%v, want %q", err, x.problem)
			}
			if err == nil && len(got) != len(x.list) {
				t.Errorf("%d entries of %d", len(got), len(x.list))
			}
		})
	}
}

// TestStunServersAreChecked: network.trusted_stun_servers takes at most 20 servers, each with a port.
func TestStunServersAreChecked(t *testing.T) {
	t.Parallel()
	many := strings.Repeat(`"1.2.3.4:5",`, 20)
	for _, x := range []struct{ name, list, problem string }{
		{"none", `[]`, ""},
		{"a name and addresses", `["stun.example.org:3478","1.2.3.4:5","[2001:db8::1]:5"]`, ""},
		{"no port", `["stun.example.org"]`, "must be host:port"},
		{"a port by name", `["stun.example.org:stun"]`, "must be host:port"},
		{"a number", `[5]`, "a list of strings"},
		{"twenty", `[` + many[:len(many)-1] + `]`, ""},
		{"more than twenty", `[` + many + `"1.2.3.4:5"]`, "at most 20"},
	} {
		t.Run(x.name, func(t *testing.T) {
			c, _, err := Parse("config.json", []byte(nested("network.trusted_stun_servers", x.list)))
			if (err == nil) != (x.problem == "") || err != nil && !strings.Contains(err.Error(), x.problem) {
				t.Errorf("%v, want %q", err, x.problem)
			}
			if err == nil && c.Network.IsInitStun() {
				t.Error("taken for the servers of init")
			}
		})
	}
	c, _, err := Parse("config.json", []byte(`{}`))
	if err != nil || !c.Network.IsInitStun() || len(c.Network.Stun) != 5 {
		t.Errorf("by default %v, %v", c.Network.Stun, err)
	}
}

// TestReportedAddressMustBePublic: an address that STUN servers report is used only if other nodes
// can connect to it.
func TestReportedAddressMustBePublic(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		ip              string
		public, private bool // whether it is accepted, without and with allow_private_ip_in_public_addrs
	}{
		{"203.0.113.7", true, true}, {"2001:db8::1", true, true}, {"127.0.0.1", false, true}, {"::1", false, true},
		{"10.1.2.3", false, true}, {"192.168.1.1", false, true}, {"100.64.0.1", false, true}, {"169.254.1.1", false, true},
		{"fe80::1", false, true}, {"fd00::1", false, true}, {"0.0.0.0", false, false}, {"::", false, false},
		{"224.0.0.1", false, false}, {"ff02::1", false, false}, {"255.255.255.255", false, true},
	} {
		for _, private := range []bool{false, true} {
			want := x.public
			if private {
				want = x.private
			}
			if err := (&Network{AllowPrivate: private}).CheckReported(netip.MustParseAddr(x.ip)); (err == nil) != want {
				t.Errorf("%s, private addresses allowed %v: %v", x.ip, private, err)
			}
		}
	}
}

// TestExperimentalKeysAreRead: network.experimental has its effect as in neard.
func TestExperimentalKeysAreRead(t *testing.T) {
	t.Parallel()
	plain, _, err := Parse("config.json", []byte(`{}`))
	if err != nil || plain.Network.Experimental != (Experimental{MaxPeersSent: 512}) || plain.Network.NewT1 != 50 || plain.Network.AdvertisePeriod != 15*time.Minute {
		t.Errorf("by default %+v, %v", plain.Network, err)
	}
	for _, x := range []struct {
		name, in string
		want     Experimental
		problem  string
	}{
		{"all", `{"tier3_public_addr":"203.0.113.5:24567","inbound_disabled":true,"connect_only_to_boot_nodes":true,"skip_sending_tombstones_seconds":90,
			"network_config_overrides":{"connect_to_reliable_peers_on_startup":false,"outbound_disabled":true,"max_send_peers":0,"routed_message_ttl":9}}`,
			Experimental{T3Addr: "203.0.113.5:24567", NoInbound: true, NoOutbound: true, OnlyBoot: true, SkipTombstones: 90 * time.Second, ForgetPeers: true, TTL: 9}, ""},
		{"null is the default", `{"tier3_public_addr":null,"network_config_overrides":{"connect_to_reliable_peers_on_startup":null,"max_send_peers":null,"routed_message_ttl":null}}`,
			Experimental{MaxPeersSent: 512}, ""},
		{"tombstones for ever", `{"skip_sending_tombstones_seconds":9223372036854775807}`,
			Experimental{MaxPeersSent: 512, SkipTombstones: maxSeconds * time.Second}, ""},
		{"too many peers", `{"network_config_overrides":{"max_send_peers":513}}`, Experimental{}, "from 0 to 512"},
		{"no hops", `{"network_config_overrides":{"routed_message_ttl":0}}`, Experimental{}, "from 1 to 255"},
		{"a name", `{"tier3_public_addr":"node.example:24567"}`, Experimental{}, "IP:port"},
		{"no address", `{"tier3_public_addr":"0.0.0.0:24567"}`, Experimental{}, "IP:port"},
		{"no port", `{"tier3_public_addr":"203.0.113.5:0"}`, Experimental{}, "IP:port"},
	} {
		t.Run(x.name, func(t *testing.T) {
			c, _, err := Parse("config.json", []byte(nested("network.experimental", x.in)))
			if (err == nil) != (x.problem == "") || err != nil && !strings.Contains(err.Error(), x.problem) {
				t.Fatalf("%v, want %q", err, x.problem)
			}
			if err == nil && c.Network.Experimental != x.want {
				t.Errorf("%+v, want %+v", c.Network.Experimental, x.want)
			}
		})
	}
}

// TestExperimentalKeysOfOlderFilesAreNamed: neard 2.13 moved the keys of T1 to network.tier1, and so
// the node names them as unknown.
func TestExperimentalKeysOfOlderFilesAreNamed(t *testing.T) {
	t.Parallel()
	_, warnings, err := Parse("config.json", []byte(nested("network.experimental.tier1_enable_inbound", `false`)))
	if err != nil || len(warnings) != 1 {
		t.Errorf("%v, %v", warnings, err)
	}
}
