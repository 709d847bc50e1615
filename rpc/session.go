package rpc

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/messages"
	"github.com/valyala/fasthttp"
)

var errGone = errors.New("the client has disconnected")

// session is the node's session of one connection. The first request of the connection that submits
// or waits opens the session.
type session struct {
	ctx  context.Context // context of submissions and waits; ends when the server stops
	done func()
}

// sessions holds the open sessions by connection.
type sessions struct {
	of sync.Map // sessions (session) by connection (net.Conn)
}

// open returns the context for a connection's submissions and waits.
func (s *sessions) open(server *Server, conn net.Conn) (context.Context, error) {
	if conn == nil {
		return server.ctx, nil
	}
	if old, ok := s.of.Load(conn); ok {
		return old.(session).ctx, nil
	}
	ctx, done, err := server.node.OpenSession(server.ctx)
	if err != nil {
		return nil, err
	}
	// A concurrent request of the connection may have opened a session.
	if first, ok := s.of.LoadOrStore(conn, session{ctx, done}); ok {
		done()
		return first.(session).ctx, nil
	}
	if server.root != nil {
		server.root.worlds.addSession(conn, server)
		// the sandbox copy is being deleted, and the deletion may already have ended the sessions
		// of the copy
		if server.ctx.Err() != nil {
			s.end(conn)
			server.root.worlds.forget(server)
		}
	}
	return ctx, nil
}

// session returns the context for a request's submission or wait. The context identifies the client
// by its address. Clients on the node's machine share one address, so the context identifies such a
// client by its connection.
func (x *exchange) session() (context.Context, error) {
	ctx, err := x.sessions.open(x.Server, x.conn)
	if err == nil && !x.client.loopback {
		ctx = messages.WithClient(ctx, messages.Client(x.client.addr.AsSlice()))
	}
	return ctx, err
}

// follow is fasthttp's hook for changes of a connection's state.
func (s *Server) follow(conn net.Conn, state fasthttp.ConnState) {
	if state != fasthttp.StateClosed { // a WebSocket ends its own session
		return
	}
	if s.root != nil {
		s = s.root
	}
	s.sessions.end(conn)
	s.worlds.endSessions(conn)
}

// end closes the session of a connection.
func (s *sessions) end(conn net.Conn) {
	if old, ok := s.of.LoadAndDelete(conn); ok {
		old.(session).done()
	}
}

// endAll closes all sessions.
func (s *sessions) endAll() {
	s.of.Range(func(conn, _ any) bool {
		s.end(conn.(net.Conn))
		return true
	})
}

// wait returns the context of one wait. The context ends after patience (0: PollingTimeout), with
// the server, when the client hangs up, or by cancel. The caller must call release when the wait is
// over.
func (x *exchange) wait(patience time.Duration) (ctx context.Context, cancel context.CancelCauseFunc, release func(), err error) {
	parent, err := x.session()
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, timeout := context.WithTimeout(parent, cmp.Or(patience, x.opts.PollingTimeout))
	ctx, cancel = context.WithCancelCause(ctx)
	look := x.looks.add(x.conn, func() {
		if ctx.Err() == nil {
			x.metrics.gone.Add(1)
			cancel(errGone)
		}
	})
	return ctx, cancel, func() {
		x.looks.remove(look)
		cancel(nil)
		timeout()
	}, nil
}
