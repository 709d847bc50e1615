// Package tcp is the shell of a near.PeerManager: sockets, frames, deadlines and the clock. What is
// decided is decided by the Node.
//
//	in      connections, frames of others; events of the rest of the node (Post)
//	out     frames; to the rest of the node what the Node delivers, and announcements to judge
//	state   one goroutine that steps the Node, one that accepts, two for each connection
//	units   frames are u32 little-endian length ‖ protobuf
//	bound   wire.MaxFrame bytes a frame, of which only what has come is held; maxQueued bytes
//	        waiting for all connections; maxEvents decoded messages waiting for the Node, above
//	        which nobody is read from, and one above longFrame of each connection; maxJudges
//	        judgements at a time, one of each connection
//	errors  of a socket end its connection, and so does a panic of who reads it or writes to it;
//	        of the listener are waited out, unless it is closed, which ends Run, as a panic of the
//	        Node does
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
	// of each frame, with the few that are written with it, and of what is not acknowledged
	writeLimit = 2 * time.Minute
	resendMost = 2 * time.Second // until what is not acknowledged is sent again
	maxEvents  = 1024
	maxJudges  = 16
	maxAuthors = 256                   // whose keys are kept ready
	maxQueued  = 1 << 30               // bytes that wait for all connections; neard has as much for each
	longQueue  = 16 << 20              // of one, above which they are counted
	acceptWait = 50 * time.Millisecond // after an accept that failed: of too many open files, say
)

// Server runs a Node on sockets, and on connections of another Way if there is one.
type Server struct {
	deliver func(near.Deliver)
	judge   func(near.JudgeAnnouncements) near.Judged

	// Check judges what a Way spreads, before it is handed on; it is set before Run. nil: nothing
	// is.
	Check func(wire.Message) near.Verdict
	// Alarm is told of a panic over what one peer has sent, which ended its connection; it is set
	// before Run. nil: nobody is.
	Alarm func(reason any, stack []byte)
	// Tap is shown every frame as it is about to be written or has been read, and the end of each
	// connection; it is set before Run, may not wait, and keeps no frame. nil: nobody is.
	Tap func(Tapped)
	// Opened is told of each connection that comes up, before the Node is; it is set before Run,
	// and may not wait. nil: nobody is.
	Opened func()
	// Sent and Received count bytes of frames.
	Sent, Received atomic.Uint64

	node     *near.PeerManager
	authors  *primitives.Verifier // of routed messages
	listener net.Listener         // nil: there is only way
	way      Transport            // nil: there are only sockets
	me       wire.PeerID
	// of nonces, seconds: edges of before are not remembered, and who has kept one could come with
	// it
	begun   uint64
	frames  bool                 // nothing is spread: all goes over connections
	foreign map[wire.PeerID]bool // who did not answer as a neard does, when dialled so
	events  chan posted
	judges  chan struct{} // a place for each judgement under way
	done    chan struct{}
	group   sync.WaitGroup

	links map[near.ConnID]*link // used by the stepping goroutine alone
	last  near.ConnID
	new   chan opened
	info  chan chan near.Info
}

// Tapped is a frame that somebody else may see.
type Tapped struct {
	Conn       near.ConnID // 0: none, a Way has spread it
	Ours, Sent bool        // whether this node dialled, and whether it speaks
	Remote     string      // the other side's address; without a connection who has brought it
	Frame      []byte      // nil: the connection has ended
}

// opened is a connection that came up: accepted, or dialled by a wish of the Node.
type opened struct {
	conn net.Conn
	dial *near.Dial // nil: accepted
}

// posted is an event, and whom to tell when all that it leads to at once is done; nil: nobody.
type posted struct {
	near.Event
	taken *taken
}

// taken counts what is still to be done with an event: the step, and the judgements that it begins.
type taken struct {
	left atomic.Int32
	done chan struct{}
}

func newTaken() *taken {
	t := &taken{done: make(chan struct{})}
	t.left.Store(1)
	return t
}

func (t *taken) more() {
	if t != nil {
		t.left.Add(1)
	}
}

func (t *taken) less() {
	if t != nil && t.left.Add(-1) == 0 {
		close(t.done)
	}
}

// Bind takes an address.
func Bind(addr string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAlive: -1, Control: Patience} // those that are accepted inherit it
	lc.SetMultipathTCP(false)                                // whose sockets take no such options
	return lc.Listen(context.Background(), "tcp", addr)
}

// Listen is New with the address of c.
func Listen(c near.Config, deliver func(near.Deliver), judge func(near.JudgeAnnouncements) near.Judged) (*Server, error) {
	l, err := Bind(c.ListenAddr.String())
	if err != nil {
		return nil, err
	}
	return New(l, c, deliver, judge), nil
}

// New returns a host that does nothing until Run, which closes l. The address of c is set to that
// of l. deliver and judge are called by the stepping goroutine and by one of their own; neither may
// wait for the host.
func New(l net.Listener, c near.Config, deliver func(near.Deliver), judge func(near.JudgeAnnouncements) near.Judged) *Server {
	c.ListenAddr = l.Addr().(*net.TCPAddr).AddrPort()
	return newHost(l, c, deliver, judge)
}

