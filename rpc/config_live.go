package rpc

import (
	"errors"
	"fmt"

	"github.com/fasthttp/websocket"

	"github.com/troupe-chain/troupe/rpc/limits"
)

// live is what may change while the server runs: the limits by address, and the API keys.
type live struct {
	limits.Limits // of which those by address are looked at here
	keys          map[string]*apiKey
}

func newLive(o *Options) (*live, error) {
	keys, err := parseAPIKeys(o.APIKeys)
	if err != nil {
		return nil, fmt.Errorf("troupe.rpc.api_keys: %w", err)
	}
	if o.RequireAPIKey && len(keys) == 0 {
		return nil, errors.New("troupe.rpc.require_api_key is true and troupe.rpc.api_keys is empty: nobody could call anything")
	}
	return &live{o.Limits, keys}, nil
}

// Reload takes other limits by address and other API keys from now on; a key that stays goes on at
// the rate it has come to, and WebSockets of one that does not end. On an error nothing changes.
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

// keyGone tells whether the key with which a WebSocket was opened is none any more, or has another
// rate.
func (k *socket) keyGone() bool {
	return k.key != nil && k.limiter.live.Load().keys[k.key.name] != k.key
}

// sayKeyGone ends a WebSocket whose key is none any more; who does not hang up then is cut off as
// one from whom nothing comes.
func (k *socket) endKeyGone() {
	for _, x := range k.subscriptions() {
		x.of.Stop()
	}
	k.closeWith(websocket.ClosePolicyViolation, "the API key has changed")
}
