//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// tenMegabytes is the size of the largest body that the node accepts, less room for the envelope.
const tenMegabytes = 10<<20 - 1000

// floodAttacks make the node parse, copy and echo as much as possible. Each connection has an
// address of its own, so the limits by address do not bound an attack as a whole.
var floodAttacks = []attack{
	{"long ids", func(ctx context.Context, a *arms) {
		a.bombard(ctx, 20, 4, "", `{"jsonrpc":"2.0","method":"health","params":[],"id":"`+strings.Repeat(`\"\u0001xy`, tenMegabytes/10)+`"}`)
	}},
	{"bodies of ten megabytes", func(ctx context.Context, a *arms) {
		a.bombard(ctx, 21, 4, "", `{"jsonrpc":"2.0","id":1,"method":"gas_price","params":["`+strings.Repeat("x", tenMegabytes)+`"]}`)
	}},
	{"deep nesting", func(ctx context.Context, a *arms) {
		one := strings.Repeat("[", 120) + strings.Repeat(" ", 12_000) + strings.Repeat("]", 120) + ","
		a.bombard(ctx, 22, 4, "", `{"jsonrpc":"2.0","id":1,"method":"gas_price","params":[`+strings.Repeat(one, 800)+`0]}`)
	}},
	{"long unknown methods", func(ctx context.Context, a *arms) {
		a.bombard(ctx, 23, 4, "", `{"jsonrpc":"2.0","id":1,"params":[],"method":"`+strings.Repeat(`\u0061`, tenMegabytes/6)+`"}`)
	}},
	{"large batches", func(ctx context.Context, a *arms) {
		one := rpcBody(strings.Repeat("m", 50_000), `["`+strings.Repeat("p", 50_000)+`"]`)
		a.bombard(ctx, 24, 4, "", "["+strings.Repeat(one+",", 99)+one+"]")
	}},
	{"slow requests", func(ctx context.Context, a *arms) {
		a.apart(ctx, 25, 1000, func(from string, _ int) {
			c, err := a.dial(ctx, from)
			if err != nil {
				pause(ctx, 100*time.Millisecond)
				return
			}
			defer c.Close()
			_, err = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
			for ; err == nil && ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
				_, err = io.WriteString(c, " ")
			}
		})
	}},
	{"new connections", func(ctx context.Context, a *arms) {
		a.apart(ctx, 26, 64, func(from string, _ int) {
			c, err := a.dial(ctx, from)
			if err != nil {
				pause(ctx, 100*time.Millisecond)
				return
			}
			defer c.Close()
			_, _ = io.WriteString(c, "GET /status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			answer(c)
		})
	}},
	{"connections of one request", func(ctx context.Context, a *arms) {
		a.hurry(ctx, 32, 64, request(costly, "Connection: close\r\n"), func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	}},
	{"connections of one pipeline", func(ctx context.Context, a *arms) {
		a.hurry(ctx, 33, 64, strings.Repeat(request(costly, ""), 40), func(c net.Conn) {
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c)
		})
	}},
	{"connections that are reset", func(ctx context.Context, a *arms) {
		a.hurry(ctx, 34, 64, strings.Repeat(request(costly, ""), 40), func(c net.Conn) {
			pause(ctx, time.Millisecond)
			_ = c.(*net.TCPConn).SetLinger(0)
		})
	}},
	{"pipelines", func(ctx context.Context, a *arms) {
		a.hurry(ctx, 35, 64, "", func(c net.Conn) {
			go func() { _, _ = io.Copy(io.Discard, c) }()
			for many := []byte(strings.Repeat(request(costly, ""), 40)); ctx.Err() == nil; {
				if _, err := c.Write(many); err != nil {
					return
				}
			}
		})
	}},
	{"compressed replies", func(ctx context.Context, a *arms) {
		a.bombard(ctx, 27, 8, "Accept-Encoding: gzip\r\n", rpcBody("query", `{"request_type":"view_code","finality":"final","account_id":"`+a.Large+`"}`))
	}},
	{"replies that are never read", func(ctx context.Context, a *arms) {
		a.apart(ctx, 28, 32, func(from string, _ int) {
			c, err := a.dial(ctx, from)
			if err != nil {
				pause(ctx, 100*time.Millisecond)
				return
			}
			defer c.Close()
			_ = c.(*net.TCPConn).SetReadBuffer(4096)
			post(c, a.codeBatch())
			pause(ctx, 500*time.Millisecond)
		})
	}},
	{"floods by WebSocket", func(ctx context.Context, a *arms) {
		many := rpcBody("health", "[]")
		a.apart(ctx, 29, 64, func(from string, i int) {
			c := a.socket(ctx, from)
			if c == nil {
				pause(ctx, 100*time.Millisecond)
				return
			}
			defer c.Close()
			if i%2 == 0 {
				_ = c.(*net.TCPConn).SetReadBuffer(1 << 20)
				go func() { _, _ = io.Copy(io.Discard, c) }()
			}
			for ctx.Err() == nil && text(c, many) == nil {
			}
		})
	}},
	{"invalid JSON", func(ctx context.Context, a *arms) {
		a.bombard(ctx, 30, 4, "", `{"jsonrpc":"2.0","id":1,"method":"gas_price","params":[`+strings.Repeat("1", tenMegabytes/2)+`e-10,"`+strings.Repeat("ä", tenMegabytes/4)+"\n")
	}},
	{"floods of headers", func(ctx context.Context, a *arms) {
		var head strings.Builder
		for i := range 350 {
			fmt.Fprintf(&head, "X-%d: %d\r\n", i, i*i)
		}
		request := []byte("GET /status HTTP/1.1\r\nHost: x\r\n" + head.String() + "\r\n")
		a.apart(ctx, 31, 64, func(from string, _ int) {
			c, err := a.dial(ctx, from)
			if err != nil {
				pause(ctx, 100*time.Millisecond)
				return
			}
			defer c.Close()
			defer context.AfterFunc(ctx, func() { c.Close() })()
			go func() { _, _ = io.Copy(io.Discard, c) }()
			for ctx.Err() == nil {
				if _, err := c.Write(request); err != nil {
					return
				}
			}
		})
	}},
}

