package tcp

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// testServer is a server with what it delivered.
type testServer struct {
	*Server
	key  primitives.SecretKey
	got  chan near.Deliver
	stop func()
}

func run(t *testing.T, name string, boot ...*testServer) *testServer {
	t.Helper()
	return runTapped(t, nil, name, boot...)
}

func runTapped(t *testing.T, tap func(Tapped), name string, boot ...*testServer) *testServer {
	t.Helper()
	r := &testServer{key: primitives.SecretKeyFromSeed(primitives.ED25519, name), got: make(chan near.Deliver, 100)}
	c := near.Config{Key: r.key, Genesis: wire.GenesisID{ChainID: "test"}, Version: 86, Oldest: 83, ListenAddr: netip.MustParseAddrPort("127.0.0.1:0")}
	for _, b := range boot {
		c.Boot = append(c.Boot, wire.PeerInfo{ID: b.key.PublicKey(), Addr: b.Addr()})
	}
	h, err := Listen(c, func(d near.Deliver) {
		select {
		case r.got <- d:
		default:
		}
	}, func(j near.VerifyAnnouncements) near.AnnouncementsVerified {
		return near.AnnouncementsVerified{From: j.From, Good: j.List}
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Server, h.Tap = h, tap
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	r.stop = func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("the host does not end")
		}
	}
	t.Cleanup(func() { r.stop() })
	return r
}

// eventually waits at most limit until is returns true.
func eventually(t *testing.T, what string, limit time.Duration, is func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not %s within %v", what, limit)
		}
	}
}

func (r *testServer) peers() int { return len(r.Info().Peers) }

func block(h primitives.Height) *primitives.Block {
	header := &primitives.BlockHeader{Version: primitives.HeaderV6, Signature: primitives.ZeroED25519Signature}
	header.Height = h
	return &primitives.Block{Header: header.Init()}
}

// TestServersExchangeBlocksAndMessages: two servers on loopback find each other, exchange blocks
// and routed messages, and notice the end.
func TestServersExchangeBlocksAndMessages(t *testing.T) {
	a := run(t, "a")
	b := run(t, "b", a)
	eventually(t, "connected", time.Minute, func() bool { return a.peers() == 1 && b.peers() == 1 })
	b.Post(near.ToAll{Msg: &wire.Block{Block: block(7)}})
	var d near.Deliver
	select {
	case d = <-a.got:
	case <-time.After(time.Minute):
		t.Fatal("no block")
	}
	if m, ok := d.Msg.(*wire.Block); !ok || m.Block.Header.Height != 7 || d.From != b.key.PublicKey() {
		t.Errorf("got %+v", d)
	}
	eventually(t, "routed", time.Minute, func() bool {
		b.Post(near.RouteTo{Target: wire.ToPeer(a.key.PublicKey()), Body: &wire.WitnessAck{}})
		select {
		case d := <-a.got:
			_, ok := d.Msg.(*wire.Routed)
			return ok
		case <-time.After(50 * time.Millisecond):
			return false
		}
	})
	if p := a.Info().Peers[0]; p.Height != 7 || !p.Inbound || p.Info.Addr != b.Addr() {
		t.Errorf("a sees %+v", p)
	}
	b.stop()
	b.stop = func() {}
	eventually(t, "gone", time.Minute, func() bool { return a.peers() == 0 })
	b.Post(near.Tick{}) // to a server that has ended: no effect
	if i := b.Info(); len(i.Peers) != 0 {
		t.Error("a host that has ended has peers")
	}
}

// dial connects a plain socket.
func dial(t *testing.T, r *testServer) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", r.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// readFrame reads the next frame.
func readFrame(t *testing.T, from io.Reader) []byte {
	t.Helper()
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, binary.LittleEndian.Uint32(head[:]))
	if _, err := io.ReadFull(from, got); err != nil {
		t.Fatal(err)
	}
	return got
}

