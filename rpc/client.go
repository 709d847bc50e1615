package rpc

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/troupe-chain/troupe/rpc/limits"
)

// client is the state of one client address: its connections, and the work and memory that are
// charged to it. All IPv6 addresses of one /64 network count as one address.
type client struct {
	addr     netip.Addr
	loopback bool
	conns    int // number of open connections; guarded by connLimiter.mu
	// refs is the number of connections and requests that refer to the client. At 0 the client may
	// be removed from connLimiter.clients. Guarded by connLimiter.mu.
	refs        int
	parked      atomic.Int64
	simulations atomic.Int64
	sockets     atomic.Int64
	subs        atomic.Int64 // number of subscriptions
	rate        rate
	inFlight    atomic.Int64 // bytes of bodies and replies in memory
	quota       workQuota
}

// noClient is the client of requests that did not come through connLimiter, for tests.
var noClient = &client{loopback: true}

// most returns the maximum that l allows this client, and false if l does not apply to this client.
func (c *client) most(l limits.ByAddress) (int64, bool) {
	return int64(min(l.Max, 1<<62)), !c.loopback || l.Loopback
}

// clientAddr returns the address under which a connection counts; zero if the connection has none.
func clientAddr(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	addr, _ := netip.AddrFromSlice(tcp.IP)
	return canonical(addr)
}

func canonical(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() && !a.IsLoopback() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}

// parseProxies parses addresses and networks, IPv4 or IPv6, such as a.b.c.d and a.b.c.d/n.
func parseProxies(list []string) (out []netip.Prefix, err error) {
	for _, text := range list {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			a, err := netip.ParseAddr(text)
			if err != nil {
				return nil, fmt.Errorf("%q is neither an IP address nor a network such as 10.0.0.0/8", text)
			}
			p = netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen())
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

func (d *connLimiter) isProxy(a netip.Addr) bool {
	for _, p := range d.proxies {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// forwarded returns the address of the client behind a trusted proxy: the last address in
// X-Forwarded-For that is not a trusted proxy. Any client can forge the addresses that precede the
// returned one.
func (d *connLimiter) forwarded(ctx *fasthttp.RequestCtx) (netip.Addr, bool) {
	headers := ctx.Request.Header.PeekAll("X-Forwarded-For")
	for i := len(headers) - 1; i >= 0; i-- {
		hops := strings.Split(string(headers[i]), ",")
		for k := len(hops) - 1; k >= 0; k-- {
			hop := strings.TrimSpace(hops[k])
			a, err := netip.ParseAddr(hop)
			if err != nil {
				ap, err := netip.ParseAddrPort(hop)
				if err != nil {
					return netip.Addr{}, false
				}
				a = ap.Addr()
			}
			if a = a.Unmap(); !d.isProxy(a) {
				return canonical(a), true
			}
		}
	}
	return netip.Addr{}, false
}

// clientOf returns the client of a request. If the request came through a trusted proxy, clientOf
// holds a reference to the forwarded client until the reply has been sent.
func (d *connLimiter) clientOf(ctx *fasthttp.RequestCtx, c *conn) *client {
	if c == nil {
		return noClient
	}
	if !c.proxy {
		return c.client
	}
	a, ok := d.forwarded(ctx)
	if !ok {
		return c.client
	}
	if c.via == nil || c.via.addr != a {
		c.leaveProxied()
		d.mu.Lock()
		c.via = d.client(a)
		d.mu.Unlock()
	}
	return c.via
}

// client returns the client of an address and adds a reference to it. If no client has that
// address, client creates one. The caller holds mu.
func (d *connLimiter) client(a netip.Addr) *client {
	c := d.clients[a]
	if c == nil {
		c = &client{addr: a, loopback: a.IsLoopback() || !a.IsValid()}
		d.clients[a] = c
	}
	c.refs++
	return c
}

func (d *connLimiter) forget(c *client) {
	if c.refs--; c.refs > 0 {
		return
	}
	now := time.Now()
	if len(d.clients) > maxAddresses || !c.quota.inDebt(now) && !c.rate.inDebt(now) {
		delete(d.clients, c.addr)
		return
	}
	// A client that reconnects keeps its debts. So the client is kept until its debts are paid off
	// by time, at most for debtKept.
	c.refs++
	time.AfterFunc(debtKept, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if c.refs--; c.refs == 0 {
			delete(d.clients, c.addr)
		}
	})
}

const (
	maxAddresses = 100_000         // with more known addresses, closed clients keep no debt
	debtKept     = 5 * time.Second // maximum time for which a debt is kept after the last connection closed
)

// errBusy is the error of a request that exceeds a limit now. The same request may succeed when it
// is repeated later.
var errBusy = errors.New("too many requests")
