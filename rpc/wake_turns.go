package rpc

import (
	"context"
	"runtime"

	"github.com/troupe-chain/troupe/messages"
)

// wakeTurns are places of those who have waited for a block and make their replies: hundreds wake at
// the same moment, just when the next block is made. Two for each core keep these busy; all others
// wait without being anything that wants the processor.
type wakeTurns chan struct{}

func newWakeTurns() wakeTurns { return make(wakeTurns, 2*runtime.GOMAXPROCS(0)) }

// inTurn returns a context under which a wait that has its answer takes a place before the reply is
// made; leave gives it back. What is large has turns of its own, for which it may wait, and for
// room in memory if it is known how large it is, by its key: it leaves before. While it waits for
// the chain it holds nothing.
func (c *call) inTurn(key any) (turn context.Context, leave func()) {
	c.key = key
	taken := false
	leave = func() {
		if taken {
			taken = false
			<-c.turns
		}
	}
	return messages.WithTurn(c.ctx, messages.Turn{
		Take: func() {
			c.turns <- struct{}{}
			taken = true
		},
		Large: func() error {
			leave()
			if err := c.awaitExpected(); err != nil {
				return err
			}
			return c.turn()
		},
		Leave: func() {
			leave()
			c.leaveTurn()
			c.giveBack()
		},
	}), leave
}
