package tcp

import (
	"context"
	"net"
	"net/netip"
	"slices"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
)

// Transport is an alternative to plain sockets. A Transport carries the frames that sockets would
// carry, for the same PeerManager. So a server with a Transport and sockets is a bridge. All
// methods are safe for concurrent use. All methods except Serve and Dial return at once; Dial
// returns after a bounded time.
type Transport interface {
	// Addr returns the listening address. Handshakes over the transport contain its port.
	Addr() netip.AddrPort
	// Serve passes inbound connections to s until ctx ends, then closes all connections.
	Serve(ctx context.Context, s Station)
	// Dial opens a connection.
	Dial(ctx context.Context, p wire.PeerInfo) (net.Conn, error)
	// Knows returns whether a peer should be dialled over this transport.
	Knows(peer wire.PeerID) bool
	// Met reports that a handshake with the peer is complete (met is true), or that the connection
	// with the peer has ended (met is false).
	Met(peer wire.PeerID, tier wire.Tier, met bool)
	// Spread offers a message for a peer. Spread returns true if the transport delivers the message
	// by gossip. Otherwise the caller must send the message over the connection.
	Spread(peer wire.PeerID, m wire.Message) bool
	// Ban closes all connections with a peer, and refuses the peer for a while.
	Ban(peer wire.PeerID)
	// Exclude closes all connections with these peers, and refuses these peers until the next call,
	// which replaces the list.
	Exclude(peers []wire.PeerID)
}

// Conn is a connection of a Transport.
type Conn interface {
	net.Conn
	// Peer returns the authenticated peer.
	Peer() wire.PeerID
	// Bare returns whether the connection authenticates this node to the peer. If so, this node may
	// omit the signature of a message whose author is this node and whose target is the peer.
	Bare() bool
	// Within starts the time limit for the arrival of the next n bytes of a frame. A negative n
	// means that the frame is complete.
	Within(n int)
}

// Station is the part of the Server that a Transport uses.
type Station interface {
	// Take passes an inbound connection.
	Take(Conn)
	// Post passes an event to the PeerManager.
	Post(near.Event)
	// Validate validates a gossip message.
	Validate(wire.Message) near.Verdict
	// Overheard reports a frame of gossip: sent by this node, or received from the peer.
	Overheard(sent bool, who wire.PeerID, frame func() []byte)
	// Panicked reports a panic that a peer's message caused and that the Transport has recovered.
	Panicked(reason any, stack []byte)
}

// NewOver does the same as New, with an alternative transport. If l is nil, there are no plain
// sockets.
func NewOver(l net.Listener, way Transport, c near.Config, deliver func(near.Deliver),
	verify func(near.VerifyAnnouncements) near.AnnouncementsVerified) *Server {
	if l != nil {
		c.ListenAddr = l.Addr().(*net.TCPAddr).AddrPort()
	} else {
		c.ListenAddr = way.Addr()
	}
	h := newHost(l, c, deliver, verify)
	h.frames, h.transport, h.notNeard = c.Sparing, way, map[wire.PeerID]bool{}
	return h
}

// Take implements Station.
func (h *Server) Take(c Conn) {
	select {
	case h.new <- opened{conn: c}:
	case <-h.done:
		_ = c.Close()
	}
}

// Validate implements Station.
func (h *Server) Validate(m wire.Message) near.Verdict {
	if h.Check == nil {
		return near.Hold
	}
	return h.Check(m)
}

// Overheard implements Station.
func (h *Server) Overheard(sent bool, who wire.PeerID, frame func() []byte) {
	if h.Tap != nil {
		f := Tapped{Sent: sent, Frame: frame()}
		if !sent {
			f.Remote = who.String()
		}
		h.Tap(f)
	}
}

// Panicked implements Station.
func (h *Server) Panicked(reason any, stack []byte) {
	if h.Alarm != nil {
		h.Alarm(reason, stack)
	}
}

