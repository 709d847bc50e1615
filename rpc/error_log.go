package rpc

import (
	"errors"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/primitives/view"
)

// errorLog logs requests that are answered with HTTP 500. errorLog logs at most maxLoggedErrors
// requests a minute, because a client that can cause one such reply can cause many.
type errorLog struct {
	mu         sync.Mutex
	since      time.Time
	logged     int
	suppressed int // number of requests that were not logged since the last one that was
}

const (
	maxLoggedErrors = 20
	maxParams       = 300 // bytes of the parameters in a log line
)

// admit returns whether another request may be logged, and how many requests were not logged since
// the last logged one.
func (t *errorLog) admit(now time.Time) (unsaid int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.since) > time.Minute {
		t.since, t.logged = now, 0
	}
	if t.logged++; t.logged > maxLoggedErrors {
		t.suppressed++
		return 0, false
	}
	unsaid, t.suppressed = t.suppressed, 0
	return unsaid, true
}

// logError logs an INTERNAL_ERROR with the data to reproduce it. logError does not log failures
// that the client or the node's own shutdown caused.
func (x *exchange) logError(r *request, f *failure) {
	if f.cause == nil || errors.Is(f.cause, view.ErrTooManyRequests) || errors.Is(f.cause, errGone) || errors.Is(f.cause, errStopping) ||
		x.ctx.Err() != nil {
		return
	}
	unsaid, ok := x.errorLog.admit(time.Now())
	if !ok {
		return
	}
	fields := logrus.Fields{"method": r.method, "params": clipTo(string(cutTo(r.params.raw(), maxParams+1)), maxParams)}
	if x.conn != nil {
		fields["client"] = x.conn.RemoteAddr().String()
	}
	if x.client.addr.IsValid() {
		fields["address"] = x.client.addr.String()
	}
	if unsaid > 0 {
		fields["not_logged"] = unsaid
	}
	x.log.WithFields(fields).WithError(errors.New(clipTo(f.cause.Error(), maxText))).Error("request failed")
}

func cutTo(b []byte, n int) []byte { return b[:min(len(b), n)] }
