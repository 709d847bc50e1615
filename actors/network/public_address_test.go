package network

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/testnode"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// TestAddressFinderAsksInTurn follows the questions and answers of a validator over time.
func TestAddressFinderAsksInTurn(t *testing.T) {
	const minute = 60_000
	one, two := netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("203.0.113.8")
	var f addressFinder
	for i, x := range []struct {
		now    int64
		ask    bool       // whether the question is due
		answer netip.Addr // invalid: the question fails
		fresh  bool       // whether the answer is a new address
		found  netip.Addr
	}{
		{now: 0, ask: true},
		{now: minute - 1},
		{now: minute, ask: true},     // the pause doubles
		{now: 3*minute - 1},          //
		{now: 3 * minute, ask: true}, //
		{now: 7 * minute, ask: true},
		{now: 15 * minute, ask: true},
		{now: 30*minute - 1}, // at most addressPeriod
		{now: 30 * minute, ask: true, answer: one, fresh: true, found: one},
		{now: 45*minute - 1, found: one},
		{now: 45 * minute, ask: true, answer: one, found: one},
		{now: 60 * minute, ask: true, found: one}, // a failure keeps the address
		{now: 61 * minute, ask: true, answer: two, fresh: true, found: two},
		{now: 76 * minute, ask: true, answer: one, fresh: true, found: one},
	} {
		if got := f.due(x.now); got != x.ask {
			t.Fatalf("step %d: due %v", i, got)
		}
		if x.ask {
			if f.due(x.now + 100*minute) {
				t.Fatalf("step %d: a second question while the first one is open", i)
			}
			if got := f.answered(x.now, x.answer, 24567); got != x.fresh {
				t.Fatalf("step %d: a new address: %v", i, got)
			}
		}
		if want := (netip.AddrPortFrom(x.found, 24567)); x.found.IsValid() && f.found != want || !x.found.IsValid() && f.found.IsValid() {
			t.Fatalf("step %d: found %v", i, f.found)
		}
	}
}

// TestUnreachableAddressIsReportedOnce: the warning comes after three minutes without a connection,
// and again only for another address.
func TestUnreachableAddressIsReportedOnce(t *testing.T) {
	var f addressFinder
	if f.unreachable(addressCheck*9, false) {
		t.Error("without an address")
	}
	f.answered(0, netip.MustParseAddr("203.0.113.7"), 1)
	for _, x := range []struct {
		now       int64
		connected bool
		want      bool
	}{
		{addressCheck - 1, false, false}, {addressCheck, true, false}, {2*addressCheck - 1, false, false}, {2 * addressCheck, false, true},
		{9 * addressCheck, false, false}, {10 * addressCheck, true, false}, {20 * addressCheck, false, false},
	} {
		if got := f.unreachable(x.now, x.connected); got != x.want {
			t.Errorf("at %d, connected %v: %v", x.now, x.connected, got)
		}
	}
	f.answered(21*addressCheck, netip.MustParseAddr("203.0.113.8"), 1)
	if f.unreachable(21*addressCheck, false) || !f.unreachable(22*addressCheck, false) {
		t.Error("another address is not reported after its own time")
	}
}

// addressFunc implements AddressSource.
type addressFunc func(ctx context.Context) (netip.Addr, error)

func (f addressFunc) PublicIP(ctx context.Context) (netip.Addr, error) { return f(ctx) }

// awaitAnswer ticks until the actor gets an address, and passes the answer to the actor.
func awaitAnswer(t *testing.T, a *Actor, notes chan any) addressAnswer {
	t.Helper()
	a.tick()
	for {
		select {
		case m := <-notes:
			if m, ok := m.(addressAnswer); ok {
				a.Handle(m)
				return m
			}
		case <-time.After(20 * time.Second):
			t.Fatal("no answer")
		}
	}
}

