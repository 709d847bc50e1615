package libp2p

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
)

// What a stream of frames is: bare ones bear no signature of a routed message that its author sends
// to who it is for. Which chain it is for is told in the handshake, so that a node of another is
// answered so.
const (
	signedID = "/troupe/near/1"
	bareID   = "/troupe/near/2"
)

const (
	paceBytes = 16 << 10 // a second, at which a frame has to come once it has begun
	// streams of a peer that wait for their handshakes; those who shake hands have no use for more
	// than one a tier
	maxUnmet  = 4
	pieceSize = 65507 // of what is written with one deadline: with the head of yamux it fills a message of noise
)

// stream is a stream of frames, as a connection.
type stream struct {
	network.Stream
	way  *Transport
	id   peer.ID
	peer wire.PeerID
	once sync.Once

	mu    sync.Mutex
	end   time.Time // after which nothing is read or written; zero: no such time
	taken time.Time // by when the piece that is written has to be taken; zero: it was not told yet
}

var _ tcp.Conn = (*stream)(nil)

// wrap makes a connection of a stream; nil: of a peer whose key is of no use, or who has opened too
// many that wait for their handshakes, for which there are places of all.
func (w *Transport) wrap(s network.Stream) *stream {
	id := s.Conn().RemotePeer()
	who, err := PeerOf(id)
	if err != nil {
		_ = s.Reset()
		return nil
	}
	w.mu.Lock()
	crowd := s.Stat().Direction == network.DirInbound && w.open[id]-w.shaken[id] >= maxUnmet
	if !crowd {
		w.open[id]++
	}
	w.mu.Unlock()
	if crowd {
		_ = s.Reset()
		return nil
	}
	w.o.Counters.streams.Add(1)
	return &stream{Stream: s, way: w, id: id, peer: who}
}

// Dial is of tcp.Transport: a stream over the connection there is, or over a new one.
func (w *Transport) Dial(ctx context.Context, p wire.PeerInfo) (net.Conn, error) {
	id, err := idOf(p.ID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	to := peer.AddrInfo{ID: id}
	if p.Addr.IsValid() {
		m, err := multiaddr(p.Addr, w.o.Quic[p.ID])
		if err != nil {
			return nil, err
		}
		to.Addrs = append(to.Addrs, m)
	}
	if err := w.host.Connect(ctx, to); err != nil {
		return nil, err
	}
	s, err := w.host.NewStream(ctx, id, bareID, signedID)
	if err != nil {
		return nil, err
	}
	return w.wrap(s), nil
}

// Peer is of tcp.Conn.
func (s *stream) Peer() wire.PeerID { return s.peer }

// Bare is of tcp.Conn.
func (s *stream) Bare() bool { return s.Protocol() == bareID }

// until is when something has to be done that has until t, zero for ever. s.mu is held.
func (s *stream) until(t time.Time) time.Time {
	if !s.end.IsZero() && (t.IsZero() || t.After(s.end)) {
		return s.end
	}
	return t
}

// Within is of tcp.Conn.
func (s *stream) Within(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var t time.Time
	if n >= 0 {
		t = time.Now().Add(s.way.o.Stall + time.Duration(n/paceBytes)*time.Second)
	}
	_ = s.SetReadDeadline(s.until(t))
}

// Write writes in pieces, each of which the other side has to take in time: within Stall, less the
// eighth of it for which a deadline is left as it is.
func (s *stream) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		s.mu.Lock()
		if now, stall := time.Now(), s.way.o.Stall; s.taken.Sub(now) < stall-stall/8 {
			s.taken = now.Add(stall)
			_ = s.Stream.SetWriteDeadline(s.until(s.taken))
		}
		s.mu.Unlock()
		k, err := s.Stream.Write(b[:min(len(b), pieceSize)])
		if n += k; err != nil {
			return n, err
		}
		b = b[k:]
	}
	return n, nil
}

// SetWriteDeadline does nothing: Write has its own.
func (s *stream) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline bounds all that is read and written from now on.
func (s *stream) SetDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end, s.taken = t, time.Time{}
	return errors.Join(s.Stream.SetWriteDeadline(t), s.SetReadDeadline(t))
}

// Close ends both directions. What was written is sent.
func (s *stream) Close() error {
	s.once.Do(func() {
		s.way.mu.Lock()
		if s.way.open[s.id]--; s.way.open[s.id] <= 0 {
			delete(s.way.open, s.id)
		}
		s.way.mu.Unlock()
	})
	_ = s.SetReadDeadline(time.Unix(1, 0)) // who reads or writes notices
	_ = s.Stream.SetWriteDeadline(time.Unix(1, 0))
	return s.Stream.Close()
}

// LocalAddr is of net.Conn.
func (s *stream) LocalAddr() net.Addr {
	return net.TCPAddrFromAddrPort(addrOf(s.Conn().LocalMultiaddr()))
}

// RemoteAddr is where the other side is, with the port of TCP or UDP.
func (s *stream) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(addrOf(s.Conn().RemoteMultiaddr()))
}
