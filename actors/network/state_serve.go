package network

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/chain/statesync"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/metrics"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// Limits of answered state requests, for all peers together (nearcore
// state_requests_per_throttle_period, chain/client/src/state_request_actor.rs).
const (
	stateRequests  = 30
	statePeriod    = 30 * time.Second
	maxStateHeader = 256 // maximum number of cached state headers
)

// stateServer serves nodes that are far behind: epoch sync proofs, and states at sync blocks.
// Called on goroutines of the server.
type stateServer struct {
	e     *engine.Engine
	host  *tcp.Server
	front *Status // counts the answers

	proofMu  sync.Mutex // held while a proof is made
	proofOf  primitives.Hash
	proof    []byte
	proofErr error

	mu         sync.Mutex
	snapshots  []*engine.ServedSnapshot
	answeredAt []time.Time // times of the answers to state requests in the last statePeriod
	headers    map[stateKey]*primitives.StateHeader
}

// statePartTime is nearcore's histogram (chain/chain/src/metrics.rs).
var statePartTime = &metrics.Family{Name: "near_state_part_elapsed_sec", Kind: metrics.Histogram, Labels: []string{"shard_id"}, Per: 1e9,
	Bounds: metrics.Exponential(0.001, 1.6, 20), Help: "Time needed to create a state part"}

type stateKey struct {
	sync  primitives.Hash
	shard primitives.ShardID
}

func newStateServer(e *engine.Engine, host *tcp.Server, front *Status) *stateServer {
	return &stateServer{e: e, host: host, front: front, headers: map[stateKey]*primitives.StateHeader{}}
}

// setSnapshots sets the served state snapshots. It announces the newest snapshot if the previous
// announcement was of another snapshot or of fewer shards.
func (p *stateServer) setSnapshots(list []*engine.ServedSnapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var last *engine.ServedSnapshot
	if len(p.snapshots) > 0 {
		last = p.snapshots[len(p.snapshots)-1]
	}
	if p.snapshots = list; len(list) == 0 {
		return
	}
	for key := range p.headers {
		if p.of(key.sync) == nil {
			delete(p.headers, key)
		}
	}
	// Do not announce the first epoch's state. The second epoch has the same epoch height, and
	// peers do not propagate a second announcement for an epoch height. No node needs the first
	// epoch's state, because the first and the second epoch have the same producers.
	if x := list[len(list)-1]; x.Epoch != (primitives.EpochID{}) &&
		(last == nil || last.Sync != x.Sync || len(x.Shards) > len(last.Shards)) {
		p.host.Post(near.Snapshot{SyncHash: x.Announced, EpochHeight: x.EpochHeight, Shards: x.Shards})
	}
}

// of returns the served snapshot of a sync block, or nil. The caller holds mu.
func (p *stateServer) of(sync primitives.Hash) *engine.ServedSnapshot {
	for _, x := range p.snapshots {
		if x.Sync == sync {
			return x
		}
	}
	return nil
}

// epochProof returns the packed epoch sync proof, or nil if there is none. The proof is built once
// for each epoch.
func (p *stateServer) epochProof() []byte {
	p.proofMu.Lock()
	defer p.proofMu.Unlock()
	target := p.e.EpochProofs().Target()
	if target == p.proofOf && (p.proof != nil || p.proofErr != nil) {
		return p.proof
	}
	p.proofOf, p.proof, p.proofErr = target, nil, nil
	x, err := p.e.EpochProofs().Proof()
	if err != nil {
		p.proofErr = err
		return nil
	}
	p.proof = statesync.PackProof(x)
	p.front.proofBytes.Store(uint64(len(p.proof)))
	return p.proof
}

// admit returns whether another state request may be answered now, and counts that request.
func (p *stateServer) admit(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.answeredAt) > 0 && now.Sub(p.answeredAt[0]) >= statePeriod {
		p.answeredAt = p.answeredAt[1:]
	}
	if len(p.answeredAt) >= stateRequests {
		p.front.stateThrottled.Add(1)
		return false
	}
	p.answeredAt = append(p.answeredAt, now)
	return true
}

// errNoSnapshot means that this node serves no state of the sync block.
var errNoSnapshot = errors.New("network: this node has no state snapshot of that sync block")

// header returns the state header of a shard, from the cache if possible.
func (p *stateServer) header(sync primitives.Hash, shard primitives.ShardID) (*primitives.StateHeader, error) {
	key := stateKey{sync, shard}
	p.mu.Lock()
	h, x := p.headers[key], p.of(sync)
	p.mu.Unlock()
	if h != nil || x == nil {
		if x == nil {
			return nil, errNoSnapshot
		}
		return h, nil
	}
	h, err := p.e.StateSyncHeader(sync, shard)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.headers) < maxStateHeader {
		p.headers[key] = h
	}
	return h, nil
}

// answer returns the response to a request for a state header or part, and counts it. If the data is
// not available, the response has neither header nor part. Error: errNoSnapshot.
func (p *stateServer) answer(sync primitives.Hash, shard primitives.ShardID, header bool,
	part uint64) (*wire.StateResponse, error) {
	out, err := p.find(sync, shard, header, part)
	n := &p.front.stateParts
	if header {
		n = &p.front.stateHeaders
	}
	if err == nil && (out.Header != nil || out.Part != nil) {
		n.success.Add(1)
	} else {
		n.failed.Add(1)
	}
	return out, err
}

