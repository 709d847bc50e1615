package libp2p

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

const loopback = "127.0.0.1:0"

// node is a server and the messages it received.
type node struct {
	*tcp.Server
	way     *Transport // nil: TCP sockets only
	key     primitives.SecretKey
	got     chan near.Deliver
	verdict atomic.Int32 // result of gossip validation
	stop    func()
}

// how configures a node.
type how struct {
	near, libp2p bool
	open         bool // not limited to boot nodes
	chain        string
	addr         netip.AddrPort // of libp2p
	change       func(*Options)
	boot         []wire.PeerInfo
	look         func(wire.Message) // called before a message is validated
	alarm        func(any)          // nil: a panic fails the test
	tap          func(tcp.Tapped)
}

func (n *node) info() wire.PeerInfo { return wire.PeerInfo{ID: n.key.PublicKey(), Addr: n.Addr()} }

// over returns the libp2p address of a node.
func (n *node) over() wire.PeerInfo { return wire.PeerInfo{ID: n.key.PublicKey(), Addr: n.way.Addr()} }

func run(t testing.TB, name string, h how) *node {
	t.Helper()
	n := &node{key: primitives.SecretKeyFromSeed(primitives.ED25519, name), got: make(chan near.Deliver, 4096)}
	n.verdict.Store(int32(near.Pass))
	if h.chain == "" {
		h.chain = "test"
	}
	id := wire.GenesisID{ChainID: h.chain, Hash: primitives.HashBytes([]byte(h.chain))}
	c := near.Config{Key: n.key, Genesis: id, Version: 86, Oldest: 83, Boot: h.boot, OnlyBoot: !h.open}
	deliver := func(d near.Deliver) {
		select {
		case n.got <- d:
		default:
		}
	}
	verify := func(j near.VerifyAnnouncements) near.AnnouncementsVerified {
		return near.AnnouncementsVerified{From: j.From, Good: j.List}
	}
	var l net.Listener
	if h.near {
		var err error
		if l, err = tcp.Bind(loopback); err != nil {
			t.Fatal(err)
		}
	}
	if !h.libp2p {
		n.Server = tcp.New(l, c, deliver, verify)
	} else {
		o := Options{Key: n.key, Genesis: id, Listen: netip.MustParseAddrPort(loopback)}
		if h.addr.IsValid() {
			o.Listen = h.addr
		}
		if h.change != nil {
			h.change(&o)
		}
		w, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		n.way = w
		n.Server = tcp.NewOver(l, w, c, deliver, verify)
	}
	n.Check = func(m wire.Message) near.Verdict {
		if h.look != nil {
			h.look(m)
		}
		if x, ok := m.(*wire.Transaction); ok {
			h := x.Transaction.Hash()
			if !x.Transaction.Signature.Verify(h[:], x.Transaction.PublicKey) {
				return near.Refuse
			}
		}
		return near.Verdict(n.verdict.Load())
	}
	n.Tap = h.tap
	n.Alarm = func(reason any, stack []byte) {
		if h.alarm != nil {
			h.alarm(reason)
			return
		}
		t.Errorf("%v\n%s", reason, stack)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	n.stop = func() {
		n.stop = func() {}
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
	t.Cleanup(func() { n.stop() })
	if n.way != nil {
		n.way.awaitHandlers()
	}
	return n
}

// eventually waits until is returns true, at most limit.
func eventually(t testing.TB, what string, limit time.Duration, is func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not %s within %v", what, limit)
		}
	}
}

func (n *node) peers() int { return len(n.Info().Peers) }

// connected waits for a number of peers.
func (n *node) connected(t testing.TB, peers int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d peers", peers), time.Minute, func() bool { return n.peers() == peers })
}

// reached waits until gossip of n reaches others.
func (n *node) reached(t testing.TB, others ...*node) {
	t.Helper()
	for _, o := range others {
		eventually(t, "joined", time.Minute, func() bool {
			n.way.mu.Lock()
			defer n.way.mu.Unlock()
			return n.way.reaches(blocks, o.way.me) && n.way.reaches(transactions, o.way.me)
		})
	}
}