func frame(payload []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

// TestBadFramesAffectNoOtherPeer: a frame announced too long ends its connection, one that does not
// decode is ignored, and one that arrives byte by byte, or never, affects no other peer.
func TestBadFramesAffectNoOtherPeer(t *testing.T) {
	a := run(t, "a")
	slow := dial(t, a)
	_, _ = slow.Write([]byte{0, 0, 0, 0x1f, 1})
	long := dial(t, a)
	_, _ = long.Write(binary.LittleEndian.AppendUint32(nil, wire.MaxFrame+1))
	rest, err := io.ReadAll(long)
	if err != nil || len(rest) == 0 {
		t.Errorf("a frame too long: %x, %v, want a goodbye and the end", rest, err)
	} else if m, err := wire.Decode(rest[4:]); err != nil || m.Kind() != wire.KindDisconnect {
		t.Errorf("a frame too long is answered %v, %v", m, err)
	}
	early := dial(t, a) // before the handshake
	_ = early.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, _ = early.Write(binary.LittleEndian.AppendUint32(nil, longHandshake+1))
	if rest, err := io.ReadAll(early); err != nil || len(rest) == 0 {
		t.Errorf("a long frame before the handshake: %x, %v, want a goodbye and the end", rest, err)
	}
	odd := dial(t, a)
	for range 100 {
		_, _ = odd.Write(frame([]byte("no protobuf at all")))
	}
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "stranger")
	hello := &wire.Handshake{Tier: wire.T2, Version: 1, Oldest: 1, Sender: key.PublicKey(), Target: a.key.PublicKey(), ListenPort: 1,
		Chain: wire.ChainInfo{Genesis: wire.GenesisID{ChainID: "test"}}, PartialEdge: wire.SignEdge(key, a.key.PublicKey(), wire.FreshNonce(time.Now().Unix()))}
	// on the same connection
	for _, want := range []wire.Kind{wire.KindHandshakeFailure, wire.KindTier2Handshake} {
		for _, b := range frame(wire.Append(nil, hello)) {
			_, _ = odd.Write([]byte{b})
		}
		got := readFrame(t, odd)
		if m, err := wire.Decode(got); err != nil || m.Kind() != want {
			t.Errorf("answer %v, %v, want %v", m, err, want)
		}
		hello.Version = 86
	}
	// after the handshake it is read, and does not decode
	_, _ = odd.Write(frame(make([]byte, longHandshake+1)))
	_, _ = odd.Write(frame(wire.Append(nil, &wire.PeersRequest{})))
	_ = odd.SetReadDeadline(time.Now().Add(10 * time.Second))
	for {
		got := readFrame(t, odd)
		if m, err := wire.Decode(got); err == nil && m.Kind() == wire.KindPeersResponse {
			break
		}
	}
	if a.peers() != 1 {
		t.Errorf("%d peers", a.peers())
	}
	var text string // the frames that do not decode count as bytes, as in neard
	a.Inspect(func(n *near.PeerManager) { text = string(n.Meter.Append(nil)) })
	bytes := 0
	if _, rest, ok := strings.Cut(text, "\nnear_peer_data_received_bytes "); ok {
		_, _ = fmt.Sscan(rest, &bytes)
	}
	if least := longHandshake + 1 + 100*len("no protobuf at all"); bytes < least {
		t.Errorf("near_peer_data_received_bytes is %d, want at least %d", bytes, least)
	}
}

