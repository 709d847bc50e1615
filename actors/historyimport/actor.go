// Package historyimport is the actor that runs the import of older blocks: it decides when the job
// works, and ends it.
//
//	in      ran from the job's goroutine, begin from its timer
//	out     none
//	state   Actor: whether the job runs, and the timer of its next run
//	units   none
//	bound   one goroutine and one timer
//	errors  a panic of the job is raised again in the actor, so that supervision logs it. The actor
//	        then ends; the import begins again when the node does
//	source  our own; nearcore has no import from feeds
package historyimport

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/engine"
)

// Name is the name of the actor.
const Name = "history-import"

// Job is what the actor runs.
type Job interface {
	// Run works until it is done, has to pause, or ctx ends. It returns the pause until the next call;
	// negative: no further call.
	Run(ctx context.Context) time.Duration
}

// ran reports the end of a run.
type ran struct {
	pause time.Duration
	err   error // a panic; nil: none
}

// begin asks for the next run.
type begin struct{}

// Actor is the actor. Only its own goroutine may use it.
type Actor struct {
	job    Job
	cancel context.CancelFunc
	ctx    context.Context
	ended  chan struct{} // closed when the current run has ended; nil: none was begun
	timer  *time.Timer
}

// New returns an actor that runs the job from its start on.
func New(job Job) *Actor { return &Actor{job: job} }

// Receive handles one message.
func (a *Actor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		a.ctx, a.cancel = context.WithCancel(context.Background())
		a.run(c)
	case begin:
		a.run(c)
	case ran:
		if m.err != nil {
			panic(m.err)
		}
		if m.pause >= 0 {
			root, self := c.ActorSystem().Root, c.Self()
			a.timer = time.AfterFunc(m.pause, func() { root.Send(self, begin{}) })
		}
	case *actor.Stopping, *actor.Restarting:
		a.stop()
	}
}

func (a *Actor) run(c actor.Context) {
	root, self, ctx, ended := c.ActorSystem().Root, c.Self(), a.ctx, make(chan struct{})
	a.ended = ended
	go func() {
		pause := time.Duration(-1)
		err := engine.Catch(func() error { pause = a.job.Run(ctx); return nil })
		close(ended)
		if ctx.Err() == nil {
			root.Send(self, ran{pause, err})
		}
	}()
}

// stop ends the job and waits until it has stored what it has.
func (a *Actor) stop() {
	if a.cancel == nil {
		return
	}
	a.cancel()
	if a.timer != nil {
		a.timer.Stop()
	}
	<-a.ended
}
