package rpc

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/troupe-chain/troupe/primitives/fair"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// exchange is one body and its reply, with the connection and the client that they are charged to.
type exchange struct {
	*Server
	conn   net.Conn  // nil: there is none
	peer   *conn     // conn, if connLimiter admitted it; else nil
	client *client   // the address that is charged
	max    int       // bytes of the whole reply
	taken  int       // of these, the bytes counted as in flight
	until  time.Time // the deadline of a batch; zero: it is not one
	large  int       // requests of a batch whose replies were too large
	key    *apiKey   // nil: none
	socket *socket   // the WebSocket of the request; nil: none
	after  []func()  // called when the reply is being sent
	leave  func()    // gives back the turn of a large body; nil: it has none
}

// newExchange returns the exchange of a request.
func (s *Server) newExchange(ctx *fasthttp.RequestCtx) *exchange {
	x := &exchange{Server: s, conn: ctx.Conn(), max: int(s.opts.Limits.Reply)}
	x.peer, _ = x.conn.(*conn)
	x.client = s.limiter.clientOf(ctx, x.peer)
	return x
}

// fairClient returns the client in the form in which fair.Queue orders it.
func (x *exchange) fairClient() fair.Client { return x.peer.fairClient(x.client) }

// fairClient returns a connection of a client in the form in which fair.Queue orders it. c may be
// nil.
func (c *conn) fairClient(of *client) fair.Client {
	w := fair.Client{}
	if of.addr.IsValid() {
		w.Address = of.addr.As16()
	}
	if c != nil {
		w.Conn = c.id
	}
	return w
}

// enter waits for a turn of the heavy limit, at most as long as a request may wait. full is the
// refusal if it gets none. done gives the turn back and charges the client for its time.
func (x *exchange) enter() (done func(), full *failure) {
	ctx, cancel := context.WithTimeout(x.ctx, x.opts.PollingTimeout)
	defer cancel()
	if err := x.mayWork(ctx); err != nil {
		return nil, busy(limits.MaxAddressWork)
	}
	leave, err := x.limiter.heavy.enter(ctx, x.fairClient())
	if err != nil { // too many wait, or it took too long
		x.limiter.refused[limits.MaxHeavyWaiting].Add(1)
		return nil, busy(limits.MaxHeavyWaiting)
	}
	began := time.Now()
	return func() {
		leave()
		x.worked(time.Since(began))
	}, nil
}

// takeTurn is enter for a large body; leaveTurn gives the turn back. While a request holds the
// turn, it must not wait for anything else.
func (x *exchange) takeTurn() *failure {
	if x.leave != nil {
		return nil
	}
	leave, full := x.enter()
	x.leave = leave
	return full
}

func (x *exchange) leaveTurn() {
	if x.leave != nil {
		x.leave()
		x.leave = nil
	}
}

// reserve makes room for n more bytes of a reply: it counts them as in flight and, if the reply is
// large, takes a turn to write it. On an error nothing may be appended. It does not wait for
// memory.
func (c *call) reserve(b []byte, n int) ([]byte, error) {
	return c.reserveShared(b, n, nil)
}

// reserveShared is reserve for a reply that may wait for memory. One block may end thousands of
// waits, and all their replies are then made at the same moment. shown identifies the text that
// several of these replies show. If it is nil, reserveShared does not wait.
func (c *call) reserveShared(b []byte, n int, shown *view.Shown) ([]byte, error) {
	if n > smallReply && c.key != nil {
		c.limiter.sizes.set(c.key, n)
	}
	switch {
	case len(b)+n > c.x.max:
		return b, c.limiter.tooLarge()
	case n <= smallReply:
		return b, nil
	}
	size := cap(b)
	if len(b)+n > size {
		size = min(max(len(b)+n, 2*size), c.x.max+smallReply) // grow in steps, more may follow
		full := limits.Count
		if n := int64(size - cap(b)); shown != nil {
			c.giveBack() // the source of the reply is in memory already, and counted once for all
			full = c.awaitMemory(n, shown)
		} else {
			full = c.x.peer.take(c.x.client, n)
		}
		if full != limits.Count {
			return b, busy(full)
		}
		c.x.taken += size - cap(b)
	}
	if err := c.turn(); err != nil {
		return b, err
	}
	if size > cap(b) {
		grown := make([]byte, len(b), size)
		copyPieces(grown, b)
		b = grown
	}
	return b, nil
}

