package messages

import "context"

type (
	sessionKey struct{}
	clientKey  struct{}
	turnKey    struct{}
)

// WithSession returns a context that carries the session of a request.
func WithSession(ctx context.Context, id SessionID) context.Context {
	return context.WithValue(ctx, sessionKey{}, id)
}

// SessionOf returns the session of a request. Without WithSession it returns 0, the default
// session, which is always open.
func SessionOf(ctx context.Context) SessionID {
	id, _ := ctx.Value(sessionKey{}).(SessionID)
	return id
}

// WithClient returns a context that carries the client of a request. The RPC server defines what
// identifies a client, for example an address.
func WithClient(ctx context.Context, c Client) context.Context {
	return context.WithValue(ctx, clientKey{}, c)
}

// ClientOf returns the client of a request, or "" if no client is set.
func ClientOf(ctx context.Context) Client {
	c, _ := ctx.Value(clientKey{}).(Client)
	return c
}

// Turn contains callbacks that bound the concurrent work for replies.
type Turn struct {
	// Take is called when a waiting request can be answered. Take blocks until the request has its
	// turn.
	Take func()
	// Large is called before a large reply is read. Large blocks until the request has a turn and
	// memory for the reply. If Large returns an error, the request fails with that error. Large may
	// be nil.
	Large func() error
	// Leave returns the turn and the memory. Leave is called when the request continues to wait.
	Leave func()
}

// WithTurn returns a context that carries the callbacks for a request's reply.
func WithTurn(ctx context.Context, t Turn) context.Context {
	return context.WithValue(ctx, turnKey{}, t)
}

// TakeTurn waits for the turn of a request. Without WithTurn it returns at once.
func TakeTurn(ctx context.Context) {
	if t, ok := ctx.Value(turnKey{}).(Turn); ok {
		t.Take()
	}
}

// TakeLarge waits until a large reply may be read. Without WithTurn it returns nil at once.
func TakeLarge(ctx context.Context) error {
	if t, ok := ctx.Value(turnKey{}).(Turn); ok && t.Large != nil {
		return t.Large()
	}
	return nil
}

// LeaveTurn returns the turn and the memory that TakeTurn and TakeLarge took.
func LeaveTurn(ctx context.Context) {
	if t, ok := ctx.Value(turnKey{}).(Turn); ok {
		t.Leave()
	}
}
