package capture

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

func framed(frames ...[]byte) (out []byte) {
	for _, f := range frames {
		out = append(binary.LittleEndian.AppendUint32(out, uint32(len(f))), f...)
	}
	return out
}

// lines reads a recording back.
func lines(t *testing.T, in []byte) (out []*Line) {
	t.Helper()
	for l, err := range Lines(bytes.NewReader(in)) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, l)
	}
	return out
}

// handshake is one between the nodes of two seeds.
func handshake(from, to string) []byte {
	key, other := primitives.SecretKeyFromSeed(primitives.ED25519, from), primitives.SecretKeyFromSeed(primitives.ED25519, to).PublicKey()
	return wire.Append(nil, &wire.Handshake{Tier: wire.T2, Version: 86, Oldest: 83, Sender: key.PublicKey(), Target: other, ListenPort: 1,
		Chain: wire.ChainInfo{Genesis: wire.GenesisID{ChainID: "c"}}, PartialEdge: wire.SignEdge(key, other, 5)})
}

// TestProxyForwardsBytesUnchanged: a proxy forwards a connection byte for byte, in both directions,
// and records it.
func TestProxyForwardsBytesUnchanged(t *testing.T) {
	node, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	p := Proxy{To: node.Addr().String(), Recorder: NewRecorder(&out, 1<<20, time.Now)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, l) }()

	said := framed(handshake("a", "b"), wire.Append(nil, &wire.PeersRequest{}), []byte{0xff})
	answer := framed(handshake("b", "a"), wire.Append(nil, &wire.Disconnect{}))
	answer = append(answer, 0xff, 0xff, 0xff, 0xff, 'x', 'y') // too long a frame
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := node.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []struct {
		from, to net.Conn
		what     []byte
	}{{client, server, said}, {server, client, answer}} {
		if _, err := w.from.Write(w.what); err != nil {
			t.Fatal(err)
		}
		if err := w.from.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(w.to); err != nil || !bytes.Equal(got, w.what) {
			t.Errorf("received %x, %v, want %x", got, err, w.what)
		}
	}
	dead, err := net.Dial("tcp", l.Addr().String()) // one that is still open when all ends
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	if second, err := node.Accept(); err != nil {
		t.Fatal(err)
	} else {
		defer second.Close()
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run = %v", err)
	}
	var kinds, notes []string
	a, b := primitives.SecretKeyFromSeed(primitives.ED25519, "a").PublicKey().String(), primitives.SecretKeyFromSeed(primitives.ED25519, "b").PublicKey().String()
	for _, r := range lines(t, out.Bytes()) {
		switch {
		case r.Conn != 0:
		case r.Note != "":
			notes = append(notes, r.Note)
		case r.From == a && r.To == b:
			kinds = append(kinds, "a: "+r.Kind)
		case r.From == b && r.To == a:
			kinds = append(kinds, "b: "+r.Kind)
		default:
			t.Errorf("%s is from %s to %s", r.Kind, r.From, r.To)
		}
	}
	if want := []string{"a: tier2_handshake", "a: peers_request", "a: rubbish", "b: tier2_handshake", "b: disconnect"}; !slices.Equal(kinds, want) {
		t.Errorf("recorded %q, want %q", kinds, want)
	}
	if len(notes) != 3 || !strings.Contains(notes[0], " connects to ") || !strings.Contains(notes[1], "4294967295 bytes is announced") || notes[2] != "the connection ends" {
		t.Errorf("notes = %q", notes)
	}
}

// TestProxyRecordsUnreachableNode: if the node does not answer, the proxy records a note and closes
// the connection.
func TestProxyRecordsUnreachableNode(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	p := Proxy{To: "127.0.0.1:1", Recorder: NewRecorder(&out, 1<<20, time.Now)}
	done := make(chan error, 1)
	go func() { done <- p.Run(t.Context(), l) }()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := client.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read %d, %v", n, err)
	}
	_ = l.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Run = %v", err)
	}
	if got := lines(t, out.Bytes()); len(got) != 2 || !strings.HasPrefix(got[1].Note, "connecting to the node failed: ") {
		t.Errorf("recorded %s", out.String())
	}
}

