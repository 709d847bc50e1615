package network

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/recent"
	"github.com/troupe-chain/troupe/storage"
)

// blank returns a block with an empty header and no body.
func blank() *primitives.Block { return &primitives.Block{Header: new(primitives.BlockHeader)} }

// TestCheckedGossipIsAcceptedOnce: a gossiped block that was checked is accepted once, whatever
// else its sender has sent. Another object with the same hash is not.
func TestCheckedGossipIsAcceptedOnce(t *testing.T) {
	var got []delivered
	a := &Actor{begun: time.Now(), o: Options{Status: &Status{}}, limits: map[wire.PeerID]*blockLimits{},
		self: func(m any) { got = append(got, m.(delivered)) }}
	a.inbox = newInbox(a.o.Status)
	from := primitives.SecretKeyFromSeed(primitives.ED25519, "x").PublicKey()
	for i := range 2 * maxInboxEach {
		a.deliver(near.Deliver{From: from, Msg: &wire.Block{Block: blank()}})
		a.admits(from, false, blank())
		if i >= maxInboxEach && len(got) != maxInboxEach {
			t.Fatalf("%d of %d are taken", len(got), i)
		}
	}
	b := blank()
	a.gossiped.put(b)
	a.deliver(near.Deliver{From: from, Msg: &wire.Block{Block: b}})
	if len(got) != maxInboxEach+1 || got[maxInboxEach].Msg.(*wire.Block).Block != b {
		t.Error("the relayed block was dropped")
	}
	if a.admits(from, false, blank()) || !a.admits(from, a.gossiped.take(b), b) {
		t.Error("it counts as what its sender may send")
	}
	got[maxInboxEach].in.done()
	a.deliver(near.Deliver{From: from, Msg: &wire.Block{Block: b}})
	a.deliver(near.Deliver{From: from, Msg: &wire.Block{Block: blank()}})
	if len(got) != maxInboxEach+1 || a.inbox.all != maxInboxEach {
		t.Error("it is taken for ever")
	}
	for range 2 * recent.DefaultMax {
		a.gossiped.put(blank())
	}
	if a.gossiped.of.Len() != recent.DefaultMax {
		t.Errorf("%d are kept", a.gossiped.of.Len())
	}
}

// TestUncheckedGossipPassesPeerLimits: a gossiped block that could not be checked is accepted even
// if its sender has used up its inbox share and block rate, because no other peer will send it.
func TestUncheckedGossipPassesPeerLimits(t *testing.T) {
	var got []delivered
	a := &Actor{begun: time.Now(), o: Options{Status: &Status{}}, limits: map[wire.PeerID]*blockLimits{},
		self: func(m any) { got = append(got, m.(delivered)) }}
	a.inbox = newInbox(a.o.Status)
	from := func(name string) wire.PeerID {
		return primitives.SecretKeyFromSeed(primitives.ED25519, name).PublicKey()
	}
	for i := range 2 * maxInbox / maxInboxEach { // fill the inbox
		for range 2 * maxInboxEach {
			a.deliver(near.Deliver{From: from(fmt.Sprint("x", i)), Tier: wire.T2,
				Msg: &wire.Transaction{Transaction: new(primitives.SignedTransaction)}})
		}
	}
	taken := len(got)
	b := blank()
	a.deliver(near.Deliver{From: from("x0"), Tier: wire.T2, Msg: &wire.Block{Block: b}})
	if len(got) != taken {
		t.Fatal("its lane is not full")
	}
	a.deliver(near.Deliver{From: from("x0"), Tier: wire.T2, Msg: &wire.Block{Block: b}, Gossiped: true})
	if len(got) != taken+1 || got[taken].Msg.(*wire.Block).Block != b {
		t.Error("it is dropped")
	}
	for range 2 * maxInboxEach {
		a.deliver(near.Deliver{From: from("x0"), Tier: wire.T2, Msg: &wire.Block{Block: b}, Gossiped: true})
	}
	if len(got) != taken+maxInboxEach || a.inbox.gossip != maxInboxEach {
		t.Errorf("%d of them have places", a.inbox.gossip)
	}
	for _, d := range got {
		d.in.done()
	}
	if a.inbox.all != 0 || a.inbox.gossip != 0 || len(a.inbox.each) != 0 {
		t.Errorf("%d and %d slots are still taken, want none", a.inbox.all, a.inbox.gossip)
	}
}

