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

// Protocols of a stream of frames. With bareID, a routed message has no signature if the peer is
// its author and this node its target. The protocol does not name the chain; the handshake does, so
// that a node of another chain gets an answer.
const (
	signedID = "/troupe/near/1"
	bareID   = "/troupe/near/2"
)

const (
	paceBytes = 16 << 10 // minimum speed at which a begun frame must be transferred, in bytes per second
	// maxUnmet is the maximum number of a peer's streams that wait for a handshake. One for each
	// tier is enough.
	maxUnmet = 4
	// pieceSize is the number of bytes that are written with one deadline. A piece with its yamux
	// header fills a noise message.
	pieceSize = 65507
)

// stream is a stream of frames as a tcp.Conn.
type stream struct {
	network.Stream
	transport *Transport
	id        peer.ID
	peer      wire.PeerID
	once      sync.Once

	mu    sync.Mutex
	end   time.Time // deadline of all reads and writes; zero: none
	taken time.Time // deadline of the piece that is being written; zero: none
}

var _ tcp.Conn = (*stream)(nil)

// wrap returns a stream as a connection. wrap resets the stream and returns nil if the peer's key
// is no node key, or if too many of the peer's streams wait for a handshake.
func (w *Transport) wrap(s network.Stream) *stream {
	id := s.Conn().RemotePeer()
	who, err := PeerOf(id)
	if err != nil {
		_ = s.Reset()
		return nil
	}
	w.mu.Lock()
	crowd := s.Stat().Direction == network.DirInbound && w.streams[id]-w.handshakes[id] >= maxUnmet
	if !crowd {
		w.streams[id]++
	}
	w.mu.Unlock()
	if crowd {
		_ = s.Reset()
		return nil
	}
	w.o.Counters.streams.Add(1)
	return &stream{Stream: s, transport: w, id: id, peer: who}
}

// Dial implements tcp.Transport: Dial opens a stream over an existing connection or over a new
// connection.
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

// Peer implements tcp.Conn.
func (s *stream) Peer() wire.PeerID { return s.peer }

// Bare implements tcp.Conn.
func (s *stream) Bare() bool { return s.Protocol() == bareID }

// capped returns the earlier of t and s.end; zero means no limit. s.mu must be held.
func (s *stream) capped(t time.Time) time.Time {
	if !s.end.IsZero() && (t.IsZero() || t.After(s.end)) {
		return s.end
	}
	return t
}

// Within implements tcp.Conn.
func (s *stream) Within(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var t time.Time
	if n >= 0 {
		t = time.Now().Add(s.transport.o.Stall + time.Duration(n/paceBytes)*time.Second)
	}
	_ = s.SetReadDeadline(s.capped(t))
}

// Write writes in pieces. The peer must accept each piece within Stall. The deadline is renewed
// only after an eighth of Stall has passed.
func (s *stream) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		s.mu.Lock()
		if now, stall := time.Now(), s.transport.o.Stall; s.taken.Sub(now) < stall-stall/8 {
			s.taken = now.Add(stall)
			_ = s.Stream.SetWriteDeadline(s.capped(s.taken))
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

// SetWriteDeadline does nothing: Write sets deadlines itself.
func (s *stream) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline limits all reads and writes from now on.
func (s *stream) SetDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end, s.taken = t, time.Time{}
	return errors.Join(s.Stream.SetWriteDeadline(t), s.SetReadDeadline(t))
}

// Close closes both directions. Written data is still sent.
func (s *stream) Close() error {
	s.once.Do(func() {
		s.transport.mu.Lock()
		if s.transport.streams[s.id]--; s.transport.streams[s.id] <= 0 {
			delete(s.transport.streams, s.id)
		}
		s.transport.mu.Unlock()
	})
	_ = s.SetReadDeadline(time.Unix(1, 0)) // a deadline in the past wakes blocked readers and writers
	_ = s.Stream.SetWriteDeadline(time.Unix(1, 0))
	return s.Stream.Close()
}

// LocalAddr implements net.Conn.
func (s *stream) LocalAddr() net.Addr {
	return net.TCPAddrFromAddrPort(addrOf(s.Conn().LocalMultiaddr()))
}

// RemoteAddr returns the address of the peer, with its TCP or UDP port.
func (s *stream) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(addrOf(s.Conn().RemoteMultiaddr()))
}
