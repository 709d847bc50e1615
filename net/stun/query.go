package stun

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Bounds.
const (
	// MaxServers is the maximum number of servers that are asked.
	MaxServers = 20

	queryLimit  = 5 * time.Second        // for a server, after its name is resolved (nearcore QUERY_TIMEOUT)
	lookupLimit = 5 * time.Second        // for the name of a server
	firstResend = 500 * time.Millisecond // until a request is sent again; doubled after each time
	maxPacket   = 1280                   // bytes of an answer; IPv6 carries as many everywhere
	maxIgnored  = 64                     // number of packets from the server that are no answer
)

// The errors of Agreed.
var (
	ErrNoAnswer = errors.New("no STUN server has answered")
	ErrDisagree = errors.New("STUN servers report different addresses")
)

// Agreed asks all servers at once for the address of this machine, an IPv4 or an IPv6 one. Agreed
// returns the address that every answering server reports, and an error if there is no answer or if
// two answers differ. Agreed waits for every server, at most lookupLimit and queryLimit.
//
// One answer suffices, as in neard (peer_manager/network_state/tier1.rs:99): servers are often out of
// reach, and with a quorum a validator would then publish no address. So the only server that answers
// can choose the address. The caller must confirm the address before it is published: neard and the
// PeerManager publish it only while they are connected to themselves there.
func Agreed(ctx context.Context, servers []string, ipv4 bool) (netip.Addr, error) {
	return client{queryLimit}.agreed(ctx, servers, ipv4)
}

// client asks servers. limit bounds the wait for one server's answer.
type client struct{ limit time.Duration }

func (c client) agreed(ctx context.Context, servers []string, ipv4 bool) (netip.Addr, error) {
	servers = servers[:min(len(servers), MaxServers)]
	addrs, errs := make([]netip.Addr, len(servers)), make([]error, len(servers))
	var group sync.WaitGroup
	for i, s := range servers {
		group.Go(func() {
			if addrs[i], errs[i] = c.ask(ctx, s, ipv4); errs[i] != nil {
				errs[i] = fmt.Errorf("%s: %w", s, errs[i])
			}
		})
	}
	group.Wait()
	var first int
	var got netip.Addr
	for i, a := range addrs {
		switch {
		case errs[i] != nil:
		case !got.IsValid():
			first, got = i, a
		case a != got:
			return netip.Addr{}, fmt.Errorf("%w: %s reports %v, %s reports %v", ErrDisagree, servers[first], got, servers[i], a)
		}
	}
	if !got.IsValid() {
		return netip.Addr{}, fmt.Errorf("%w: %w", ErrNoAnswer, errors.Join(errs...))
	}
	return got, nil
}

// ask asks one server.
func (c client) ask(ctx context.Context, server string, ipv4 bool) (netip.Addr, error) {
	to, err := lookup(ctx, server, ipv4)
	if err != nil {
		return netip.Addr{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "udp", to.String())
	if err != nil {
		return netip.Addr{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })()
	var id transactionID
	_, _ = rand.Read(id[:]) // never fails
	addr, err := exchange(ctx, conn, id)
	switch {
	case err != nil:
		return netip.Addr{}, err
	case addr.Is4() != ipv4:
		return netip.Addr{}, fmt.Errorf("the answer is %v, an address of the wrong family", addr)
	}
	return addr, nil
}

// exchange sends the request until an answer comes, ctx ends, or the server has sent too many
// packets that are no answer.
func exchange(ctx context.Context, conn net.Conn, id transactionID) (netip.Addr, error) {
	request := appendRequest(nil, id)
	packet := make([]byte, maxPacket+1)
	ignored := 0
	for wait := firstResend; ; wait *= 2 {
		if _, err := conn.Write(request); err != nil {
			return netip.Addr{}, err
		}
		_ = conn.SetReadDeadline(time.Now().Add(wait))
		for {
			if ctx.Err() != nil { // the deadline of AfterFunc may have been replaced
				return netip.Addr{}, errors.New("no answer in time")
			}
			n, err := conn.Read(packet)
			if isTimeout(err) {
				break
			}
			if err != nil {
				return netip.Addr{}, err
			}
			addr, err := parse(packet[:n], id) // of a longer packet, the claimed length is wrong
			if !errors.Is(err, errNoAnswer) {
				return addr, err
			}
			if ignored++; ignored > maxIgnored {
				return netip.Addr{}, fmt.Errorf("more than %d packets that are no answer", maxIgnored)
			}
		}
	}
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// lookup resolves host:port to the host's first address of a family.
func lookup(ctx context.Context, server string, ipv4 bool) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return netip.AddrPort{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	number, err := net.DefaultResolver.LookupPort(ctx, "udp", port)
	if err != nil {
		return netip.AddrPort{}, err
	}
	family := "ip6"
	if ipv4 {
		family = "ip4"
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, family, host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(addrs[0].Unmap(), uint16(number)), nil
}
