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

// client is an address and what it holds now. All connections of one IPv6 network of 64 bits are
// one address.
type client struct {
	addr        netip.Addr
	loopback    bool
	conns       int // under the door's lock, as refs
	refs        int // of connections and requests; 0: forgotten
	parked      atomic.Int64
	simulations atomic.Int64
	sockets     atomic.Int64
	subs        atomic.Int64 // subscriptions
	rate        rate
	inFlight    atomic.Int64 // bytes
	quota       workQuota
}

// noClient is the client of requests that come by no connection of a door: in tests.
var noClient = &client{loopback: true}

// most is what a limit by address allows this one; false: it does not hold.
func (c *client) most(l limits.ByAddress) (int64, bool) {
	return int64(min(l.Max, 1<<62)), !c.loopback || l.Loopback
}

// clientAddr is the address by which the other end of a connection is counted; zero for what has
// none.
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

// parseProxies reads addresses and networks (a.b.c.d, a.b.c.d/n, the same of IPv6).
func parseProxies(list []string) (out []netip.Prefix, err error) {
	for _, text := range list {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			a, err := netip.ParseAddr(text)
			if err != nil {
				return nil, fmt.Errorf("%q is no address and no network", text)
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

// forwarded finds out for whom a trusted proxy asks: the last address of X-Forwarded-For that is
// not a proxy of ours itself; what stands before that anybody may have written.
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

// clientOf returns whose request it is. Of a proxy's connection it is counted until the reply has
// been sent.
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

// client finds or makes an address's client and counts a reference; the lock is held.
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
	// Who comes back at once is not a new client. The address is kept until its debt is paid by
	// time, at the latest.
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
	maxAddresses = 100_000         // beyond so many, debts are forgotten
	debtKept     = 5 * time.Second // after the last connection
)

// errBusy is the refusal of what a limit does not let in now.
var errBusy = errors.New("too many requests")
