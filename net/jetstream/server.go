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

// ServerOptions configures a server in this process.
type ServerOptions struct {
	Dir      string // folder in which the server stores its streams
	Listen   string // host:port; empty: only this process can connect
	Token    string // token for other processes; empty: no token, allowed on loopback only
	MaxBytes int64  // maximum size of all streams together in bytes

	secret string // password of connections within the process; empty: random
}

// Server is a NATS server in this process. This process has all permissions. Other processes may
// follow streams and send the requests of replicas.
type Server struct {
	s      *server.Server
	secret string
}

// ErrOpen means that any host could connect to the server.
var ErrOpen = errors.New("any host that reaches the address could connect: set troupe.jetstream.token, here and at " +
	"the replicas, or listen on a loopback address like 127.0.0.1:4222")

// inProcessUser is the user name of this process.
const inProcessUser = "inside"

// authenticator sets the permissions of connections.
type authenticator struct{ secret, token string }

// Check implements server.Authentication.
func (g *authenticator) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	if o.Username == inProcessUser {
		return equal(o.Password, g.secret)
	}
	if g.token != "" && !equal(o.Token, g.token) {
		return false
	}
	c.RegisterUser(&server.User{Username: "replica", Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{
			Allow: []string{"troupe.*.transactions", "troupe.*.snapshots", "$JS.API.INFO", "$JS.API.STREAM.INFO.*",
				"$JS.API.CONSUMER.CREATE.>", "$JS.API.CONSUMER.DELETE.>", "$JS.API.CONSUMER.INFO.>", "$JS.API.CONSUMER.MSG.NEXT.>"},
		},
		Subscribe: &server.SubjectPermission{Allow: []string{nats.InboxPrefix + ">"}},
	}})
	return true
}

// equal compares in constant time.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// Limits of a server, and the timeout of its start.
const (
	serverStart = 10 * time.Second
	maxPayload  = 4 << 20
	// maxConsumers bounds the consumers of a stream. Every client with the token can create
	// consumers, and consumers take memory of this process.
	maxConsumers = 1024
)

// StartServer starts a server. Close ends it.
func StartServer(o ServerOptions) (*Server, error) {
	if o.secret == "" {
		o.secret = rand.Text()
	}
	so := &server.Options{
		ServerName: "troupe", JetStream: true, StoreDir: o.Dir, JetStreamMaxStore: o.MaxBytes, JetStreamMaxMemory: 16 << 20,
		MaxPayload: maxPayload,
		NoSigs:     true, NoLog: true, DontListen: o.Listen == "", WriteDeadline: 10 * time.Second,
		CustomClientAuthentication: &authenticator{o.secret, o.Token},
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
		// Try to listen first, because the NATS server ends the process if it cannot listen.
		l, err := net.Listen("tcp", o.Listen)
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
		return nil, fmt.Errorf("jetstream: the embedded server accepts no connections after %v", serverStart)
	}
	if !s.JetStreamEnabled() {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, fmt.Errorf("jetstream: the server cannot store streams in %s", o.Dir)
	}
	if err := s.GlobalAccount().UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": {
		MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: maxConsumers, MaxAckPending: -1, MemoryMaxStreamBytes: -1,
		StoreMaxStreamBytes: -1,
	}}); err != nil {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, fmt.Errorf("jetstream: %w", err)
	}
	return &Server{s, o.secret}, nil
}

// Addr returns the listening address, or nil if the server does not listen.
func (s *Server) Addr() net.Addr { return s.s.Addr() }

// URL returns the URL for other processes. URL returns "" if the server does not listen.
func (s *Server) URL() string {
	if a := s.Addr(); a != nil {
		return "nats://" + a.String()
	}
	return ""
}

// inProcess returns the options of a connection within the process.
func (s *Server) inProcess() []nats.Option {
	return []nats.Option{nats.InProcessServer(s.s), nats.UserInfo(inProcessUser, s.secret)}
}

// Close shuts the server down and waits until the server has ended.
func (s *Server) Close() {
	s.s.Shutdown()
	s.s.WaitForShutdown()
}
