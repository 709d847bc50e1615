package network

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/internal/testkit/testnode"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// listenFunc implements Listener, and stores no peers.
type listenFunc func(deliver func(near.Deliver), verify func(near.VerifyAnnouncements) near.AnnouncementsVerified) (*tcp.Server, error)

func (f listenFunc) Listen(deliver func(near.Deliver),
	verify func(near.VerifyAnnouncements) near.AnnouncementsVerified) (*tcp.Server, error) {
	return f(deliver, verify)
}

func (f listenFunc) Remember([]wire.PeerInfo) {}

// newLoneActor returns an actor with a chain of one validator and a host without peers. The channel
// gets its messages to self.
func newLoneActor(t *testing.T) (*Actor, chan any) { return newLoneActorWith(t, nil) }

// newLoneActorWith does the same as newLoneActor, with options that change may change. change gets
// the validator's key. nil: no change.
func newLoneActorWith(t *testing.T, change func(*Options, primitives.SecretKey)) (*Actor, chan any) {
	chain, key := testnode.Sandbox(t, 1, nil)
	e := testnode.Open(t, testnode.Options{Chain: chain})
	log := logrus.New()
	log.SetOutput(io.Discard)
	o := Options{Engine: e, Status: new(Status), Log: log, Random: func(int) int { return 0 },
		Listener: listenFunc(func(deliver func(near.Deliver), verify func(near.VerifyAnnouncements) near.AnnouncementsVerified) (*tcp.Server, error) {
			return tcp.Listen(near.Config{Key: primitives.SecretKeyFromSeed(primitives.ED25519, "a"),
				Genesis: wire.GenesisID{ChainID: "sandbox"},
				Version: 86, Oldest: 83, ListenAddr: netip.MustParseAddrPort("127.0.0.1:0")}, deliver, verify)
		})}
	if change != nil {
		change(&o, key)
	}
	a := New(o)
	notes := make(chan any, 100)
	a.self = func(m any) { notes <- m }
	a.start()
	t.Cleanup(a.end)
	a.timer.Stop() // the test calls tick itself
	return a, notes
}

// TestNodeWithoutPeersTicksSlowly: a node without peers ticks every five seconds. A new connection
// causes a tick at once, and frequent ticks while it is open.
func TestNodeWithoutPeersTicksSlowly(t *testing.T) {
	a, notes := newLoneActor(t)
	for _, m := range []any{tick{a}, tick{a}} { // two ticks in a row leave one timer
		a.Handle(m)
		if got := a.ticker.period(); got != idlePeriod {
			t.Fatalf("alone it ticks every %v, want %v", got, idlePeriod)
		}
	}
	if !a.timer.Stop() {
		t.Error("no timer runs after a tick")
	}
	c, err := net.Dial("tcp", a.host.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	select {
	case m := <-notes:
		if m != (tick{a}) {
			t.Fatalf("a connection leads to %T, want a tick", m)
		}
		a.Handle(m)
	case <-time.After(20 * time.Second):
		t.Fatal("a connection does not wake it")
	}
	if got := a.ticker.period(); got != tickPeriod {
		t.Errorf("with a connection it ticks every %v, want %v", got, tickPeriod)
	}
	_ = c.Close()
	for end := time.Now().Add(20 * time.Second); a.ticker.period() != idlePeriod; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not rest again when the connection has ended")
		}
		a.tick()
	}
	for range len(notes) {
		if m := <-notes; m != (tick{a}) {
			t.Errorf("the last message is %T, want a tick", m)
		}
	}
	a.headersApart = true
	if info := a.host.Info(); !info.Alone || a.isIdle(&info) {
		t.Error("it rests while the chain is apart from its headers")
	}
}
