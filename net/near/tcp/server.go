// Package tcp runs a near.PeerManager on sockets. The package manages connections, frames,
// deadlines and the clock. The PeerManager makes all decisions.
//
//	in      connections, frames of peers; events of other parts of the node (Post)
//	out     frames; messages that the PeerManager delivers, and announcements to verify
//	state   one goroutine that steps the PeerManager, one that accepts, two for each connection
//	units   a frame is u32 little-endian length ‖ protobuf
//	bound   wire.MaxFrame bytes for a frame, allocated as it arrives; maxQueued bytes queued for
//	        all connections; maxEvents decoded messages waiting for the PeerManager, above which
//	        reading stops; for each connection one waiting message longer than longFrame;
//	        maxVerifying verifications at a time
//	errors  an error of a socket, or a panic of its goroutines, ends the connection; errors of the
//	        listener are retried; a closed listener, or a panic of the PeerManager, ends Run
//	source  nearcore chain/network/src/{tcp.rs, peer/stream.rs}
package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

const (
	dialLimit = time.Second
	// writeLimit is the deadline of a write call, and of unacknowledged data.
	writeLimit   = 2 * time.Minute
	resendMost   = 2 * time.Second // maximum interval between retransmissions of unacknowledged data
	maxEvents    = 1024
	maxVerifying = 16
	maxAuthors   = 256 // maximum number of cached keys of message authors
	// maxQueued is the maximum number of bytes queued for all connections. neard allows as many for
	// each connection.
	maxQueued = 1 << 30
	// If more than longQueue bytes are queued for a connection, the total is checked against
	// maxQueued.
	longQueue  = 16 << 20
	acceptWait = 50 * time.Millisecond // pause after an accept error such as too many open files
)

// Server runs a PeerManager on sockets, and on the connections of a Transport if there is one.
type Server struct {
	deliver func(near.Deliver)
	verify  func(near.VerifyAnnouncements) near.AnnouncementsVerified

	// Check validates messages of a Transport's gossip before they are relayed. The caller must set
	// Check before Run. nil: no gossip is relayed.
	Check func(wire.Message) near.Verdict
	// Alarm is called after a panic that a peer's message caused. The panic has closed the peer's
	// connection. The caller must set Alarm before Run. nil: panics are ignored.
	Alarm func(reason any, stack []byte)
	// Tap is called for every frame before this node writes the frame and after this node has read
	// it, and at the end of each connection. Set before Run. Tap must not block, and must not
	// retain the frame. nil: not called.
	Tap func(Tapped)
	// Opened is called for each new connection, before the PeerManager sees it. Set before Run.
	// Opened must not block. nil: not called.
	Opened func()
	// MaxFrame is the maximum size in bytes of a frame from a peer, as for wire.MaxFrame. Set before Run.
	// 0: wire.MaxFrame.
	MaxFrame uint32
	// Sent and Received count bytes of frames.
	Sent, Received atomic.Uint64

	node      *near.PeerManager
	authors   *primitives.Verifier // caches the keys of authors of routed messages
	listener  net.Listener         // nil: the server uses only transport
	transport Transport            // nil: the server uses only sockets
	me        wire.PeerID
	// begun is the start time in UTC seconds. This node does not remember edges with a nonce below
	// begun, so another node could replay such an edge.
	begun     uint64
	frames    bool                 // gossip is off: all messages go over connections
	notNeard  map[wire.PeerID]bool // peers that did not answer on a plain socket as neard does
	events    chan posted
	verifying chan struct{} // semaphore that limits concurrent verifications
	done      chan struct{}
	group     sync.WaitGroup

	links map[near.ConnID]*link // only the stepping goroutine uses it
	last  near.ConnID
	new   chan opened
	info  chan chan near.Info

	inspect chan func(*near.PeerManager)
}

// Tapped is a frame as Tap sees it.
type Tapped struct {
	Conn   near.ConnID // 0: the frame is gossip, which has no connection
	Ours   bool        // this node dialled the connection
	Sent   bool        // this node sent the frame
	Remote string      // address of the peer; for gossip, id of the sending peer
	Frame  []byte      // nil: the connection has ended
}

// opened is a new connection.
type opened struct {
	conn net.Conn
	dial *near.Dial // nil: the connection was accepted
}

// posted is an event. completion is signalled when the event's work is done; nil: no signal.
type posted struct {
	near.Event
	completion *completion
}

// completion counts the pending work of an event: its step, and the verifications that it starts.
type completion struct {
	left atomic.Int32
	done chan struct{}
}

func newCompletion() *completion {
	t := &completion{done: make(chan struct{})}
	t.left.Store(1)
	return t
}

func (t *completion) add() {
	if t != nil {
		t.left.Add(1)
	}
}

func (t *completion) finish() {
	if t != nil && t.left.Add(-1) == 0 {
		close(t.done)
	}
}

