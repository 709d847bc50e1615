package libp2p

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/near/tcp"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// topic is a gossip topic.
type topic int

const (
	blocks topic = iota
	transactions
	numTopics
)

const (
	// maxGossip is the maximum size of a message in bytes. A longer block is sent over connections.
	maxGossip = 8 + maxBatchBytes + 4 + maxTx
	batchGap  = 10 * time.Millisecond // interval between two batches of transactions
	maxSpread = 1024
	// maxDropped is the maximum number of blocks that gossipsub dropped and that wait to be sent
	// over a connection.
	maxDropped = 64
	// maximum size in bytes of a block that is sent again after gossipsub dropped the block
	maxDroppedBytes = 256 << 10
	newFor          = time.Second // time after which both ends consider a handshake complete
	judgeLimit      = 10 * time.Second
	// queueValidation is the maximum number of waiting messages, counting both topics.
	// queueValidation is also the maximum number of messages of one topic that are validated
	// concurrently. Further messages are lost for all peers.
	queueValidation = 65_536
	maxChecks       = 64  // maximum number of a peer's batches that wait for validation
	trustedPX       = 1e6 // no peer reaches this score, so peers from gossipsub's peer exchange are not dialled
	queuePeer       = 256
	// renewBeats is the time in seconds between checks for a mesh with low scores. Such a mesh
	// grafts peers with high scores.
	renewBeats = 5
	// enoughScore is the median score above which the mesh is not changed. A peer that is the first
	// to deliver a block once in 50 s has a higher score. A higher value would graft needlessly in
	// a large mesh of honest peers.
	enoughScore = 12
	mostFirst   = 20 // maximum number of first deliveries of blocks that count toward a peer's score
)

// spread is a message that waits to be published.
type spread struct {
	block []byte // frame of a block; nil: the message is tx
	tx    *primitives.SignedTransaction
}

// dropped is a block that gossipsub dropped for a peer.
type dropped struct {
	to   peer.ID
	data []byte
}

// sendDropped sends dropped blocks over connections.
func (w *Transport) sendDropped(ctx context.Context, s tcp.Station) {
	for {
		select {
		case <-ctx.Done():
			return
		case x := <-w.dropped:
			who, err := PeerOf(x.to)
			if err != nil {
				continue
			}
			if m, err := wire.Decode(x.data); err == nil {
				s.Post(near.ToPeer{Peer: who, Msg: m})
				w.o.Counters.beside.Add(1)
			}
		}
	}
}

func (w *Transport) name(t topic) string {
	return "/troupe/" + w.o.Genesis.ChainID + "/" + w.o.Genesis.Hash.String() + "/" + [...]string{"blocks", "transactions"}[t]
}

// gossip joins the topics. Messages have no libp2p signature, because their contents are signed.
// The hash of a message identifies the message.
func (w *Transport) gossip(ctx context.Context) error {
	quiet := slog.New(slog.DiscardHandler)
	params := pubsub.DefaultGossipSubParams()
	params.OpportunisticGraftTicks = renewBeats
	g, err := pubsub.NewGossipSub(
		ctx,
		gossipHost{w.host, w},
		pubsub.WithMessageSignaturePolicy(pubsub.StrictNoSign),
		pubsub.WithNoAuthor(),
		pubsub.WithMessageIdFn(func(m *pb.Message) string { h := sha256.Sum256(m.Data); return string(h[:]) }),
		pubsub.WithMaxMessageSize(maxRPC), pubsub.WithValidateQueueSize(queueValidation),
		pubsub.WithValidateThrottle(int(numTopics)*queueValidation), pubsub.WithPeerOutboundQueueSize(queuePeer),
		pubsub.WithGossipSubParams(params), pubsub.WithFloodPublish(true),
		pubsub.WithSubscriptionFilter(pubsub.NewAllowlistSubscriptionFilter(w.name(blocks), w.name(transactions))),
		pubsub.WithPeerScore(w.scores()), pubsub.WithAppSpecificRpcInspector(w.inspect), pubsub.WithRawTracer(tracer{w}),
		pubsub.WithLogger(quiet), pubsub.WithRPCLogger(quiet))
	if err != nil {
		return err
	}
	for t := range w.topics {
		check := func(ctx context.Context, from peer.ID, m *pubsub.Message) pubsub.ValidationResult {
			return w.validate(topic(t), from, m.Data)
		}
		if err := g.RegisterTopicValidator(w.name(topic(t)), pubsub.ValidatorEx(check),
			pubsub.WithValidatorTimeout(judgeLimit), pubsub.WithValidatorConcurrency(queueValidation)); err != nil {
			return err
		}
		if w.topics[t], err = g.Join(w.name(topic(t))); err != nil {
			return err
		}
		// The validator processes the messages, so this subscription needs no large buffer.
		sub, err := w.topics[t].Subscribe(pubsub.WithBufferSize(1))
		if err != nil {
			return err
		}
		go func() {
			for {
				if _, err := sub.Next(ctx); err != nil {
					return
				}
			}
		}()
	}
	return nil
}

