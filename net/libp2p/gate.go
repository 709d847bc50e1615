package libp2p

import (
	"github.com/libp2p/go-libp2p/core/control"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	ma "github.com/multiformats/go-multiaddr"
)

type security = sec.SecureTransport

// gate refuses who is banned, and whose key is none of a node.
type gate struct{ *Way }

func (g gate) allowed(id peer.ID) bool {
	_, err := PeerOf(id)
	return err == nil && !g.isBanned(id)
}

func (g gate) InterceptPeerDial(id peer.ID) bool          { return g.allowed(id) }
func (gate) InterceptAddrDial(peer.ID, ma.Multiaddr) bool { return true }
func (gate) InterceptAccept(network.ConnMultiaddrs) bool  { return true }
func (gate) InterceptUpgraded(network.Conn) (bool, control.DisconnectReason) {
	return true, 0
}

func (g gate) InterceptSecured(_ network.Direction, id peer.ID, _ network.ConnMultiaddrs) bool {
	return g.allowed(id)
}
