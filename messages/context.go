package messages

import "context"

type sessionKey struct{}

// WithSession says whose request a context belongs to.
func WithSession(ctx context.Context, id SessionID) context.Context {
	return context.WithValue(ctx, sessionKey{}, id)
}

// SessionOf returns the session of a context, 0 if it names none: that one is always open.
func SessionOf(ctx context.Context) SessionID {
	id, _ := ctx.Value(sessionKey{}).(SessionID)
	return id
}
