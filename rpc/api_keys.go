package rpc

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/troupe-chain/troupe/rpc/limits"
)

// rate is a token bucket that allows perSecond requests a second. The bucket holds at most the
// requests of one second.
type rate struct {
	mu   sync.Mutex
	left float64
	at   time.Time
}

// take counts one request and returns whether the rate allows it.
func (r *rate) take(now time.Time, perSecond float64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() {
		r.left = perSecond
	} else if gone := now.Sub(r.at); gone > 0 {
		r.left = min(perSecond, r.left+gone.Seconds()*perSecond)
	}
	r.at = now
	if r.left < 1 {
		return false
	}
	r.left--
	return true
}

// inDebt returns whether the bucket may not be full yet. If the result is true, the caller must
// keep the bucket.
func (r *rate) inDebt(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.at.IsZero() && now.Sub(r.at) < time.Second
}

// apiKey is an API key. Clients may send it as the first part of the path.
type apiKey struct {
	name      string
	perSecond float64 // requests a second; 0: unlimited
	rate      rate
}

// APIKeyError reports a text that is not a valid API key.
type APIKeyError struct{ Text string }

func (e *APIKeyError) Error() string {
	return fmt.Sprintf(
		"%q is no API key: KEY, or KEY:REQUESTS_PER_SECOND, the key of letters, digits, - and _, and no method's or endpoint's name",
		clipTo(e.Text, maxEcho),
	)
}

// parseAPIKeys parses troupe.rpc.api_keys.
func parseAPIKeys(list []string) (map[string]*apiKey, error) {
	out := make(map[string]*apiKey, len(list))
	for _, text := range list {
		name, rest, limited := strings.Cut(text, ":")
		k := &apiKey{name: name}
		if limited {
			n, err := strconv.ParseUint(rest, 10, 32)
			if err != nil || n == 0 {
				return nil, &APIKeyError{text}
			}
			k.perSecond = float64(n)
		}
		plain := name != "" && strings.IndexFunc(name, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
		}) < 0
		if !plain || byName[name] != nil || endpoints["/"+name] != nil || "/"+name == socketPath || "/"+name+"/" == worldPath ||
			out[name] != nil {
			return nil, &APIKeyError{text}
		}
		out[name] = k
	}
	return out, nil
}

// takeKey removes a known API key from the front of a path. key is nil if the path has none.
func (s *Server) takeKey(path []byte) (rest []byte, key *apiKey) {
	keys := s.limiter.live.Load().keys
	if len(keys) == 0 || len(path) < 2 {
		return path, nil
	}
	name, more, found := bytes.Cut(path[1:], []byte{'/'})
	key = keys[string(name)]
	switch {
	case key == nil:
		return path, nil
	case !found:
		return path[:1], key
	}
	return path[len(path)-len(more)-1:], key
}

// unauthorized rejects a request without an API key, if one is required.
func (s *Server) unauthorized(ctx *fasthttp.RequestCtx) {
	ctx.SetConnectionClose()
	ctx.SetStatusCode(http.StatusUnauthorized)
	ctx.SetContentType(textType)
	ctx.SetBodyString("an API key is needed: the first part of the path\n")
}

// unlimited is the lowest rate, in requests a second, that means no limit. From it on, requests are
// not counted.
const unlimited = 1_000_000

// checkRates counts a request against the rates of the client's address and of the request's API
// key. It returns the failure of the exceeded limit; nil if no limit is exceeded.
func (x *exchange) checkRates() *failure {
	l := x.limiter.live.Load().AddressRate
	if most, holds := x.client.most(l); holds && most < unlimited && !x.client.rate.take(time.Now(), float64(most)) {
		return x.tooMany(limits.MaxAddressRate, busy(limits.MaxAddressRate))
	}
	if k := x.key; k != nil && k.perSecond > 0 && !k.rate.take(time.Now(), k.perSecond) {
		return x.tooMany(
			limits.MaxAddressRate,
			internal(reachedLimits, fmt.Errorf("%w: the rate of the API key (troupe.rpc.api_keys)", errBusy)).(*failure),
		)
	}
	return nil
}

func (x *exchange) tooMany(which limits.ID, f *failure) *failure {
	x.limiter.refused[which].Add(1)
	f.refusal = http.StatusTooManyRequests
	return f
}
