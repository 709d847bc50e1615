package rpc

import (
	"context"
	"runtime"

	"github.com/troupe-chain/troupe/messages"
)

// wakeTurns limits how many of the requests that waited for a block make their replies at the same
// time. The capacity of the channel is the maximum number of these requests.
//
// Problem: hundreds or thousands of waits end with the same block. If all their goroutines became
// runnable at once, they would take the processors at the moment when the next block is made.
//
// Invariants: at most two replies per core are made at a time, which keeps the cores busy. All
// other goroutines are blocked on the channel, so they are not runnable. A holder of a turn never
// waits for the chain, for memory or for a turn of the heavy limit.
//
// Outline: the node calls Take before it makes a reply, and Leave if it continues to wait for the
// chain. If a reply turns out to be large, the node calls Large. Large gives the turn back, waits
// for memory (replyQueue), and then waits for a turn of the heavy limit.
type wakeTurns chan struct{}

func newWakeTurns() wakeTurns { return make(wakeTurns, 2*runtime.GOMAXPROCS(0)) }

// inTurn returns a context that makes a wait take a turn before its reply is made (see wakeTurns).
// key identifies the request, so that memory can be reserved before the data of a large reply is
// read (replySizes). A nil key means that the reply is small. leave gives the turn back. The caller
// may call leave more than once.
func (c *call) inTurn(key any) (turn context.Context, leave func()) {
	c.key = key
	taken := false
	waits := int64(0) // value of clock() at the last call of Leave; 0: none
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
			if waits != 0 {
				c.x.peer.pace.waited(clock() - waits)
			}
		},
		Large: func() error {
			leave()
			if err := c.awaitExpected(); err != nil {
				return err
			}
			return c.turn()
		},
		Leave: func() {
			if c.x.peer != nil && c.x.socket == nil && c.x.until.IsZero() {
				waits = clock()
				c.x.peer.pace.leave(c.x.peer)
			}
			leave()
			c.leaveTurn()
			c.giveBack()
		},
	}), leave
}
