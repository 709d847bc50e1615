package messages

import "context"

type (
	sessionKey struct{}
	clientKey  struct{}
	turnKey    struct{}
)

// WithSession says whose request a context belongs to.
func WithSession(ctx context.Context, id SessionID) context.Context {
	return context.WithValue(ctx, sessionKey{}, id)
}

// SessionOf returns the session of a context, 0 if it names none: that one is always open.
func SessionOf(ctx context.Context) SessionID {
	id, _ := ctx.Value(sessionKey{}).(SessionID)
	return id
}

// WithClient says which client is behind a context, as the RPC tells them apart: by address, say.
func WithClient(ctx context.Context, c Client) context.Context {
	return context.WithValue(ctx, clientKey{}, c)
}

// ClientOf returns the client of a context, empty if it names none.
func ClientOf(ctx context.Context) Client {
	c, _ := ctx.Value(clientKey{}).(Client)
	return c
}

// Turn is what is called before work is done for a reply.
type Turn struct {
	Take  func()       // by a wait that has its answer: it returns when it is this one's turn
	Large func() error // what the reply is made of is large: it returns when there is room for that in memory, and a turn among such. An error is the reply
	Leave func()       // gives all of it back: the answer was none, and the wait goes on
}

// WithTurn says what is called for the reply to a request.
func WithTurn(ctx context.Context, t Turn) context.Context {
	return context.WithValue(ctx, turnKey{}, t)
}

// TakeTurn waits for the turn of a context, if it has one to wait for.
func TakeTurn(ctx context.Context) {
	if t, ok := ctx.Value(turnKey{}).(Turn); ok {
		t.Take()
	}
}

// TakeLarge waits until what is large may be read.
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
