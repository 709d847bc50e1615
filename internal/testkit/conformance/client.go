package conformance

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"
)

// InProcess returns a client of the HTTP server serve, over connections in memory. The returned
// function closes the listener, which ends serve.
func InProcess(serve func(net.Listener) error) (Client, func()) {
	l := fasthttputil.NewInmemoryListener()
	go func() { _ = serve(l) }() // ends when the listener is closed
	return OverConn(l.Dial), func() { l.Close() }
}

// OverConn returns a client that opens a connection for each request, writes plain HTTP/1.1 and
// reads the reply.
func OverConn(dial func() (net.Conn, error)) Client {
	return func(r Request) (Reply, error) {
		c, err := dial()
		if err != nil {
			return Reply{}, err
		}
		defer c.Close()
		var b bytes.Buffer
		fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", r.Method, r.Path)
		for k, v := range r.Headers {
			fmt.Fprintf(&b, "%s: %s\r\n", k, v)
		}
		if r.Method == fasthttp.MethodPost || r.Method == fasthttp.MethodPut || r.Body != "" {
			fmt.Fprintf(&b, "Content-Length: %d\r\n", len(r.Body))
		}
		b.WriteString("\r\n" + r.Body)
		written := make(chan struct{})
		go func() {
			_, _ = c.Write(b.Bytes()) // a server may answer before it has read everything
			close(written)
		}()
		reply, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: r.Method})
		if err != nil {
			return Reply{}, err
		}
		body, err := io.ReadAll(reply.Body)
		out := Reply{Status: reply.StatusCode, Headers: map[string]string{}, Body: string(body)}
		for k, v := range reply.Header {
			out.Headers[strings.ToLower(k)] = strings.Join(v, ", ")
		}
		c.Close()
		<-written
		return out, err
	}
}
