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

// WithTurn says what is called once a wait under the context has its answer, before any work is done for that: it waits until it is this one's turn.
func WithTurn(ctx context.Context, take func()) context.Context {
	return context.WithValue(ctx, turnKey{}, take)
}

// TakeTurn waits for the turn of a context, if it has one to wait for.
func TakeTurn(ctx context.Context) {
	if take, ok := ctx.Value(turnKey{}).(func()); ok {
		take()
	}
}