func newHost(l net.Listener, c near.Config, deliver func(near.Deliver), judge func(near.JudgeAnnouncements) near.Judged) *Server {
	now := time.Now()
	return &Server{deliver: deliver, judge: judge, node: near.New(c, now), authors: primitives.NewVerifier(maxAuthors), listener: l, me: c.Key.PublicKey(), begun: uint64(now.Unix()),
		events: make(chan posted, maxEvents), judges: make(chan struct{}, maxJudges), done: make(chan struct{}), links: map[near.ConnID]*link{}, new: make(chan opened),
		info: make(chan chan near.Info)}
}

// Addr returns where the host listens.
func (h *Server) Addr() netip.AddrPort {
	if h.listener == nil {
		return h.way.Addr()
	}
	return h.listener.Addr().(*net.TCPAddr).AddrPort()
}

// Post gives the Node an event of the rest of the node; it waits while the Node is busy, and does
// nothing once Run has ended.
func (h *Server) Post(ev near.Event) {
	select {
	case h.events <- posted{ev, nil}:
	case <-h.done:
	}
}

// postAndWait is Post, and waits until the Node has taken the event and what was to be judged for
// it is judged.
func (h *Server) postAndWait(ev near.Event) {
	p := posted{ev, newTaken()}
	select {
	case h.events <- p:
	case <-h.done:
		return
	}
	select {
	case <-p.taken.done:
	case <-h.done:
	}
}

// Info asks the Node for the state of the network; the zero value once Run has ended.
func (h *Server) Info() near.Info {
	answer := make(chan near.Info, 1)
	select {
	case h.info <- answer:
		return <-answer
	case <-h.done:
		return near.Info{}
	}
}

// Run steps the Node until ctx ends or the listener is closed. Then all connections are closed and
// all goroutines have ended.
func (h *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	failed := make(chan error, 1)
	if h.listener != nil {
		h.group.Add(1)
		go h.accept(failed)
	}
	if h.way != nil {
		h.group.Go(func() { h.way.Serve(ctx, h) })
	}
	err := h.guarded(ctx, failed)
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

// PanicError is a panic of the Node.
type PanicError struct {
	Reason any
	Stack  []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("tcp: the node failed: %v", e.Reason) }

func (h *Server) guarded(ctx context.Context, failed <-chan error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
	}()
	return h.loop(ctx, failed)
}

// alarm recovers a goroutine that serves one connection.
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
			h.step(ctx, p.Event, p.taken)
			p.taken.less()
		case o := <-h.new:
			h.open(ctx, o)
		case answer := <-h.info:
			answer <- h.node.Info()
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

// open gives a connection a name and tells the Node.
func (h *Server) open(ctx context.Context, o opened) {
	h.last++
	l := newLink(h.last, o.conn)
	l.ours = o.dial != nil
	if c, ok := o.conn.(Conn); ok {
		l.peer, l.bare = c.Peer(), c.Bare()
	} else if l.ours {
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
	h.step(ctx, near.Accepted{Conn: l.id, Addr: netip.AddrPortFrom(addr.AddrPort().Addr().Unmap(), addr.AddrPort().Port())}, nil)
}

// step steps the Node and carries out what it wants.
func (h *Server) step(ctx context.Context, ev near.Event, whole *taken) {
	ev = h.look(ev)
	for _, e := range h.node.Step(time.Now(), ev) {
		switch e := e.(type) {
		case near.Write:
			l := h.links[e.Conn]
			if l == nil {
				continue
			}
			if m, ok := e.Msg.(*wire.Handshake); ok && !l.ours { // our answer to one that was fine
				l.shaken.Store(true)
				h.met(l, m.Tier)
			}
			msg, spread := h.over(l, ev, e.Msg)
			if spread {
				continue
			}
			h.write(l, wire.Append(nil, msg), near.PriorityOf(msg))
		case near.Close:
			if l := h.links[e.Conn]; l != nil {
				l.finish()
				if h.gone(l); e.Reason == near.Banned && l.peer != "" {
					h.way.Ban(l.peer)
				}
			}
		case near.Dial:
			h.group.Add(1)
			go h.dial(ctx, e, h.byWay(e.Peer.ID))
		case near.Deliver:
			h.deliver(e)
		case near.JudgeAnnouncements:
			h.begin(e, whole)
		}
	}
}

// write has a frame written.
func (h *Server) write(l *link, frame []byte, p near.Priority) {
	if !l.put(frame, p) {
		l.close() // its reader tells the Node
	} else if l.waiting() > longQueue {
		h.relieve()
	}
}

// relieve closes the connection for which most waits, if too much waits for all of them: whoever
// asks for more than he reads is not to have the memory of the others.
func (h *Server) relieve() {
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
		conn, err = h.way.Dial(ctx, e.Peer)
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

// begin has announcements judged, at most maxJudges at a time, and the Node told of it.
func (h *Server) begin(e near.JudgeAnnouncements, whole *taken) {
	h.group.Add(1)
	whole.more()
	go func() {
		defer h.group.Done()
		defer whole.less()
		select {
		case h.judges <- struct{}{}:
		case <-h.done:
			return
		}
		defer func() { <-h.judges }()
		defer h.alarm()
		h.Post(h.judge(e))
	}()
}