// costly is the short body whose reply takes the most time without counting as heavy work.
var costly = rpcBody("EXPERIMENTAL_protocol_config", `{"finality":"final"}`)

// request returns an HTTP request with a JSON-RPC call and additional headers.
func request(body, headers string) string {
	return fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s", headers, len(body), body)
}

// hurry keeps opening n connections, sends a text on each, and then calls rest.
func (a *arms) hurry(ctx context.Context, at, n int, send string, rest func(net.Conn)) {
	a.apart(ctx, at, n, func(from string, _ int) {
		c, err := a.dial(ctx, from)
		if err != nil {
			pause(ctx, 10*time.Millisecond)
			return
		}
		defer c.Close()
		defer context.AfterFunc(ctx, func() { c.Close() })()
		if _, err := io.WriteString(c, send); err == nil {
			rest(c)
		}
	})
}

// apart is each with an address of its own for each of up to 250 goroutines.
func (a *arms) apart(ctx context.Context, net, n int, do func(from string, i int)) {
	a.each(ctx, net, n, func(_ string, i int) { do(fmt.Sprintf("127.0.%d.%d", net, 1+i%250), i) })
}

// bombard sends the same request on n connections, each as soon as the previous one is answered.
func (a *arms) bombard(ctx context.Context, net, n int, headers, body string) {
	request := fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s", headers, len(body), body)
	a.apart(ctx, net, n, func(from string, _ int) {
		c, err := a.dial(ctx, from)
		if err != nil {
			pause(ctx, 100*time.Millisecond)
			return
		}
		defer c.Close()
		defer context.AfterFunc(ctx, func() { c.Close() })()
		for in := bufio.NewReader(c); ctx.Err() == nil; {
			_ = c.SetDeadline(time.Now().Add(30 * time.Second))
			if _, err := c.Write(request); err != nil || !discard(in) {
				return
			}
		}
	})
}

// serveTrivially discards every request and answers it with the same short reply. This is the least
// that any server on this machine must do. The latency of an honest client of this server under an
// attack is the machine's share of the node's.
func serveTrivially(l net.Listener) {
	reply := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2000\r\n\r\n" + strings.Repeat(" ", 2000))
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			in, buffer := bufio.NewReader(c), make([]byte, 64<<10)
			for {
				length, upgrade := 0, false
				for first := true; ; first = false {
					line, err := in.ReadSlice('\n')
					if err != nil {
						return
					}
					if line = bytes.TrimSpace(line); len(line) == 0 && !first {
						break
					}
					if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
						length, _ = strconv.Atoi(string(v))
					}
					upgrade = upgrade || bytes.HasPrefix(line, []byte("Upgrade:"))
				}
				if upgrade {
					if _, err := io.WriteString(c, "HTTP/1.1 101 "+http.StatusText(101)+"\r\n\r\n"); err != nil {
						return
					}
					_, _ = io.CopyBuffer(io.Discard, in, buffer)
					return
				}
				for length > 0 {
					n, err := in.Read(buffer[:min(length, len(buffer))])
					if length -= n; err != nil {
						return
					}
				}
				if _, err := c.Write(reply); err != nil {
					return
				}
			}
		}()
	}
}