// Bind listens on an address with the options that Server needs.
func Bind(addr string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAlive: -1, Control: Patience} // accepted sockets inherit it
	lc.SetMultipathTCP(false)                                // multipath sockets do not support these options
	return lc.Listen(context.Background(), "tcp", addr)
}

// Listen does the same as New, with a listener on c.ListenAddr.
func Listen(c near.Config, deliver func(near.Deliver),
	verify func(near.VerifyAnnouncements) near.AnnouncementsVerified) (*Server, error) {
	l, err := Bind(c.ListenAddr.String())
	if err != nil {
		return nil, err
	}
	return New(l, c, deliver, verify), nil
}

// New returns a server. The server does nothing until Run, which closes l at the end. c.ListenAddr
// is set to the address of l. The stepping goroutine calls deliver. Separate goroutines call
// verify. Neither function may wait for the server.
func New(l net.Listener, c near.Config, deliver func(near.Deliver),
	verify func(near.VerifyAnnouncements) near.AnnouncementsVerified) *Server {
	c.ListenAddr = l.Addr().(*net.TCPAddr).AddrPort()
	return newHost(l, c, deliver, verify)
}

func newHost(l net.Listener, c near.Config, deliver func(near.Deliver),
	verify func(near.VerifyAnnouncements) near.AnnouncementsVerified) *Server {
	now := time.Now()
	return &Server{deliver: deliver, verify: verify, node: near.New(c, now),
		authors: primitives.NewVerifier(maxAuthors), listener: l, me: c.Key.PublicKey(), begun: uint64(now.Unix()),
		events: make(chan posted, maxEvents), verifying: make(chan struct{}, maxVerifying), done: make(chan struct{}),
		links: map[near.ConnID]*link{}, new: make(chan opened), info: make(chan chan near.Info),
		inspect: make(chan func(*near.PeerManager))}
}

// Addr returns the address that the server listens on.
func (h *Server) Addr() netip.AddrPort {
	if h.listener == nil {
		return h.transport.Addr()
	}
	return h.listener.Addr().(*net.TCPAddr).AddrPort()
}

// Post passes an event to the PeerManager. Post blocks while the PeerManager is busy, and returns
// without effect after Run has ended.
func (h *Server) Post(ev near.Event) {
	select {
	case h.events <- posted{ev, nil}:
	case <-h.done:
	}
}

// postAndWait does the same as Post, and waits until the event and the verifications that it starts
// are done.
func (h *Server) postAndWait(ev near.Event) {
	p := posted{ev, newCompletion()}
	select {
	case h.events <- p:
	case <-h.done:
		return
	}
	select {
	case <-p.completion.done:
	case <-h.done:
	}
}

// Info returns the state of the network; the zero value after Run has ended.
func (h *Server) Info() near.Info {
	answer := make(chan near.Info, 1)
	select {
	case h.info <- answer:
		return <-answer
	case <-h.done:
		return near.Info{}
	}
}

// Inspect calls look with the PeerManager, which look must not change. The server waits for look.
// After Run has ended, Inspect does nothing.
func (h *Server) Inspect(look func(*near.PeerManager)) {
	looked := make(chan struct{})
	select {
	case h.inspect <- func(n *near.PeerManager) {
		defer close(looked)
		look(n)
	}:
		<-looked
	case <-h.done:
	}
}

// Run steps the PeerManager until ctx ends or the listener is closed. When Run returns, all
// connections are closed and all goroutines have ended. Errors: of the listener; PanicError.
func (h *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	failed := make(chan error, 1)
	if h.listener != nil {
		h.group.Add(1)
		go h.accept(failed)
	}
	if h.transport != nil {
		h.group.Go(func() { h.transport.Serve(ctx, h) })
	}
	err := h.guardedLoop(ctx, failed)
	cancel()
	close(h.done)
	if h.listener != nil {
		_ = h.listener.Close()
	}
	for _, l := range h.links {
		l.close()
	}
	h.group.Wait()
	return err
}

// PanicError is a panic of the PeerManager.
type PanicError struct {
	Reason any
	Stack  []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("tcp: the node failed: %v", e.Reason) }

func (h *Server) guardedLoop(ctx context.Context, failed <-chan error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
	}()
	return h.loop(ctx, failed)
}

// alarm recovers a panic in a goroutine of one connection.
func (h *Server) alarm() {
	if p := recover(); p != nil && h.Alarm != nil {
		h.Alarm(p, debug.Stack())
	}
}

func (h *Server) loop(ctx context.Context, failed <-chan error) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case p := <-h.events:
			h.step(ctx, p.Event, p.completion)
			p.completion.finish()
		case o := <-h.new:
			h.open(ctx, o)
		case answer := <-h.info:
			answer <- h.node.Info()
			continue
		case look := <-h.inspect:
			look(h.node)
			continue
		case <-timer.C:
			h.step(ctx, near.Tick{}, nil)
		}
		timer.Reset(max(time.Until(h.node.Wake()), 0))
	}
}

