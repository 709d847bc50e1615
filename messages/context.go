package messages

import "context"

type (
	sessionKey struct{}
	clientKey  struct{}
	turnKey    struct{}
)

// WithSession attaches the session of a request to its context.
func WithSession(ctx context.Context, id SessionID) context.Context {
	return context.WithValue(ctx, sessionKey{}, id)
}

// SessionOf returns the session of a context. 0, the default session, is always open.
func SessionOf(ctx context.Context) SessionID {
	id, _ := ctx.Value(sessionKey{}).(SessionID)
	return id
}

// WithClient attaches the client of a request, as the RPC server distinguishes them (by
// address, for example).
func WithClient(ctx context.Context, c Client) context.Context {
	return context.WithValue(ctx, clientKey{}, c)
}

// ClientOf returns the client of a context, or "".
func ClientOf(ctx context.Context) Client {
	c, _ := ctx.Value(clientKey{}).(Client)
	return c
}

// Turn holds the callbacks that bound the work done for a reply.
type Turn struct {
	// Take is called by a wait that has its answer. It returns when it is this request's turn.
	Take func()
	// Large is called before a large reply is read. It returns when there is memory and a turn for
	// it. The request fails with its error. May be nil.
	Large func() error
	// Leave gives both back, because the wait goes on.
	Leave func()
}

// WithTurn attaches the callbacks for the reply to a request.
func WithTurn(ctx context.Context, t Turn) context.Context {
	return context.WithValue(ctx, turnKey{}, t)
}

// TakeTurn waits for the turn of a request. Without a Turn it returns at once.
func TakeTurn(ctx context.Context) {
	if t, ok := ctx.Value(turnKey{}).(Turn); ok {
		t.Take()
	}
}

// TakeLarge waits until a large reply may be read.
func TakeLarge(ctx context.Context) error {
	if t, ok := ctx.Value(turnKey{}).(Turn); ok && t.Large != nil {
		return t.Large()
	}
	return nil
}

// LeaveTurn gives back what TakeTurn and TakeLarge have taken.
func LeaveTurn(ctx context.Context) {
	if t, ok := ctx.Value(turnKey{}).(Turn); ok {
		t.Leave()
	}
}