// TestFramesAreBatchedInOrder: waiting frames are written together, complete and in order, within
// the bounds, and none after the end. Frames that arrive together are read as if they came alone.
func TestFramesAreBatchedInOrder(t *testing.T) {
	over, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer over.Close()
	here, err := net.Dial("tcp", over.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	there, err := over.Accept()
	if err != nil {
		t.Fatal(err)
	}
	h := newStoppedServer(t, nil)
	out := newLink(1, here)
	var sent [][]byte
	for i, n := range []int{0, 1, maxBatchBytes + 5, 7, maxBatchBytes, 9} {
		sent = append(sent, slices.Repeat([]byte{byte(i)}, n))
	}
	for i := range 3 * maxBatch {
		sent = append(sent, []byte{byte(i), 0xff})
	}
	for _, f := range sent {
		out.put(f, near.Gossip)
	}
	var sizes []int
	for n := 0; n < len(sent); {
		batch := out.next(nil)
		for i, f := range batch {
			if string(f) != string(sent[n+i]) {
				t.Fatalf("frame %d is of %d bytes", n+i, len(f))
			}
		}
		n += len(batch)
		sizes = append(sizes, len(batch))
	}
	if want := []int{3, 2, 32, 32, 32, 1}; !slices.Equal(sizes, want) {
		t.Errorf("batches of %v frames, want %v", sizes, want)
	}
	for _, f := range sent {
		out.put(f, near.Gossip)
	}
	out.finish()
	var got [][]byte
	h.Tap = func(tap Tapped) {
		if !tap.Sent && tap.Frame != nil {
			got = append(got, tap.Frame)
		}
	}
	in := newLink(2, there)
	out.running.Store(2) // neither is the last of its link
	in.running.Store(2)
	h.group.Add(2)
	go out.write(h)
	in.read(h)
	h.group.Wait()
	total := 0
	for i, f := range sent {
		if total += 4 + len(f); i >= len(got) || string(got[i]) != string(f) {
			t.Fatalf("of %d frames %d have come, and number %d is another", len(sent), len(got), i)
		}
	}
	if len(got) != len(sent) || h.Sent.Load() != uint64(total) || h.Received.Load() != uint64(total) {
		t.Errorf("%d of %d frames; %d and %d bytes of %d", len(got), len(sent), h.Sent.Load(), h.Received.Load(), total)
	}
}

// flakyListener is a listener that fails its first accepts.
type flakyListener struct {
	net.Listener
	left int
}

func (f *flakyListener) Accept() (net.Conn, error) {
	if f.left > 0 {
		f.left--
		return nil, syscall.EMFILE
	}
	return f.Listener.Accept()
}

// TestFailedAcceptIsRetried: a failed accept is retried, and the end of the listener ends Run.
func TestFailedAcceptIsRetried(t *testing.T) {
	h := newStoppedServer(t, nil)
	inner := h.listener
	h.listener = &flakyListener{inner, 2}
	ended := make(chan error, 1)
	go func() { ended <- h.Run(context.Background()) }()
	c, err := net.Dial("tcp", h.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_, _ = c.Write(binary.LittleEndian.AppendUint32(nil, wire.MaxFrame+1))
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if b, err := io.ReadAll(c); err != nil || len(b) == 0 {
		t.Errorf("after accepts that failed: %x, %v, want a goodbye", b, err)
	}
	_ = inner.Close()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the listener was closed, and Run returned no error")
		}
	case <-time.After(time.Minute):
		t.Error("the host does not end")
	}
}

// newStoppedServer returns a server that does not run.
func newStoppedServer(t *testing.T, verify func(near.VerifyAnnouncements) near.AnnouncementsVerified) *Server {
	t.Helper()
	c := near.Config{Key: primitives.SecretKeyFromSeed(primitives.ED25519, "quiet"), Genesis: wire.GenesisID{ChainID: "test"}, Version: 86,
		Oldest: 83, ListenAddr: netip.MustParseAddrPort("127.0.0.1:0")}
	h, err := Listen(c, func(near.Deliver) {}, verify)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.listener.Close() })
	return h
}