// TestRelayedBlockIsNotAnnouncedAgain: a block that was relayed before its import is not announced
// after it. The next block is.
func TestRelayedBlockIsNotAnnouncedAgain(t *testing.T) {
	var e recentSet[primitives.Hash]
	at := func(i int) primitives.Hash { return primitives.Hash{byte(i), byte(i >> 8)} }
	if e.take(at(1)) || !e.put(at(1)) || e.put(at(1)) || !e.take(at(1)) || e.take(at(1)) {
		t.Error("one that was put is taken once, and another never")
	}
	for i := range 2 * recent.DefaultMax {
		e.put(at(i))
	}
	if e.of.Len() != recent.DefaultMax || e.take(at(0)) || !e.take(at(2*recent.DefaultMax-1)) {
		t.Errorf("%d are kept", e.of.Len())
	}
}

// TestTwoBlocksPerHeightAreRelayedEarly: two blocks of each height are relayed before their import,
// however many the producer has signed.
func TestTwoBlocksPerHeightAreRelayedEarly(t *testing.T) {
	f := new(Status)
	for h := range primitives.Height(5) {
		n := 0
		for range 100 {
			if f.reserveEarly(7 + h) {
				n++
			}
		}
		if n != 2 {
			t.Errorf("%d blocks of height %d are handed on", n, 7+h)
		}
	}
}

// TestPanickingStateSyncStartsAgain: if a background step of state sync panics, the state sync is
// abandoned and starts again later.
func TestPanickingStateSyncStartsAgain(t *testing.T) {
	came := make(chan *bootstrapDone, 1)
	a := &Actor{begun: time.Now(), o: Options{Status: &Status{}}, self: func(m any) { x := m.(bootstrapDone); came <- &x }}
	x := &bootstrap{busy: true, finished: true}
	a.bootstrap = x
	a.inBackground(x, "a test", func() func() { panic("on purpose") })
	a.bootstrapDone(<-came)
	if a.bootstrap != nil || a.nextBootstrap < progressPeriod {
		t.Errorf("%+v stays, the next begins at %d", a.bootstrap, a.nextBootstrap)
	}
	if a.o.Status.panics.Load() != 1 {
		t.Error("the panic is not counted")
	}
}

// failureOut implements Out for a test in which the actor only fails.
type failureOut struct {
	Out
	told *[]error
}

func (o failureOut) Failed(err error) { *o.told = append(*o.told, err) }

// TestFailedStoreEndsTheNode: if the store has failed, the node ends, even if only headers could
// not be stored. It would otherwise request them forever.
func TestFailedStoreEndsTheNode(t *testing.T) {
	var told []error
	log := logrus.New()
	log.SetOutput(io.Discard)
	a := &Actor{o: Options{Log: log, Out: failureOut{told: &told}}}
	a.ownFailure("headers", io.ErrUnexpectedEOF)
	if len(told) != 0 {
		t.Errorf("%v ends the node, want no end", told)
	}
	a.ownFailure("headers", fmt.Errorf("engine: %w: no space left", storage.ErrFailed))
	if len(told) != 1 || !errors.Is(told[0], storage.ErrFailed) {
		t.Errorf("got failures %v, want ErrFailed once", told)
	}
}

// TestFullDiskIsLoggedOnceAMinute: while the disk is full, each peer's headers meet the same error.
func TestFullDiskIsLoggedOnceAMinute(t *testing.T) {
	log, logged := logtest.NewNullLogger()
	a := &Actor{o: Options{Log: log}, begun: time.Now()}
	full := fmt.Errorf("engine: %w", syscall.ENOSPC)
	for range 5 {
		a.ownFailure("headers", full)
	}
	if n := len(logged.AllEntries()); n != 1 {
		t.Errorf("%d log entries for 5 errors, want 1", n)
	}
	a.ownFailure("headers", io.ErrUnexpectedEOF)
	if n := len(logged.AllEntries()); n != 2 {
		t.Errorf("%d log entries after another error, want 2", n)
	}
	a.begun = a.begun.Add(-stuckLogPeriod * time.Millisecond)
	a.ownFailure("headers", full)
	if n := len(logged.AllEntries()); n != 3 {
		t.Errorf("%d log entries a minute later, want 3", n)
	}
}
