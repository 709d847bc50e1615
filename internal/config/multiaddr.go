package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/mr-tron/base58"

	"github.com/troupe-chain/troupe/primitives"
)

// identity is the prefix of libp2p peer ids of ed25519 keys: the key follows, as an identity
// multihash of libp2p's protobuf encoding.
const identity = "\x00\x24\x08\x01\x12\x20"

// multiaddr parses a libp2p address of a peer, /ip4/10.0.0.1/tcp/24567/p2p/12D3KooW..., over TCP or
// QUIC, with an IP address or a host name.
func multiaddr(text string) (p Peer, err error) {
	parts := strings.Split(strings.TrimPrefix(text, "/"), "/")
	bad := func() (Peer, error) {
		return Peer{}, fmt.Errorf("%q is not a multiaddr of the form /ip4/10.0.0.1/tcp/24567/p2p/PEER or "+
			"/ip4/10.0.0.1/udp/24567/quic-v1/p2p/PEER", clip(text))
	}
	if len(parts) == 7 && parts[2] == "udp" && parts[4] == "quic-v1" {
		p.Quic = true
		parts = slices.Delete(parts, 4, 5)
	} else if len(parts) != 6 || parts[2] != "tcp" {
		return bad()
	}
	ip := net.ParseIP(parts[1])
	switch parts[0] {
	case "ip4":
		if ip.To4() == nil {
			return bad()
		}
	case "ip6":
		if ip == nil || ip.To4() != nil {
			return bad()
		}
	case "dns", "dns4", "dns6":
		if parts[1] == "" {
			return bad()
		}
	default:
		return bad()
	}
	if _, err := strconv.ParseUint(parts[3], 10, 16); err != nil || parts[4] != "p2p" {
		return bad()
	}
	raw, err := base58.Decode(parts[5])
	key, is := strings.CutPrefix(string(raw), identity)
	if err != nil || !is || len(key) != 32 {
		return Peer{}, fmt.Errorf("%q: %q is not a libp2p peer id of an ed25519 key", clip(text), clip(parts[5]))
	}
	p.Libp2p, p.Addr = true, net.JoinHostPort(parts[1], parts[3])
	p.Key, err = primitives.NewPublicKey(primitives.ED25519, []byte(key))
	return p, err
}
