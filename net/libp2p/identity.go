package libp2p

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

var errKeyType = errors.New("libp2p: a node's key must be an ed25519 key")

// privateOf converts a node key to libp2p's form. Only Ed25519 keys are supported.
func privateOf(k primitives.SecretKey) (crypto.PrivKey, error) {
	if k.IsZero() || k.Type() != primitives.ED25519 {
		return nil, errKeyType
	}
	return crypto.UnmarshalEd25519PrivateKey([]byte(k.Raw()))
}

// idOf returns the libp2p id of a node.
func idOf(id wire.PeerID) (peer.ID, error) {
	if id.IsZero() || id.Type() != primitives.ED25519 {
		return "", errKeyType
	}
	k, err := crypto.UnmarshalEd25519PublicKey([]byte(id.Raw()))
	if err != nil {
		return "", err
	}
	return peer.IDFromPublicKey(k)
}

// PeerOf returns the node with a libp2p id.
func PeerOf(id peer.ID) (wire.PeerID, error) {
	k, err := id.ExtractPublicKey()
	if err != nil {
		return "", err
	}
	raw, err := k.Raw()
	if err != nil || k.Type() != crypto.Ed25519 {
		return "", errKeyType
	}
	return primitives.NewPublicKey(primitives.ED25519, raw)
}

// addrOf returns the address and port of a TCP or UDP multiaddr. The result is invalid if the
// multiaddr has no address and port.
func addrOf(m ma.Multiaddr) netip.AddrPort {
	ip, err := manet.ToIP(m)
	if err != nil {
		return netip.AddrPort{}
	}
	at, _ := netip.AddrFromSlice(ip)
	for _, code := range [...]int{ma.P_TCP, ma.P_UDP} {
		if text, err := m.ValueForProtocol(code); err == nil {
			if port, err := strconv.ParseUint(text, 10, 16); err == nil {
				return netip.AddrPortFrom(at.Unmap(), uint16(port))
			}
		}
	}
	return netip.AddrPort{}
}

// multiaddr returns the TCP or QUIC multiaddr of an address.
func multiaddr(at netip.AddrPort, quic bool) (ma.Multiaddr, error) {
	family := "ip4"
	if !at.Addr().Unmap().Is4() {
		family = "ip6"
	}
	if quic {
		return ma.NewMultiaddr(fmt.Sprintf("/%s/%s/udp/%d/quic-v1", family, at.Addr().Unmap(), at.Port()))
	}
	return ma.NewMultiaddr(fmt.Sprintf("/%s/%s/tcp/%d", family, at.Addr().Unmap(), at.Port()))
}
