//go:build e2e

package e2e

import (
	binenc "encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// filterProxy is a proxy between a node and its peers. A message of the node passes only if pass
// returns true. Peers cannot bypass it: it connects to them from an address at which the node does
// not listen, and it removes peer addresses from what they send to the node.
type filterProxy struct {
	t        *testing.T
	pass     func(to int, m wire.Message, frame []byte) bool // whether to forward a message to a peer; one goroutine for each connection
	received func(m wire.Message)                            // called with messages of peers; likewise

	mu     sync.Mutex
	conns  []net.Conn
	live   []*frameConn // the node's connection by peer; nil: none
	closed bool
	group  sync.WaitGroup
}

// frameConn is a connection to which whole frames are written.
type frameConn struct {
	mu sync.Mutex
	net.Conn
}

func (w *frameConn) send(frame []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return writeFrame(w.Conn, frame)
}

// send sends a message to a peer in the node's name.
func (v *filterProxy) send(to int, frame []byte) error {
	v.mu.Lock()
	w := v.live[to]
	v.mu.Unlock()
	if w == nil {
		return errors.New("no connection")
	}
	return w.send(frame)
}

// proxyAddr is the address from which a filterProxy connects.
const proxyAddr = "127.0.0.9"

// newFilterProxy listens once for each peer and returns the addresses.
func newFilterProxy(t *testing.T, peers []string, pass func(int, wire.Message, []byte) bool, received func(wire.Message)) (v *filterProxy, addrs []string) {
	t.Helper()
	v = &filterProxy{t: t, pass: pass, received: received, live: make([]*frameConn, len(peers))}
	for i, to := range peers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addrs = append(addrs, l.Addr().String())
		t.Cleanup(func() { _ = l.Close() })
		v.group.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				v.connect(i, c, to)
			}
		})
	}
	t.Cleanup(func() { // before the listeners are closed: cleanups run in reverse order
		v.mu.Lock()
		v.closed = true
		for _, c := range v.conns {
			_ = c.Close()
		}
		v.mu.Unlock()
	})
	return v, addrs
}

// connect forwards frames in both directions until one side ends.
func (v *filterProxy) connect(i int, from net.Conn, to string) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(proxyAddr)}}
	peer, err := d.Dial("tcp", to)
	if err != nil {
		_ = from.Close()
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.conns = append(v.conns, from, peer); v.closed {
		_ = from.Close()
		_ = peer.Close()
		return
	}
	ahead, back := &frameConn{Conn: peer}, &frameConn{Conn: from}
	for _, way := range []struct {
		a   net.Conn
		b   *frameConn
		may func(wire.Message, []byte) bool
	}{{from, ahead, func(m wire.Message, f []byte) bool { v.setLive(i, ahead, m); return v.pass(i, m, f) }}, {peer, back, v.forwardBack}} {
		v.group.Go(func() {
			defer way.a.Close()
			defer way.b.Close()
			for {
				frame, err := readFrame(way.a)
				if err != nil {
					return
				}
				if m, err := wire.Decode(frame); err == nil && !way.may(m, frame) {
					continue
				}
				if way.b.send(frame) != nil {
					return
				}
			}
		})
	}
}

// setLive records the node's connection to a peer after the handshake.
func (v *filterProxy) setLive(to int, w *frameConn, m wire.Message) {
	if _, ok := m.(*wire.Handshake); !ok {
		v.mu.Lock()
		v.live[to] = w
		v.mu.Unlock()
	}
}

// forwardBack forwards a peer's messages, without peer addresses.
func (v *filterProxy) forwardBack(m wire.Message, _ []byte) bool {
	if _, ok := m.(*wire.PeersResponse); ok {
		return false
	}
	v.received(m)
	return true
}

func readFrame(from io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binenc.LittleEndian.Uint32(head[:]))
	_, err := io.ReadFull(from, frame)
	return frame, err
}

func writeFrame(to io.Writer, frame []byte) error {
	_, err := to.Write(append(binenc.LittleEndian.AppendUint32(make([]byte, 0, 4+len(frame)), uint32(len(frame))), frame...))
	return err
}

// rawBlock returns the frame of a block message with any bytes.
func rawBlock(raw []byte) []byte {
	field := func(num uint64, b []byte) []byte {
		return append(binenc.AppendUvarint(binenc.AppendUvarint(nil, num<<3|2), uint64(len(b))), b...)
	}
	return field(uint64(wire.KindBlock), field(1, field(1, raw)))
}

// blockOf returns the block in a message; nil: there is none.
func blockOf(m wire.Message) *primitives.Block {
	if b, ok := m.(*wire.Block); ok {
		return b.Block
	}
	return nil
}
