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

// exchange is one body and its reply, with the connection and the client that are charged for the
// body and the reply.
type exchange struct {
	*Server
	conn   net.Conn  // connection of the body; nil: none
	peer   *conn     // the same connection as conn; nil: connLimiter did not admit conn
	client *client   // client whose limits the request counts toward
	max    int       // maximum number of bytes of the whole reply
	taken  int       // bytes of the reply that are counted as memory in use
	until  time.Time // deadline of a batch; zero: not a batch
	large  int       // number of requests of a batch whose replies were too large
	key    *apiKey   // API key of the request; nil: none
	socket *socket   // WebSocket of the request; nil: none
	after  []func()  // functions that are called when the reply is being sent
	leave  func()    // ends the turn of heavyLimiter that is held for a large body; nil: none
}

// newExchange returns the exchange of a request.
func (s *Server) newExchange(ctx *fasthttp.RequestCtx) *exchange {
	x := &exchange{Server: s, conn: ctx.Conn(), max: int(s.opts.Limits.Reply)}
	x.peer, _ = x.conn.(*conn)
	x.client = s.limiter.clientOf(ctx, x.peer)
	return x
}

// fairClient returns the client as fair.Queue distinguishes clients.
func (x *exchange) fairClient() fair.Client { return x.peer.fairClient(x.client) }

// fairClient returns the client `of`, with its connection c, as fair.Queue distinguishes clients. c
// may be nil.
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

// enter waits for a turn of the heavy limit, at most as long as a request may wait. If the request
// gets no turn, full is the failure to reply with. done gives the turn back and charges the client
// for the time during which the request held the turn.
func (x *exchange) enter() (done func(), full *failure) {
	ctx, cancel := context.WithTimeout(x.ctx, x.opts.PollingTimeout)
	defer cancel()
	if err := x.mayWork(ctx); err != nil {
		return nil, busy(limits.MaxAddressWork)
	}
	leave, err := x.limiter.heavy.enter(ctx, x.fairClient())
	if err != nil { // the queue is full, or the wait took too long
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

// reserve reserves n more bytes for a reply: reserve counts these bytes as in flight and, if the
// reply is large, takes a turn of the heavy limit for writing the reply. After an error, nothing
// may be appended. reserve does not wait for memory.
func (c *call) reserve(b []byte, n int) ([]byte, error) {
	return c.reserveShared(b, n, nil)
}

// reserveShared is reserve for a reply that may wait for memory. One block may end thousands of
// waits whose replies are all made at the same moment. shown identifies the text that several of
// these replies show. If shown is nil, reserveShared does not wait for memory.
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
		size = min(max(len(b)+n, 2*size), c.x.max+smallReply) // grow to twice the size, because more data may follow
		full := limits.Count
		if n := int64(size - cap(b)); shown != nil {
			// Now shown counts the data from which the reply is made, once for all replies that
			// show that data.
			c.giveBack()
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

// awaitMemory counts n bytes of a large reply, or of the data that the reply is made from. If
// memory is full, it waits, at most as long as a request may take and only while the client is
// connected. During the wait it holds no turn of the heavy limit and no memory except that of
// shown. awaitMemory does not wait if the request is part of a batch that already holds replies.
// The result is the limit that is full, or limits.Count.
func (c *call) awaitMemory(n int64, shown *view.Shown) limits.ID {
	if c.x.peer == nil || !c.x.until.IsZero() && c.x.peer.holds() {
		return c.x.peer.take(c.x.client, n)
	}
	ctx, cancel := context.WithTimeout(c.x.ctx, c.opts.PollingTimeout)
	defer cancel()
	if !c.x.until.IsZero() {
		limited, cancel := context.WithDeadline(ctx, c.x.until)
		defer cancel()
		ctx = limited
	}
	stop := context.AfterFunc(c.ctx, func() {
		// A client that hangs up ends the wait for memory. The deadline of c.ctx does not.
		if errors.Is(context.Cause(c.ctx), errGone) {
			cancel()
		}
	})
	defer stop()
	c.leaveTurn()
	return c.limiter.awaitMemory(ctx, c.x.peer, c.x.client, n, shown)
}

// leaveTurn gives the turn of the heavy limit back, if the call has one.
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

// settle counts the bytes by which a reply has grown without reserve. settle returns the failure of
// the limit that is full.
func (x *exchange) settle(b []byte) error {
	if grown := len(b) - x.taken; grown > smallReply {
		if full := x.peer.take(x.client, int64(grown)); full != limits.Count {
			return busy(full)
		}
		x.taken += grown
	}
	return nil
}

// left returns how many more bytes the reply may have.
func (c *call) left(b []byte) int { return max(0, c.x.max-len(b)) }

// mayRead waits until the client's share of work allows more of a large body. During the wait the
// body is not read from the connection.
func (x *exchange) mayRead() error {
	ctx, cancel := context.WithTimeout(x.ctx, x.opts.PollingTimeout)
	defer cancel()
	return x.mayWork(ctx)
}

// bodies pools buffers for request bodies.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

// readStep is the number of bytes of a body that are read at a time.
const readStep = 256 << 10

// errBodyLarge is the error of method body for a body that exceeds MaxBody. All errors of method
// body except errBodyLarge are failures of limits, or errors of the connection.
var errBodyLarge = errors.New("length limit exceeded")

// body reads the request's body, within the limits of memory. The caller must call free when the
// body is no longer needed. free may be nil if err is not.
func (x *exchange) body(ctx *fasthttp.RequestCtx) (body []byte, free func(), err error) {
	if !ctx.Request.IsBodyStream() {
		return ctx.PostBody(), func() {}, nil
	}
	return x.read(ctx.RequestBodyStream(), ctx.Request.Header.ContentLength())
}

// read reads a body of length bytes from a stream; a negative length is unknown.
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
				n = max(1024, min(n, length+1)) // one byte more than length lets the read reach the end of the stream
				if cap(b) >= smallReply {
					// The client has already sent smallReply bytes, so the length in its header is
					// credible.
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
			runtime.Gosched() // lets other goroutines run, such as those of small requests
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