// awaitMemory counts the bytes of a large reply, or of the data that it is made from. If there is
// no room it waits, at most as long as a request may take and only while the client is connected.
// While it waits, it holds no turn of the heavy limit and no memory except that of shown. A batch
// that already holds replies is refused at once instead of waiting.
func (c *call) awaitMemory(n int64, shown *view.Shown) limits.ID {
	if c.x.peer == nil || !c.x.until.IsZero() && c.x.peer.holds() {
		return c.x.peer.take(c.x.client, n)
	}
	ctx, cancel := context.WithTimeout(c.x.ctx, c.opts.PollingTimeout)
	defer cancel()
	if !c.x.until.IsZero() { // as long as the batch
		limited, cancel := context.WithDeadline(ctx, c.x.until)
		defer cancel()
		ctx = limited
	}
	stop := context.AfterFunc(c.ctx, func() {
		if errors.Is(context.Cause(c.ctx), errGone) { // the wait's own deadline does not count: it has its answer
			cancel()
		}
	})
	defer stop()
	c.leaveTurn()
	return c.limiter.awaitMemory(ctx, c.x.peer, c.x.client, n, shown)
}

// leaveTurn gives the turn of the heavy limit back.
func (c *call) leaveTurn() {
	if c.leave != nil {
		c.leave()
		c.leave = nil
	}
}

// turn waits for a turn of the heavy limit, unless the call has one.
func (c *call) turn() error {
	if c.leave != nil {
		runtime.Gosched() // let small requests run between two large replies
		return nil
	}
	leave, full := c.x.enter()
	if full != nil {
		return full
	}
	c.leave = leave
	return nil
}

// settle counts the bytes that a reply has grown by without reserve. It returns the failure of the
// limit if there is no room.
func (x *exchange) settle(b []byte) error {
	if grown := len(b) - x.taken; grown > smallReply {
		if full := x.peer.take(x.client, int64(grown)); full != limits.Count {
			return busy(full)
		}
		x.taken += grown
	}
	return nil
}

// left is how many more bytes the reply may have.
func (c *call) left(b []byte) int { return max(0, c.x.max-len(b)) }

// mayRead waits until the client's share of work allows it to send more of a large body. Until then
// the body is not read from the connection.
func (x *exchange) mayRead() error {
	ctx, cancel := context.WithTimeout(x.ctx, x.opts.PollingTimeout)
	defer cancel()
	return x.mayWork(ctx)
}

// bodies are buffers for request bodies.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

// readStep is how much of a body is read at a time, in bytes.
const readStep = 256 << 10

// errBodyLarge is the error of method body for a body that exceeds its limit. The other errors of
// method body are failures by a limit, or errors of the connection.
var errBodyLarge = errors.New("length limit exceeded")

// body reads the request's body, within what may be in memory. free must be called when the body is
// no longer needed; it may be nil on an error.
func (x *exchange) body(ctx *fasthttp.RequestCtx) (body []byte, free func(), err error) {
	if !ctx.Request.IsBodyStream() {
		return ctx.PostBody(), func() {}, nil
	}
	return x.read(ctx.RequestBodyStream(), ctx.Request.Header.ContentLength())
}

// read reads a body from a stream of length bytes; a negative length is unknown.
func (x *exchange) read(stream io.Reader, length int) (body []byte, free func(), err error) {
	most := x.opts.MaxBody
	if length > most {
		return nil, nil, errBodyLarge
	}
	buffer := bodies.Get().(*[]byte)
	free = func() {
		if cap(*buffer) <= smallReply {
			bodies.Put(buffer)
		}
	}
	b := (*buffer)[:0]
	for {
		if len(b) == cap(b) {
			n := max(1024, 4*cap(b))
			if length >= 0 {
				n = max(1024, min(n, length+1)) // one more, to see the end
				if cap(b) >= smallReply {
					// the client has sent so much already, so it does not just claim a length
					n = min(length+1, 8*cap(b))
				}
			}
			if n > smallReply {
				if full := x.peer.take(x.client, int64(n-cap(b))); full != limits.Count {
					return nil, free, busy(full)
				}
			}
			if x.peer != nil && n > smallReply && cap(b) <= smallReply {
				x.peer.transfer.begin()
				defer x.peer.transfer.end()
			}
			if n > smallReply {
				if err := x.mayRead(); err != nil {
					return nil, free, busy(limits.MaxAddressWork)
				}
				x.worked(time.Duration(n-cap(b)) * perByte)
			}
			grown := make([]byte, len(b), n)
			copyPieces(grown, b)
			b = grown
			*buffer = b
		}
		if len(b) > smallReply {
			runtime.Gosched() // let small requests run
		}
		n, err := stream.Read(b[len(b):min(cap(b), len(b)+readStep)])
		b = b[:len(b)+n]
		if x.peer != nil {
			x.peer.transfer.move(n)
		}
		switch {
		case len(b) > most:
			return nil, free, errBodyLarge
		case err == io.EOF && (length < 0 || len(b) == length):
			return b, free, nil
		case err == io.EOF:
			return nil, free, io.ErrUnexpectedEOF
		case err != nil:
			return nil, free, err
		}
	}
}
