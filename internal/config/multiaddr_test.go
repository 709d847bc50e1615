package config

import (
	"strings"
	"testing"
)

// TestLibp2pBootNodesAreParsed: boot nodes in libp2p's form are parsed as the same nodes as in
// nearcore's form, and no other text is accepted.
func TestLibp2pBootNodesAreParsed(t *testing.T) {
	const name = "12D3KooWQWdprvc9DG26LN62FLBhSBEC7ifr3N67jCfryU8dkLd6" // of the key below, by libp2p
	const key = "ed25519:FhGf7o2S2MkbvUabcjSMfP9MdPdD1g1dmcJqbUyjrPuA"
	for text, want := range map[string]Peer{
		"/ip4/10.0.0.1/tcp/24567/p2p/" + name:         {Addr: "10.0.0.1:24567", Libp2p: true},
		"/ip6/::1/tcp/1/p2p/" + name:                  {Addr: "[::1]:1", Libp2p: true},
		"/dns4/a.b/tcp/7/p2p/" + name:                 {Addr: "a.b:7", Libp2p: true},
		"/ip4/10.0.0.1/udp/24567/quic-v1/p2p/" + name: {Addr: "10.0.0.1:24567", Libp2p: true, Quic: true},
		key + "@10.0.0.1:24567":                       {Addr: "10.0.0.1:24567"},
	} {
		got, err := Peers(" " + text + "," + text)
		if err != nil || len(got) != 2 {
			t.Errorf("%s: got %v, error %v", text, got, err)
			continue
		}
		if want.Key = got[0].Key; got[0] != want || got[1] != want || got[0].Key.String() != key {
			t.Errorf("%s: %+v of %v", text, got[0], got[0].Key)
		}
	}
	good := "/ip4/10.0.0.1/tcp/1/p2p/" + name
	for _, bad := range []string{"/", strings.Replace(good, "10.0.0.1", "10.0.0", 1), strings.Replace(good, "ip4", "ip6", 1), strings.Replace(good, "tcp", "udp", 1),
		strings.Replace(good, "/1/", "/70000/", 1), strings.Replace(good, "/p2p/", "/ipfs/", 1), strings.TrimSuffix(good, "6"), good + "/x",
		strings.Replace(good, "ip4/10.0.0.1", "dns/", 1), "/ip4/10.0.0.1/tcp/1", "/ip4/10.0.0.1/tcp/1/p2p/QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N"} {
		if p, err := Peers(bad); err == nil {
			t.Errorf("%s: got %+v", bad, p)
		}
	}
}