// TestFramesAreSplitFromAnyPieces: a stream is split into the same frames, whatever pieces it
// arrives in.
func TestFramesAreSplitFromAnyPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var want [][]byte
		for range r.IntN(6) {
			f := make([]byte, r.IntN(40))
			for i := range f {
				f[i] = byte(r.Uint32())
			}
			want = append(want, f)
		}
		stream := framed(want...)
		var got [][]byte
		s := splitter{frame: func(f []byte) { got = append(got, f) }, note: func(n string) { t.Error(n) }}
		for len(stream) > 0 {
			k := 1 + r.IntN(len(stream))
			if n, err := s.Write(stream[:k]); n != k || err != nil {
				t.Fatal(n, err)
			}
			stream = stream[k:]
		}
		if !slices.EqualFunc(got, want, bytes.Equal) {
			t.Fatalf("%x, want %x", got, want)
		}
	}
	// Of a long frame nothing is held, and the next one is found.
	var got [][]byte
	var notes []string
	s := splitter{frame: func(f []byte) { got = append(got, f) }, note: func(n string) { notes = append(notes, n) }}
	_, _ = s.Write(binary.LittleEndian.AppendUint32(nil, maxKept+1))
	for range maxKept >> 20 {
		_, _ = s.Write(make([]byte, 1<<20))
	}
	if _, _ = s.Write(append([]byte{0}, framed([]byte("next"))...)); len(got) != 1 || string(got[0]) != "next" || cap(s.buf) != 0 || len(notes) != 1 {
		t.Errorf("got %q, notes %q, %d bytes held", got, notes, cap(s.buf))
	}
}

