package system

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// TestBusyActorYieldsAfterItsTimeSlice: an actor with many waiting messages gets a whole time slice
// however many goroutines compete for the processor, and yields after it.
func TestBusyActorYieldsAfterItsTimeSlice(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	sys := NewSystem()
	const messages = 100_000
	var others atomic.Int64
	var began, ended int64
	n, done := 0, make(chan struct{})
	hold := make(chan struct{})
	pid := sys.Root.Spawn(Props("counter", NewMeter(), func() actor.Actor {
		return actor.ReceiveFunc(func(c actor.Context) {
			if _, ok := c.Message().(note); !ok {
				return
			}
			if n++; n == 1 {
				<-hold
				began = others.Load()
			}
			// at least 1 us a message, so that the messages need some 50 time slices on every machine
			for begin := time.Now(); time.Since(begin) < time.Microsecond; {
			}
			if n == messages {
				ended = others.Load()
				close(done)
			}
		})
	}))
	for range messages {
		sys.Root.Send(pid, note(1))
	}
	stop := make(chan struct{})
	for range 50 { // each competitor needs the processor for 20 us at a time
		go func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for begin := time.Now(); time.Since(begin) < 20*time.Microsecond; {
				}
				others.Add(1)
				runtime.Gosched()
			}
		}()
	}
	begin := time.Now()
	close(hold)
	<-done
	close(stop)
	took, turns := time.Since(begin), (ended-began)/50
	own := took - time.Duration(ended-began)*20*time.Microsecond // at most; on every machine each turn ends a time slice
	most := 2*int64(own/timeSlice) + 5                           // twice, because the scheduler may interrupt the actor, too
	t.Logf("%d messages in %v, while others had %d turns each", messages, took, turns)
	if turns < 2 || turns > most {
		t.Errorf("other actors had %d turns each while %d messages took %v: want at least 2 and at most %d, one after each time slice",
			turns, messages, own, most)
	}
}
