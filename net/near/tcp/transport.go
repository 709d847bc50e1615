package tcp

import (
	"context"
	"net"
	"net/netip"
	"slices"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
)

// Transport is another way to peers than neard's bare sockets: it carries the same frames, of the
// same Node, so that a host with both is a bridge. All but Serve return at once, or after a bounded
// time (Dial), and may be called by any goroutine.
type Transport interface {
	// Addr is where it listens; its port is told in handshakes over it.
	Addr() netip.AddrPort
	// Serve hands connections of others to the station until ctx ends, then ends them all.
	Serve(ctx context.Context, s Station)
	// Dial opens a connection.
	Dial(ctx context.Context, p wire.PeerInfo) (net.Conn, error)
	// Knows tells whether a peer is to be reached so.
	Knows(peer wire.PeerID) bool
	// Met tells it of the end of a peer's handshake, and of that of its connection.
	Met(peer wire.PeerID, tier wire.Tier, is bool)
	// Spread takes a message that a peer is to be sent, and tells whether it goes to it beside its
	// connection.
	Spread(peer wire.PeerID, m wire.Message) bool
	// Ban ends all that a peer has open, and refuses it for a while.
	Ban(peer wire.PeerID)
}

// Conn is a connection of a Way.
type Conn interface {
	net.Conn
	// Peer is who has proven to be at the other end.
	Peer() wire.PeerID
	// Bare tells whether the peer takes messages of this node for it without their signatures: it
	// knows by the connection who has sent them.
	Bare() bool
	// Within says that n bytes of a frame are to come, and therefore not too slowly; below 0: that
	// a frame has come.
	Within(n int)
}

// Station is what a Way sees of the host.
type Station interface {
	// Take hands over a connection that somebody has opened.
	Take(Conn)
	// Post gives the Node an event.
	Post(near.Event)
	// Judge judges a message that is to be spread.
	Judge(wire.Message) near.Verdict
	// Overheard is told of a frame that goes beside connections: of this node to all, or of who has
	// brought it.
	Overheard(sent bool, who wire.PeerID, frame func() []byte)
	// Panicked is told of a panic over what a peer has sent, which the Way has recovered.
	Panicked(reason any, stack []byte)
}

// NewOver is New with another way to peers; l may be nil, if there are to be no sockets.
func NewOver(l net.Listener, way Transport, c near.Config, deliver func(near.Deliver), judge func(near.JudgeAnnouncements) near.Judged) *Server {
	if l != nil {
		c.ListenAddr = l.Addr().(*net.TCPAddr).AddrPort()
	} else {
		c.ListenAddr = way.Addr()
	}
	h := newHost(l, c, deliver, judge)
	h.frames, h.way, h.foreign = c.Sparing, way, map[wire.PeerID]bool{}
	return h
}

// Take is of Station.
func (h *Server) Take(c Conn) {
	select {
	case h.new <- opened{conn: c}:
	case <-h.done:
		_ = c.Close()
	}
}

// Judge is of Station.
func (h *Server) Judge(m wire.Message) near.Verdict {
	if h.Check == nil {
		return near.Hold
	}
	return h.Check(m)
}

// Overheard is of Station.
func (h *Server) Overheard(sent bool, who wire.PeerID, frame func() []byte) {
	if h.Tap != nil {
		f := Tapped{Sent: sent, Frame: frame()}
		if !sent {
			f.Remote = who.String()
		}
		h.Tap(f)
	}
}

// Panicked is of Station.
func (h *Server) Panicked(reason any, stack []byte) {
	if h.Alarm != nil {
		h.Alarm(reason, stack)
	}
}

// byWay tells whether a peer is dialled by the other way: if there is no socket, if it is known
// there, or if it did not answer as neard does.
func (h *Server) byWay(peer wire.PeerID) bool {
	return h.way != nil && (h.listener == nil || h.way.Knows(peer) || h.foreign[peer])
}

// maxForeign bounds whom a host remembers not to have answered as neard does.
const maxForeign = 1000

// gone forgets a link; one of ours that was never answered may lead to who speaks otherwise.
func (h *Server) gone(l *link) {
	delete(h.links, l.id)
	if l.met {
		l.met = false
		h.way.Met(l.peer, l.tier, false)
	}
	if h.way == nil || l.dialled == "" || l.shaken.Load() {
		return
	}
	if len(h.foreign) < maxForeign {
		h.foreign[l.dialled] = true
	}
}

// look notes what an event tells about ways, and returns it as the Node is to see it.
func (h *Server) look(ev near.Event) near.Event {
	switch ev := ev.(type) {
	case near.Closed:
		if l := h.links[ev.Conn]; l != nil {
			l.close()
			h.gone(l)
		}
	case near.DialFailed: // it may have been by the other way: the next time by a socket
		delete(h.foreign, ev.Peer.ID)
	case near.Received:
		l := h.links[ev.Conn]
		if l == nil || l.peer == "" {
			break
		}
		switch m := ev.Msg.(type) {
		case *wire.Handshake:
			if l.ours {
				h.met(l, m.Tier)
			}
		case *wire.PeersResponse:
			ev.Msg = h.asDialled(m)
			return ev
		}
	}
	return ev
}

// asDialled returns who a peer over the way is connected to, with this node's own place as neards
// dial it: that peer knows the port of the way, and what is told of it goes into requests that
// anybody may answer.
func (h *Server) asDialled(m *wire.PeersResponse) *wire.PeersResponse {
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

// met tells the way of a handshake that is done.
func (h *Server) met(l *link, tier wire.Tier) {
	if l.peer != "" && !l.met {
		l.met, l.tier = true, tier
		h.way.Met(l.peer, tier, true)
	}
}

// over returns what goes out over a link of a message that the Node wants written for ev, and
// whether the way sees to it.
func (h *Server) over(l *link, ev near.Event, m wire.Message) (out wire.Message, spread bool) {
	if l.peer == "" {
		return m, false
	}
	switch m := m.(type) {
	case *wire.Handshake:
		out := *m
		out.ListenPort = h.way.Addr().Port()
		return &out, false
	case *wire.Block: // a new one, not one that was asked for, or the head from time to time, or once more
		if all, ok := ev.(near.ToAll); !ok || all.Again || all.Msg != wire.Message(m) || h.frames {
			return m, false
		}
		return m, h.way.Spread(l.peer, m)
	case *wire.Routed:
		if m == l.routed { // a copy, which a stream does not lose
			return m, true
		}
		if l.routed = m; m.Target.PeerID != l.peer {
			return m, false
		}
		if _, ok := m.Body.(*wire.ForwardTx); ok && !h.frames && h.way.Spread(l.peer, m) {
			return m, true
		}
		if l.bare && m.Author == h.me {
			return m.Bare(), false
		}
	}
	return m, false
}
