package jetstream

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// ServerOptions are what a server inside of the process works with.
type ServerOptions struct {
	Dir      string // where its streams lie
	Listen   string // host:port for others; empty: nobody connects but this process
	Token    string // that others must have; empty: none, which goes on this machine alone
	MaxBytes int64  // of all streams

	secret string // of who may do anything; empty: drawn
}

// Server is a NATS server inside of the process. This process may do anything at it; others may
// follow streams, and ask what replicas ask.
type Server struct {
	s      *server.Server
	secret string
}

// ErrOpen says that anybody could connect to a server.
var ErrOpen = errors.New("anybody who reaches it could connect; set troupe.jetstream.token, here and at the replicas, or listen on this machine alone, like 127.0.0.1:4222")

// insider is this process, among users of the server.
const insider = "inside"

// gate says who may do what.
type gate struct{ secret, token string }

// Check is part of server.Authentication.
func (g *gate) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	if o.Username == insider {
		return equal(o.Password, g.secret)
	}
	if g.token != "" && !equal(o.Token, g.token) {
		return false
	}
	c.RegisterUser(&server.User{Username: "replica", Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{"troupe.*.transactions", "troupe.*.snapshots", "$JS.API.INFO", "$JS.API.STREAM.INFO.*",
			"$JS.API.CONSUMER.CREATE.>", "$JS.API.CONSUMER.DELETE.>", "$JS.API.CONSUMER.INFO.>", "$JS.API.CONSUMER.MSG.NEXT.>"}},
		Subscribe: &server.SubjectPermission{Allow: []string{nats.InboxPrefix + ">"}},
	}})
	return true
}

// equal compares in a time that tells nothing.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// What a server gets to begin, and to end.
const (
	serverStart = 10 * time.Second
	maxPayload  = 4 << 20
	// maxConsumers bounds those of a stream, which take memory of the node's process: who has the
	// token may make them.
	maxConsumers = 1024
)

// StartServer starts one.
func StartServer(o ServerOptions) (*Server, error) {
	if o.secret == "" {
		o.secret = rand.Text()
	}
	so := &server.Options{
		ServerName: "troupe", JetStream: true, StoreDir: o.Dir, JetStreamMaxStore: o.MaxBytes, JetStreamMaxMemory: 16 << 20, MaxPayload: maxPayload,
		NoSigs: true, NoLog: true, DontListen: o.Listen == "", WriteDeadline: 10 * time.Second,
		CustomClientAuthentication: &gate{o.secret, o.Token},
	}
	if o.Listen != "" {
		host, port, err := net.SplitHostPort(o.Listen)
		if err == nil {
			so.Port, err = strconv.Atoi(port)
		}
		if err != nil {
			return nil, fmt.Errorf("jetstream: listen on %q: %w", o.Listen, err)
		}
		if so.Host = host; so.Port == 0 {
			so.Port = server.RANDOM_PORT
		}
		l, err := net.Listen("tcp", o.Listen) // the server itself would end the process
		if err != nil {
			return nil, fmt.Errorf("jetstream: %w", err)
		}
		a, ok := l.Addr().(*net.TCPAddr)
		_ = l.Close()
		if o.Token == "" && !(ok && a.IP.IsLoopback()) {
			return nil, fmt.Errorf("jetstream: listen on %s: %w", o.Listen, ErrOpen)
		}
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	s, err := server.NewServer(so)
	if err != nil {
		return nil, fmt.Errorf("jetstream: %w", err)
	}
	s.Start()
	if !s.ReadyForConnections(serverStart) {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, errors.New("jetstream: the server does not begin to work")
	}
	if !s.JetStreamEnabled() {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, fmt.Errorf("jetstream: the server does not keep streams in %s", o.Dir)
	}
	if err := s.GlobalAccount().UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": {
		MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: maxConsumers, MaxAckPending: -1, MemoryMaxStreamBytes: -1, StoreMaxStreamBytes: -1,
	}}); err != nil {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, fmt.Errorf("jetstream: %w", err)
	}
	return &Server{s, o.secret}, nil
}

// Addr is where it listens; nil: it does not.
func (s *Server) Addr() net.Addr { return s.s.Addr() }

// URL is how others reach it; empty: they can't.
func (s *Server) URL() string {
	if a := s.Addr(); a != nil {
		return "nats://" + a.String()
	}
	return ""
}

// inside has a connection stay in the process.
func (s *Server) inside() []nats.Option {
	return []nats.Option{nats.InProcessServer(s.s), nats.UserInfo(insider, s.secret)}
}

// Close ends it.
func (s *Server) Close() {
	s.s.Shutdown()
	s.s.WaitForShutdown()
}
