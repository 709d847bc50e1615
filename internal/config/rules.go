package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-chain/troupe/internal/otlp"
	"github.com/troupe-chain/troupe/net/stun"
	"github.com/troupe-chain/troupe/primitives"
)

// rules checks completed settings beyond the kinds of single keys (nearcore
// nearcore/src/config_validate.rs). The error lists everything that is wrong.
func (c *Config) rules(file string, hadTracked []string) error {
	var errs []error
	bad := func(key, value, allowed string) {
		errs = append(errs, &Error{File: file, Key: key, Value: value, Allowed: allowed})
	}
	k := &c.Consensus
	if k.MinDelay <= 0 || k.MaxDelay < k.MinDelay {
		bad("consensus.min_block_production_delay", k.MinDelay.String(),
			fmt.Sprintf("above 0 and at most max_block_production_delay (%v)", k.MaxDelay))
	}
	if k.MaxWait < k.MinDelay {
		bad("consensus.max_block_wait_delay", k.MaxWait.String(), fmt.Sprintf("at least min_block_production_delay (%v)", k.MinDelay))
	}
	for _, key := range []string{"gc_step_period", "log_summary_period", "consensus.doomslug_step_period"} {
		if v, _ := c.Document.Get(key); v != nil {
			if d, ok := asDuration(v); ok && d <= 0 {
				bad(key, d.String(), "above 0")
			}
		}
	}
	if v, _ := c.Document.Get("save_trie_changes"); v == false && !c.Archive {
		bad("save_trie_changes", "false", "true or absent where archive is false: garbage collection needs the changes")
	}
	_, has := c.Document.Get(blockTimeout)
	if _, older := c.Document.Get(olderBlockTimeout); has && older {
		bad(olderBlockTimeout, "set", "absent beside block_request_timeout, which replaces it")
	}
	if len(hadTracked) > 1 && hadTracked[0] == trackedKeys[0] {
		bad(hadTracked[1], "set", "absent beside tracked_shards_config, which replaces it")
	}
	if c.RPC != nil {
		if !IsAddress(c.RPC.Addr) {
			bad("rpc.addr", strconv.Quote(c.RPC.Addr), "host:port, like 127.0.0.1:3030")
		}
		if a := c.RPC.PrometheusAddr; a != "" && !IsAddress(a) {
			bad("rpc.prometheus_addr", strconv.Quote(a), "host:port or null")
		}
		if c.RPC.PollingTimeout <= 0 {
			bad("rpc.polling_config.polling_timeout", c.RPC.PollingTimeout.String(), "above 0")
		}
		for _, p := range c.RPC.TrustedProxies {
			if !IsNetwork(p) {
				bad("troupe.rpc.trusted_proxies", strconv.Quote(clip(p)), "addresses or networks, like 10.0.0.1 or 10.0.0.0/8")
			}
		}
	}
	j := &c.JetStream
	if j.Listen != "" && !IsAddress(j.Listen) {
		bad("troupe.jetstream.listen", strconv.Quote(clip(j.Listen)), "host:port, like 127.0.0.1:4222, or null")
	}
	if j.URL != "" && !IsNATS(j.URL) {
		bad("troupe.jetstream.url", strconv.Quote(clip(j.URL)), natsForm)
	}
	if j.Enabled && c.Replica.Of != "" {
		bad("troupe.jetstream.enabled", "true", "false where troupe.replica.of is set: what a replica has is published already")
	}
	if c.Replica.Of != "" && !IsNATS(c.Replica.Of) {
		bad("troupe.replica.of", strconv.Quote(clip(c.Replica.Of)), natsForm)
	}
	if k := c.Replica.Key; k != "" {
		if _, err := primitives.ParsePublicKey(k); err != nil {
			bad("troupe.replica.writer_key", strconv.Quote(clip(k)), "the public key of the writer's node_key.json, or null")
		}
	}
	if e := c.Tracing.Endpoint; e != "" {
		if err := otlp.CheckEndpoint(e); err != nil {
			bad("troupe.tracing.endpoint", strconv.Quote(clip(e)), "http://host:port/v1/traces, or https, or null")
		}
	}
	for _, key := range []string{"troupe.history.source", "troupe.history.path"} {
		if v, _ := c.Document.Get(key); v == "" {
			bad(key, `""`, "null for the default")
		}
	}
	if s := c.History.Source; s != "" && !IsHistorySource(s) {
		bad("troupe.history.source", strconv.Quote(clip(s)),
			"neardata:URL, lake:URL or lake:FOLDER, where URL begins with http:// or https://, or null")
	}
	n := &c.Network
	if n.Addr != "" && !IsAddress(n.Addr) {
		bad("network.addr", strconv.Quote(n.Addr), "host:port, like 0.0.0.0:24567, or empty")
	}
	if n.Libp2p.Addr != "" && !IsAddress(n.Libp2p.Addr) {
		bad("network.libp2p.addr", strconv.Quote(clip(n.Libp2p.Addr)), "host:port, like 0.0.0.0:24568, or empty")
	}
	for _, l := range []struct{ key, value string }{{"network.boot_nodes", n.BootNodes}, {"network.whitelist_nodes", n.Whitelist}} {
		if err := CheckBootNodes(l.value); err != nil {
			bad(l.key, strconv.Quote(clip(l.value)), "node_key@host:port, several separated by commas: "+err.Error())
		}
	}
	if _, err := n.Proxies(); err != nil {
		bad("network.public_addrs", strconv.Quote(clip(strings.Join(n.Public, ","))), err.Error())
	}
	if a := n.Experimental.T3Addr; a != "" {
		if at, err := netip.ParseAddrPort(a); err != nil || at.Addr().IsUnspecified() || at.Port() == 0 {
			bad("network.experimental.tier3_public_addr", strconv.Quote(clip(a)), "IP:port, like 203.0.113.5:24567, or null")
		}
	}
	if len(n.Stun) > stun.MaxServers {
		bad("network.trusted_stun_servers", fmt.Sprintf("a list of %d servers", len(n.Stun)), fmt.Sprintf("at most %d", stun.MaxServers))
	}
	for _, s := range n.Stun {
		if !IsAddress(s) {
			bad("network.trusted_stun_servers", strconv.Quote(clip(s)), "host:port, like stun.example.org:3478")
		}
	}
	for _, s := range n.Blacklist {
		if _, err := netip.ParseAddr(s); err != nil {
			if _, err := netip.ParseAddrPort(s); err != nil {
				bad("network.blacklist", strconv.Quote(clip(s)), "addresses, each with a port or without")
			}
		}
	}
	for _, f := range []struct{ key, value string }{
		{"genesis_file", c.GenesisFile}, {"validator_key_file", c.ValidatorKeyFile}, {"node_key_file", c.NodeKeyFile},
	} {
		if f.value == "" || strings.ContainsRune(f.value, 0) {
			bad(f.key, strconv.Quote(f.value), "the name of a file")
		}
	}
	return errors.Join(errs...)
}