// find does the same as answer, without counting.
func (p *stateServer) find(sync primitives.Hash, shard primitives.ShardID, header bool,
	part uint64) (*wire.StateResponse, error) {
	out := &wire.StateResponse{StateResponse: primitives.StateResponse{ShardID: shard, SyncHash: sync}}
	h, err := p.header(sync, shard)
	switch {
	case errors.Is(err, errNoSnapshot):
		return nil, err
	case err != nil:
		return out, nil
	case header:
		out.Header = h
		return out, nil
	}
	id := trie.PartID{Index: part, Total: trie.NumParts(h.Root.MemoryUsage)}
	if part >= id.Total {
		return out, nil
	}
	c := &h.Chunk.Header
	index, err := p.indexOf(sync, shard)
	if err != nil {
		return out, nil
	}
	begun := time.Now()
	strings, err := p.e.Snapshots().Part(c.PrevBlockHash, index, id)
	if err != nil {
		return out, nil
	}
	p.front.partTimes.Add(statePartTime, int64(time.Since(begun)), strconv.FormatUint(uint64(shard), 10))
	out.Part = statesync.PackPart(part, strings)
	return out, nil
}

func (p *stateServer) indexOf(sync primitives.Hash, shard primitives.ShardID) (primitives.ShardIndex, error) {
	b, err := p.e.WholeBlock(sync)
	if err != nil {
		return 0, err
	}
	for i, c := range b.Body.Chunks {
		if c.ShardID == shard {
			return primitives.ShardIndex(i), nil
		}
	}
	return 0, storage.ErrNotFound
}

// serve answers a request for state or an epoch sync proof.
func (p *stateServer) serve(d *near.Deliver) {
	switch m := d.Msg.(type) {
	case *wire.EpochSyncRequest:
		if proof := p.epochProof(); proof != nil {
			p.host.Post(near.ToPeer{Peer: d.From, Msg: &wire.EpochSyncResponse{Compressed: proof}})
		}
	case *wire.StateHeaderRequest:
		p.direct(d.From, m.SyncHash, m.ShardID, true, 0)
	case *wire.StatePartRequest:
		p.direct(d.From, m.SyncHash, m.ShardID, false, m.Part)
	case *wire.Routed:
		ack := primitives.StateRequestAck{}
		to := wire.PeerInfo{ID: m.Author}
		switch q := m.Body.(type) {
		case *wire.RoutedStateHeaderRequest:
			ack.ShardID, ack.SyncHash, ack.Header, to.Addr = q.ShardID, q.SyncHash, true, q.Addr
		case *wire.RoutedStatePartRequest:
			ack.ShardID, ack.SyncHash, ack.Part, to.Addr = q.ShardID, q.SyncHash, q.Part, q.Addr
		default:
			return
		}
		p.routed(to, ack)
	}
}

// direct answers a request on the connection on which it arrived. neard accepts such responses, but
// never sends such requests.
func (p *stateServer) direct(from wire.PeerID, sync primitives.Hash, shard primitives.ShardID, header bool,
	part uint64) {
	p.host.Post(near.ToPeer{Peer: from, Msg: p.directAnswer(time.Now(), sync, shard, header, part)})
}

// directAnswer returns the reply to a direct state request. A reply with neither header nor part
// means "not available now". If this node sent no reply, the peer would assume a slow connection
// and double its wait after each request, until the epoch is over.
func (p *stateServer) directAnswer(now time.Time, sync primitives.Hash, shard primitives.ShardID, header bool,
	part uint64) *wire.StateResponse {
	if p.serves(sync) && p.admit(now) {
		if out, err := p.answer(sync, shard, header, part); err == nil {
			return out
		}
	}
	return &wire.StateResponse{StateResponse: primitives.StateResponse{ShardID: shard, SyncHash: sync}}
}

// serves returns whether this node serves states of a sync block. Requests for blocks whose states
// it does not serve do not count toward the limit.
func (p *stateServer) serves(sync primitives.Hash) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of(sync) != nil
}

// routed acknowledges a routed request, and sends the response on a new connection to the
// requesting node.
func (p *stateServer) routed(to wire.PeerInfo, ack primitives.StateRequestAck) {
	out := p.acknowledge(time.Now(), &ack)
	p.host.Post(near.RouteTo{Target: wire.ToPeer(to.ID), Body: &wire.StateRequestAck{StateRequestAck: ack}})
	if out != nil && to.Addr.IsValid() {
		p.host.Post(near.AnswerState{Peer: to, Msg: out})
	}
}

// acknowledge sets ack.Body and returns the response, or nil. A request for a sync block whose
// states this node does not serve does not count toward the limit. Otherwise one such request a
// second would block all other requests.
func (p *stateServer) acknowledge(now time.Time, ack *primitives.StateRequestAck) *wire.StateResponse {
	switch {
	case !p.serves(ack.SyncHash):
		ack.Body = primitives.StateError
		return nil
	case !p.admit(now):
		ack.Body = primitives.StateBusy
		return nil
	}
	out, err := p.answer(ack.SyncHash, ack.ShardID, ack.Header, ack.Part)
	if ack.Body = primitives.StateWillRespond; err != nil { // the snapshot was removed in the meantime
		ack.Body = primitives.StateError
	}
	return out
}
