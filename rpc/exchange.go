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

// exchange is a body, the connection it came by, and what its reply may come to.
type exchange struct {
	*Server
	conn   net.Conn  // nil: it came by none
	peer   *conn     // the same as the door has it; nil: it came by another way
	client *client   // whose it is
	max    int       // bytes of the whole reply
	taken  int       // of them, counted as in flight
	until  time.Time // when a batch ends; zero: it is none
	large  int       // requests of a batch whose replies found no room
	key    *apiKey   // nil: none
	socket *socket   // the WebSocket that the request came by; nil: none
	after  []func()  // called when the reply is on its way
	leave  func()    // gives back the turn at the gate that a large body has; nil: it has none
}

// newExchange makes one for a request.
func (s *Server) newExchange(ctx *fasthttp.RequestCtx) *exchange {
	x := &exchange{Server: s, conn: ctx.Conn(), max: int(s.opts.Limits.Reply)}
	x.peer, _ = x.conn.(*conn)
	x.client = s.limiter.clientOf(ctx, x.peer)
	return x
}

// who is for taking turns.
func (x *exchange) fairClient() fair.Client { return x.peer.fairClient(x.client) }

// who is the connection of a client; nil: there is none.
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

// enter waits for a turn at the gate, as long as a request may take; an error is the refusal.
func (x *exchange) enter() (done func(), full *failure) {
	ctx, cancel := context.WithTimeout(x.ctx, x.opts.PollingTimeout)
	defer cancel()
	if err := x.mayWork(ctx); err != nil {
		return nil, busy(limits.MaxAddressWork)
	}
	leave, err := x.limiter.heavy.enter(ctx, x.fairClient())
	if err != nil { // there are too many, or it takes too long
		x.limiter.refused[limits.MaxHeavyWaiting].Add(1)
		return nil, busy(limits.MaxHeavyWaiting)
	}
	began := time.Now()
	return func() {
		leave()
		x.worked(time.Since(began))
	}, nil
}

// takeTurn is enter for what a large body needs at once; leaveTurn gives the turn back. Nothing may
// wait for anything else in between.
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

// room makes place for n more bytes of a reply: it says whether there is, and lets large ones be
// written only in turn.
func (c *call) reserve(b []byte, n int) ([]byte, error) {
	return c.reserveShared(b, n, nil)
}

// roomOf is room of a reply that waits for it: many are told at the same moment, of one transaction
// or of several. shown names what it is made of, which those share that are told the same.
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
		size = min(max(len(b)+n, 2*size), c.x.max+smallReply) // in steps, since more may follow
		full := limits.Count
		if n := int64(size - cap(b)); shown != nil {
			c.giveBack() // what it is made of is there, and counted once for all
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

// await counts what a large reply takes, or what it is made of; where there is no room it waits, as
// long as a request may take and its client is there. Who waits has no turn, and nothing in memory
// but what is shown: a batch of which there is something is refused.
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
		if errors.Is(context.Cause(c.ctx), errGone) { // its own time does not end it: it has its answer
			cancel()
		}
	})
	defer stop()
	c.leaveTurn()
	return c.limiter.awaitMemory(ctx, c.x.peer, c.x.client, n, shown)
}

// leaveTurn gives the turn at the gate back.
func (c *call) leaveTurn() {
	if c.leave != nil {
		c.leave()
		c.leave = nil
	}
}

// turn waits for a turn at the gate, unless the call has it.
func (c *call) turn() error {
	if c.leave != nil {
		runtime.Gosched() // between one large reply and the next, what is small goes first
		return nil
	}
	leave, full := c.x.enter()
	if full != nil {
		return full
	}
	c.leave = leave
	return nil
}

// settle counts what a reply has grown by without having asked for room; a limit's failure if there
// is none.
func (x *exchange) settle(b []byte) error {
	if grown := len(b) - x.taken; grown > smallReply {
		if full := x.peer.take(x.client, int64(grown)); full != limits.Count {
			return busy(full)
		}
		x.taken += grown
	}
	return nil
}

// endSessions is how much more the reply may get.
func (c *call) left(b []byte) int { return max(0, c.x.max-len(b)) }

// mayRead waits until more of a large body may be read: meanwhile it waits at the client.
func (x *exchange) mayRead() error {
	ctx, cancel := context.WithTimeout(x.ctx, x.opts.PollingTimeout)
	defer cancel()
	return x.mayWork(ctx)
}

// bodies are buffers for what is sent.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

// readStep is how much of a body is read at a time, bytes.
const readStep = 256 << 10

// errBodyLarge is why a body is not read to its end; else it is a failure by a limit, or the
// connection's.
var errBodyLarge = errors.New("length limit exceeded")

// body reads what was sent, within what may be in memory. free is called when it is not needed any
// more.
func (x *exchange) body(ctx *fasthttp.RequestCtx) (body []byte, free func(), err error) {
	if !ctx.Request.IsBodyStream() {
		return ctx.PostBody(), func() {}, nil
	}
	return x.read(ctx.RequestBodyStream(), ctx.Request.Header.ContentLength())
}

// read is body of a stream of so many bytes; a negative length is not known.
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
				n = max(1024, min(n, length+1)) // and one to see the end
				if cap(b) >= smallReply {
					n = min(length+1, 8*cap(b)) // so much has come: it is no mere word
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
			runtime.Gosched() // what is small goes first
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