// IsNetwork returns whether s is an IP address or a network in CIDR form.
func IsNetwork(s string) bool {
	_, err := netip.ParsePrefix(s)
	if err != nil {
		_, err = netip.ParseAddr(s)
	}
	return err == nil
}

// IsHistorySource returns whether s is a feed that has outcomes: neardata:URL, lake:URL, or lake:FOLDER.
func IsHistorySource(s string) bool {
	kind, at, _ := strings.Cut(s, ":")
	if kind == "lake" && !strings.Contains(at, "://") {
		return at != ""
	}
	u, err := url.Parse(at)
	return err == nil && (kind == "lake" || kind == "neardata") && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

const natsForm = "nats://host:port or tls://host:port, several separated by commas"

// IsNATS returns whether s is a list of NATS server URLs.
func IsNATS(s string) bool {
	for _, one := range strings.Split(s, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil || u.Scheme != "nats" && u.Scheme != "tls" || u.Hostname() == "" || u.Path != "" {
			return false
		}
	}
	return true
}

// IsAddress returns whether s is host:port with a numeric port. The host may be empty.
func IsAddress(s string) bool {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// maxPublic is the maximum number of entries of network.public_addrs (nearcore MAX_PEER_ADDRS).
const maxPublic = 10

// Proxy is an entry of network.public_addrs.
type Proxy struct {
	Key  primitives.PublicKey // of the node at Addr
	Addr netip.AddrPort
}

// Proxies parses Public. The rules are those of neard (nearcore chain/network/src/config.rs:301).
func (n *Network) Proxies() ([]Proxy, error) {
	if len(n.Public) > maxPublic {
		return nil, fmt.Errorf("at most %d entries, not %d", maxPublic, len(n.Public))
	}
	var out []Proxy
	for _, entry := range n.Public {
		key, addr, ok := strings.Cut(entry, "@")
		if !ok {
			return nil, fmt.Errorf("%q does not have the form node_key@ip:port", clip(entry))
		}
		var p Proxy
		var err error
		if p.Key, err = primitives.ParsePublicKey(key); err != nil {
			return nil, fmt.Errorf("%q: %w", clip(entry), err)
		}
		if p.Addr, err = netip.ParseAddrPort(addr); err != nil {
			return nil, fmt.Errorf("%q: %q does not have the form ip:port", clip(entry), clip(addr))
		}
		ip := p.Addr.Addr()
		switch {
		case ip.IsUnspecified():
			return nil, fmt.Errorf("%v is not an address that other nodes can connect to", ip)
		case !n.AllowPrivate && (ip.IsLoopback() || ip.Is4() && ip.IsPrivate()):
			return nil, fmt.Errorf("%v is not a public address (network.allow_private_ip_in_public_addrs allows private ones)", ip)
		case slices.ContainsFunc(out, func(o Proxy) bool { return o.Key == p.Key }):
			return nil, fmt.Errorf("two entries have the key %v", p.Key)
		}
		out = append(out, p)
	}
	return out, nil
}

// carrierNetwork has the addresses that providers use behind their NAT (RFC 6598).
var carrierNetwork = netip.MustParsePrefix("100.64.0.0/10")

// CheckReported returns an error if other nodes cannot connect to an address that STUN servers
// report. neard accepts every address. But a node that listens on all interfaces could connect to
// itself at 127.0.0.1, too, and would publish that address.
func (n *Network) CheckReported(ip netip.Addr) error {
	switch {
	case n.AllowPrivate && !ip.IsUnspecified() && !ip.IsMulticast():
		return nil
	case !ip.IsGlobalUnicast() || ip.IsPrivate() || carrierNetwork.Contains(ip):
		return fmt.Errorf(
			"STUN servers report %v, which is not a public address (network.allow_private_ip_in_public_addrs allows private ones)",
			ip,
		)
	}
	return nil
}

// IsInitStun returns whether Stun has the servers that init writes.
func (n *Network) IsInitStun() bool {
	v, _ := initial().Get("network.trusted_stun_servers")
	servers, _ := v.([]any)
	return slices.EqualFunc(n.Stun, servers, func(a string, b any) bool { return a == b })
}

// CheckBootNodes checks a comma-separated list of key@host:port, each with an optional @account
// (nearcore chain/network PeerInfo). An entry may also be a libp2p multiaddr. An empty list is
// valid.
func CheckBootNodes(list string) error {
	_, err := Peers(list)
	return err
}

// Peer is an entry of a list of boot nodes.
type Peer struct {
	Key       primitives.PublicKey
	Addr      string // host:port
	AccountID primitives.AccountID
	Libp2p    bool // the entry is a multiaddr
	Quic      bool // the multiaddr uses QUIC
}

// Peers parses a list of boot nodes.
func Peers(list string) (out []Peer, err error) {
	if list == "" {
		return nil, nil
	}
	for node := range strings.SplitSeq(list, ",") {
		var p Peer
		if node = strings.TrimSpace(node); strings.HasPrefix(node, "/") {
			if p, err = multiaddr(node); err != nil {
				return nil, err
			}
			out = append(out, p)
			continue
		}
		parts := strings.Split(node, "@")
		if len(parts) < 2 || len(parts) > 3 {
			return nil, fmt.Errorf("%q does not have the form key@host:port", clip(node))
		}
		if p.Key, err = primitives.ParsePublicKey(parts[0]); err != nil {
			return nil, fmt.Errorf("%q: %w", clip(node), err)
		}
		if p.Addr = parts[1]; !IsAddress(p.Addr) {
			return nil, fmt.Errorf("%q: %q does not have the form host:port", clip(node), clip(parts[1]))
		}
		if len(parts) == 3 {
			if p.AccountID, err = primitives.ParseAccountID(parts[2]); err != nil {
				return nil, fmt.Errorf("%q: %w", clip(node), err)
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// clip shortens a text from config.json for an error.
func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "..."
	}
	return s
}