// TestReaderHoldsOneLongMessage: a reader has at most one long message waiting, and many short
// ones.
func TestReaderHoldsOneLongMessage(t *testing.T) {
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "x")
	long := func(i int) wire.Message {
		w := primitives.PartialWitness{Part: make([]byte, longFrame), Signature: primitives.ZeroED25519Signature}
		w.Part[0] = byte(i) // a copy would be dropped
		return wire.NewRouted(key, wire.RouteBack(primitives.Hash{}), &wire.PartialWitness{PartialWitness: w}, 0)
	}
	announcement := &wire.Announcement{AccountID: "v.near", PeerID: key.PublicKey(),
		Signature: primitives.ZeroED25519Signature}
	for _, tt := range []struct {
		name string
		m    func(i int) wire.Message
		want int
	}{
		{"short", func(int) wire.Message { return &wire.PeersRequest{} }, 3},
		{"long", long, 1},
		{"to be verified", func(int) wire.Message {
			return &wire.RoutingTable{Accounts: []*wire.Announcement{announcement}}
		}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newStoppedServer(t, nil)
			ours, theirs := net.Pipe()
			h.group.Add(1)
			go newLink(1, ours).read(h)
			go func() {
				for i := range 3 {
					_, _ = theirs.Write(frame(wire.Append(nil, tt.m(i))))
				}
			}()
			eventually(t, "read: "+tt.name, time.Minute, func() bool { return len(h.events) == tt.want })
			time.Sleep(50 * time.Millisecond)
			for i := range 3 { // each one that is processed frees a place
				if n := len(h.events); n > max(tt.want-i, 1) {
					t.Errorf("%d wait, want %d", n, tt.want)
				}
				p := <-h.events
				p.completion.finish()
			}
			_ = theirs.Close()
			close(h.done)
			h.group.Wait()
		})
	}
}

// TestConcurrentVerificationsAreBounded: at most maxVerifying verifications run at a time, and an
// event completes with its own.
func TestConcurrentVerificationsAreBounded(t *testing.T) {
	var now, most atomic.Int32
	release := make(chan struct{})
	h := newStoppedServer(t, func(j near.VerifyAnnouncements) near.AnnouncementsVerified {
		n := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		<-release
		return near.AnnouncementsVerified{From: j.From}
	})
	whole := newCompletion()
	const all = 3 * maxVerifying
	for range all {
		h.startVerify(near.VerifyAnnouncements{}, whole)
	}
	whole.finish()
	eventually(t, "verifying", time.Minute, func() bool { return now.Load() == maxVerifying })
	select {
	case <-whole.done:
		t.Error("done before all is verified")
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	select {
	case <-whole.done:
	case <-time.After(time.Minute):
		t.Error("never done")
	}
	if h.group.Wait(); most.Load() != maxVerifying || len(h.events) != all {
		t.Errorf("%d verified at a time, %d in all", most.Load(), len(h.events))
	}
}

// TestOverlongFrameIsNotSent: a frame that no neard accepts is not sent.
func TestOverlongFrameIsNotSent(t *testing.T) {
	l := newLink(1, nil)
	if !l.put(make([]byte, wire.MaxFrame+1), 0) || l.queue.Next() != nil {
		t.Error("a frame that is too long is to be written")
	}
	if !l.put([]byte{1}, 0) || l.queue.Next() == nil {
		t.Error("a short one is not")
	}
}

// TestReaderVerifiesAfterHandshakeOnly: the reader verifies signatures after the handshake, and not
// before.
func TestReaderVerifiesAfterHandshakeOnly(t *testing.T) {
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "x")
	hello := &wire.Handshake{Tier: wire.T2, Version: 86, Oldest: 83, Sender: key.PublicKey(), Target: key.PublicKey(), ListenPort: 1,
		Chain: wire.ChainInfo{Genesis: wire.GenesisID{ChainID: "test"}}, PartialEdge: wire.SignEdge(key, key.PublicKey(), 7)}
	list := &wire.SnapshotHosts{Hosts: []*wire.SnapshotHost{wire.NewSnapshotHost(key, primitives.Hash{}, 1, []primitives.ShardID{1})}}
	for _, tt := range []struct{ ours, answered, before, after bool }{{true, false, false, true}, {false, false, false, false}, {false, true, true, true}} {
		h := newStoppedServer(t, nil)
		ours, theirs := net.Pipe()
		l := newLink(1, ours)
		l.outbound = tt.ours
		l.handshakeDone.Store(tt.answered)
		h.group.Add(1)
		go l.read(h)
		go func() {
			for _, m := range []wire.Message{list, hello, list} {
				_, _ = theirs.Write(frame(wire.Append(nil, m)))
			}
		}()
		var proven []bool
		for range 3 {
			if m, ok := (<-h.events).Event.(near.Received).Msg.(*wire.SnapshotHosts); ok {
				s := m.Hosts[0]
				s.EpochHeight++ // for the test only: it still verifies if the verdict is cached
				proven = append(proven, s.Verify())
			}
		}
		if proven[0] != tt.before || proven[1] != tt.after {
			t.Errorf("%+v: proven %v", tt, proven)
		}
		_ = theirs.Close()
		close(h.done)
		h.group.Wait()
	}
}

