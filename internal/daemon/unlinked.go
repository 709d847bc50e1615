package daemon

import (
	"sync"

	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
)

// unlinkedLog logs deployed contracts that import functions which the protocol version does not
// have. The outcomes of their calls do not name these functions. Any account can deploy code. So
// unlinkedLog logs each code once, at a bounded rate. Safe for concurrent use.
type unlinkedLog struct {
	log   *logrus.Logger
	limit *rate.Limiter

	mu   sync.Mutex
	seen map[primitives.Hash]bool // hashes of reported code; emptied when it has maxUnlinkedSeen entries
}

// Bounds of an unlinkedLog.
const (
	maxUnlinkedSeen = 1024
	unlinkedPerS    = 1
	unlinkedBurst   = 20
)

func newUnlinkedLog(log *logrus.Logger) *unlinkedLog {
	return &unlinkedLog{log: log, limit: rate.NewLimiter(unlinkedPerS, unlinkedBurst), seen: map[primitives.Hash]bool{}}
}

// report logs a contract. It is a vm.Options.Unlinked.
func (u *unlinkedLog) report(submitter primitives.AccountID, code primitives.Hash, e *action.LinkError) {
	u.mu.Lock()
	known := u.seen[code]
	if !known {
		if len(u.seen) >= maxUnlinkedSeen {
			clear(u.seen)
		}
		u.seen[code] = true
	}
	u.mu.Unlock()
	if known || !u.limit.Allow() {
		return
	}
	u.log.WithFields(logrus.Fields{"account": string(submitter), "code": code.String()}).
		Warnf("calls of this contract will fail with a link error: %v", e)
}
