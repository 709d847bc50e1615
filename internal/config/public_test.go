package config

import (
	"strings"
	"testing"
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
