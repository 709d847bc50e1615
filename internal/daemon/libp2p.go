package daemon

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/net/libp2p"
	"github.com/troupe-chain/troupe/net/wire"
)

// libp2pOptions returns the options of the libp2p transport; nil: the libp2p transport is off. at
// is the address that network.addr resolved to.
func (h *Daemon) libp2pOptions(at net.Addr) (*libp2p.Options, error) {
	c := &h.home.Config.Network
	if c.Transport != config.OverLibp2p && c.Transport != config.Both {
		return nil, nil
	}
	listen := at.(*net.TCPAddr).AddrPort()
	if c.Transport == config.Both {
		listen = netip.AddrPortFrom(listen.Addr(), listen.Port()+1)
		if c.Libp2p.Addr != "" {
			addr, err := net.ResolveTCPAddr("tcp", c.Libp2p.Addr)
			if err != nil {
				return nil, fmt.Errorf("network.libp2p.addr: %w", err)
			}
			listen = addr.AddrPort()
		}
	}
	ip, six := listen.Addr().Unmap(), false
	if !ip.IsValid() || ip.IsUnspecified() { // an unspecified address means all addresses, as for sockets
		ip, six = netip.IPv4Unspecified(), !ip.Is4()
	}
	o := &libp2p.Options{
		Key: h.home.NodeKey.SecretKey, Genesis: wire.GenesisID{ChainID: h.home.Genesis.ChainID, Hash: h.Engine.Genesis().Hash},
		Listen: netip.AddrPortFrom(ip, listen.Port()), Six: six, NoQuic: !c.Libp2p.Quic, MDNS: c.Libp2p.MDNS,
		NAT: c.Libp2p.NATs, MaxPeers: int(c.MaxPeers),
		Blacklisted: blacklist(c.Blacklist), Counters: &h.libp2p, Here: map[wire.PeerID]bool{}, Quic: map[wire.PeerID]bool{},
	}
	boot, err := config.Peers(c.BootNodes)
	if err != nil {
		return nil, err
	}
	for _, p := range boot {
		if p.Libp2p {
			o.Here[p.Key], o.Quic[p.Key] = true, p.Quic
		}
	}
	return o, nil
}

// listenLibp2p starts the transport and logs its addresses.
func (h *Daemon) listenLibp2p(o *libp2p.Options) (*libp2p.Transport, error) {
	way, err := libp2p.New(*o)
	if err != nil {
		return nil, err
	}
	o.Listen = way.Addr() // so that a restart of the actor uses the same address
	h.libp2pTransport.Store(way)
	for _, a := range way.Addrs() {
		h.log.Infof("libp2p peers can connect to %s", a)
	}
	return way, nil
}
