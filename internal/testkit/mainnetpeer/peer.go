package mainnetpeer

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// maxHeaders is the number of headers in an answer of neard (MAX_BLOCK_HEADERS).
const maxHeaders = 512

// PeerOptions configure a Peer.
type PeerOptions struct {
	Name string // the node key depends on it
	// Proof is the answer to requests for a proof. nil: no answer.
	Proof []byte
	// Node is a node that the peer dials. nil: the peer waits for connections.
	Node *wire.PeerInfo
	// Genesis is the hash in handshakes. Zero: that of the chain.
	Genesis primitives.Hash
	// Head is the block that the peer announces. nil: the head of the chain.
	Head *primitives.Block
}

// Peer serves a Chain. It answers requests for a proof, for headers and for peers, and no others.
type Peer struct {
	// Proofs counts requests for a proof, Headers requests for headers, Others other requests.
	Proofs, Headers, Others atomic.Int64
	// Lowest is the number of headers before the lowest answer since it was set, -1: none.
	Lowest atomic.Int64
	// Limit is the number of headers that the peer has. Requests for further ones get no answer.
	Limit atomic.Int64

	c      *Chain
	o      PeerOptions
	server *tcp.Server
	cancel context.CancelFunc
	group  sync.WaitGroup
	asked  chan near.Deliver
}

// Serve starts a peer on a free loopback port. The caller closes it.
func (c *Chain) Serve(o PeerOptions) (*Peer, error) {
	if o.Genesis.IsZero() {
		o.Genesis = c.GenesisHash
	}
	if o.Head == nil {
		o.Head = c.Head
	}
	p := &Peer{c: c, o: o, asked: make(chan near.Deliver, 1024)}
	p.Limit.Store(int64(c.Len()))
	p.Lowest.Store(-1)
	config := near.Config{
		Key: primitives.SecretKeyFromSeed(primitives.ED25519, o.Name), Genesis: wire.GenesisID{ChainID: c.config.ChainID, Hash: o.Genesis},
		Version: uint32(parameters.Newest(primitives.NumberingRelease)), Oldest: uint32(parameters.OldestProtocol),
		ListenAddr: netip.MustParseAddrPort("127.0.0.1:0"), OnlyBoot: true,
	}
	if o.Node != nil {
		config.Boot = []wire.PeerInfo{*o.Node}
	}
	server, err := tcp.Listen(config, p.deliver, func(j near.VerifyAnnouncements) near.AnnouncementsVerified {
		return near.AnnouncementsVerified{From: j.From}
	})
	if err != nil {
		return nil, err
	}
	p.server = server
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.group.Go(func() { _ = server.Run(ctx) }) // ends by cancel, or the test sees no peer
	p.group.Go(func() { p.answer(ctx) })
	server.Post(near.Head{Block: o.Head})
	return p, nil
}

// Close closes all connections.
func (p *Peer) Close() {
	p.cancel()
	p.group.Wait()
}

// Info returns how nodes reach the peer.
func (p *Peer) Info() wire.PeerInfo {
	return wire.PeerInfo{ID: primitives.SecretKeyFromSeed(primitives.ED25519, p.o.Name).PublicKey(), Addr: p.server.Addr()}
}

// Connected returns the number of connected nodes.
func (p *Peer) Connected() int { return len(p.server.Info().Peers) }

// deliver passes a message to answer, because the server must not wait for the file.
func (p *Peer) deliver(d near.Deliver) {
	select {
	case p.asked <- d:
	default: // as in neard, a request that does not fit into the queue gets no answer
	}
}

func (p *Peer) answer(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-p.asked:
			switch m := d.Msg.(type) {
			case *wire.EpochSyncRequest:
				p.Proofs.Add(1)
				if p.o.Proof != nil {
					p.server.Post(near.ToPeer{Peer: d.From, Msg: &wire.EpochSyncResponse{Compressed: p.o.Proof}})
				}
			case *wire.HeadersRequest:
				p.Headers.Add(1)
				p.headers(d.From, m.Hashes)
			case *wire.BlockRequest, *wire.StateHeaderRequest, *wire.StatePartRequest, *wire.Routed:
				p.Others.Add(1)
			}
		}
	}
}

// headers answers a request for headers.
func (p *Peer) headers(to wire.PeerID, locator []primitives.Hash) {
	list, from, err := p.c.After(locator, maxHeaders)
	if err != nil || int64(from+len(list)) > p.Limit.Load() {
		return
	}
	if low := p.Lowest.Load(); low < 0 || int64(from) < low {
		p.Lowest.Store(int64(from))
	}
	p.server.Post(near.ToPeer{Peer: to, Msg: &wire.Headers{Headers: list}})
}