// TestValidatorTakesFoundAddress: a validator without configured proxies asks for its IP address,
// connects to itself there with its own port, and so can publish it. Another address of the same
// kind replaces the first. A node that is no validator of this epoch does not ask.
func TestValidatorTakesFoundAddress(t *testing.T) {
	var ip atomic.Pointer[netip.Addr]
	set := func(s string) {
		x := netip.MustParseAddr(s)
		ip.Store(&x)
	}
	set("127.0.0.1")
	var asked atomic.Int64
	a, notes := newLoneActorWith(t, func(o *Options, key primitives.SecretKey) {
		o.Account, o.Key, o.Peer = testnode.Validator, key, primitives.SecretKeyFromSeed(primitives.ED25519, "a").PublicKey()
		o.Addresses = addressFunc(func(context.Context) (netip.Addr, error) {
			asked.Add(1)
			return *ip.Load(), nil
		})
	})
	own := func() []wire.PeerInfo {
		var out []wire.PeerInfo
		for _, p := range a.host.Info().T1 {
			out = append(out, p.Info)
		}
		return out
	}
	requireOwn := func(want netip.AddrPort) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			if got := own(); len(got) == 1 && got[0].Addr == want && got[0].ID == a.o.Peer {
				return
			} else if time.Now().After(end) {
				t.Fatalf("T1 connections %v, want one to itself at %v", got, want)
			}
		}
	}
	awaitAnswer(t, a, notes)
	port := a.host.Addr().Port()
	requireOwn(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port))
	a.tick()
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times at once", n)
	}

	// An address at which no node listens is not dialled successfully; the old one is closed.
	set("127.0.0.2")
	a.address.next = 0
	awaitAnswer(t, a, notes)
	if got := a.address.found.Addr().String(); got != "127.0.0.2" {
		t.Errorf("found %s", got)
	}
	for end := time.Now().Add(20 * time.Second); len(own()) != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("T1 connections %v after the address has changed", own())
		}
	}

	a.address.next = 0
	none := primitives.SecretKeyFromSeed(primitives.ED25519, "not a validator")
	a.o.Status.Rekey(none)
	a.Handle(Rekeyed{none})
	a.tick()
	if a.address.asking {
		t.Error("a node that is no validator asks")
	}
}

// TestFailedQuestionKeepsAddress: when the servers do not answer, the last address stays published.
func TestFailedQuestionKeepsAddress(t *testing.T) {
	var fail atomic.Bool
	a, notes := newLoneActorWith(t, func(o *Options, key primitives.SecretKey) {
		o.Account, o.Key, o.Peer = testnode.Validator, key, primitives.SecretKeyFromSeed(primitives.ED25519, "a").PublicKey()
		o.Addresses = addressFunc(func(context.Context) (netip.Addr, error) {
			if fail.Load() {
				return netip.MustParseAddr("127.0.0.9"), errors.New("disagree") // the address beside an error is not used
			}
			return netip.MustParseAddr("127.0.0.1"), nil
		})
	})
	awaitAnswer(t, a, notes)
	fail.Store(true)
	a.address.next = 0
	awaitAnswer(t, a, notes)
	want := []wire.PeerAddr{{Addr: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), a.host.Addr().Port()), PeerID: a.o.Peer}}
	if got := a.proxies(); !slices.Equal(got, want) {
		t.Errorf("proxies %v, want %v", got, want)
	}
}

// TestConfiguredProxiesNeedNoQuestion: network.public_addrs is used as it is.
func TestConfiguredProxiesNeedNoQuestion(t *testing.T) {
	a, _ := newLoneActorWith(t, func(o *Options, key primitives.SecretKey) {
		o.Account, o.Key = testnode.Validator, key
		o.Proxies = []wire.PeerAddr{{Addr: netip.MustParseAddrPort("127.0.0.1:1"), PeerID: o.Peer}}
		o.Addresses = addressFunc(func(context.Context) (netip.Addr, error) { return netip.MustParseAddr("127.0.0.1"), nil })
	})
	a.findAddress(0, &near.Info{})
	if a.address.asking || !slices.Equal(a.proxies(), a.o.Proxies) {
		t.Errorf("asks %v, proxies %v", a.address.asking, a.proxies())
	}
}

// TestStopEndsQuestion: the end of the actor ends a question in progress.
func TestStopEndsQuestion(t *testing.T) {
	began := make(chan struct{})
	a, _ := newLoneActorWith(t, func(o *Options, key primitives.SecretKey) {
		o.Account, o.Key = testnode.Validator, key
		o.Addresses = addressFunc(func(ctx context.Context) (netip.Addr, error) {
			close(began)
			<-ctx.Done()
			return netip.Addr{}, ctx.Err()
		})
	})
	a.tick()
	<-began
	a.end() // waits for the question
}
