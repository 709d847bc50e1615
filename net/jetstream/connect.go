package jetstream

import (
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupe-chain/troupe/primitives"
)

// Link says how to connect to a server.
type Link struct {
	Server *Server // NATS server in this process; nil: connect to URL
	URL    string  // nats://[token@]host:port, or several URLs separated by commas
	Token  string  // token for the server; empty: the token in URL
	Name   string  // name under which the server lists the connection
}

// Intervals and timeouts of connections.
const (
	reconnectWait = 250 * time.Millisecond
	pingInterval  = 5 * time.Second
	askTimeout    = 5 * time.Second
)

// connect connects to a server, and reconnects forever. Without a connection, requests fail at
// once.
func (l *Link) connect(more ...nats.Option) (*nats.Conn, error) {
	o := append([]nats.Option{
		nats.Name(l.Name), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait), nats.ReconnectJitter(reconnectWait/2, reconnectWait),
		nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(2), nats.ReconnectBufSize(-1), nats.Timeout(2 * time.Second),
		// Without a handler, the library prints asynchronous errors. The calls that they affect
		// also return errors.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, more...)
	switch {
	case l.Server != nil:
		o = append(o, l.Server.inProcess()...)
	case l.Token != "":
		o = append(o, nats.Token(l.Token))
	}
	return nats.Connect(l.URL, o...)
}

// Names are the stream names and subjects of a chain on a server.
type Names struct {
	Stream       string
	Records      string // NATS subject of the messages in Stream
	Transactions string // NATS subject to which replicas send transactions
	Snapshots    string // NATS subject to which replicas send requests for pieces of a snapshot
	Indexer      string // name of the stream of blocks as JSON
	Blocks       string // NATS subject of the messages in Indexer
}

// NamesOf returns the names of a chain. Chains with the same id and different genesis hashes have
// different names.
func NamesOf(chainID string, genesis primitives.Hash) Names {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, chainID)
	id := clean + "-" + genesis.String()[:8]
	return Names{
		Stream:       "troupe-" + id,
		Records:      "troupe." + id + ".records",
		Transactions: "troupe." + id + ".transactions",
		Snapshots:    "troupe." + id + ".snapshots",
		Indexer:      "troupe-" + id + "-blocks",
		Blocks:       "troupe." + id + ".blocks",
	}
}
