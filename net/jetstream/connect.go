package jetstream

import (
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupe-chain/troupe/primitives"
)

// Link is how a server is reached.
type Link struct {
	Server *Server // inside of the process; nil: by URL
	URL    string  // nats://[token@]host:port, several separated by commas
	Token  string  // of the server; empty: as URL says
	Name   string  // what the connection calls itself
}

// Times of connections.
const (
	reconnectWait = 250 * time.Millisecond
	pingInterval  = 5 * time.Second
	askTimeout    = 5 * time.Second
)

// connect makes a connection that comes again by itself for ever. What can't be sent meanwhile
// fails at once.
func (l *Link) connect(more ...nats.Option) (*nats.Conn, error) {
	o := append([]nats.Option{
		nats.Name(l.Name), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait), nats.ReconnectJitter(reconnectWait/2, reconnectWait),
		nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(2), nats.ReconnectBufSize(-1), nats.Timeout(2 * time.Second),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // each is also where it matters
	}, more...)
	switch {
	case l.Server != nil:
		o = append(o, l.Server.inside()...)
	case l.Token != "":
		o = append(o, nats.Token(l.Token))
	}
	return nats.Connect(l.URL, o...)
}

// Names are those of a chain on a server.
type Names struct {
	Stream       string
	Records      string // the subject of the stream
	Transactions string // requests: a transaction
	Snapshots    string // requests: a piece of a snapshot
	Indexer      string // the stream of blocks in JSON
	Blocks       string // and its subject
}

// NamesOf makes them. Chains of one name and another genesis have other ones.
func NamesOf(chainID string, genesis primitives.Hash) Names {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, chainID)
	id := clean + "-" + genesis.String()[:8]
	return Names{Stream: "troupe-" + id, Records: "troupe." + id + ".records", Transactions: "troupe." + id + ".transactions", Snapshots: "troupe." + id + ".snapshots",
		Indexer: "troupe-" + id + "-blocks", Blocks: "troupe." + id + ".blocks"}
}
