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

// connGater refuses banned and excluded peers, peers without a node key, and blacklisted addresses.
type connGater struct{ *Transport }

func (g connGater) allowed(id peer.ID) bool {
	_, err := PeerOf(id)
	return err == nil && !g.isBanned(id) && !g.isExcluded(id)
}

func (g connGater) allowedAddr(m ma.Multiaddr) bool {
	return g.o.Blacklisted == nil || !g.o.Blacklisted(addrOf(m))
}

func (g connGater) InterceptPeerDial(id peer.ID) bool                { return g.allowed(id) }
func (g connGater) InterceptAddrDial(_ peer.ID, m ma.Multiaddr) bool { return g.allowedAddr(m) }

// InterceptAccept sets on inbound TCP connections the socket options that outbound connections
// have. libp2p's listeners have no option for this.
func (g connGater) InterceptAccept(c network.ConnMultiaddrs) bool {
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			_ = tcp.Patience("", "", raw)
		}
	}
	return g.allowedAddr(c.RemoteMultiaddr())
}

func (connGater) InterceptUpgraded(network.Conn) (bool, control.DisconnectReason) {
	return true, 0
}

func (g connGater) InterceptSecured(_ network.Direction, id peer.ID, _ network.ConnMultiaddrs) bool {
	return g.allowed(id)
}