func (h *Server) accept(failed chan<- error) {
	defer h.group.Done()
	for {
		conn, err := h.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				failed <- err
				return
			}
			select {
			case <-time.After(acceptWait):
				continue
			case <-h.done:
				return
			}
		}
		select {
		case h.new <- opened{conn: conn}:
		case <-h.done:
			_ = conn.Close()
			return
		}
	}
}

// open registers a connection and reports it to the PeerManager.
func (h *Server) open(ctx context.Context, o opened) {
	h.last++
	l := newLink(h.last, o.conn)
	l.outbound = o.dial != nil
	if c, ok := o.conn.(Conn); ok {
		l.peer, l.bare = c.Peer(), c.Bare()
	} else if l.outbound {
		l.dialled = o.dial.Peer.ID
	}
	l.running.Store(2)
	h.links[l.id] = l
	h.group.Add(2)
	go l.write(h)
	go l.read(h)
	if h.Opened != nil {
		h.Opened()
	}
	if o.dial != nil {
		h.step(ctx, near.Dialled{Conn: l.id, Peer: o.dial.Peer, Tier: o.dial.Tier}, nil)
		return
	}
	addr, _ := o.conn.RemoteAddr().(*net.TCPAddr)
	if addr == nil {
		addr = &net.TCPAddr{}
	}
	at := addr.AddrPort()
	h.step(ctx, near.Accepted{Conn: l.id, Addr: netip.AddrPortFrom(at.Addr().Unmap(), at.Port())}, nil)
}

// step steps the PeerManager and carries out its effects. whole counts the verifications that the
// step starts.
func (h *Server) step(ctx context.Context, ev near.Event, whole *completion) {
	ev = h.observe(ev)
	for _, e := range h.node.Step(time.Now(), ev) {
		switch e := e.(type) {
		case near.Write:
			l := h.links[e.Conn]
			if l == nil {
				continue
			}
			// This message is the answer to a valid handshake.
			if m, ok := e.Msg.(*wire.Handshake); ok && !l.outbound {
				l.handshakeDone.Store(true)
				h.reportMet(l, m.Tier)
			}
			msg, spread := h.outgoing(l, ev, e.Msg)
			if spread {
				continue
			}
			frame := wire.Append(nil, msg)
			h.node.Meter.Sent(msg, len(frame))
			h.write(l, frame, near.PriorityOf(msg))
		case near.Close:
			if l := h.links[e.Conn]; l != nil {
				l.finish()
				if h.removeLink(l); e.Reason == near.Banned && l.peer != "" {
					h.transport.Ban(l.peer)
				}
			}
		case near.Dial:
			h.group.Add(1)
			go h.dial(ctx, e, h.viaTransport(e.Peer.ID))
		case near.Deliver:
			h.deliver(e)
		case near.VerifyAnnouncements:
			h.startVerify(e, whole)
		}
	}
}

// write queues a frame, and closes a connection with a full queue.
func (h *Server) write(l *link, frame []byte, p near.Priority) {
	if !l.put(frame, p) {
		l.close() // the link's reader then reports Closed
	} else if l.waiting() > longQueue {
		h.closeLongestQueue()
	}
}

// closeLongestQueue closes the connection with the longest queue if all queues together exceed
// maxQueued. So a peer that requests more than it reads loses its own connection, not the
// connection of another peer.
func (h *Server) closeLongestQueue() {
	var longest *link
	all, most := 0, 0
	for _, l := range h.links {
		n := l.waiting()
		all += n
		if n > most {
			longest, most = l, n
		}
	}
	if all > maxQueued {
		longest.close()
	}
}

func dialer() net.Dialer { return net.Dialer{Timeout: dialLimit, KeepAlive: -1, Control: Patience} }

func (h *Server) dial(ctx context.Context, e near.Dial, byWay bool) {
	defer h.group.Done()
	var conn net.Conn
	var err error
	if byWay {
		conn, err = h.transport.Dial(ctx, e.Peer)
	} else {
		d := dialer()
		conn, err = d.DialContext(ctx, "tcp", e.Peer.Addr.String())
	}
	if err != nil {
		h.Post(near.DialFailed(e))
		return
	}
	select {
	case h.new <- opened{conn, &e}:
	case <-h.done:
		_ = conn.Close()
	}
}

// startVerify verifies announcements in a goroutine and posts the result. At most maxVerifying
// goroutines run.
func (h *Server) startVerify(e near.VerifyAnnouncements, whole *completion) {
	h.group.Add(1)
	whole.add()
	go func() {
		defer h.group.Done()
		defer whole.finish()
		select {
		case h.verifying <- struct{}{}:
		case <-h.done:
			return
		}
		defer func() { <-h.verifying }()
		defer h.alarm()
		h.Post(h.verify(e))
	}()
}
