package network

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/chain/chunkparts"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/fair"
)

// Requests that need the store are answered outside the mailbox. The server schedules them fairly
// between peers, by the time that each peer's earlier requests took. The limits are neard's.
const (
	serverWorkers = 2
	maxRequests   = 2048 // maximum number of queued requests of all peers
	maxEach       = 128  // maximum number of queued requests of one peer; requests beyond it are dropped
	maxHeaders    = 512  // maximum number of headers in one answer
)

// server answers requests of peers from the store.
type server struct {
	e     *engine.Engine
	host  *tcp.Server
	pass  func(near.Deliver) // passes a request to the actor if the store has no answer
	front *Status
	state *stateServer

	mu     sync.Mutex
	wake   *sync.Cond
	queue  fair.Queue[near.Deliver]
	each   map[wire.PeerID]int
	closed bool
}

func newServer(e *engine.Engine, host *tcp.Server, pass func(near.Deliver), f *Status) *server {
	s := &server{e: e, host: host, pass: pass, front: f, state: newStateServer(e, host, f), each: map[wire.PeerID]int{},
		queue: fair.Queue[near.Deliver]{Limit: maxRequests}}
	s.wake = sync.NewCond(&s.mu)
	return s
}

// put queues a request. put does not block.
func (s *server) put(d near.Deliver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.each[d.From] >= maxEach || !s.queue.Push(clientOf(d.From), d) {
		s.front.dropped.Add(1)
		return
	}
	s.each[d.From]++
	s.wake.Signal()
}

func clientOf(id wire.PeerID) fair.Client {
	c := fair.Client{}
	if id != "" { // the empty id stands for this node
		copy(c.Address[:], id.Raw())
	}
	return c
}

func (s *server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.wake.Broadcast()
}

// next waits for a request. ok is false once the server is closed.
func (s *server) next() (d near.Deliver, c fair.Client, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed {
		if d, c, ok = s.queue.Pop(); ok {
			if s.each[d.From]--; s.each[d.From] == 0 {
				delete(s.each, d.From)
			}
			return d, c, true
		}
		s.wake.Wait()
	}
	return d, c, false
}

func (s *server) run(ctx context.Context) {
	// The server has its own chunk pool, which only encodes stored chunks again. The chunks that
	// are not stored yet are in the actor's pool.
	coder := chunkparts.New("", s.e.ChunkPartsView(s.e.FindChunk), s.e.Coding(), primitives.Signature.Verify,
		func(int) int { return 0 })
	for {
		d, c, ok := s.next()
		if !ok || ctx.Err() != nil {
			return
		}
		begun := time.Now()
		s.serve(coder, &d)
		s.mu.Lock()
		s.queue.Charge(c, int64(time.Since(begun)))
		s.mu.Unlock()
	}
}

// serve answers a request from the store. If the store has no response to a chunk request, serve
// passes the request to the actor. Any other request without a stored response gets no response. A
// panic fails only that request.
func (s *server) serve(coder *chunkparts.Pool, d *near.Deliver) {
	defer s.front.recovered("a request")
	switch m := d.Msg.(type) {
	case *wire.BlockRequest:
		if b, err := s.e.WholeBlock(m.Hash); err == nil {
			s.host.Post(near.ToPeer{Peer: d.From, Msg: &wire.Block{Block: b}})
		}
	case *wire.HeadersRequest:
		if list, err := s.e.HeadersAfter(m.Hashes, maxHeaders); err == nil {
			s.host.Post(near.ToPeer{Peer: d.From, Msg: &wire.Headers{Headers: list}})
		}
	case *wire.EpochSyncRequest, *wire.StateHeaderRequest, *wire.StatePartRequest:
		s.state.serve(d)
	case *wire.Routed:
		// As in neard, there is no answer if the transaction is unknown.
		if q, ok := m.Body.(*wire.TxStatusRequest); ok {
			if raw, err := s.e.AnswerTxStatus(q.Hash, q.Signer); err == nil && len(raw) <= maxStatus {
				s.host.Post(near.RouteTo{Target: wire.RouteBack(m.Hash()), Body: &wire.TxStatusResponse{Outcome: raw}})
			}
			break
		}
		body, ok := m.Body.(*wire.ChunkRequest)
		if !ok {
			s.state.serve(d)
			break
		}
		q := &body.ChunkRequest
		out, err := coder.Step(0, chunkparts.Request{ChunkRequest: q, From: m.Hash()})
		if err != nil || len(out.Answer) == 0 || len(out.Answer[0].Body.Parts)+len(out.Answer[0].Body.Receipts) == 0 {
			s.pass(*d)
			return
		}
		s.host.Post(near.RouteTo{Target: wire.RouteBack(m.Hash()),
			Body: &wire.ChunkResponse{ChunkResponse: *out.Answer[0].Body}})
	}
	s.front.served.Add(1)
}
