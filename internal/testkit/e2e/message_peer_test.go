//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// messagePeer is a new peer of one node that sends a single message. A new one is needed for each
// message, because a node bans a peer that sends invalid data by its node key.
type messagePeer struct {
	conn   net.Conn
	closed atomic.Bool // by the node
}

// messagePeers counts them.
var messagePeers atomic.Int64

// newMessagePeer connects to a node as a peer.
func newMessagePeer(t *testing.T, s nodeHome, genesis wire.GenesisID) (*messagePeer, error) {
	t.Helper()
	key := primitives.SecretKeyFromSeed(primitives.ED25519, fmt.Sprintf("teller %d at %d", messagePeers.Add(1), time.Now().UnixNano()))
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(proxyAddr)}, Timeout: 5 * time.Second}
	conn, err := d.Dial("tcp", s.network)
	if err != nil {
		return nil, err
	}
	x := &messagePeer{conn: conn}
	t.Cleanup(func() { _ = conn.Close() })
	to := keyOf(t, s.home)
	hello := &wire.Handshake{Tier: wire.T2, Version: 86, Oldest: 83, Sender: key.PublicKey(), Target: to, ListenPort: 1, Chain: wire.ChainInfo{Genesis: genesis},
		PartialEdge: wire.SignEdge(key, to, wire.FreshNonce(time.Now().Unix()))}
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if err := writeFrame(conn, wire.Append(nil, hello)); err != nil {
		return nil, err
	}
	frame, err := readFrame(conn)
	if err != nil {
		return nil, err
	}
	m, err := wire.Decode(frame)
	if err != nil {
		return nil, err
	}
	if _, ok := m.(*wire.Handshake); !ok {
		return nil, fmt.Errorf("instead of a handshake: %T %+v", m, m)
	}
	_ = conn.SetDeadline(time.Time{})
	go func() {
		for {
			if _, err := readFrame(conn); err != nil {
				x.closed.Store(true)
				return
			}
		}
	}()
	return x, nil
}

// send sends a message.
func (x *messagePeer) send(frame []byte) error {
	_ = x.conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
	return writeFrame(x.conn, frame)
}
