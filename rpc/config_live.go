package rpc

import (
	"errors"
	"fmt"

	"github.com/fasthttp/websocket"

	"github.com/troupe-chain/troupe/rpc/limits"
)

// live is the configuration that Reload replaces while the server runs.
type live struct {
	limits.Limits // only its limits by address are used
	keys          map[string]*apiKey
}

func newLive(o *Options) (*live, error) {
	keys, err := parseAPIKeys(o.APIKeys)
	if err != nil {
		return nil, fmt.Errorf("troupe.rpc.api_keys: %w", err)
	}
	if o.RequireAPIKey && len(keys) == 0 {
		return nil, errors.New("troupe.rpc.require_api_key is true and troupe.rpc.api_keys is empty, so every call would be refused: add a key, or set require_api_key to false")
	}
	return &live{o.Limits, keys}, nil
}

// Reload replaces the limits by address and the API keys. An API key that is in the old and the new
// list keeps the debt of its rate, and the WebSockets of that key stay open. If Reload returns an
// error, nothing has changed. Safe for concurrent use.
func (s *Server) Reload(l limits.Limits, keys []string) error {
	o := s.opts
	o.Limits, o.APIKeys = l, keys
	next, err := newLive(&o)
	if err != nil {
		return err
	}
	for name, was := range s.limiter.live.Load().keys {
		if now := next.keys[name]; now != nil && now.perSecond == was.perSecond {
			next.keys[name] = was
		}
	}
	s.limiter.live.Store(next)
	s.sockets.each(func(k *socket) {
		if k.ready() != nil && k.keyGone() {
			k.endKeyGone()
		}
	})
	return nil
}

// keyGone returns whether the API key of a WebSocket was removed, or has another rate than when the
// WebSocket was opened.
func (k *socket) keyGone() bool {
	return k.key != nil && k.limiter.live.Load().keys[k.key.name] != k.key
}

// endKeyGone closes a WebSocket whose API key was removed. If the client does not close the
// connection in response, the ping timeout does.
func (k *socket) endKeyGone() {
	for _, x := range k.subscriptions() {
		x.of.Stop()
	}
	k.closeWith(websocket.ClosePolicyViolation, "the API key has changed")
}