// viaTransport returns whether to dial a peer over the transport. It returns true if the server has
// no socket, if the transport knows the peer, or if the peer did not answer on a socket as neard
// does.
func (h *Server) viaTransport(peer wire.PeerID) bool {
	return h.transport != nil && (h.listener == nil || h.transport.Knows(peer) || h.notNeard[peer])
}

// maxNotNeard is the maximum number of entries in notNeard.
const maxNotNeard = 1000

// removeLink removes a link. If the peer never answered on an outbound socket, the peer may use the
// transport instead, so removeLink adds the peer to notNeard.
func (h *Server) removeLink(l *link) {
	delete(h.links, l.id)
	if l.reported {
		l.reported = false
		h.transport.Met(l.peer, l.tier, false)
	}
	if h.transport == nil || l.dialled == "" || l.handshakeDone.Load() {
		return
	}
	if len(h.notNeard) < maxNotNeard {
		h.notNeard[l.dialled] = true
	}
}

// observe updates the transport's state for an event. observe returns the event that the
// PeerManager gets.
func (h *Server) observe(ev near.Event) near.Event {
	switch ev := ev.(type) {
	case near.Exclude:
		if h.transport != nil {
			h.transport.Exclude(ev.Peers)
		}
	case near.Closed:
		if l := h.links[ev.Conn]; l != nil {
			l.close()
			h.removeLink(l)
		}
	case near.DialFailed: // the dial may have used the transport; the next dial uses a socket
		delete(h.notNeard, ev.Peer.ID)
	case near.Received:
		l := h.links[ev.Conn]
		if l == nil || l.peer == "" {
			break
		}
		switch m := ev.Msg.(type) {
		case *wire.Handshake:
			if l.outbound {
				h.reportMet(l, m.Tier)
			}
		case *wire.PeersResponse:
			ev.Msg = h.withSocketPort(m)
			return ev
		}
	}
	return ev
}

// withSocketPort replaces this node's port in a PeersResponse that arrived over the transport. The
// peer reports the transport's port. But this node puts its address into requests that any peer may
// answer over a socket.
func (h *Server) withSocketPort(m *wire.PeersResponse) *wire.PeersResponse {
	if h.listener == nil {
		return m
	}
	out := *m
	out.DirectPeers = slices.Clone(m.DirectPeers)
	for i := range out.DirectPeers {
		if p := &out.DirectPeers[i]; p.ID == h.me && p.Addr.IsValid() {
			p.Addr = netip.AddrPortFrom(p.Addr.Addr(), h.Addr().Port())
		}
	}
	return &out
}

// reportMet reports a complete handshake to the transport.
func (h *Server) reportMet(l *link, tier wire.Tier) {
	if l.peer != "" && !l.reported {
		l.reported, l.tier = true, tier
		h.transport.Met(l.peer, tier, true)
	}
}

// outgoing returns the message to write to a link. m is the message that the PeerManager sends for
// ev. spread is true if the transport delivers m by gossip instead.
func (h *Server) outgoing(l *link, ev near.Event, m wire.Message) (out wire.Message, spread bool) {
	if l.peer == "" {
		return m, false
	}
	switch m := m.(type) {
	case *wire.Handshake:
		out := *m
		out.ListenPort = h.transport.Addr().Port()
		return &out, false
	case *wire.Block: // gossip only new blocks, but no requested or repeated blocks
		if all, ok := ev.(near.ToAll); !ok || all.Again || all.Msg != wire.Message(m) || h.frames {
			return m, false
		}
		return m, h.transport.Spread(l.peer, m)
	case *wire.Routed:
		if m == l.routed { // skip this redundant copy, because a stream loses no messages
			return m, true
		}
		if l.routed = m; m.Target.PeerID != l.peer {
			return m, false
		}
		if _, ok := m.Body.(*wire.ForwardTx); ok && !h.frames && h.transport.Spread(l.peer, m) {
			return m, true
		}
		if l.bare && m.Author == h.me {
			return m.Bare(), false
		}
	}
	return m, false
}
