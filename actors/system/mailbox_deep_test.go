package system

import (
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// TestDeepMailboxDoesNotStarveOtherActors: an actor whose mailbox never gets empty does not occupy
// a goroutine of a BoundedDispatcher for ever. Other actors run in between.
func TestDeepMailboxDoesNotStarveOtherActors(t *testing.T) {
	sys, few, m := NewSystem(), NewBoundedDispatcher(1, time.Millisecond), NewMeter()
	stop, begun, done := make(chan struct{}), make(chan struct{}, 1), make(chan struct{})
	deep := sys.Root.Spawn(Props("counter", m, func() actor.Actor {
		return actor.ReceiveFunc(func(c actor.Context) {
			if _, ok := c.Message().(note); !ok {
				return
			}
			select {
			case begun <- struct{}{}:
			default:
			}
			select {
			case <-stop:
			default:
				c.Send(c.Self(), note(1))
			}
		})
	}, actor.WithDispatcher(few)))
	sys.Root.Send(deep, note(1))
	<-begun
	other := sys.Root.Spawn(Props("other", m, func() actor.Actor {
		return actor.ReceiveFunc(func(c actor.Context) {
			if _, ok := c.Message().(note); ok {
				close(done)
			}
		})
	}, actor.WithDispatcher(few)))
	sys.Root.Send(other, note(1))
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("the other has no turn")
	}
	close(stop)
	if err := sys.Root.StopFuture(deep).Wait(); err != nil {
		t.Error(err)
	}
}