// scores configures which peers gossipsub keeps in its mesh. A complete handshake raises a peer's
// score. Delivering blocks before other peers do raises the score most. Invalid messages lower the
// score. So peers that joined early and relay nothing are replaced.
func (w *Transport) scores() (*pubsub.PeerScoreParams, *pubsub.PeerScoreThresholds) {
	p := &pubsub.PeerScoreParams{
		SkipAtomicValidation: true, Topics: map[string]*pubsub.TopicScoreParams{},
		AppSpecificWeight: 1, AppSpecificScore: func(id peer.ID) float64 {
			switch {
			case w.isBanned(id):
				return -1000
			case w.isMet(id):
				return 10
			}
			return 0
		},
		BehaviourPenaltyWeight: -1, BehaviourPenaltyThreshold: 6, BehaviourPenaltyDecay: 0.99,
		DecayInterval: time.Second, DecayToZero: 0.01, RetainScore: 10 * time.Minute,
	}
	for t := range numTopics {
		p.Topics[w.name(t)] = &pubsub.TopicScoreParams{SkipAtomicValidation: true, TopicWeight: 1, TimeInMeshQuantum: time.Second,
			InvalidMessageDeliveriesWeight: -20, InvalidMessageDeliveriesDecay: 0.999}
	}
	b := p.Topics[w.name(blocks)] // first deliveries of transactions do not count, because any node can create them
	b.FirstMessageDeliveriesWeight, b.FirstMessageDeliveriesDecay, b.FirstMessageDeliveriesCap = 1, 0.99, mostFirst
	return p, &pubsub.PeerScoreThresholds{SkipAtomicValidation: true, GossipThreshold: -20, PublishThreshold: -50, GraylistThreshold: -100,
		AcceptPXThreshold: trustedPX, OpportunisticGraftThreshold: enoughScore}
}

// trackSubscribers tracks which peers subscribe to a topic.
func (w *Transport) trackSubscribers(ctx context.Context, t topic) {
	events, err := w.topics[t].EventHandler()
	if err != nil {
		return
	}
	defer events.Cancel()
	for {
		ev, err := events.NextPeerEvent(ctx)
		if err != nil {
			return
		}
		w.mu.Lock()
		if ev.Type == pubsub.PeerJoin {
			w.joined[t][ev.Peer] = time.Now()
		} else {
			delete(w.joined[t], ev.Peer)
		}
		w.mu.Unlock()
	}
}

// reaches returns whether gossip on a topic reaches a peer: the peer has subscribed, and there is a
// stream to it. The caller holds w.mu.
func (w *Transport) reaches(t topic, id peer.ID) bool { return !w.reachedSince(t, id).IsZero() }

// reachedSince returns since when gossip on a topic reaches a peer; zero if gossip does not reach
// the peer.
func (w *Transport) reachedSince(t topic, id peer.ID) time.Time {
	joined, is := w.joined[t][id]
	stream, has := w.outbound[id]
	switch {
	case !is || !has:
		return time.Time{}
	case stream.After(joined):
		return stream
	}
	return joined
}