// backdateHandshakes backdates the handshakes of all peers of n.
func (n *node) backdateHandshakes() {
	n.way.mu.Lock()
	defer n.way.mu.Unlock()
	for id, at := range n.way.metAt {
		n.way.metAt[id] = at.Add(-newFor)
	}
}

// next waits for a received message that fits.
func next[M wire.Message](t testing.TB, n *node, fits func(M) bool) (d near.Deliver, m M) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case d = <-n.got:
			if m, ok := d.Msg.(M); ok && (fits == nil || fits(m)) {
				return d, m
			}
		case <-limit:
			t.Fatalf("no %T", m)
		}
	}
}

func block(h primitives.Height) *primitives.Block {
	header := &primitives.BlockHeader{Version: primitives.HeaderV6, Signature: primitives.ZeroED25519Signature}
	header.Height = h
	return &primitives.Block{Header: header.Init()}
}

func (n *node) broadcastBlock(h primitives.Height) {
	n.Post(near.ToAll{Msg: &wire.Block{Block: block(h)}})
}

func (n *node) rebroadcastBlock(h primitives.Height) {
	n.Post(near.ToAll{Msg: &wire.Block{Block: block(h)}, Again: true})
}

func isHeight(h primitives.Height) func(*wire.Block) bool {
	return func(b *wire.Block) bool { return b.Block.Header.Height == h }
}

// recorded returns messages that neards exchanged, some of each kind.
func recorded(t testing.TB) (out []wire.Message) {
	t.Helper()
	count, seen := map[string]int{}, map[string]bool{}
	for _, name := range []string{"frames", "late"} {
		for n, line := range testutil.Lines(t, "../wire/testdata/"+name+".jsonl.gz") {
			if n == 1 {
				continue
			}
			var f struct {
				Frame []byte `json:"frame"`
			}
			if err := json.Unmarshal(line, &f); err != nil {
				t.Fatal(err)
			}
			m, err := wire.Decode(f.Frame)
			if err != nil {
				t.Fatal(err)
			}
			kind, content := m.Kind().String(), string(f.Frame)
			// it is sent several times, of which one is delivered
			if r, ok := m.(*wire.Routed); ok {
				kind += r.Body.BodyKind().String()
				content = kind + string(r.Body.AppendBorsh(nil))
			}
			if seen[content] {
				continue
			}
			seen[content] = true
			if count[kind]++; count[kind] <= 5 {
				out = append(out, m)
			}
		}
	}
	return out
}

// isDelivered returns whether a message of a peer is delivered unchanged.
func isDelivered(m wire.Message) bool {
	switch m.(type) {
	case *wire.Headers, *wire.HeadersRequest, *wire.Block, *wire.BlockRequest, *wire.Transaction, *wire.StateResponse, *wire.StateHeaderRequest,
		*wire.StatePartRequest, *wire.OptimisticBlock:
		return true
	}
	return false
}

// TestEveryKindArrivesWithSameBytes: every kind of message that neards have exchanged arrives over
// either transport with the same bytes.
func TestEveryKindArrivesWithSameBytes(t *testing.T) {
	list := recorded(t)
	pair := func(h how) (got []string) {
		a := run(t, "a", h)
		h.boot = []wire.PeerInfo{a.info()}
		b := run(t, "b", h)
		a.connected(t, 1)
		b.connected(t, 1)
		want := 0
		for _, m := range list {
			if r, ok := m.(*wire.Routed); ok {
				// the node answers these itself
				if k := r.Body.BodyKind(); k != wire.BodyPing && k != wire.BodyPong {
					b.Post(near.RouteTo{Target: wire.ToPeer(a.key.PublicKey()), Body: r.Body})
					want++
				}
			} else if isDelivered(m) {
				b.Post(near.ToPeer{Peer: a.key.PublicKey(), Msg: m})
				want++
			}
		}
		for range want {
			select {
			case d := <-a.got:
				if d.From != b.key.PublicKey() {
					t.Errorf("from %v", d.From)
				}
				if r, ok := d.Msg.(*wire.Routed); ok {
					got = append(got, fmt.Sprintf("%v %x", r.Body.BodyKind(), r.Body.AppendBorsh(nil)))
				} else {
					got = append(got, fmt.Sprintf("%v %x", d.Msg.Kind(), wire.Append(nil, d.Msg)))
				}
			case <-time.After(time.Minute):
				t.Fatalf("%d of %d messages arrived", len(got), want)
			}
		}
		slices.Sort(got)
		return got
	}
	bySockets, over := pair(how{near: true}), pair(how{libp2p: true})
	if len(over) < 60 || !slices.Equal(bySockets, over) {
		t.Errorf("%d messages over sockets, %d over libp2p, or different ones", len(bySockets), len(over))
	}
	for _, m := range list {
		if r, ok := m.(*wire.Routed); ok {
			if !slices.Contains(over, fmt.Sprintf("%v %x", r.Body.BodyKind(), r.Body.AppendBorsh(nil))) && r.Body.BodyKind() != wire.BodyPing && r.Body.BodyKind() != wire.BodyPong {
				t.Errorf("%v did not come as it was", r.Body.BodyKind())
			}
		} else if isDelivered(m) && !slices.Contains(over, fmt.Sprintf("%v %x", m.Kind(), wire.Append(nil, m))) {
			t.Errorf("%v did not come as it was", m.Kind())
		}
	}
}