// TestPanicOfPeerManagerEndsRun: a panic over a peer's announcements is reported without other
// effects, and one of the PeerManager ends Run.
func TestPanicOfPeerManagerEndsRun(t *testing.T) {
	told := make(chan any, 1)
	h := newStoppedServer(t, func(near.VerifyAnnouncements) near.AnnouncementsVerified { panic("verify") })
	h.Alarm = func(reason any, _ []byte) { told <- reason }
	whole := newCompletion()
	h.startVerify(near.VerifyAnnouncements{}, whole)
	whole.finish()
	select {
	case r := <-told:
		if r != "verify" {
			t.Errorf("got alarm %v, want verify", r)
		}
	case <-time.After(time.Minute):
		t.Fatal("got no alarm within a minute")
	}
	<-whole.done
	h.group.Wait()
	if len(h.verifying) != 0 {
		t.Error("the verification's slot is not free")
	}

	a := newStoppedServer(t, nil)
	a.deliver = func(near.Deliver) { panic("deliver") }
	ended := make(chan error, 1)
	go func() { ended <- a.Run(context.Background()) }()
	a.Post(near.RouteToAccount{}) // for an unknown account
	a.Post(near.AnnouncementsVerified{Good: []*wire.Announcement{nil}})
	select {
	case err := <-ended:
		if p, ok := err.(*PanicError); !ok || len(p.Stack) == 0 {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("Run goes on")
	}
}

func TestBytesAreCountedOnBothSides(t *testing.T) {
	a := run(t, "a")
	b := run(t, "b", a)
	eventually(t, "connected", time.Minute, func() bool { return a.peers() == 1 && b.peers() == 1 })
	before := a.Received.Load()
	sent := b.Sent.Load()
	b.Post(near.ToAll{Msg: &wire.Block{Block: block(7)}})
	size := uint64(4 + len(wire.Append(nil, &wire.Block{Block: block(7)})))
	eventually(t, "counted", time.Minute, func() bool { return a.Received.Load() >= before+size && b.Sent.Load() >= sent+size })
}

// TestTapGetsAllFramesInOrder: all frames of both directions are reported in order, and the end
// once.
func TestTapGetsAllFramesInOrder(t *testing.T) {
	a := run(t, "a")
	seen := make(chan Tapped, 1000)
	b := runTapped(t, func(f Tapped) {
		f.Frame = append([]byte(nil), f.Frame...)
		seen <- f
	}, "b", a)
	eventually(t, "connected", time.Minute, func() bool { return a.peers() == 1 && b.peers() == 1 })
	b.Post(near.ToAll{Msg: &wire.Block{Block: block(7)}})
	select {
	case <-a.got:
	case <-time.After(time.Minute):
		t.Fatal("no block")
	}
	b.stop()
	b.stop = func() {}
	close(seen)
	var kinds []string
	ends, sent, received := 0, uint64(0), uint64(0)
	for f := range seen {
		if f.Conn != 1 || !f.Ours || f.Remote != a.Addr().String() {
			t.Errorf("%+v", f)
		}
		if len(f.Frame) == 0 {
			ends++
			continue
		}
		if ends > 0 {
			t.Error("a frame was delivered after the end")
		}
		m, err := wire.Decode(f.Frame)
		if err != nil {
			t.Fatal(err)
		}
		if f.Sent {
			sent += uint64(4 + len(f.Frame))
			kinds = append(kinds, m.Kind().String())
		} else {
			received += uint64(4 + len(f.Frame))
		}
	}
	if ends != 1 || kinds[0] != "tier2_handshake" || !slices.Contains(kinds, "block_response") || received != b.Received.Load() || sent < b.Sent.Load() {
		t.Errorf("%d ends, %q sent, %d of %d bytes sent, %d of %d received", ends, kinds, sent, b.Sent.Load(), received, b.Received.Load())
	}
}

// unreadConn is a connection to a peer that does not read.
type unreadConn struct {
	net.Conn
	ends chan struct{}
}

func (d *unreadConn) Write([]byte) (int, error)        { <-d.ends; return 0, io.ErrClosedPipe }
func (d *unreadConn) SetWriteDeadline(time.Time) error { return nil }
func (d *unreadConn) Close() error {
	select {
	case <-d.ends:
	default:
		close(d.ends)
	}
	return nil
}

// TestLongestQueueIsClosedAtLimit: the bytes queued for all connections are bounded together, and
// the connection with the longest queue is closed, not those that read slowly.
func TestLongestQueueIsClosedAtLimit(t *testing.T) {
	h := newStoppedServer(t, nil)
	const strangers = 8
	for id := near.ConnID(1); id <= strangers+1; id++ {
		l := newLink(id, &unreadConn{ends: make(chan struct{})})
		h.links[id] = l
		t.Cleanup(l.close)
	}
	slow := h.links[strangers+1]
	answer := make([]byte, 32<<20)
	all := 0
	for round := range 60 {
		for id := near.ConnID(1); id <= strangers; id++ {
			h.write(h.links[id], answer, near.Sync)
		}
		if round%10 == 0 {
			h.write(slow, answer, near.Consensus)
		}
		all = 0
		for _, l := range h.links {
			all += l.waiting()
		}
		if all > maxQueued+len(answer) {
			t.Fatalf("round %d: %d MiB wait", round, all>>20)
		}
	}
	if slow.closed || slow.waiting() != 6*len(answer) {
		t.Errorf("the slow one is closed: %v, %d MiB wait for it", slow.closed, slow.waiting()>>20)
	}
	if h.links[1].put([]byte{1}, near.Sync); h.links[1].closed && h.links[1].waiting() != 0 {
		t.Error("a closed connection queues a frame")
	}
}

// TestEdgeVerificationRateIsBounded: at most as many edges of a peer are verified at once as the
// largest network has, and later ones only at a bounded rate. All edges of a peer within these
// limits are verified.
func TestEdgeVerificationRateIsBounded(t *testing.T) {
	h := newStoppedServer(t, nil)
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "a")
	other := primitives.SecretKeyFromSeed(primitives.ED25519, "b").PublicKey()
	s := wire.SignEdge(key, other, 1).Signature // useless: verified, and invalid
	list := make([]*wire.Edge, 10_000)
	for i := range list {
		list[i] = wire.NewEdge(key.PublicKey(), other, 1, s, s)
	}
	table := frame(wire.Append(nil, &wire.RoutingTable{Edges: list}))
	here, there := net.Pipe()
	l := newLink(1, here)
	l.handshakeDone.Store(true)
	l.running.Store(1)
	h.group.Add(1)
	began := time.Now()
	go l.read(h)
	const tables = 8
	go func() {
		for range tables {
			_, _ = there.Write(table)
		}
		_ = there.Close()
	}()
	looked := 0
	for {
		p := <-h.events
		p.completion.finish()
		m, ok := p.Event.(near.Received)
		if !ok {
			break
		}
		looked += len(m.Msg.(*wire.RoutingTable).Edges)
	}
	most := wire.MaxEdges + edgeRate*(1+int(time.Since(began).Seconds())) // a slow machine takes seconds
	if looked < wire.MaxEdges || looked > most {
		t.Errorf("%d of %d edges were looked at, want %d to %d", looked, tables*len(list), wire.MaxEdges, most)
	}
	e := newEdgeLimiter()
	now := time.Now()
	if !e.AllowN(now, wire.MaxEdges) || e.AllowN(now, 1) || e.AllowN(now.Add(time.Second), edgeRate+1) ||
		!e.AllowN(now.Add(2*time.Second), 2*edgeRate) || !e.AllowN(now.Add(time.Hour), wire.MaxEdges) {
		t.Error("edges within the rate are refused, or edges above it are accepted")
	}
}