// Spread implements tcp.Transport. Spread publishes a block, or a transaction that this node
// forwards to the peer.
//
// Spread returns false if gossip may not reach the peer, so that the caller uses the connection.
// The cases are: the message was sent before without effect; this node does not relay the message;
// the message is too large or exceeds the rate; the message was published before gossip reached the
// peer; or the message is a block and the handshake may not be complete at the peer's end, which
// would then drop the block.
func (w *Transport) Spread(p wire.PeerID, m wire.Message) bool {
	id, err := idOf(p)
	if err != nil {
		return false
	}
	var (
		t   = blocks
		x   spread
		key primitives.Hash
	)
	switch m := m.(type) {
	case *wire.Block:
		key = m.Block.Hash()
	case *wire.Routed:
		f, ok := m.Body.(*wire.ForwardTx)
		if !ok || m.Author != w.o.Key.PublicKey() {
			return false
		}
		t, x.tx, key = transactions, &f.SignedTransaction, f.Hash()
	default:
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now, since := time.Now(), w.reachedSince(t, id)
	if since.IsZero() || w.notGossiped.state(key, now) != never {
		return false
	}
	isNew := t == blocks && now.Sub(w.metAt[id]) < newFor
	switch at, age := w.recent.when(key, now); {
	case age == never:
	case since.After(at):
		return false
	case age == fresh:
		return !isNew
	default:
		return t == blocks && !isNew // the peer probably has a block of that age already, and can request it otherwise
	}
	if m, ok := m.(*wire.Block); ok {
		x.block = wire.Append(nil, m)
		if len(x.block) > maxGossip || !w.mayRelayLocked(blocks, len(x.block)) {
			return false
		}
	} else if n := len(x.tx.AppendBorsh(nil)); n > maxTx || !w.outRates.bytes[t].AllowN(now, 2*n) {
		return false // only bytes are checked here; messages are counted when batches are formed
	}
	select {
	case w.spread <- x:
		w.recent.put(key, now)
		return !isNew
	default:
		w.o.Counters.lost.Add(1)
		return false
	}
}

// publishLoop publishes the waiting messages. It publishes the first transaction at once, and
// batches the transactions that arrive in the next batchGap.
func (w *Transport) publishLoop(ctx context.Context) {
	var (
		batch []byte
		n     int
		last  time.Time
	)
	due := time.NewTimer(batchGap)
	defer due.Stop()
	for {
		in := w.spread
		if n >= maxBatch || len(batch) >= maxBatchBytes {
			in = nil
		}
		select {
		case <-ctx.Done():
			return
		case x := <-in:
			if x.block != nil {
				w.overheard(true, "", func() []byte { return x.block })
				w.publish(ctx, blocks, x.block)
				continue
			}
			w.overheard(true, "", func() []byte { return wire.Append(nil, &wire.Transaction{Transaction: x.tx}) })
			batch = appendBatch(batch, time.Now(), x.tx)
			if n++; n == 1 {
				due.Reset(max(batchGap-time.Since(last), 0))
			}
		case <-due.C:
			if n > 0 {
				w.publish(ctx, transactions, batch)
				batch, n, last = nil, 0, time.Now()
			}
		}
	}
}

// overheard reports a gossip frame to the station, which passes it to Server.Tap.
func (w *Transport) overheard(sent bool, who wire.PeerID, frame func() []byte) {
	if station := w.station.Load(); station != nil {
		(*station).Overheard(sent, who, frame)
	}
}

func (w *Transport) publish(ctx context.Context, t topic, data []byte) {
	if w.topics[t].Publish(ctx, data) != nil {
		w.o.Counters.lost.Add(1)
		return
	}
	w.o.Counters.spread.Add(1)
	w.o.Counters.spreadBytes.Add(uint64(len(data)))
}
