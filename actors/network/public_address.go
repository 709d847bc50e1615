package network

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
)

// AddressSource finds the IP address under which other nodes see this node.
type AddressSource interface {
	// PublicIP returns an address of a family on which the host listens. PublicIP must return soon
	// after ctx has ended.
	PublicIP(ctx context.Context) (netip.Addr, error)
}

// background runs functions on goroutines. ctx ends when the actor stops, which then waits for group.
type background struct {
	ctx   context.Context
	group *sync.WaitGroup
}

func (b *background) run(do func(context.Context)) { b.group.Go(func() { do(b.ctx) }) }

// Periods in ms of the search for the public address.
const (
	addressPeriod = 15 * 60_000 // between two questions (nearcore advertise_proxies_interval)
	addressAgain  = 60_000      // until the next question after a failure; doubled after each failure
	addressCheck  = 3 * 60_000  // after this time without a connection to itself, the actor warns
)

// addressFinder decides when a validator asks for its public address. Times are in ms.
//
// # Public address
//
// Problem. Other validators can connect to a validator only if it publishes its address. An operator
// with a dynamic address cannot configure network.public_addrs.
//
// Outline. As in neard (chain/network/src/peer_manager/network_state/tier1.rs:99), STUN servers
// report the IP address, and the port is this node's own. The host dials that address. It publishes
// the address only while it is connected to itself there, so a false answer is never published.
// Without an answer, or with answers that differ, the last address is kept: the host still checks it.
type addressFinder struct {
	next   int64          // time of the next question
	wait   int64          // time between the last failure and the next question; 0: no failure
	asking bool           // a question is in progress
	found  netip.AddrPort // last answer; invalid: none yet
	since  int64          // time from which the host is not connected to itself at found
	warned bool           // the warning about found was logged
}

// due returns whether to ask now. If so, the question is in progress.
func (f *addressFinder) due(now int64) bool {
	if f.asking || now < f.next {
		return false
	}
	f.asking = true
	return true
}

// answered ends the question. It returns whether the address is a new one. An invalid ip means that
// there is no answer.
func (f *addressFinder) answered(now int64, ip netip.Addr, port uint16) bool {
	f.asking = false
	if !ip.IsValid() {
		f.wait = min(max(2*f.wait, addressAgain), addressPeriod)
		f.next = now + f.wait
		return false
	}
	f.wait, f.next = 0, now+addressPeriod
	addr := netip.AddrPortFrom(ip, port)
	if addr == f.found {
		return false
	}
	f.found, f.since, f.warned = addr, now, false
	return true
}

// unreachable returns true, once for each address, if the host could not connect to itself at the
// address for addressCheck. connected means that it is connected now.
func (f *addressFinder) unreachable(now int64, connected bool) bool {
	if connected || !f.found.IsValid() {
		f.since = now
		return false
	}
	if f.warned || now-f.since < addressCheck {
		return false
	}
	f.warned = true
	return true
}

// addressAnswer is an answer of Options.Addresses.
type addressAnswer struct {
	of  *Actor
	ip  netip.Addr
	err error
}

// proxies returns the configured proxies. Without them, proxies returns the address that was found.
func (a *Actor) proxies() []wire.PeerAddr {
	if len(a.o.Proxies) == 0 && a.address.found.IsValid() {
		return []wire.PeerAddr{{Addr: a.address.found, PeerID: a.o.Peer}}
	}
	return a.o.Proxies
}

// findAddress asks for the public address if that is due. Only a validator of this or the next epoch
// that has no configured proxies asks.
func (a *Actor) findAddress(now int64, info *near.Info) {
	if a.o.Addresses == nil || len(a.o.Proxies) > 0 {
		return
	}
	key := a.key()
	if key.IsZero() || !slices.Contains(a.t1[a.o.Account], key.PublicKey()) {
		return
	}
	if a.address.due(now) {
		source, self := a.o.Addresses, a.self
		a.background.run(func(ctx context.Context) {
			ip, err := source.PublicIP(ctx)
			self(addressAnswer{a, ip, err})
		})
	}
	connected := slices.ContainsFunc(info.T1, func(p near.PeerState) bool {
		return p.Info.ID == a.o.Peer && p.Info.Addr == a.address.found
	})
	if a.address.unreachable(now, connected) {
		a.o.Log.Warnf("network: this validator could not connect to itself at %v, so it publishes no address, "+
			"and other validators "+
			"send to it by way of other peers: forward the port, or set network.public_addrs in config.json", a.address.found)
	}
}

// addressAnswered gives the host a new address.
func (a *Actor) addressAnswered(m *addressAnswer) {
	first := a.address.wait == 0
	if m.err != nil {
		m.ip = netip.Addr{}
	}
	changed := a.address.answered(a.now(), m.ip, a.host.Addr().Port())
	switch {
	case m.err != nil && first:
		a.o.Log.WithError(m.err).Warn("network: the public address of this validator is not known " +
			"(network.trusted_stun_servers); " +
			"asking again later; network.public_addrs in config.json gives it without asking")
	case changed:
		a.o.Log.Infof("network: STUN servers report %v as the address of this validator; it is published "+
			"once this node can connect to it", a.address.found)
		a.validator()
	}
}
