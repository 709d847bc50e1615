package tcp

import (
	"bytes"
	"io"
	"net"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// stream is a Transport connection that counts its calls.
type stream struct {
	net.Conn // not used
	peer     wire.PeerID
	bare     bool
	in       [][]byte // what each read returns
	writes   [][]byte
	within   []int
}

func (s *stream) Read(b []byte) (int, error) {
	if len(s.in) == 0 {
		return 0, io.EOF
	}
	n := copy(b, s.in[0])
	if s.in[0] = s.in[0][n:]; len(s.in[0]) == 0 {
		s.in = s.in[1:]
	}
	return n, nil
}

func (s *stream) Write(b []byte) (int, error) {
	s.writes = append(s.writes, bytes.Clone(b))
	return len(b), nil
}

func (s *stream) Close() error         { return nil }
func (s *stream) RemoteAddr() net.Addr { return &net.TCPAddr{} }
func (s *stream) Peer() wire.PeerID    { return s.peer }
func (s *stream) Bare() bool           { return s.bare }
func (s *stream) Within(n int)         { s.within = append(s.within, n) }

// TestWaitingFramesAreWrittenTogether: frames that wait together are written to a Transport in one
// call, long ones in few, and a frame that is buffered completely needs no timer.
func TestWaitingFramesAreWrittenTogether(t *testing.T) {
	h := newStoppedServer(t, nil)
	s := &stream{}
	l := newLink(1, s)
	var sent []byte
	for i, n := range []int{0, 7, 3000, 1} {
		l.put(slices.Repeat([]byte{byte(i)}, n), near.Gossip)
		sent = append(sent, frame(slices.Repeat([]byte{byte(i)}, n))...)
	}
	l.finished = true
	l.running.Store(2)
	h.group.Add(1)
	l.write(h)
	if len(s.writes) != 1 || !bytes.Equal(s.writes[0], sent) || h.Sent.Load() != uint64(len(sent)) {
		t.Errorf("%d calls, %d of %d bytes", len(s.writes), h.Sent.Load(), len(sent))
	}
	long := slices.Repeat([]byte{9}, 10*joinSize)
	s.writes, l = nil, newLink(2, s)
	l.put(long, near.Gossip)
	l.put([]byte{1}, near.Gossip)
	l.finished = true
	l.running.Store(2)
	h.group.Add(1)
	l.write(h)
	if got := bytes.Join(s.writes, nil); len(s.writes) > 3 || !bytes.Equal(got, append(frame(long), frame([]byte{1})...)) {
		t.Errorf("a long one: %d calls, %d bytes", len(s.writes), len(got))
	}

	var got [][]byte
	h.Tap = func(f Tapped) {
		if f.Frame != nil {
			got = append(got, f.Frame)
		}
	}
	half := frame(slices.Repeat([]byte{5}, 100))
	in := &stream{in: [][]byte{bytes.Clone(sent), half[:50], half[50:]}}
	l = newLink(3, in)
	l.running.Store(2)
	h.group.Add(1)
	l.read(h)
	if len(got) != 5 || len(got[2]) != 3000 || len(got[4]) != 100 {
		t.Errorf("%d frames have come", len(got))
	}
	if want := []int{100, -1}; !slices.Equal(in.within, want) {
		t.Errorf("timers %v, want those of the frame in two pieces", in.within)
	}
}

// recordingTransport is a Transport that records what it is asked to publish.
type recordingTransport struct {
	Transport
	spread int
}

func (w *recordingTransport) Spread(wire.PeerID, wire.Message) bool {
	w.spread++
	return true
}

// TestTransportSendsNoCopies: over a Transport a copy is not sent, own messages to the peer have no
// signature if it supports that, and everything else is as over a socket.
func TestTransportSendsNoCopies(t *testing.T) {
	me, x := primitives.SecretKeyFromSeed(primitives.ED25519, "me"), primitives.SecretKeyFromSeed(primitives.ED25519, "x")
	peer := primitives.SecretKeyFromSeed(primitives.ED25519, "peer").PublicKey()
	own := func(to wire.PeerID) *wire.Routed {
		return wire.Unsigned(me, wire.ToPeer(to), &wire.Pong{Source: me.PublicKey()}, 1)
	}
	w := &recordingTransport{}
	h := &Server{me: me.PublicKey(), transport: w}
	isBare := func(m wire.Message) bool {
		t.Helper()
		got, err := wire.Decode(wire.Append(nil, m))
		if err != nil {
			t.Fatal(err)
		}
		r := got.(*wire.Routed)
		if r.IsBare() == r.Verify() {
			t.Errorf("a message that is bare: %v, and right: %v", r.IsBare(), r.Verify())
		}
		return r.IsBare()
	}
	for _, tt := range []struct {
		what string
		l    *link
		m    *wire.Routed
		bare bool
	}{
		{"its own, for the peer", &link{peer: peer, bare: true}, own(peer), true},
		{"for another behind it", &link{peer: peer, bare: true}, own(x.PublicKey()), false},
		{"another's", &link{peer: peer, bare: true}, wire.NewRouted(x, wire.ToPeer(peer), &wire.Pong{Source: me.PublicKey()}, 1), false},
		{"an answer on its way back", &link{peer: peer, bare: true}, wire.Unsigned(me, wire.RouteBack(primitives.Hash{1}), &wire.Pong{Source: me.PublicKey()}, 1), false},
		{"to who wants signatures", &link{peer: peer}, own(peer), false},
		{"over a socket", &link{}, own(peer), false},
	} {
		m, spread := h.outgoing(tt.l, near.ToPeer{}, tt.m)
		if spread || isBare(m) != tt.bare {
			t.Errorf("%s: spread %v, bare %v", tt.what, spread, !tt.bare)
		}
		if _, again := h.outgoing(tt.l, near.ToPeer{}, tt.m); again != (tt.l.peer != "") {
			t.Errorf("%s: its copy is sent: %v", tt.what, !again)
		}
	}
	block := &wire.Block{Block: block(7)}
	tx := wire.Unsigned(me, wire.ToPeer(peer), &wire.ForwardTx{}, 1)
	for _, h.frames = range []bool{false, true} {
		w.spread = 0
		_, b := h.outgoing(&link{peer: peer}, near.ToAll{Msg: block}, block)
		_, f := h.outgoing(&link{peer: peer}, near.RouteToAccount{}, tx)
		if b == h.frames || f == h.frames || w.spread == 0 != h.frames {
			t.Errorf("frames %v: spread %v and %v", h.frames, b, f)
		}
	}
}
