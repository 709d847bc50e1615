package rpc

import (
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/valyala/fasthttp"
)

const viewAccountBody = `{"jsonrpc":"2.0","id":"dontcare","method":"query","params":{"request_type":"view_account","finality":"final","account_id":"a12345.near"}}`

func benchServer(b *testing.B) *Server {
	n := &fakeNode{}
	n.state.account = &primitives.Account{Amount: primitives.NEAR(1000), StorageUsage: 182}
	return newServer(b, n, Options{Addr: "127.0.0.1:0"})
}

// BenchmarkAnswer is a call without HTTP and without a state.
func BenchmarkAnswer(b *testing.B) {
	s := benchServer(b)
	for _, c := range []struct{ name, body string }{
		{"method=query", viewAccountBody},
		{"method=block", `{"jsonrpc":"2.0","id":1,"method":"block","params":{"finality":"final"}}`},
		{"method=status", `{"jsonrpc":"2.0","id":1,"method":"status","params":[]}`},
		{"method=health", `{"jsonrpc":"2.0","id":1,"method":"health","params":[]}`},
		{"method=tx", `{"jsonrpc":"2.0","id":1,"method":"tx","params":["11111111111111111111111111111111","a.near"]}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			buf, body := make([]byte, 0, 16<<10), []byte(c.body)
			for b.Loop() {
				buf, _ = (&exchange{Server: s, client: noClient, max: 1 << 20}).answer(buf[:0], body, "")
			}
		})
	}
}

// BenchmarkHTTP is a call over loopback from 64 keep-alive connections; the clients run on the same
// cores.
func BenchmarkHTTP(b *testing.B) {
	s := benchServer(b)
	l, err := s.Listen()
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	defer l.Close()
	client := &fasthttp.HostClient{Addr: l.Addr().String(), MaxConns: 64}
	b.Run(fmt.Sprintf("method=query/connections=%d", 64), func(b *testing.B) {
		b.SetParallelism(32)
		b.RunParallel(func(p *testing.PB) {
			request, reply := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
			request.Header.SetMethod("POST")
			request.SetRequestURI("http://" + l.Addr().String() + "/")
			request.SetBodyString(viewAccountBody)
			for p.Next() {
				if err := client.Do(request, reply); err != nil || reply.StatusCode() != 200 {
					b.Errorf("error %v, status %d", err, reply.StatusCode())
					return
				}
			}
		})
	})
}

// BenchmarkParse is the scanner alone.
func BenchmarkParse(b *testing.B) {
	var d document
	body := []byte(viewAccountBody)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if err := d.parse(body); err != nil {
			b.Fatal(err.text)
		}
	}
}
