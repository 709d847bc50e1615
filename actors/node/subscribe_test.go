package node

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/troupe-chain/troupe/actors/subscriptions"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/stream"
)

// stalled is a chain whose readers wait until goOn is closed.
type stalled struct {
	reads atomic.Int64
	goOn  chan struct{}
}

func (c *stalled) Past(primitives.Height, func()) (func(), bool) {
	c.reads.Add(1)
	<-c.goOn
	return func() {}, true
}
func (*stalled) Ahead()                                                       {}
func (*stalled) Soon(primitives.Hash)                                         {}
func (*stalled) Tip(view.RefKind) (at view.At, err error)                     { return at, nil }
func (*stalled) Step(view.At, view.RefKind) (s subscriptions.Step, err error) { return s, nil }
func (*stalled) Digest(at view.At) (*stream.Digest, error)                    { return nil, view.UnknownBlock(at.Hash) }

// TestEndingSubscriptionsCountTowardLimit: ended subscriptions count until their actors have ended.
// A client that subscribes and unsubscribes faster than actors end is refused after a while, and
// admitted once they have ended.
func TestEndingSubscriptionsCountTowardLimit(t *testing.T) {
	s := start(t, 1, nil)
	chain := &stalled{goOn: make(chan struct{})}
	subscribe := func() (view.Subscriber, error) {
		return s.Subscribe(&view.Subscription{Topic: view.TopicBlocks}, view.Cursor{Index: view.WholeBlock}, chain,
			make(blockSink, 1))
	}
	all := make([]view.Subscriber, maxLingering)
	for i := range all {
		var err error
		if all[i], err = subscribe(); err != nil {
			t.Fatalf("subscription %d: %v", i, err)
		}
		all[i].Start()
	}
	until(t, func() bool { // all have an actor
		for _, x := range s.Meter() {
			if x.Name == "streams" && (x.Mailbox > 0 || x.Since > 0) {
				return false
			}
		}
		return chain.reads.Load() > 0
	})
	for i, x := range all {
		never, err := subscribe()
		if err != nil {
			t.Fatalf("%d have ended: %v", i, err)
		}
		never.Cancel()
		x.Cancel()
	}
	if _, err := subscribe(); !errors.Is(err, view.ErrLingering) {
		t.Errorf("%d have ended and their actors have not: %v", maxLingering, err)
	}
	close(chain.goOn)
	until(t, func() bool { return s.streamed.Load() == 0 })
	if _, err := subscribe(); err != nil {
		t.Errorf("subscribe after all actors have ended: %v", err)
	}
}

// resting is a chain whose readers may always read, and that reports calls of Soon.
type resting struct {
	stalled
	soon chan primitives.Hash
}

func (*resting) Past(primitives.Height, func()) (func(), bool) { return func() {}, true }

func (c *resting) Soon(hash primitives.Hash) {
	select {
	case c.soon <- hash:
	default:
	}
}

// TestOptimisticSubscriberIsNotifiedEarly: a subscription to the texts of optimistic blocks calls
// the chain's Soon before a block is on disk.
func TestOptimisticSubscriberIsNotifiedEarly(t *testing.T) {
	s := start(t, 1, nil)
	chain := &resting{soon: make(chan primitives.Hash, 100)}
	sub, err := s.Subscribe(&view.Subscription{Topic: view.TopicMessages, Finality: view.RefOptimistic},
		view.Cursor{Index: view.WholeBlock}, chain, make(blockSink, 1))
	if err != nil {
		t.Fatal(err)
	}
	sub.Start()
	t.Cleanup(sub.Cancel)
	until(t, func() bool {
		if _, err := s.SendTx(t.Context(), &view.SendTx{Tx: s.tx("near", transfer(1)),
			WaitUntil: view.LevelFinal}); err != nil {
			t.Fatal(err)
		}
		select {
		case hash := <-chain.soon:
			return s.e.BlockNode(hash) != nil // the block has reached the disk since then
		default:
			return false
		}
	})
}
