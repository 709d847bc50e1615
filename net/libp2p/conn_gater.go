package libp2p

import (
	"syscall"

	"github.com/libp2p/go-libp2p/core/control"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/troupe-chain/troupe/net/near/tcp"
)

type security = sec.SecureTransport

// gate refuses who is banned, whose key is none of a node, and addresses that the node is to have
// nothing to do with.
type gate struct{ *Transport }

func (g gate) allowed(id peer.ID) bool {
	_, err := PeerOf(id)
	return err == nil && !g.isBanned(id)
}

func (g gate) at(m ma.Multiaddr) bool {
	return g.o.Blacklisted == nil || !g.o.Blacklisted(addrOf(m))
}

func (g gate) InterceptPeerDial(id peer.ID) bool                { return g.allowed(id) }
func (g gate) InterceptAddrDial(_ peer.ID, m ma.Multiaddr) bool { return g.at(m) }

// InterceptAccept has the socket of a connection over TCP wait as those wait that are dialled:
// libp2p's listeners take no options.
func (g gate) InterceptAccept(c network.ConnMultiaddrs) bool {
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			_ = tcp.Patience("", "", raw)
		}
	}
	return g.at(c.RemoteMultiaddr())
}

func (gate) InterceptUpgraded(network.Conn) (bool, control.DisconnectReason) {
	return true, 0
}

func (g gate) InterceptSecured(_ network.Direction, id peer.ID, _ network.ConnMultiaddrs) bool {
	return g.allowed(id)
}
