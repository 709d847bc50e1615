package daemon

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/troupe-chain/troupe/net/near/tcp"
)

// ports are the listeners of a node; nil: none.
type ports struct{ rpc, metrics, network net.Listener }

// bind opens the listeners of a node before anything else starts.
func bind(o *Options) (*ports, error) {
	c, p := o.Home.Config, &ports{}
	if addr := networkAddr(&c.Network); addr != "" {
		var err error
		if p.network, err = listen("network.addr", addr, "--network-addr, or network.addr"); err != nil {
			return nil, err
		}
	}
	if c.RPC == nil || o.NoRPC {
		return p, nil
	}
	key, addr := "rpc.addr", c.RPC.Addr
	if o.Listen != "" {
		key, addr = "--rpc-addr", o.Listen
	}
	var err error
	if p.rpc, err = listen(key, addr, "--rpc-addr, or rpc.addr"); err != nil {
		p.close()
		return nil, err
	}
	if m := c.RPC.PrometheusAddr; m != "" && m != addr {
		key = "rpc.prometheus_addr"
		if o.Metrics {
			key = "--rpc-prometheus-addr"
		}
		if p.metrics, err = listen(key, m, "--rpc-prometheus-addr, or rpc.prometheus_addr"); err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

func (p *ports) close() {
	for _, l := range []net.Listener{p.rpc, p.metrics, p.network} {
		if l != nil {
			_ = l.Close()
		}
	}
}

// listen binds addr, the value of key. If the port is in use, the error names the settings to
// change.
func listen(key, addr, instead string) (net.Listener, error) {
	l, err := tcp.Bind(addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, &inUseError{fmt.Sprintf(
			"%s: %s is in use; stop the process that listens there, or choose another port with %s in config.json", key, addr, instead)}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return l, nil
}

// inUseError says that another process listens on an address. errors.Is reports it as
// syscall.EADDRINUSE.
type inUseError struct{ text string }

func (e *inUseError) Error() string { return e.text }
func (e *inUseError) Unwrap() error { return syscall.EADDRINUSE }

// URL returns the URL by which a client on this machine reaches a listener's address.
func URL(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "http://" + addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}
