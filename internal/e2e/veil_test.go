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

// veil is a proxy between a node and its peers. A message of the node passes only if pass returns
// true. Peers cannot bypass it: it connects to them from an address at which the node does not
// listen, and it removes peer addresses from what they send to the node.
type veil struct {
	t     *testing.T
	pass  func(to int, m wire.Message, frame []byte) bool // whether to forward a message to a peer; one goroutine for each connection
	heard func(m wire.Message)                            // called with messages of peers; likewise

	mu     sync.Mutex
	conns  []net.Conn
	live   []*voice // the node's connection by peer; nil: none
	closed bool
	group  sync.WaitGroup
}

// voice is a connection to which whole frames are written.
type voice struct {
	mu sync.Mutex
	net.Conn
}

func (w *voice) say(frame []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return writeFrame(w.Conn, frame)
}

// say sends a message to a peer in the node's name.
func (v *veil) say(to int, frame []byte) error {
	v.mu.Lock()
	w := v.live[to]
	v.mu.Unlock()
	if w == nil {
		return errors.New("no connection")
	}
	return w.say(frame)
}

// veiled is the address from which a veil connects.
const veiled = "127.0.0.9"

// newVeil listens once for each peer and returns the addresses.
func newVeil(t *testing.T, peers []string, pass func(int, wire.Message, []byte) bool, heard func(wire.Message)) (v *veil, addrs []string) {
	t.Helper()
	v = &veil{t: t, pass: pass, heard: heard, live: make([]*voice, len(peers))}
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
				v.join(i, c, to)
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

// join forwards frames in both directions until one side ends.
func (v *veil) join(i int, from net.Conn, to string) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(veiled)}}
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
	ahead, back := &voice{Conn: peer}, &voice{Conn: from}
	for _, way := range []struct {
		a   net.Conn
		b   *voice
		may func(wire.Message, []byte) bool
	}{{from, ahead, func(m wire.Message, f []byte) bool { v.speaks(i, ahead, m); return v.pass(i, m, f) }}, {peer, back, v.back}} {
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
				if way.b.say(frame) != nil {
					return
				}
			}
		})
	}
}

// speaks records the node's connection to a peer after the handshake.
func (v *veil) speaks(to int, w *voice, m wire.Message) {
	if _, ok := m.(*wire.Handshake); !ok {
		v.mu.Lock()
		v.live[to] = w
		v.mu.Unlock()
	}
}

// back forwards a peer's messages, without peer addresses.
func (v *veil) back(m wire.Message, _ []byte) bool {
	if _, ok := m.(*wire.PeersResponse); ok {
		return false
	}
	v.heard(m)
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
