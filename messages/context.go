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

// turn is the place of who makes a reply.
type turn struct{ take, leave func() }

// WithTurn says what is called once a wait under the context has its answer, before any work is done for that: take waits until it is this one's turn. Where the answer turns out to be
// none, and the wait goes on, leave gives the turn back.
func WithTurn(ctx context.Context, take, leave func()) context.Context {
	return context.WithValue(ctx, turnKey{}, turn{take, leave})
}

// TakeTurn waits for the turn of a context, if it has one to wait for.
func TakeTurn(ctx context.Context) {
	if t, ok := ctx.Value(turnKey{}).(turn); ok {
		t.take()
	}
}

// LeaveTurn gives back what TakeTurn has taken.
func LeaveTurn(ctx context.Context) {
	if t, ok := ctx.Value(turnKey{}).(turn); ok {
		t.leave()
	}
}
