package rpc

import (
	"context"
	"runtime"

	"github.com/troupe-chain/troupe/messages"
)

// turns are places of those who have waited for a block and make their replies: hundreds wake at the same moment, just when the next block is made. Two for each core keep
// these busy; all others wait without being anything that wants the processor.
type turns chan struct{}

func newTurns() turns { return make(turns, 2*runtime.GOMAXPROCS(0)) }

// inTurn returns a context under which a wait that has its answer takes a place before the reply is made; leave gives it back. What is large has turns of its own, for which
// it may wait: it leaves before.
func (s *Server) inTurn(ctx context.Context) (turn context.Context, leave func()) {
	taken := false
	take := func() {
		s.turns <- struct{}{}
		taken = true
	}
	leave = func() {
		if taken {
			taken = false
			<-s.turns
		}
	}
	return messages.WithTurn(ctx, take, leave), leave
}