// TestRecordingEndsAtItsSizeLimit: a recording ends at its size limit, with a line that says so.
func TestRecordingEndsAtItsSizeLimit(t *testing.T) {
	for limit := int64(0); limit < 1200; limit += 50 {
		var out bytes.Buffer
		r := NewRecorder(&out, limit, time.Now)
		c := r.Open("a", "b")
		for range 20 {
			c.Frame(true, []byte("\x52\x00"))
		}
		full, err := r.State()
		got := lines(t, out.Bytes())
		if !full || err != nil || int64(out.Len()) > limit {
			t.Errorf("%d bytes of %d, full %v, %v", out.Len(), limit, full, err)
		}
		if n := len(got); limit >= 150 && (n == 0 || got[n-1].Note != "the recording is full") {
			t.Errorf("limit %d ends with\n%s", limit, out.String())
		}
	}
	r := NewRecorder(broken{}, 1000, time.Now)
	if r.Open("a", "b"); func() error { _, err := r.State(); return err }() == nil {
		t.Error("no error for a recording that cannot be written")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no room") }

// TestTapRecordsOwnConnections records a node's own connections.
func TestTapRecordsOwnConnections(t *testing.T) {
	var out bytes.Buffer
	r := NewRecorder(&out, 1<<20, time.Now)
	r.Tap(7, true, true, "127.0.0.1:5", handshake("a", "b"))
	r.Tap(9, false, false, "127.0.0.1:6", []byte("\x52\x00"))
	r.Tap(7, true, false, "127.0.0.1:5", handshake("b", "a"))
	r.Tap(7, true, false, "127.0.0.1:5", nil)
	r.Tap(7, true, false, "127.0.0.1:5", nil)
	n := Names{primitives.SecretKeyFromSeed(primitives.ED25519, "a").PublicKey(): "A", primitives.SecretKeyFromSeed(primitives.ED25519, "b").PublicKey(): "B"}
	var got []string
	for _, l := range lines(t, out.Bytes()) {
		got = append(got, strings.TrimSpace(n.End(l.From)+">"+n.End(l.To)+" "+l.Kind+l.Note))
	}
	want := []string{"> this node connects to 127.0.0.1:5", "A>B tier2_handshake", "> 127.0.0.1:6 connects to this node", "127.0.0.1:6>this node peers_request",
		"B>A tier2_handshake", "> the connection ends"}
	if !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}

// TestGossipIsRecordedWithItsPeer: gossip is recorded with the peer that delivered it, and has a
// connection number of its own.
func TestGossipIsRecordedWithItsPeer(t *testing.T) {
	var out bytes.Buffer
	r := NewRecorder(&out, 1<<20, time.Now)
	r.Tap(7, true, true, "127.0.0.1:5", []byte("\x52\x00"))
	r.Spread(true, "", []byte("\x52\x00"))
	r.Spread(false, "ed25519:x", []byte("\x52\x00"))
	r.Spread(false, "ed25519:y", make([]byte, maxKept+1))
	r.Tap(8, true, true, "127.0.0.1:6", []byte("\x52\x00"))
	var got []string
	for _, l := range lines(t, out.Bytes()) {
		got = append(got, strings.TrimSpace(fmt.Sprint(l.Conn, " ", l.From, ">", l.To, " ", l.Kind, l.Note)))
	}
	want := []string{"0 > this node connects to 127.0.0.1:5", "0 this node>127.0.0.1:5 peers_request", "1 > what is spread beside connections", "1 this node>all peers_request",
		"1 ed25519:x>this node peers_request", fmt.Sprintf("1 > %s of %d bytes from ed25519:y, which is not kept", kindOf([]byte{0}), maxKept+1), "2 > this node connects to 127.0.0.1:6",
		"2 this node>127.0.0.1:6 peers_request"}
	if !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}

// slow is a file whose disk has stopped until it is let go.
type slow struct {
	bytes.Buffer
	open chan struct{}
}

func (s *slow) Write(b []byte) (int, error) {
	<-s.open
	return s.Buffer.Write(b)
}

// TestRecordingDoesNotWaitForDisk: recording does not wait for the disk. Dropped lines are counted;
// all others are there in order.
func TestRecordingDoesNotWaitForDisk(t *testing.T) {
	out := &slow{open: make(chan struct{})}
	r := NewRecorder(out, 1<<30, time.Now)
	done := r.later(1 << 20)
	const frames = 40
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range frames {
			r.Tap(7, true, true, "127.0.0.1:5", make([]byte, 100<<10))
		}
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("recording waits for the disk")
	}
	close(out.open)
	if err := done(); err != nil {
		t.Fatal(err)
	}
	r.Tap(7, true, true, "127.0.0.1:5", []byte("\x52\x00"))
	got, missed := 0, 0
	for _, l := range lines(t, out.Bytes()) {
		if len(l.Frame) > 0 {
			got++
		}
		var n int
		if _, err := fmt.Sscanf(l.Note, "%d lines are missing", &n); err == nil {
			missed += n
		}
	}
	if got < 3 || missed == 0 || got+missed != frames {
		t.Errorf("%d frames are there and %d missing, of %d", got, missed, frames)
	}
	r = NewRecorder(broken{}, 1<<20, time.Now)
	done = r.Later()
	r.Open("a", "b")
	if done() == nil {
		t.Error("no error for a recording that cannot be written")
	}
}

// TestPeerTextCannotDrawOnTerminal: text of peers, and of the recording itself, cannot draw on the
// reader's terminal or add lines.
func TestPeerTextCannotDrawOnTerminal(t *testing.T) {
	const evil = "x\n   9.9999 #1 A > B forged\x1b]52;c;AAAA\a\u202e"
	h := handshake("a", "b")
	m, err := wire.Decode(h)
	if err != nil {
		t.Fatal(err)
	}
	m.(*wire.Handshake).Chain.Genesis.ChainID = evil
	var in bytes.Buffer
	for _, l := range []Line{{Note: evil}, {From: evil, To: evil, Kind: evil, Frame: wire.Append(nil, m)}} {
		b, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		in.Write(append(b, '\n'))
	}
	for name, show := range map[string]func(io.Writer, io.Reader, Filter, Names) error{"words": Write, "summary": Summarize} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := show(&out, bytes.NewReader(in.Bytes()), Filter{Conn: -1}, Names{}); err != nil {
				t.Fatal(err)
			}
			if s := out.String(); strings.ContainsAny(s, "\x1b\a\u202e") || strings.Contains(s, "\n   9.9999") || !strings.Contains(s, "forged") {
				t.Errorf("got %q", s)
			}
		})
	}
}