// TestFramesArriveUnchanged: the bytes of every frame are the same at the other end of a stream.
func TestFramesArriveUnchanged(t *testing.T) {
	for name, quic := range map[string]bool{"tcp": false, "quic": true} {
		t.Run(name, func(t *testing.T) { frames(t, quic) })
	}
}

func frames(t *testing.T, quic bool) {
	taken := make(chan tcp.Conn, 1)
	a, b := bare(t, "a", taken), bare(t, "b", nil)
	b.o.Quic = map[wire.PeerID]bool{a.o.Key.PublicKey(): quic}
	conn, err := b.Dial(t.Context(), wire.PeerInfo{ID: a.o.Key.PublicKey(), Addr: a.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	list := recorded(t)
	go func() {
		for _, m := range list {
			_, _ = conn.Write(wire.Append(nil, m))
		}
	}()
	other := <-taken
	defer func() { _ = other.Close() }()
	if other.Peer() != b.o.Key.PublicKey() {
		t.Errorf("from %v", other.Peer())
	}
	_ = other.SetReadDeadline(time.Now().Add(time.Minute))
	for _, m := range list {
		want := wire.Append(nil, m)
		got := make([]byte, len(want))
		for n := 0; n < len(got); {
			k, err := other.Read(got[n:])
			if n += k; err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%v: other bytes", m.Kind())
		}
	}
}

// recordingHandler collects connections and events.
type recordingHandler struct {
	taken  chan tcp.Conn
	posted chan near.Event
}

func (s recordingHandler) Take(c tcp.Conn) {
	if s.taken == nil {
		_ = c.Close()
		return
	}
	s.taken <- c
}

func (s recordingHandler) Post(ev near.Event) {
	select {
	case s.posted <- ev:
	default:
	}
}
func (recordingHandler) Validate(wire.Message) near.Verdict { return near.Hold }
func (recordingHandler) Panicked(any, []byte)               {}

func (recordingHandler) Overheard(bool, wire.PeerID, func() []byte) {}

// bare returns a transport without a node.
func bare(t testing.TB, name string, taken chan tcp.Conn) *Transport {
	t.Helper()
	return serve(t, Options{Key: primitives.SecretKeyFromSeed(primitives.ED25519, name)}, recordingHandler{taken, make(chan near.Event, 100)})
}

func serve(t testing.TB, o Options, s recordingHandler) *Transport {
	t.Helper()
	if !o.Listen.IsValid() {
		o.Listen = netip.MustParseAddrPort(loopback)
	}
	if o.Genesis.ChainID == "" {
		o.Genesis = wire.GenesisID{ChainID: "test", Hash: primitives.HashBytes([]byte("test"))}
	}
	w, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Serve(ctx, s)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	w.awaitHandlers()
	return w
}

// awaitHandlers waits until Serve has set the handlers of both protocols. Dialling earlier would be
// refused.
func (w *Transport) awaitHandlers() {
	for list := w.host.Mux().Protocols(); !slices.Contains(list, bareID) || !slices.Contains(list, signedID); list = w.host.Mux().Protocols() {
		time.Sleep(time.Millisecond)
	}
}
